/* A row of a list in words. */
#include "words/row_text.h"

#include <string.h>

#include "data/lists.h"
#include "data/sql_console.h"

static const char shadow_word[] = "shadow";

const char *row_state(const PGresult *rows, int row)
{
	if (pg_get_bool(rows, row, ROW_SHADOW))
		return shadow_word;
	return list_state_title(pg_get_text(rows, row, ROW_STATE));
}

bool key_is_shadow(const PGresult *key)
{
	const char *outcome = pg_get_text(key, 0, KEY_OUTCOME);
	return outcome && strcmp(outcome, "shadow") == 0 &&
	       strcmp(pg_get_text(key, 0, KEY_STATE), "completed") == 0;
}

const char *key_state(const PGresult *key)
{
	return key_is_shadow(key) ? shadow_word : list_state_title(pg_get_text(key, 0, KEY_STATE));
}

void row_waits(const PGresult *rows, int row, struct buf *out)
{
	const char *behind = pg_get_text(rows, row, ROW_BEHIND);
	const char *stopped = pg_get_text(rows, row, ROW_STOPPED);
	if (behind)
		buf_addf(out, "behind %s", behind);
	if (stopped)
		buf_addf(out, "%s%s %s", behind ? ", " : "", stopped,
			 strcmp(stopped, "target") == 0 ? "held" : "paused");
}
