/* Columns of texts on a screen, under a line of titles, with the bar on one of the rows. */
#ifndef COUNTERFOIL_GRID_H
#define COUNTERFOIL_GRID_H

#include "terminal/canvas.h"
#include "terminal/columns.h"

struct grid {
	const struct canvas *canvas;
	struct area area; /* its first row has the titles */
	const struct column *columns;
	size_t count;
	unsigned right; /* a bit for each column whose texts end under each other */
	int widths[COLUMNS_MAX];
};

/* Lays the columns out and draws the titles. From canvas, area, columns, count and right. */
void grid_begin(struct grid *grid);
/* row counts from the first one under the titles. */
void grid_cell(const struct grid *grid, int row, size_t column, enum style style, const char *text);
/* In the margin, beside a row that is not as it should be. */
void grid_glyph(const struct grid *grid, int row, enum style style, const char *glyph);
void grid_bar(const struct grid *grid, int row);

#endif
