/* The tables of the relay's screen. */
#include "screens/relay_view.h"

#include <stdio.h>
#include <string.h>

#include "data/sql_relay.h"
#include "terminal/grid.h"
#include "words/format.h"

enum { BACKLOG_COUNTED = 10000 };

static usec_t age_at(const PGresult *rows, int row, int column)
{
	return pg_null(rows, row, column) ? USEC_NEVER : pg_get_int8(rows, row, column);
}

static const char *age(const PGresult *rows, int row, int column, char *text)
{
	return format_age(age_at(rows, row, column), text);
}

static const char *figure(const PGresult *rows, int row, int column, char *text)
{
	if (pg_null(rows, row, column))
		return "-";
	return format_count(pg_get_int8(rows, row, column), text);
}

/* "1,284", or "100,000+". */
static const char *count(const struct relay_view *view, int row, int column, char *text)
{
	int64_t number = pg_get_int8(view->rows, row, column);
	if (number <= view->cap)
		return format_count(number, text);
	format_count(view->cap, text);
	(void)strncat(text, "+", FORMAT_SIZE - strlen(text) - 1);
	return text;
}

/* A relay counts what waits only so far. */
static const char *backlog(const PGresult *rows, int row, int column, char *text)
{
	if (pg_get_int8(rows, row, column) < BACKLOG_COUNTED)
		return figure(rows, row, column, text);
	(void)snprintf(text, FORMAT_SIZE, "10,000+");
	return text;
}

/* From tenths: "0.4", "58". */
static const char *rate(const PGresult *rows, int row, int column, char *text)
{
	int64_t tenths = pg_get_int8(rows, row, column);
	if (pg_null(rows, row, column))
		return "-";
	if (tenths >= 100 || tenths % 10 == 0)
		return format_count((tenths + 5) / 10, text);
	(void)snprintf(text, FORMAT_SIZE, "%d.%d", (int)(tenths / 10), (int)(tenths % 10));
	return text;
}

static enum style if_any(const PGresult *rows, int row, int column, enum style style)
{
	return pg_get_int8(rows, row, column) ? style : STYLE_FAINT;
}

static bool is_late(const PGresult *rows, int row, int column)
{
	return age_at(rows, row, column) > RELAY_LATE;
}

/* The rows there is room for, and which one is shown first. */
static int shown(const struct relay_view *view, int *first_r)
{
	int rows = view->rows ? pg_rows(view->rows) : 0;
	*first_r = view->bar ? (int)view->bar->top : 0;
	int left = rows - *first_r;
	return left < view->area.height - 1 ? left : view->area.height - 1;
}

static struct grid grid_of(const struct relay_view *view, const struct column *columns,
			   size_t count_of_columns, unsigned right)
{
	struct grid grid = { .canvas = view->canvas,
			     .area = view->area,
			     .columns = columns,
			     .count = count_of_columns,
			     .right = right };
	grid_begin(&grid);
	return grid;
}

static void mark(const struct relay_view *view, const struct grid *grid, int line, int row)
{
	if (view->bar && (int)view->bar->index == row)
		grid_bar(grid, line);
}

#define RIGHT(cell_)     (1u << (cell_))
#define COUNT_OF(array_) (sizeof(array_) / sizeof((array_)[0]))

/* --- outboxes --- */

enum outbox_cell {
	OUTBOX_NAME,
	OUTBOX_WAITING,
	OUTBOX_AGE,
	OUTBOX_RATE,
	OUTBOX_LATENCY,
	OUTBOX_DEAD_CELL,
	OUTBOX_PARKED_CELL,
	OUTBOX_RELAY,
	OUTBOX_UP,
	OUTBOX_SEEN
};

/* At 80 columns, latency and age of the relay are gone; at 60 all of the relay. */
static const struct column outbox_columns[] = {
	[OUTBOX_NAME] = { "OUTBOX", 18, 24, 0 },
	[OUTBOX_WAITING] = { "BACKLOG", 7, 7, 0 },
	[OUTBOX_AGE] = { "OLDEST", 7, 8, 0 },
	[OUTBOX_RATE] = { "RATE/s", 6, 7, 3 },
	[OUTBOX_LATENCY] = { "P99", 6, 7, 1 },
	[OUTBOX_DEAD_CELL] = { "DEAD", 4, 7, 0 },
	[OUTBOX_PARKED_CELL] = { "PARKED", 6, 7, 0 },
	[OUTBOX_RELAY] = { "RELAY", 9, 16, 4 },
	[OUTBOX_UP] = { "UP", 7, 7, 2 },
	[OUTBOX_SEEN] = { "SEEN", 6, 7, 5 },
};

