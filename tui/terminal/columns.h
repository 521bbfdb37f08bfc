/* Which columns of a list fit a width, and how wide each is. Pure. */
#ifndef COUNTERFOIL_COLUMNS_H
#define COUNTERFOIL_COLUMNS_H

#include <stddef.h>

#define COLUMNS_MAX 12
#define COLUMNS_GAP 2

struct column {
	const char *title;
	int narrow; /* at least so wide, or not at all */
	int wide;   /* what it would like; more goes to the column with the greatest `wide` */
	int drop;   /* 0: always there; of the others the lowest goes first */
};

/* widths_r has `count` items; 0: left out. */
void columns_layout(const struct column *columns, size_t count, int width, int *widths_r);

#endif
