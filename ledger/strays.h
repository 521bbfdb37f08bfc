/* Keys of targets that the configuration does not name: an alias was taken out while keys that were
 * recorded under it are unfinished. Nobody sends them. */
#ifndef LEDGER_STRAYS_H
#define LEDGER_STRAYS_H

#include "conf.h"
#include "pg.h"

#define STRAYS_COUNT_MAX 10000 /* keys are counted up to this */

/* The columns of SQL_STRAYS. */
enum stray_column { STRAY_TARGET, STRAY_KEYS };

/* What SQL_STRAYS (sql_census.h) is asked with. */
void strays_params(const struct conf *conf, struct pg_params *params);

/* "10000 or more" */
const char *strays_count(const PGresult *result, int row, char *buffer, size_t size);

#define STRAYS_REMEDY                                                                              \
	"nothing of them is sent: put the name back into targets[].alias of the target that it "   \
	"was, or cancel them"

#endif
