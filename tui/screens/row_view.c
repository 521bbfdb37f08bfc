/* Rows of keys on a screen. */
#include "screens/row_view.h"

#include <stdio.h>
#include <string.h>

#include "data/lists.h"
#include "data/sql_console.h"
#include "mem.h"
#include "terminal/columns.h"
#include "words/format.h"
#include "words/row_text.h"
#include "words/story.h"

enum { MARGIN = 2 }; /* where the bar's mark stands */

enum cell {
	CELL_STATE,
	CELL_KEY,
	CELL_TARGET,
	CELL_TOPIC,
	CELL_OWNER,
	CELL_TRY,
	CELL_AGE,
	CELL_LAST,
	CELL_COUNT
};

/* At 80 columns owner and topic are gone; at 60 target and state as well. */
static const struct column columns[CELL_COUNT] = {
	[CELL_STATE] = { "STATE", 12, 12, 4 },  [CELL_KEY] = { "KEY", 24, 60, 0 },
	[CELL_TARGET] = { "TARGET", 8, 12, 3 }, [CELL_TOPIC] = { "TOPIC", 10, 14, 2 },
	[CELL_OWNER] = { "OWNER", 10, 12, 1 },  [CELL_TRY] = { "TRY", 3, 3, 0 },
	[CELL_AGE] = { "AGE", 7, 7, 0 },        [CELL_LAST] = { "LAST ERROR", 14, 24, 0 },
};

static void draw_titles(const struct row_view *view, const struct canvas *canvas, int row,
			const int *widths)
{
	int column = MARGIN;
	for (size_t i = 0; i < CELL_COUNT; i++) {
		const char *title = columns[i].title;
		if (i == CELL_AGE && view->absolute)
			title = "SINCE";
		if (i == CELL_LAST && (view->matched || view->waiting))
			title = view->matched ? "MATCHED BY" : "WAITS";
		if (!widths[i])
			continue;
		if (i == CELL_TRY || i == CELL_AGE)
			canvas_right(canvas, row, column + widths[i], widths[i], STYLE_TITLE,
				     title);
		else
			canvas_text(canvas, row, column, widths[i], STYLE_TITLE, title);
		column += widths[i] + COLUMNS_GAP;
	}
}

static const char *cell_text(const struct row_view *view, int row, enum cell cell, char *scratch)
{
	const PGresult *rows = view->rows;
	switch (cell) {
	case CELL_KEY:
		return pg_get_text(rows, row, ROW_KEY);
	case CELL_TARGET:
		return pg_get_text(rows, row, ROW_TARGET);
	case CELL_TOPIC:
		return pg_get_text(rows, row, ROW_TOPIC);
	case CELL_OWNER:
		return story_owner(pg_get_text(rows, row, ROW_OWNER), scratch, FORMAT_SIZE);
	case CELL_TRY:
		(void)snprintf(scratch, FORMAT_SIZE, "%lld",
			       (long long)pg_get_int8(rows, row, ROW_TRIES));
		return scratch;
	case CELL_AGE:
		return view->absolute ? format_time_short(pg_get_time(rows, row, ROW_SINCE),
							  view->now, view->zone, scratch)
				      : format_age(pg_get_int8(rows, row, ROW_AGE), scratch);
	case CELL_STATE:
	case CELL_LAST:
	case CELL_COUNT:
		break;
	}
	return "";
}

static void draw_state(const struct row_view *view, const struct canvas *canvas, int line, int row,
		       int column, int width)
{
	enum list list = list_of_state(pg_get_text(view->rows, row, ROW_STATE));
	enum style style =
		pg_get_bool(view->rows, row, ROW_SHADOW) ? STYLE_FAINT : list_style(list);
	int used = canvas_text(canvas, line, column, width, style, row_state(view->rows, row));
	canvas_text(canvas, line, column + used + 1, width - used - 1, style, list_glyph(list));
}

/* Its error, or why it waits. */
static void draw_last(const struct row_view *view, const struct canvas *canvas, int line, int row,
		      int column, int width)
{
	BUF_AUTO struct buf waits = { 0 };
	const char *text = pg_get_text(view->rows, row, view->matched ? ROW_MATCHED : ROW_ERROR);
	if (!*text)
		row_waits(view->rows, row, &waits);
	canvas_text(canvas, line, column, width, STYLE_PLAIN, *text ? text : buf_text(&waits));
}

