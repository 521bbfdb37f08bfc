/* A dead or parked row in full. It is read again like any list: what happens to it is seen here. */
#include <stdlib.h>
#include <string.h>

#include "console.h"
#include "data/sql_relay.h"
#include "mem.h"
#include "screens/screens.h"
#include "terminal/text_view.h"
#include "words/dead_text.h"

struct dead_screen {
	struct screen screen;
	struct dead_row row;
	PGresult *rows, *others;
	struct text_view view;
	bool raw;
};

static bool is_there(const struct dead_screen *dead)
{
	return dead->rows && pg_rows(dead->rows);
}

static void compose(struct dead_screen *dead)
{
	buf_clear(&dead->view.text);
	if (is_there(dead))
		dead_text(dead->rows, 0, dead->others, dead->raw,
			  console_zone(dead->screen.console), &dead->view.text);
}

static void on_others(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	struct dead_screen *dead = (struct dead_screen *)screen;
	if (error)
		return;
	pg_drop(dead->others);
	dead->others = pg_keep(result);
	compose(dead);
}

static void ask_others(struct dead_screen *dead)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	if (!is_there(dead) || pg_null(dead->rows, 0, DEAD_HASH))
		return;
	pg_add_text(&params, dead->row.source);
	pg_add_int8(&params, pg_get_int8(dead->rows, 0, DEAD_HASH));
	pg_add_int8(&params, dead->row.id);
	console_ask(&dead->screen, SQL_OF_ITS_KEY, &params, on_others);
}

static void on_row(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	struct dead_screen *dead = (struct dead_screen *)screen;
	if (error)
		return;
	pg_drop(dead->rows);
	dead->rows = pg_keep(result);
	ask_others(dead);
	compose(dead);
}

static void load(struct screen *screen)
{
	struct dead_screen *dead = (struct dead_screen *)screen;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_text(&params, dead->row.source);
	pg_add_int8(&params, dead->row.id);
	pg_add_text(&params, dead->row.event);
	console_ask(screen, SQL_DEAD_ROW, &params, on_row);
}

static unsigned scroll_text(struct dead_screen *dead, long by)
{
	text_view_move(&dead->view, by);
	return REACT_DRAW;
}

static unsigned open_actions(const struct dead_screen *dead)
{
	if (!is_there(dead))
		return REACT_NONE;
	console_push(dead->screen.console, screen_dead_actions_new(&dead->row));
	return REACT_DRAW;
}

static unsigned on_request(struct screen *screen, enum request request)
{
	struct dead_screen *dead = (struct dead_screen *)screen;
	const long step = request_step(request, dead->view.height);
	if (step)
		return scroll_text(dead, step);
	switch (request) {
	case REQUEST_WRAP:
		dead->view.wrap = !dead->view.wrap;
		return REACT_DRAW;
	case REQUEST_RAW:
		dead->raw = !dead->raw;
		compose(dead);
		return REACT_DRAW;
	case REQUEST_ACTIONS:
		return open_actions(dead);
	default:
		return REACT_OTHER;
	}
}

static void draw(struct screen *screen, const struct canvas *canvas, const struct area *area)
{
	struct dead_screen *dead = (struct dead_screen *)screen;
	const struct area text = { area->row, 1, area->height, area->width - 2 };
	if (is_there(dead))
		text_view_draw(&dead->view, canvas, &text);
	else
		canvas_text(canvas, area->row + 1, 2, 60, STYLE_FAINT,
			    dead->rows ? "this row is dead or parked no more" : "reading");
}

static void add_status(const struct screen *screen, struct buf *out)
{
	(void)screen;
	buf_add_text(out, "this row is watched");
}

static void free_screen(struct screen *screen)
{
	struct dead_screen *dead = (struct dead_screen *)screen;
	dead_row_done(&dead->row);
	pg_drop(dead->rows);
	pg_drop(dead->others);
	text_view_done(&dead->view);
	free(dead);
}

static const struct hint hints[] = {
	{ REQUEST_HALF_DOWN, "scroll" },
	{ REQUEST_ACTIONS, "actions" },
	{ REQUEST_WRAP, "wrap" },
	{ REQUEST_RAW, "raw" },
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

struct screen *screen_dead_new(const struct dead_row *row)
{
	struct dead_screen *dead = mem_zero(sizeof(*dead));
	dead->screen.ops = &ops;
	dead_row_copy(row, &dead->row);
	dead->view.wrap = true;
	return &dead->screen;
}
