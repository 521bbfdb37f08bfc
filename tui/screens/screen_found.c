/* What "/" has found, and by what. */
#include <stdlib.h>

#include "console.h"
#include "data/find.h"
#include "data/sql_console.h"
#include "mem.h"
#include "screens/row_view.h"
#include "screens/screens.h"
#include "words/format.h"

struct found {
	struct screen screen;
	char *text;
	PGresult *rows;
	size_t count;
	struct selection selection;
	size_t height;
};

static void on_rows(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	struct found *found = (struct found *)screen;
	if (error)
		return;
	PGresult *rows = pg_keep(result);
	size_t count = (size_t)pg_rows(rows);
	int64_t *before_ids = row_view_ids(found->rows, found->count);
	int64_t *now_ids = row_view_ids(rows, count);
	const struct selection_ids before = { before_ids, found->count }, now = { now_ids, count };
	selection_follow(&found->selection, &before, &now);
	free(before_ids);
	free(now_ids);
	pg_drop(found->rows);
	found->rows = rows;
	found->count = count;
}

static void load(struct screen *screen)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	find_params(((struct found *)screen)->text, &params);
	console_ask(screen, SQL_FIND, &params, on_rows);
}

static unsigned move_bar(struct found *found, long by)
{
	selection_move(&found->selection, by, found->count);
	return REACT_DRAW;
}

static unsigned act(const struct found *found, enum request request)
{
	if (!found->count)
		return REACT_NONE;
	const struct subject subject = row_view_subject(found->rows, found->selection.index);
	console_push(found->screen.console, request == REQUEST_OPEN ? screen_key_new(subject.id)
								    : screen_actions_new(&subject));
	return REACT_DRAW;
}

static unsigned on_request(struct screen *screen, enum request request)
{
	struct found *found = (struct found *)screen;
	const long step = request_step(request, found->height);
	if (step)
		return move_bar(found, step);
	switch (request) {
	case REQUEST_OPEN:
	case REQUEST_ACTIONS:
		return act(found, request);
	default:
		return REACT_OTHER;
	}
}

static void draw(struct screen *screen, const struct canvas *canvas, const struct area *area)
{
	struct found *found = (struct found *)screen;
	struct console *console = screen->console;
	const struct row_view view = { .rows = found->rows,
				       .count = found->count,
				       .selection = &found->selection,
				       .matched = true,
				       .absolute = console_absolute(console),
				       .now = console_now(console),
				       .zone = console_zone(console) };
	bool roomy = area->height >= 14;
	const struct area rows = { area->row + 1, 0, area->height - (roomy ? 4 : 1), area->width };
	const struct area more = { rows.row + rows.height + 1, 0, 2, area->width };
	int used = canvas_text(canvas, area->row, 1, 10, STYLE_TITLE, "find ");
	canvas_middle(canvas, area->row, 1 + used, area->width - 8, STYLE_STRONG, found->text);
	found->height = rows.height > 1 ? (size_t)rows.height - 1 : 1;
	selection_show(&found->selection, found->height, found->count);
	row_view_draw(&view, canvas, &rows);
	if (found->rows && !found->count)
		canvas_text(canvas, rows.row + 1, 2, area->width - 3, STYLE_FAINT,
			    "no key begins with it, and no subject, event, id or place is it");
	if (roomy)
		row_view_draw_more(&view, canvas, &more);
}

static void add_status(const struct screen *screen, struct buf *out)
{
	const struct found *found = (const struct found *)screen;
	char text[FORMAT_SIZE];
	if (found->rows)
		buf_addf(out, "%s found, at most %d of a kind",
			 format_count((int64_t)found->count, text), FIND_LIMIT);
}

static void free_screen(struct screen *screen)
{
	struct found *found = (struct found *)screen;
	pg_drop(found->rows);
	free(found->text);
	free(found);
}

static const struct hint hints[] = {
	{ REQUEST_OPEN, "detail" },
	{ REQUEST_ACTIONS, "actions" },
	{ REQUEST_FIND, "find" },
	{ REQUEST_TIME, "times" },
	{ REQUEST_HELP, "help" },
	{ REQUEST_BACK, "back" },
	{ 0 },
};

static const struct screen_ops ops = {
	.hints = hints,
	.draw = draw,
	.request = on_request,
	.load = load,
	.status = add_status,
	.free = free_screen,
};

struct screen *screen_found_new(const char *text)
{
	struct found *found = mem_zero(sizeof(*found));
	found->screen.ops = &ops;
	found->text = mem_text(text);
	return &found->screen;
}
