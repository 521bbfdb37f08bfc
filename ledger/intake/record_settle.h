/* The parameters of the statements that settle poison, in the order that sql_poison.h gives. */
#ifndef LEDGER_RECORD_SETTLE_H
#define LEDGER_RECORD_SETTLE_H

#include "batch.h"
#include "pg.h"

/* Messages [from, to), each of the poison of that id: still poison, or not. */
void settle_rows(const struct batch *batch, size_t from, size_t to, const int64_t *ids,
		 struct pg_params *params);
/* Those of [from, to) that are no poison; their number, 0: no statement is needed. */
size_t settle_places(const struct batch *batch, size_t from, size_t to, struct pg_params *params);

#endif
