/* Counts of keys in words: exact, open above the cap, or an estimate. */
#ifndef COUNTERFOIL_COUNTS_H
#define COUNTERFOIL_COUNTS_H

#include "buf.h"
#include "data/lists.h"

/* A column of SQL_COUNTS: "1,284", "100,000+", or "~8.4 M" where nothing was counted. */
void counts_add(const PGresult *counts, int column, int64_t cap, struct buf *out);
/* The column of a list; -1: it has none. */
int counts_column(enum list list);

#endif
