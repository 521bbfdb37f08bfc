/* Columns of texts for people, sanitised, as wide as what is in them. */
#ifndef COUNTERFOIL_TABLE_H
#define COUNTERFOIL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"

#define TABLE_COLUMNS_MAX 12

struct table {
	size_t columns;
	size_t count; /* of cells, row by row */
	char **cells;
};

#define TABLE_AUTO __attribute__((cleanup(table_done)))

void table_done(struct table *table);
void table_add(struct table *table, const char *text); /* NULL: empty */
void table_add_count(struct table *table, int64_t count);
/* A column without anything in it is left out. */
void table_print(const struct table *table, const char *const *names, bool titles, struct buf *out);

#endif
