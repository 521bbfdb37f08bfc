/* "x": what may be done to a dead or a parked row. */
#include <stdlib.h>

#include "console.h"
#include "mem.h"
#include "screens/screens.h"

struct actions {
	struct screen screen;
	struct dead_row row;
};

static unsigned open_dialog(const struct actions *actions, bool discard)
{
	if (console_forbids(actions->screen.console))
		return REACT_NONE;
	console_swap(actions->screen.console, screen_settle_new(&actions->row, discard));
	return REACT_DRAW;
}

static unsigned on_key(struct screen *screen, const struct key *key)
{
	struct actions *actions = (struct actions *)screen;
	bool letter = !key->special && !key->pasted;
	if (letter && (key->code == 'r' || key->code == 'd'))
		return open_dialog(actions, key->code == 'd');
	switch (request_of(key)) {
	case REQUEST_BACK:
	case REQUEST_CLOSE:
	case REQUEST_ACTIONS:
		return REACT_CLOSE;
	case REQUEST_QUIT:
		return REACT_OTHER;
	default:
		return REACT_NONE;
	}
}

static void draw(struct screen *screen, const struct canvas *canvas, const struct area *area)
{
	struct actions *actions = (struct actions *)screen;
	const struct dead_row *row = &actions->row;
	const char *nothing = console_forbids(screen->console);
	int width = area->width < 68 ? area->width - 2 : 66;
	const struct area box = { area->row + area->height / 3, (area->width - width) / 2, 5,
				  width };
	int column = box.column + 2, inside = width - 4;
	canvas_box(canvas, &box, "what to do with");
	canvas_format(canvas, box.row + 1, column, inside, STYLE_STRONG, "row %lld, %s, topic %s",
		      (long long)row->id, row->parked ? "parked" : "dead", row->topic);
	if (nothing) {
		canvas_text(canvas, box.row + 2, column, inside, STYLE_FAINT, nothing);
		return;
	}
	canvas_text(canvas, box.row + 2, column, inside, STYLE_PLAIN,
		    "r  requeue: back into the outbox, with what is behind it");
	canvas_text(canvas, box.row + 3, column, inside, STYLE_PLAIN,
		    "d  discard: drop it for good");
}

static void free_screen(struct screen *screen)
{
	struct actions *actions = (struct actions *)screen;
	dead_row_done(&actions->row);
	free(actions);
}

static const struct hint hints[] = {
	{ REQUEST_BACK, "close" },
	{ 0 },
};

static const struct screen_ops ops = {
	.overlay = true,
	.hints = hints,
	.draw = draw,
	.key = on_key,
	.free = free_screen,
};

struct screen *screen_dead_actions_new(const struct dead_row *row)
{
	struct actions *actions = mem_zero(sizeof(*actions));
	actions->screen.ops = &ops;
	dead_row_copy(row, &actions->row);
	return &actions->screen;
}
