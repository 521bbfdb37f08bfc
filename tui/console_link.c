/* The connection: is it there, does its schema fit, and the screens' questions and answers. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/call.h"
#include "console_private.h"
#include "data/sql_console.h"
#include "mem.h"
#include "schema.h"
#include "terminal/testing.h"
#include "version.h"

usec_t console_since(usec_t boot)
{
	return boot ? testing_elapsed(usec_boot() - boot) : USEC_NEVER;
}

/* --- questions and answers --- */

struct question {
	struct screen *screen;
	screen_answer_fn *answer;
};

static void say_trouble(struct console *console, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void say_trouble(struct console *console, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	(void)vsnprintf(console->trouble, sizeof(console->trouble), format, args);
	va_end(args);
	console_old(console);
}

static void tell_error(struct console *console, const struct pg_error *error)
{
	char limit[32];
	if (error->kind != PG_REFUSED)
		return; /* down() tells of it */
	if (strcmp(error->sqlstate, "57014") == 0)
		say_trouble(console, "a query took longer than %s and was cancelled",
			    usec_format(console->conf->console.statement_timeout, limit,
					sizeof(limit)));
	else
		say_trouble(console, "%s", error->text);
}

/* The last of its answers has come. */
static void settle(struct console *console, struct screen *screen)
{
	bool failed = screen->failed;
	screen->failed = false;
	if (failed)
		return;
	screen->loaded_at = usec_boot();
	if (screen == console_base(console))
		console->trouble[0] = '\0';
}

static void on_answer(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct question question = *(struct question *)arg;
	struct screen *screen = question.screen;
	struct console *console = screen->console;
	free(arg);
	screen->waiting--;
	if (screen->gone) {
		if (!screen->waiting)
			screen->ops->free(screen);
		return;
	}
	question.answer(screen, result, error);
	screen->failed = screen->failed || error;
	if (error)
		tell_error(console, error);
	if (!screen->waiting)
		settle(console, screen);
	console_old(console);
}

void console_ask(struct screen *screen, const char *sql, const struct pg_params *params,
		 screen_answer_fn *answer)
{
	struct question *question = mem_zero(sizeof(*question));
	question->screen = screen;
	question->answer = answer;
	screen->waiting++;
	pg_send(screen->console->pg, sql, params, on_answer, question);
}

static void on_hello(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct console *console = arg;
	if (error)
		return;
	console->now = pg_get_time(result, 0, HELLO_NOW);
	console->now_at = usec_boot();
	free(console->database);
	free(console->user);
	console->database = mem_text(pg_get_text(result, 0, HELLO_DATABASE));
	console->user = mem_text(pg_get_text(result, 0, HELLO_USER));
	console_old(console);
}

/* The screen that is seen is read again, and the one below an overlay goes on as well. */
void console_load(struct console *console)
{
	struct screen *base = console_base(console);
	if (console->link != LINK_READY || console->held || base->waiting)
		return;
	console->next_load = usec_boot() + console->conf->console.refresh;
	pg_send(console->pg, SQL_HELLO, NULL, on_hello, console);
	if (base->ops->load)
		base->ops->load(base);
}

/* --- the connection --- */

static void set_link(struct console *console, enum link link)
{
	console->link = link;
	console_old(console);
}

static void on_schema(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct console *console = arg;
	struct err err;
	if (error && error->kind != PG_REFUSED)
		return;
	if (!schema_check_for(COUNTERFOIL_CONSOLE_SCHEMA, result, error, &err)) {
		say_trouble(console, "%s", err.text);
		set_link(console, LINK_MISFIT);
		return;
	}
	console->trouble[0] = '\0';
	set_link(console, LINK_READY);
	console_load(console);
}

static void ask_schema(struct console *console)
{
	pg_send(console->pg, schema_check_sql, NULL, on_schema, console);
}

static void on_up(void *arg)
{
	struct console *console = arg;
	set_link(console, LINK_ASKING);
	ask_schema(console);
}

static void on_down(void *arg, const char *reason)
{
	struct console *console = arg;
	say_trouble(console, "no connection, trying again: %s", reason);
	set_link(console, LINK_DOWN);
}

void console_refresh(struct console *console)
{
	if (console->link == LINK_MISFIT && !pg_queued(console->pg))
		ask_schema(console);
	else
		console_load(console);
}

void console_connect(struct console *console)
{
	const struct pg_settings settings = call_settings(console->conf);
	const struct pg_events events = { .up = on_up, .down = on_down, .arg = console };
	console->pg = pg_new(console->loop, console->log, &settings, &events);
}
