/* Columns of texts. */
#include "words/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "words/clean.h"

enum { GAP = 2 };

void table_done(struct table *table)
{
	for (size_t i = 0; i < table->count; i++)
		free(table->cells[i]);
	free(table->cells);
	table->cells = NULL;
	table->count = 0;
}

void table_add(struct table *table, const char *text)
{
	table->cells = mem_grow(table->cells, table->count + 1, sizeof(*table->cells));
	table->cells[table->count++] = mem_text(text ? text : "");
}

void table_add_count(struct table *table, int64_t count)
{
	char text[24];
	(void)snprintf(text, sizeof(text), "%lld", (long long)count);
	table_add(table, text);
}

static void measure(const struct table *table, const char *const *names, int *widths)
{
	for (size_t i = 0; i < table->count; i++) {
		int *width = &widths[i % table->columns];
		int own = clean_width(table->cells[i], strlen(table->cells[i]));
		*width = own > *width ? own : *width;
	}
	for (size_t i = 0; i < table->columns; i++)
		if (widths[i] && widths[i] < (int)strlen(names[i]))
			widths[i] = (int)strlen(names[i]);
}

static void add_line(const struct table *table, const char *const *cells, const int *widths,
		     struct buf *out)
{
	size_t end = out->length;
	for (size_t i = 0; i < table->columns; i++) {
		size_t length = strlen(cells[i]);
		if (!widths[i])
			continue;
		clean_add(out, cells[i], length);
		if (length)
			end = out->length;
		buf_addf(out, "%*s", widths[i] - clean_width(cells[i], length) + GAP, "");
	}
	out->length = end;
	buf_add_char(out, '\n');
}

void table_print(const struct table *table, const char *const *names, bool titles, struct buf *out)
{
	int widths[TABLE_COLUMNS_MAX] = { 0 };
	measure(table, names, widths);
	if (titles && table->count)
		add_line(table, names, widths, out);
	for (size_t i = 0; i < table->count; i += table->columns)
		add_line(table, (const char *const *)&table->cells[i], widths, out);
}
