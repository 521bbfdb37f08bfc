/* Counts of keys. */
#include "words/counts.h"

#include "data/sql_console.h"
#include "words/format.h"

int counts_column(enum list list)
{
	static const int columns[LIST_COUNT] = {
		[LIST_ALL] = -1,
		[LIST_PENDING] = COUNT_PENDING,
		[LIST_IN_FLIGHT] = COUNT_IN_FLIGHT,
		[LIST_STALE] = COUNT_STALE,
		[LIST_RETRY_WAIT] = COUNT_RETRY_WAIT,
		[LIST_UNCERTAIN] = COUNT_UNCERTAIN,
		[LIST_DEAD] = COUNT_DEAD,
		[LIST_COMPLETED] = COUNT_COMPLETED,
		[LIST_CANCELLED] = COUNT_CANCELLED,
	};
	return columns[list];
}

/* What is not in a state that was counted: completed, nearly all of it. */
static int64_t estimate(const PGresult *counts)
{
	static const int counted[] = { COUNT_PENDING,   COUNT_IN_FLIGHT, COUNT_RETRY_WAIT,
				       COUNT_UNCERTAIN, COUNT_DEAD,      COUNT_CANCELLED };
	int64_t rest = pg_get_int8(counts, 0, COUNT_ABOUT);
	for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++)
		rest -= pg_get_int8(counts, 0, counted[i]);
	return rest > 0 ? rest : 0;
}

void counts_add(const PGresult *counts, int column, int64_t cap, struct buf *out)
{
	char text[FORMAT_SIZE];
	int64_t count = pg_get_int8(counts, 0, column);
	if (pg_null(counts, 0, column))
		buf_addf(out, "~%s", format_about(estimate(counts), text));
	else
		buf_addf(out, "%s%s", format_count(count > cap ? cap : count, text),
			 count > cap ? "+" : "");
}
