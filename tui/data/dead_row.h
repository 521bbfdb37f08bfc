/* Which dead or parked row an action is about, as it was shown. */
#ifndef COUNTERFOIL_DEAD_ROW_H
#define COUNTERFOIL_DEAD_ROW_H

#include <stdbool.h>
#include <stdint.h>

#include "pg.h"

struct dead_row {
	int64_t id;
	bool parked;
	const char *source, *event, *topic,
		*key; /* owned in a copy, else borrowed; key: NULL, none */
};

/* Borrows from the rows, of SQL_DEAD_ROWS or SQL_DEAD_ROW. */
struct dead_row dead_row_of(const PGresult *rows, int row);
void dead_row_copy(const struct dead_row *from, struct dead_row *row_r);
void dead_row_done(struct dead_row *row); /* of a copy */

#endif
