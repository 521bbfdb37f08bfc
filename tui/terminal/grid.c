/* Columns of texts on a screen. */
#include "terminal/grid.h"

enum { MARGIN = 2 }; /* where the bar's mark and a glyph stand */

static void put(const struct grid *grid, int row, size_t column, enum style style, const char *text)
{
	int at = grid->area.column + MARGIN;
	for (size_t i = 0; i < column; i++)
		at += grid->widths[i] ? grid->widths[i] + COLUMNS_GAP : 0;
	int width = grid->widths[column];
	if (!width)
		return;
	if (grid->right >> column & 1)
		canvas_right(grid->canvas, row, at + width, width, style, text);
	else
		canvas_text(grid->canvas, row, at, width, style, text);
}

void grid_begin(struct grid *grid)
{
	columns_layout(grid->columns, grid->count, grid->area.width - MARGIN - 1, grid->widths);
	for (size_t i = 0; i < grid->count; i++)
		put(grid, grid->area.row, i, STYLE_TITLE, grid->columns[i].title);
}

void grid_cell(const struct grid *grid, int row, size_t column, enum style style, const char *text)
{
	put(grid, grid->area.row + 1 + row, column, style, text);
}

void grid_glyph(const struct grid *grid, int row, enum style style, const char *glyph)
{
	canvas_text(grid->canvas, grid->area.row + 1 + row, grid->area.column + 1, 1, style, glyph);
}

void grid_bar(const struct grid *grid, int row)
{
	int line = grid->area.row + 1 + row;
	canvas_text(grid->canvas, line, grid->area.column, 1, STYLE_STRONG, ">");
	canvas_bar(grid->canvas, line, grid->area.column, grid->area.width);
}
