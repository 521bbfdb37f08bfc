/* The screens, one upon the other, and their picture. */
#include <string.h>

#include "console_private.h"
#include "screens/frame.h"
#include "terminal/testing.h"

/* --- the picture --- */

void console_old(struct console *console)
{
	if (console->paint)
		loop_timer_set(console->paint, 0);
}

static size_t base_of(const struct console *console)
{
	size_t at = console->depth - 1;
	while (at > 0 && console->stack[at]->ops->overlay)
		at--;
	return at;
}

struct screen *console_base(const struct console *console)
{
	return console->stack[base_of(console)];
}

unsigned console_number(const struct console *console)
{
	return console->stack[0]->ops->number;
}

static enum frame_mode mode_of(const struct console *console)
{
	usec_t patience =
		3 * console->conf->console.refresh + console->conf->console.statement_timeout;
	if (console->link != LINK_READY)
		return FRAME_OLD;
	if (console->paused)
		return FRAME_FROZEN;
	usec_t loaded_at = console_base(console)->loaded_at;
	return loaded_at && usec_boot() - loaded_at > patience ? FRAME_OLD : FRAME_LIVE;
}

static struct frame frame_of(const struct console *console)
{
	const struct conf *conf = console->conf;
	return (struct frame){
		.environment = conf->general.environment,
		.host = pg_host(console->pg),
		.database = console->database ? console->database : "",
		.user = console->user ? console->user : "",
		.production = conf->general.production,
		.read_only = conf->console.read_only,
		.zone = console->zone,
		.now = console_now(console),
		.refresh = conf->console.refresh,
		.mode = mode_of(console),
		.data_age = console_since(console_base(console)->loaded_at),
		.number = console_number(console),
		.trouble = console->trouble,
		.said = console->said,
		.said_style = console->said_style,
		.top = console->stack[console->depth - 1],
		.base = console_base(console),
	};
}

static bool is_settled(const struct console *console)
{
	const struct screen *base = console_base(console);
	if (console->link == LINK_NEW || console->link == LINK_ASKING || pg_queued(console->pg))
		return false;
	return console->link != LINK_READY || base->loaded_at || !base->ops->load;
}

static void tell_tests(struct console *console)
{
	if (console->sync_done == console->sync_wanted || !is_settled(console))
		return;
	console->sync_done = console->sync_wanted;
	testing_sync(console->sync_done, console->canvas.all.height, console->canvas.all.width);
}

void console_paint(void *arg)
{
	struct console *console = arg;
	struct frame frame = frame_of(console);
	struct area area;
	console->canvas.faint = frame.mode == FRAME_OLD;
	canvas_begin(&console->canvas);
	if (frame_draw(&frame, &console->canvas, &area))
		for (size_t i = base_of(console); i < console->depth; i++)
			console->stack[i]->ops->draw(console->stack[i], &console->canvas, &area);
	canvas_end(&console->canvas);
	console_bury(console);
	tell_tests(console);
}

/* --- the stack --- */

static void drop(struct console *console, struct screen *screen)
{
	screen->gone = true;
	if (screen->waiting)
		return; /* goes with its last answer */
	screen->next = console->gone;
	console->gone = screen;
}

void console_bury(struct console *console)
{
	while (console->gone) {
		struct screen *screen = console->gone;
		console->gone = screen->next;
		screen->ops->free(screen);
	}
}

void console_drop_all(struct console *console)
{
	while (console->depth)
		drop(console, console->stack[--console->depth]);
}

static void show_top(struct console *console)
{
	console_load(console);
	console_old(console);
}

void console_push(struct console *console, struct screen *screen)
{
	screen->console = console;
	if (console->depth == STACK_MAX) {
		/* detail upon detail: the oldest above the main screen goes */
		drop(console, console->stack[1]);
		memmove(&console->stack[1], &console->stack[2],
			(STACK_MAX - 2) * sizeof(console->stack[0]));
		console->depth--;
	}
	console->stack[console->depth++] = screen;
	if (!screen->ops->overlay)
		show_top(console);
	else if (screen->ops->load)
		screen->ops->load(screen);
	console_old(console);
}

bool console_pop(struct console *console)
{
	struct screen *screen = console->stack[console->depth - 1];
	if (console->depth == 1)
		return false;
	console->depth--;
	drop(console, screen);
	if (!screen->ops->overlay)
		show_top(console);
	return true;
}

void console_close(struct console *console, struct screen *screen)
{
	if (screen == console->stack[console->depth - 1] && console_pop(console))
		console_load(console);
}

void console_swap(struct console *console, struct screen *screen)
{
	drop(console, console->stack[--console->depth]);
	console_push(console, screen);
}

void console_replace(struct console *console, struct screen *screen)
{
	console_drop_all(console);
	console_push(console, screen);
}