static void draw_outbox(const struct relay_view *view, const struct grid *grid, int row)
{
	const PGresult *rows = view->rows;
	char text[FORMAT_SIZE];
	bool silent = pg_null(rows, row, SOURCE_RELAY);
	bool late = silent || is_late(rows, row, SOURCE_SEEN);
	enum style style = late ? STYLE_FAINT : STYLE_PLAIN;
	usec_t p99 = age_at(rows, row, SOURCE_P99);
	grid_cell(grid, row, OUTBOX_NAME, STYLE_STRONG, pg_get_text(rows, row, SOURCE_NAME));
	grid_cell(grid, row, OUTBOX_WAITING, style, backlog(rows, row, SOURCE_BACKLOG, text));
	grid_cell(grid, row, OUTBOX_AGE, style, age(rows, row, SOURCE_OLDEST, text));
	grid_cell(grid, row, OUTBOX_RATE, style, rate(rows, row, SOURCE_RATE, text));
	grid_cell(grid, row, OUTBOX_LATENCY, style, format_took(p99, text));
	grid_cell(grid, row, OUTBOX_DEAD_CELL, if_any(rows, row, SOURCE_DEAD, STYLE_WARN),
		  count(view, row, SOURCE_DEAD, text));
	grid_cell(grid, row, OUTBOX_PARKED_CELL, if_any(rows, row, SOURCE_PARKED, STYLE_WARN),
		  count(view, row, SOURCE_PARKED, text));
	grid_cell(grid, row, OUTBOX_RELAY, late ? STYLE_WARN : STYLE_PLAIN,
		  silent ? "none" : pg_get_text(rows, row, SOURCE_RELAY));
	grid_cell(grid, row, OUTBOX_UP, style, age(rows, row, SOURCE_STARTED, text));
	grid_cell(grid, row, OUTBOX_SEEN, late ? STYLE_WARN : STYLE_PLAIN,
		  age(rows, row, SOURCE_SEEN, text));
	if (late || pg_get_int8(rows, row, SOURCE_DEAD))
		grid_glyph(grid, row, STYLE_WARN, "!");
}

void relay_view_outboxes(const struct relay_view *view)
{
	int first, lines = shown(view, &first);
	const struct grid grid =
		grid_of(view, outbox_columns, COUNT_OF(outbox_columns),
			RIGHT(OUTBOX_WAITING) | RIGHT(OUTBOX_AGE) | RIGHT(OUTBOX_RATE) |
				RIGHT(OUTBOX_LATENCY) | RIGHT(OUTBOX_DEAD_CELL) |
				RIGHT(OUTBOX_PARKED_CELL) | RIGHT(OUTBOX_UP) | RIGHT(OUTBOX_SEEN));
	for (int line = 0; line < lines; line++)
		draw_outbox(view, &grid, line);
}

/* --- topics --- */

enum topic_cell {
	TOPIC_CELL,
	TOPIC_PENDING_CELL,
	TOPIC_OLDEST_CELL,
	TOPIC_RATE_CELL,
	TOPIC_STATE_CELL,
	TOPIC_DEAD_CELL,
	TOPIC_REASON_CELL
};

static const struct column topic_columns[] = {
	[TOPIC_CELL] = { "TOPIC", 12, 20, 0 },
	[TOPIC_PENDING_CELL] = { "PENDING", 7, 7, 0 },
	[TOPIC_OLDEST_CELL] = { "OLDEST", 7, 7, 2 },
	[TOPIC_RATE_CELL] = { "RATE/s", 6, 7, 1 },
	[TOPIC_STATE_CELL] = { "STATE", 11, 11, 0 },
	[TOPIC_DEAD_CELL] = { "DEAD", 5, 6, 0 },
	[TOPIC_REASON_CELL] = { "LAST ERROR", 12, 60, 3 },
};