static void draw_row(const struct row_view *view, const struct canvas *canvas, int line, int row,
		     const int *widths)
{
	char scratch[FORMAT_SIZE];
	int column = MARGIN;
	for (enum cell cell = 0; cell < CELL_COUNT; cell++) {
		int width = widths[cell];
		if (!width)
			continue;
		const char *text = cell_text(view, row, cell, scratch);
		if (cell == CELL_STATE)
			draw_state(view, canvas, line, row, column, width);
		else if (cell == CELL_LAST)
			draw_last(view, canvas, line, row, column, width);
		else if (cell == CELL_KEY)
			canvas_middle(canvas, line, column, width, STYLE_PLAIN, text);
		else if (cell == CELL_TRY || cell == CELL_AGE)
			canvas_right(canvas, line, column + width, width, STYLE_PLAIN, text);
		else
			canvas_text(canvas, line, column, width, STYLE_PLAIN, text);
		column += width + COLUMNS_GAP;
	}
}

static void layout(const struct row_view *view, int width, int *widths)
{
	struct column wanted[CELL_COUNT];
	memcpy(wanted, columns, sizeof(columns));
	if (view->absolute || view->waiting)
		wanted[CELL_KEY].narrow = 18;
	if (view->waiting)
		wanted[CELL_LAST].narrow = view->absolute ? 16 : 22;
	if (view->absolute)
		wanted[CELL_AGE].narrow = wanted[CELL_AGE].wide = FORMAT_TIME_SHORT;
	columns_layout(wanted, CELL_COUNT, width - MARGIN - 1, widths);
}

size_t row_view_draw(const struct row_view *view, const struct canvas *canvas,
		     const struct area *area)
{
	int widths[CELL_COUNT];
	size_t height = area->height > 1 ? (size_t)area->height - 1 : 1;
	layout(view, area->width, widths);
	draw_titles(view, canvas, area->row, widths);
	for (size_t i = 0; i < height && view->selection->top + i < view->count; i++) {
		size_t row = view->selection->top + i;
		int line = area->row + 1 + (int)i;
		draw_row(view, canvas, line, (int)row, widths);
		if (row != view->selection->index)
			continue;
		canvas_text(canvas, line, 0, 1, STYLE_STRONG, ">");
		canvas_bar(canvas, line, 0, area->width);
	}
	return height;
}

static void add_place(const PGresult *rows, int row, struct buf *out)
{
	buf_addf(out, "%s[%lld]@%lld", pg_get_text(rows, row, ROW_TOPIC),
		 (long long)pg_get_int8(rows, row, ROW_PARTITION),
		 (long long)pg_get_int8(rows, row, ROW_OFFSET));
}

void row_view_draw_more(const struct row_view *view, const struct canvas *canvas,
			const struct area *area)
{
	BUF_AUTO struct buf line = { 0 };
	BUF_AUTO struct buf waits = { 0 };
	char text[FORMAT_SIZE];
	int row = (int)view->selection->index;
	if (!view->count)
		return;
	const char *subject = pg_get_text(view->rows, row, ROW_SUBJECT);
	const char *provider = pg_get_text(view->rows, row, ROW_PROVIDER_ID);
	canvas_middle(canvas, area->row, 1, area->width - 2, STYLE_STRONG,
		      pg_get_text(view->rows, row, ROW_KEY));
	row_waits(view->rows, row, &waits);
	buf_addf(&line, "%s %s", row_state(view->rows, row),
		 format_age(pg_get_int8(view->rows, row, ROW_AGE), text));
	if (waits.length)
		buf_addf(&line, "   %s", buf_text(&waits));
	if (subject && *subject)
		buf_addf(&line, "   subject %s", subject);
	if (provider && *provider)
		buf_addf(&line, "   %s", provider);
	buf_add_text(&line, "   ");
	add_place(view->rows, row, &line);
	canvas_text(canvas, area->row + 1, 1, area->width - 2, STYLE_FAINT, buf_text(&line));
}

struct subject row_view_subject(const PGresult *rows, size_t row)
{
	return (struct subject){ .id = pg_get_int8(rows, (int)row, ROW_ID),
				 .epoch = pg_get_int4(rows, (int)row, ROW_EPOCH),
				 .state = pg_get_text(rows, (int)row, ROW_STATE),
				 .key = pg_get_text(rows, (int)row, ROW_KEY),
				 .target = pg_get_text(rows, (int)row, ROW_TARGET) };
}

int64_t *row_view_ids(const PGresult *rows, size_t count)
{
	int64_t *ids = mem_zero((count + 1) * sizeof(*ids));
	for (size_t i = 0; i < count; i++)
		ids[i] = pg_get_int8(rows, (int)i, ROW_ID);
	return ids;
}
