/* Columns: drop what does not fit, then share what is left. */
#include "terminal/columns.h"

#include <stdbool.h>

/* What the columns that are there need, gaps included. */
static int needed(const int *widths, size_t count)
{
	int sum = 0;
	for (size_t i = 0; i < count; i++)
		sum += widths[i] ? widths[i] + (sum ? COLUMNS_GAP : 0) : 0;
	return sum;
}

static bool drop_one(const struct column *columns, size_t count, int *widths)
{
	size_t first = count;
	for (size_t i = 0; i < count; i++)
		if (widths[i] && columns[i].drop &&
		    (first == count || columns[i].drop < columns[first].drop))
			first = i;
	if (first == count)
		return false;
	widths[first] = 0;
	return true;
}

static size_t widest(const struct column *columns, size_t count)
{
	size_t found = 0;
	for (size_t i = 1; i < count; i++)
		if (columns[i].wide > columns[found].wide)
			found = i;
	return found;
}

void columns_layout(const struct column *columns, size_t count, int width, int *widths_r)
{
	for (size_t i = 0; i < count; i++)
		widths_r[i] = columns[i].narrow;
	while (needed(widths_r, count) > width && drop_one(columns, count, widths_r))
		continue;
	int spare = width - needed(widths_r, count);
	for (size_t i = 0; i < count && spare > 0; i++) {
		int wish = widths_r[i] ? columns[i].wide - widths_r[i] : 0;
		int given = wish < spare ? wish : spare;
		widths_r[i] += given;
		spare -= given;
	}
	size_t rest = widest(columns, count);
	widths_r[rest] += spare;
	if (widths_r[rest] < 1)
		widths_r[rest] = 1;
}
