/* The dialog of a replay, or of running a waiting key now. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console.h"
#include "dialog.h"
#include "format.h"
#include "mem.h"
#include "order.h"
#include "screens.h"
#include "sql_console.h"

struct replay {
	struct dialog dialog;
	struct subject subject;
	struct order order;
};

static bool is_dead(const struct dialog *dialog)
{
	return strcmp(((const struct replay *)dialog)->subject.state, "dead") == 0;
}

static const char *title(const struct dialog *dialog)
{
	return is_dead(dialog) ? "REPLAY" : "RUN NOW";
}

static const char *button(const struct dialog *dialog)
{
	return is_dead(dialog) ? "Replay" : "Run now";
}

static const char *sql(const struct dialog *dialog)
{
	(void)dialog;
	return SQL_REPLAY;
}

static void add_params(const struct dialog *dialog, const char *reason, bool dry_run,
		       struct pg_params *params)
{
	order_params(&((const struct replay *)dialog)->order, reason, dry_run, params);
}

static bool read_verdict(struct dialog *dialog, const PGresult *answer)
{
	dialog_say(dialog, pg_get_text(answer, 0, VERDICT_DETAIL));
	return order_result(answer) == ORDER_DONE;
}

/* --- what the provider may still say --- */

static bool stores_errors(const struct conf *conf, const char *target)
{
	for (size_t i = 0; i < conf->target_count; i++) {
		if (strcmp(conf->targets[i].name, target) != 0)
			continue;
		const struct conf_profile *profile =
			conf_profile_find(conf, conf->targets[i].profile);
		return profile && profile->stores == CONF_STORES_ALL;
	}
	return false;
}

/* The same key, inside the window, only brings back what the provider has stored for it. */
static void on_key_read(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	struct replay *replay = (struct replay *)screen;
	char time[FORMAT_SIZE];
	if (error || !pg_rows(result) || !is_dead(&replay->dialog))
		return;
	usec_t until = pg_get_time(result, 0, KEY_WINDOW), now = pg_get_time(result, 0, KEY_NOW);
	bool answered = !pg_null(result, 0, KEY_STATUS);
	if (answered && until != USEC_NEVER && until > now &&
	    stores_errors(console_conf(screen->console), replay->subject.target))
		(void)snprintf(replay->dialog.warning, sizeof(replay->dialog.warning),
			       "The provider keeps its answer for this key until %s, an error too: "
			       "before that it may only say the same again.",
			       format_time(until, now, console_zone(screen->console), time));
}

static void ask_more(struct dialog *dialog)
{
	PG_PARAMS_AUTO struct pg_params key = { 0 };
	pg_add_int8(&key, ((struct replay *)dialog)->subject.id);
	console_ask(&dialog->screen, SQL_KEY, &key, on_key_read);
}

/* --- the rest --- */

static void draw_subject(const struct dialog *dialog, const struct canvas *canvas,
			 const struct area *area)
{
	const struct subject *subject = &((const struct replay *)dialog)->subject;
	canvas_middle(canvas, area->row, area->column, area->width, STYLE_STRONG, subject->key);
	canvas_format(canvas, area->row + 1, area->column, area->width, STYLE_FAINT,
		      "%s, target %s", list_state_title(subject->state), subject->target);
}

static void tell_done(const struct dialog *dialog)
{
	console_say(dialog->screen.console, STYLE_GOOD,
		    is_dead(dialog) ? "replayed %s" : "due now: %s",
		    ((const struct replay *)dialog)->subject.key);
}

static void free_replay(struct dialog *dialog)
{
	struct replay *replay = (struct replay *)dialog;
	subject_done(&replay->subject);
	free(replay);
}

static const struct dialog_kind kind = {
	.title = title,
	.button = button,
	.sql = sql,
	.params = add_params,
	.verdict = read_verdict,
	.ask_more = ask_more,
	.draw_subject = draw_subject,
	.tell_done = tell_done,
	.free = free_replay,
};

struct screen *screen_replay_new(const struct subject *subject)
{
	struct replay *replay = mem_zero(sizeof(*replay));
	dialog_init(&replay->dialog, &kind);
	subject_copy(subject, &replay->subject);
	order_init(&replay->order, subject->id, subject->epoch, subject->state);
	return &replay->dialog.screen;
}