static void draw_topic(const struct relay_view *view, const struct grid *grid, int line, int row)
{
	const PGresult *rows = view->rows;
	const char *state = pg_get_text(rows, row, TOPIC_STATE);
	const char *reason = pg_get_text(rows, row, TOPIC_REASON);
	const char *name = pg_get_text(rows, row, TOPIC_NAME);
	bool calm = !*state || strcmp(state, "open") == 0;
	enum style style = is_late(rows, row, TOPIC_SEEN) ? STYLE_FAINT : STYLE_PLAIN;
	char text[FORMAT_SIZE];
	grid_cell(grid, line, TOPIC_CELL, STYLE_PLAIN, *name ? name : "(none)");
	grid_cell(grid, line, TOPIC_PENDING_CELL, style, figure(rows, row, TOPIC_PENDING, text));
	grid_cell(grid, line, TOPIC_OLDEST_CELL, style, age(rows, row, TOPIC_OLDEST, text));
	grid_cell(grid, line, TOPIC_RATE_CELL, style, rate(rows, row, TOPIC_RATE, text));
	grid_cell(grid, line, TOPIC_STATE_CELL, calm ? style : STYLE_WARN, *state ? state : "-");
	grid_cell(grid, line, TOPIC_DEAD_CELL, if_any(rows, row, TOPIC_DEAD, STYLE_WARN),
		  count(view, row, TOPIC_DEAD, text));
	grid_cell(grid, line, TOPIC_REASON_CELL, calm ? STYLE_FAINT : STYLE_WARN,
		  *reason ? reason : "-");
	if (!calm)
		grid_glyph(grid, line, STYLE_WARN, "!");
	mark(view, grid, line, row);
}

void relay_view_topics(const struct relay_view *view)
{
	int first, lines = shown(view, &first);
	const struct grid grid = grid_of(view, topic_columns, COUNT_OF(topic_columns),
					 RIGHT(TOPIC_PENDING_CELL) | RIGHT(TOPIC_OLDEST_CELL) |
						 RIGHT(TOPIC_RATE_CELL) | RIGHT(TOPIC_DEAD_CELL));
	if (view->rows && lines <= 0)
		canvas_text(view->canvas, view->area.row + 1, 2, 40, STYLE_FAINT, "none");
	for (int line = 0; line < lines; line++)
		draw_topic(view, &grid, line, first + line);
}

/* --- relays --- */

enum relay_cell {
	RELAY_CELL,
	RELAY_ROLE_CELL,
	RELAY_SEEN_CELL,
	RELAY_UP_CELL,
	RELAY_BATCH_CELL,
	RELAY_FLIGHT_CELL,
	RELAY_SOURCE_CELL,
	RELAY_VERSION_CELL
};

static const struct column relay_columns[] = {
	[RELAY_CELL] = { "RELAY", 12, 30, 0 },
	[RELAY_ROLE_CELL] = { "ROLE", 9, 9, 0 },
	[RELAY_SEEN_CELL] = { "SEEN", 7, 7, 0 },
	[RELAY_UP_CELL] = { "UP", 7, 7, 3 },
	[RELAY_BATCH_CELL] = { "BATCH", 6, 6, 0 },
	[RELAY_FLIGHT_CELL] = { "IN FLIGHT", 9, 9, 0 },
	[RELAY_SOURCE_CELL] = { "OUTBOX", 12, 24, 1 },
	[RELAY_VERSION_CELL] = { "VERSION", 7, 10, 2 },
};

static void draw_relay(const struct relay_view *view, const struct grid *grid, int row)
{
	const PGresult *rows = view->rows;
	bool late = is_late(rows, row, RELAY_SEEN);
	enum style style = late ? STYLE_FAINT : STYLE_PLAIN;
	char text[FORMAT_SIZE];
	grid_cell(grid, row, RELAY_CELL, style, pg_get_text(rows, row, RELAY_NAME));
	grid_cell(grid, row, RELAY_ROLE_CELL, style, pg_get_text(rows, row, RELAY_ROLE));
	grid_cell(grid, row, RELAY_SEEN_CELL, late ? STYLE_WARN : STYLE_PLAIN,
		  age(rows, row, RELAY_SEEN, text));
	grid_cell(grid, row, RELAY_UP_CELL, style, age(rows, row, RELAY_UP, text));
	grid_cell(grid, row, RELAY_BATCH_CELL, style, figure(rows, row, RELAY_BATCH, text));
	grid_cell(grid, row, RELAY_FLIGHT_CELL, style, figure(rows, row, RELAY_IN_FLIGHT, text));
	grid_cell(grid, row, RELAY_SOURCE_CELL, style, pg_get_text(rows, row, RELAY_SOURCE));
	grid_cell(grid, row, RELAY_VERSION_CELL, style, pg_get_text(rows, row, RELAY_VERSION));
	if (late)
		grid_glyph(grid, row, STYLE_WARN, "!");
}

