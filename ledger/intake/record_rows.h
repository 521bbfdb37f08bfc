/* The parameters of the statements that record a batch, in the order that sql_intake.h gives. */
#ifndef LEDGER_RECORD_ROWS_H
#define LEDGER_RECORD_ROWS_H

#include "batch.h"
#include "pg.h"
#include "positions.h"

struct clash { /* a row whose key another effect, or the same with other content, holds */
	size_t row;
	int64_t holder;
};

void rows_positions(const struct positions *positions, struct pg_params *params); /* that move */
void rows_effects(const struct batch *batch, const size_t *rows, size_t count,
		  struct pg_params *params);
void rows_compare(const struct batch *batch, const size_t *rows, size_t count,
		  struct pg_params *params);
void rows_conflicts(const struct batch *batch, const struct clash *clashes, size_t count,
		    struct pg_params *params);
/* The reason is that of the row: dead as rendered, else in conflict. */
void rows_letters(const struct batch *batch, const size_t *rows, size_t count,
		  struct pg_params *params);

/* Of messages [from, to); their number, 0: no statement is needed. */
int64_t rows_poison(const struct batch *batch, size_t from, size_t to, size_t value_max,
		    struct pg_params *params);
int64_t rows_unmatched(const struct batch *batch, size_t from, size_t to, int64_t instance,
		       struct pg_params *params);

#endif
