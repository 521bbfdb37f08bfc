/* The console's own affairs: a stack of screens, keys in, drawings out, and one connection.
 *
 * Everything happens in turns of the loop. Keys and answers change the state of screens and mark
 * the picture as old; it is drawn once at the end of the turn. So the keyboard answers while a
 * query runs, and a burst of keys is drawn once. */
#include "console.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "console_private.h"
#include "screens/screens.h"
#include "terminal/testing.h"

/* --- keys --- */

void console_say(struct console *console, enum style style, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	(void)vsnprintf(console->said, sizeof(console->said), format, args);
	va_end(args);
	console->said_style = style;
	console_old(console);
}

static void quit(struct console *console, int code)
{
	console->exit = (enum exit_code)code;
	console->ends = true;
	loop_stop(console->loop);
}

static void go_to(struct console *console, unsigned number)
{
	if (console->depth == 1 && console_number(console) == number)
		return;
	console_replace(console, number == 1   ? screen_overview_new()
				 : number == 2 ? screen_keys_new(LIST_ALL, NULL)
					       : screen_relay_new());
}

static unsigned close_or_quit(struct console *console)
{
	if (!console_pop(console))
		quit(console, EXIT_OK);
	return REACT_DRAW;
}

/* What is the same on every screen. */
static unsigned console_request(struct console *console, enum request request)
{
	switch (request) {
	case REQUEST_QUIT:
		quit(console, EXIT_OK);
		return REACT_NONE;
	case REQUEST_CLOSE:
		return close_or_quit(console);
	case REQUEST_BACK:
		if (console->depth > 1)
			return close_or_quit(console);
		go_to(console, 1);
		return REACT_DRAW;
	case REQUEST_SCREEN_1:
		go_to(console, 1);
		return REACT_DRAW;
	case REQUEST_SCREEN_2:
		go_to(console, 2);
		return REACT_DRAW;
	case REQUEST_SCREEN_4:
		go_to(console, 4);
		return REACT_DRAW;
	case REQUEST_FIND:
		console_push(console, screen_prompt_new());
		return REACT_DRAW;
	case REQUEST_HELP:
		console_push(console, screen_help_new());
		return REACT_DRAW;
	case REQUEST_REFRESH:
		return REACT_LOAD | REACT_DRAW;
	case REQUEST_PAUSE:
		console->paused = !console->paused;
		return REACT_DRAW | (console->paused ? REACT_NONE : REACT_LOAD);
	case REQUEST_TIME:
		console->absolute = !console->absolute;
		return REACT_DRAW;
	case REQUEST_ZONE:
		console->zone = console->zone == CONF_ZONE_UTC ? CONF_ZONE_LOCAL : CONF_ZONE_UTC;
		return REACT_DRAW;
	case REQUEST_REDRAW:
		terminal_redraw();
		return REACT_DRAW;
	default:
		return REACT_NONE; /* of another screen */
	}
}

static void react(struct console *console, struct screen *screen, unsigned reactions)
{
	if (reactions & REACT_CLOSE)
		console_close(console, screen);
	if (reactions & REACT_LOAD)
		console_load(console);
	if (reactions & (REACT_DRAW | REACT_CLOSE))
		console_old(console);
}

static void handle(struct console *console, const struct key *key)
{
	struct screen *top = console->stack[console->depth - 1];
	enum request request = request_of(key);
	unsigned reactions = REACT_OTHER;
	console->said[0] = '\0';
	if (top->ops->key)
		reactions = top->ops->key(top, key);
	if (reactions & REACT_OTHER && request != REQUEST_NONE && top->ops->request)
		reactions = top->ops->request(top, request);
	if (reactions & REACT_OTHER && request != REQUEST_NONE)
		reactions = console_request(console, request);
	react(console, top, reactions);
	console_old(console);
}

/* The next key that is not for the tests. */
static enum terminal_input next_key(struct console *console, struct key *key_r)
{
	enum terminal_input input;
	while ((input = terminal_read(console->terminal, key_r)) == INPUT_KEY) {
		if (!testing_is_sync(key_r))
			return input;
		console->sync_wanted++;
		console_old(console);
	}
	return input;
}

void console_drop_input(struct console *console)
{
	struct key key;
	while (next_key(console, &key) == INPUT_KEY)
		continue;
}

