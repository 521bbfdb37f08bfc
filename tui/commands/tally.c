/* Results of an order about several things. */
#include "commands/tally.h"

#include <string.h>

struct tally tally_of(const PGresult *answer, int column)
{
	struct tally tally = { .count = pg_rows(answer) };
	for (int row = 0; row < tally.count; row++) {
		const char *result = pg_get_text(answer, row, column);
		tally.done += strcmp(result, "done") == 0;
		tally.already += strcmp(result, "already") == 0;
		tally.missing += strcmp(result, "missing") == 0;
	}
	return tally;
}

enum exit_code tally_code(const struct tally *tally)
{
	if (tally->done + tally->already == tally->count)
		return EXIT_OK;
	if (tally->done)
		return EXIT_PARTLY;
	return tally->missing == tally->count ? EXIT_NOT_FOUND : EXIT_CONFLICT;
}