void relay_view_relays(const struct relay_view *view)
{
	int first, lines = shown(view, &first);
	const struct grid grid =
		grid_of(view, relay_columns, COUNT_OF(relay_columns),
			RIGHT(RELAY_SEEN_CELL) | RIGHT(RELAY_UP_CELL) | RIGHT(RELAY_BATCH_CELL) |
				RIGHT(RELAY_FLIGHT_CELL));
	if (view->rows && lines <= 0)
		canvas_text(view->canvas, view->area.row + 1, 2, 40, STYLE_FAINT,
			    "none has reported yet");
	for (int line = 0; line < lines; line++)
		draw_relay(view, &grid, line);
}

/* --- dead and parked rows --- */

enum dead_cell {
	DEAD_ID_CELL,
	DEAD_TOPIC_CELL,
	DEAD_KEY_CELL,
	DEAD_SIZE_CELL,
	DEAD_AGE_CELL,
	DEAD_BEHIND_CELL,
	DEAD_REASON_CELL
};

static const struct column dead_columns[] = {
	[DEAD_ID_CELL] = { "ID", 8, 8, 0 },           [DEAD_TOPIC_CELL] = { "TOPIC", 10, 16, 0 },
	[DEAD_KEY_CELL] = { "KEY", 9, 12, 3 },        [DEAD_SIZE_CELL] = { "SIZE", 9, 9, 1 },
	[DEAD_AGE_CELL] = { "AGE", 7, 7, 0 },         [DEAD_BEHIND_CELL] = { "BEHIND", 6, 6, 2 },
	[DEAD_REASON_CELL] = { "REASON", 18, 80, 0 },
};

static void draw_dead(const struct relay_view *view, const struct grid *grid, int line, int row)
{
	const PGresult *rows = view->rows;
	const char *topic = pg_get_text(rows, row, DEAD_TOPIC);
	const char *key = pg_get_text(rows, row, DEAD_KEY);
	char text[FORMAT_SIZE];
	(void)snprintf(text, sizeof(text), "%lld", (long long)pg_get_int8(rows, row, DEAD_ID));
	grid_cell(grid, line, DEAD_ID_CELL, STYLE_PLAIN, text);
	grid_cell(grid, line, DEAD_TOPIC_CELL, STYLE_PLAIN, topic ? topic : "-");
	grid_cell(grid, line, DEAD_KEY_CELL, STYLE_PLAIN, key ? key : "-");
	grid_cell(grid, line, DEAD_SIZE_CELL, STYLE_PLAIN,
		  format_size(pg_get_int8(rows, row, DEAD_SIZE), text));
	grid_cell(grid, line, DEAD_AGE_CELL, STYLE_PLAIN,
		  view->absolute ? format_time_short(pg_get_time(rows, row, DEAD_AT), view->now,
						     view->zone, text)
				 : age(rows, row, DEAD_AGE, text));
	grid_cell(grid, line, DEAD_BEHIND_CELL, if_any(rows, row, DEAD_BEHIND, STYLE_WARN),
		  figure(rows, row, DEAD_BEHIND, text));
	grid_cell(grid, line, DEAD_REASON_CELL, STYLE_PLAIN, pg_get_text(rows, row, DEAD_REASON));
	mark(view, grid, line, row);
}

void relay_view_dead(const struct relay_view *view)
{
	struct column columns[COUNT_OF(dead_columns)];
	int first, lines = shown(view, &first);
	memcpy(columns, dead_columns, sizeof(columns));
	if (view->absolute)
		columns[DEAD_AGE_CELL] =
			(struct column){ "SINCE", FORMAT_TIME_SHORT, FORMAT_TIME_SHORT, 0 };
	const struct grid grid = grid_of(view, columns, COUNT_OF(columns),
					 RIGHT(DEAD_ID_CELL) | RIGHT(DEAD_SIZE_CELL) |
						 RIGHT(DEAD_AGE_CELL) | RIGHT(DEAD_BEHIND_CELL));
	for (int line = 0; line < lines; line++)
		draw_dead(view, &grid, line, first + line);
}
