/* Rows that a person settles by their numbers, as one operation: poison that is discarded,
 * conflicts that are closed. */
#ifndef COUNTERFOIL_SETTLING_H
#define COUNTERFOIL_SETTLING_H

#include "commands/call.h"
#include "pg.h"

struct settling {
	/* $1 ids, $2 operation, $3 reason, $4 claims, $5 dry run; gives id, result, detail of each.
	 */
	const char *sql;
	const char *past; /* what was done: "settled" */
};

/* Does it, or only says what would come of it, as the call wants. */
enum exit_code settling_do(struct call *call, const struct pg_array *ids,
			   const struct settling *settling);

#endif