static void on_input(void *arg, bool readable, bool writable)
{
	struct console *console = arg;
	struct key key;
	enum terminal_input input;
	(void)readable;
	(void)writable;
	while ((input = next_key(console, &key)) == INPUT_KEY && !console->ends)
		handle(console, &key);
	if (input == INPUT_END)
		quit(console, EXIT_ERROR);
}

/* --- time and signals --- */

static void on_tick(void *arg)
{
	struct console *console = arg;
	bool due = usec_boot() >= console->next_load && !console->paused;
	loop_timer_set(console->tick, console->conf->console.refresh < USEC_SEC
					      ? console->conf->console.refresh
					      : USEC_SEC);
	if (due)
		console_refresh(console);
	console_old(console);
}

static void on_signal(void *arg)
{
	struct watched_signal *signal = arg;
	struct console *console = signal->console;
	switch (signal->number) {
	case SIGWINCH:
		terminal_resize();
		console_old(console);
		break;
	case SIGTSTP:
		terminal_suspend();
		console_load(console);
		console_old(console);
		break;
	default:
		quit(console, 128 + signal->number);
		break;
	}
}

/* --- for the screens --- */

void console_hold(struct console *console, bool held)
{
	console->held = held;
}

const char *console_forbids(const struct console *console)
{
	if (console->conf->console.read_only)
		return "console.read_only is set: nothing can be changed here";
	if (console->link != LINK_READY)
		return "there is no connection: nothing can be changed now";
	return NULL;
}

const struct conf *console_conf(const struct console *console)
{
	return console->conf;
}

usec_t console_now(const struct console *console)
{
	return console->now_at ? console->now + console_since(console->now_at) : USEC_NEVER;
}

enum conf_zone console_zone(const struct console *console)
{
	return console->zone;
}

bool console_absolute(const struct console *console)
{
	return console->absolute;
}

/* --- beginning and end --- */

/* Before the terminal is opened: curses leaves alone what is handled already. */
static void watch_signals(struct console *console)
{
	static const int numbers[SIGNAL_COUNT] = { SIGWINCH, SIGTSTP, SIGINT,
						   SIGTERM,  SIGHUP,  SIGQUIT };
	for (size_t i = 0; i < SIGNAL_COUNT; i++) {
		struct watched_signal *signal = &console->signals[i];
		*signal = (struct watched_signal){ .console = console, .number = numbers[i] };
		signal->watch = loop_signal_new(console->loop, numbers[i], on_signal, signal);
	}
	(void)signal(SIGPIPE, SIG_IGN);
}

static void begin(struct console *console)
{
	canvas_init(&console->canvas);
	console_connect(console);
	console->paint = loop_timer_new(console->loop, console_paint, console);
	console->tick = loop_timer_new(console->loop, on_tick, console);
	console->input = loop_fd_new(console->loop, 0, on_input, console);
	loop_fd_want(console->input, true, false);
	console_push(console, screen_overview_new());
	loop_timer_set(console->tick, USEC_SEC);
}

static void end(struct console *console)
{
	pg_free(console->pg); /* what is still waited for is answered here */
	console_drop_all(console);
	console_bury(console);
	loop_fd_free(console->input);
	loop_timer_free(console->tick);
	loop_timer_free(console->paint);
	free(console->database);
	free(console->user);
}

static enum exit_code run(struct console *console)
{
	struct err err;
	console->loop = loop_new();
	watch_signals(console);
	bool opened = terminal_open(console->conf->console.escape_delay, &err, &console->terminal);
	if (opened) {
		begin(console);
		loop_run(console->loop);
		end(console);
		terminal_close(console->terminal);
	} else {
		fprintf(stderr, "counterfoil: %s\n", err.text);
		console->exit = EXIT_UNAVAILABLE;
	}
	for (size_t i = 0; i < SIGNAL_COUNT; i++)
		loop_signal_free(console->signals[i].watch);
	loop_free(console->loop);
	return console->exit;
}

enum exit_code console_run(const char *config_path)
{
	struct console console = { .exit = EXIT_OK };
	struct err err;
	if (!terminal_check(&err)) {
		fprintf(stderr, "counterfoil: %s\n", err.text);
		return EXIT_UNAVAILABLE;
	}
	if (!command_config(config_path, &console.conf))
		return EXIT_CONFIG;
	console.zone = console.conf->console.zone;
	console.log = log_new("counterfoil", console.conf->log.level, console.conf->log.format);
	enum exit_code code = run(&console);
	log_free(console.log);
	conf_free(console.conf);
	return code;
}
