/* "x": what may be done to a key in the state that it was shown in. */
#include <stdlib.h>
#include <string.h>

#include "console.h"
#include "mem.h"
#include "screens.h"

struct actions {
	struct screen screen;
	struct subject subject;
};

/* NULL: there is something to be done. */
static const char *why_nothing(const struct actions *actions)
{
	const char *forbidden = console_forbids(actions->screen.console);
	switch (list_of_state(actions->subject.state)) {
	case LIST_DEAD:
	case LIST_PENDING:
	case LIST_RETRY_WAIT:
		return forbidden;
	case LIST_IN_FLIGHT:
	case LIST_STALE:
		return "in flight: an attempt is running, or will be taken over";
	case LIST_UNCERTAIN:
		return "uncertain: it may have happened, so it is not sent again from here";
	case LIST_COMPLETED:
		return "completed: there is nothing left to do";
	case LIST_CANCELLED:
		return "cancelled: it was withdrawn";
	case LIST_ALL:
	case LIST_COUNT:
		break;
	}
	return "finished long ago: only its key is kept";
}

static unsigned on_key(struct screen *screen, const struct key *key)
{
	struct actions *actions = (struct actions *)screen;
	bool letter = !key->special && !key->pasted;
	if (letter && key->code == 'r' && !why_nothing(actions)) {
		console_swap(screen->console, screen_replay_new(&actions->subject));
		return REACT_DRAW;
	}
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
	const char *nothing = why_nothing(actions);
	bool dead = strcmp(actions->subject.state, "dead") == 0;
	int width = area->width < 68 ? area->width - 2 : 66;
	const struct area box = { area->row + area->height / 3, (area->width - width) / 2, 4,
				  width };
	canvas_box(canvas, &box, "what to do with");
	canvas_middle(canvas, box.row + 1, box.column + 2, width - 4, STYLE_STRONG,
		      actions->subject.key);
	if (nothing)
		canvas_text(canvas, box.row + 2, box.column + 2, width - 4, STYLE_FAINT, nothing);
	else
		canvas_text(canvas, box.row + 2, box.column + 2, width - 4, STYLE_PLAIN,
			    dead ? "r  replay, with the same key" : "r  run now");
}

static void free_screen(struct screen *screen)
{
	struct actions *actions = (struct actions *)screen;
	subject_done(&actions->subject);
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

struct screen *screen_actions_new(const struct subject *subject)
{
	struct actions *actions = mem_zero(sizeof(*actions));
	actions->screen.ops = &ops;
	subject_copy(subject, &actions->subject);
	return &actions->screen;
}
