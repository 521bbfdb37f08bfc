/* Rows of keys, printed. */
#include "rows.h"

#include <stdio.h>
#include <string.h>

#include "clean.h"
#include "format.h"
#include "lists.h"
#include "sql_console.h"

enum { CELLS = 8 };

void rows_json(struct writer *writer, const PGresult *rows, int row, bool matched)
{
	writer_open(writer, NULL, '{');
	writer_int(writer, "id", pg_get_int8(rows, row, ROW_ID));
	writer_text(writer, "key", pg_get_text(rows, row, ROW_KEY));
	writer_text(writer, "target", pg_get_text(rows, row, ROW_TARGET));
	writer_text(writer, "tenant", pg_get_text(rows, row, ROW_TENANT));
	writer_text(writer, "state", pg_get_text(rows, row, ROW_STATE));
	writer_time(writer, "since", pg_get_time(rows, row, ROW_SINCE));
	writer_age(writer, "age_seconds", pg_get_int8(rows, row, ROW_AGE));
	writer_text(writer, "effect", pg_get_text(rows, row, ROW_EFFECT));
	writer_text(writer, "topic", pg_get_text(rows, row, ROW_TOPIC));
	writer_int(writer, "partition", pg_get_int8(rows, row, ROW_PARTITION));
	writer_int(writer, "offset", pg_get_int8(rows, row, ROW_OFFSET));
	writer_text(writer, "event_id", pg_get_text(rows, row, ROW_EVENT_ID));
	writer_text(writer, "subject", pg_get_text(rows, row, ROW_SUBJECT));
	writer_int(writer, "tries", pg_get_int8(rows, row, ROW_TRIES));
	writer_int(writer, "attempts", pg_get_int8(rows, row, ROW_ATTEMPTS));
	writer_time(writer, "due_at", pg_get_time(rows, row, ROW_DUE));
	writer_text(writer, "error", pg_get_text(rows, row, ROW_ERROR));
	writer_text(writer, "provider_id", pg_get_text(rows, row, ROW_PROVIDER_ID));
	writer_text(writer, "owner", pg_get_text(rows, row, ROW_OWNER));
	if (matched)
		writer_text(writer, "matched", pg_get_text(rows, row, ROW_MATCHED));
	writer_close(writer, '}');
}

/* The texts of a row; `scratch` holds those that are made. */
static void fill_cells(const PGresult *rows, int row, bool matched, char scratch[2][FORMAT_SIZE],
		       const char *cells[CELLS])
{
	(void)snprintf(scratch[0], FORMAT_SIZE, "%lld",
		       (long long)pg_get_int8(rows, row, ROW_TRIES));
	cells[0] = list_state_title(pg_get_text(rows, row, ROW_STATE));
	cells[1] = pg_get_text(rows, row, ROW_KEY);
	cells[2] = pg_get_text(rows, row, ROW_TARGET);
	cells[3] = pg_get_text(rows, row, ROW_TENANT);
	cells[4] = scratch[0];
	cells[5] = format_age(pg_get_int8(rows, row, ROW_AGE), scratch[1]);
	cells[6] = pg_get_text(rows, row, ROW_ERROR);
	cells[7] = matched ? pg_get_text(rows, row, ROW_MATCHED) : "";
}

static void measure(const char *const cells[CELLS], int widths[CELLS])
{
	for (size_t i = 0; i < CELLS; i++) {
		int width = clean_width(cells[i], strlen(cells[i]));
		if (width > widths[i])
			widths[i] = width;
	}
}

/* A column without anything in it is left out. */
static void add_line(struct buf *out, const char *const cells[CELLS], const int widths[CELLS])
{
	size_t end = out->length;
	for (size_t i = 0; i < CELLS; i++) {
		size_t length = strlen(cells[i]);
		if (!widths[i])
			continue;
		clean_add(out, cells[i], length);
		if (length)
			end = out->length;
		buf_addf(out, "%*s", widths[i] - clean_width(cells[i], length) + 2, "");
	}
	out->length = end;
	buf_add_char(out, '\n');
}

void rows_print(const PGresult *rows, int from, int count, bool matched, bool titles,
		struct buf *out)
{
	static const char *const names[CELLS] = { "STATE", "KEY", "TARGET", "TENANT",
						  "TRY",   "AGE", "ERROR",  "MATCHED" };
	const char *cells[CELLS];
	char scratch[2][FORMAT_SIZE];
	int widths[CELLS] = { 0 };
	for (int row = from; row < from + count; row++) {
		fill_cells(rows, row, matched, scratch, cells);
		measure(cells, widths);
	}
	for (size_t i = 0; i < CELLS; i++)
		if (widths[i] && widths[i] < (int)strlen(names[i]))
			widths[i] = (int)strlen(names[i]);
	if (titles)
		add_line(out, names, widths);
	for (int row = from; row < from + count; row++) {
		fill_cells(rows, row, matched, scratch, cells);
		add_line(out, cells, widths);
	}
}
