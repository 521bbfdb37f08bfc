/* The dialog of an order about one key. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console.h"
#include "data/order.h"
#include "data/sql_console.h"
#include "mem.h"
#include "screens/dialog.h"
#include "screens/screens.h"
#include "words/format.h"

struct key_order {
	struct dialog dialog;
	struct subject subject;
	struct order order;
};

static const struct order_form *form_of(const struct dialog *dialog)
{
	return order_form(((const struct key_order *)dialog)->order.kind);
}

static const char *title(const struct dialog *dialog)
{
	return form_of(dialog)->title;
}

static const char *button(const struct dialog *dialog)
{
	return form_of(dialog)->button;
}

static const char *sql(const struct dialog *dialog)
{
	return form_of(dialog)->sql;
}

static void add_params(const struct dialog *dialog, const char *reason, bool dry_run,
		       struct pg_params *params)
{
	const char *provider_id = dialog->field.typed ? NULL : buf_text(&dialog->field.text.text);
	order_params(&((const struct key_order *)dialog)->order, provider_id, reason, dry_run,
		     params);
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

/* The same key, inside the window, only brings back what the provider has stored for it. What is
 * known to be stored is refused; of any other answer it may be. */
static void on_key_read(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	struct key_order *order = (struct key_order *)screen;
	char time[FORMAT_SIZE];
	if (error || !pg_rows(result) || pg_get_bool(result, 0, KEY_STORED))
		return;
	usec_t until = pg_get_time(result, 0, KEY_WINDOW), now = pg_get_time(result, 0, KEY_NOW);
	bool answered = !pg_null(result, 0, KEY_STATUS);
	if (answered && until != USEC_NEVER && until > now &&
	    stores_errors(console_conf(screen->console), order->subject.target))
		(void)snprintf(order->dialog.warning, sizeof(order->dialog.warning),
			       "The provider keeps its answer for this key until %s, an error too: "
			       "before that it may only say the same again.",
			       format_time(until, console_zone(screen->console), time));
}

static void ask_more(struct dialog *dialog)
{
	const struct key_order *order = (const struct key_order *)dialog;
	PG_PARAMS_AUTO struct pg_params key = { 0 };
	if (order->order.kind != ORDER_REPLAY || strcmp(order->subject.state, "dead") != 0)
		return;
	pg_add_int8(&key, order->subject.id);
	console_ask(&dialog->screen, SQL_KEY, &key, on_key_read);
}

/* --- the rest --- */

static void draw_subject(const struct dialog *dialog, const struct canvas *canvas,
			 const struct area *area)
{
	const struct subject *subject = &((const struct key_order *)dialog)->subject;
	canvas_middle(canvas, area->row, area->column, area->width, STYLE_STRONG, subject->key);
	canvas_format(canvas, area->row + 1, area->column, area->width, STYLE_FAINT,
		      "%s, target %s", list_state_title(subject->state), subject->target);
}

static void tell_done(const struct dialog *dialog)
{
	console_say(dialog->screen.console, STYLE_GOOD, "%s %s", form_of(dialog)->done,
		    ((const struct key_order *)dialog)->subject.key);
}

static void free_order(struct dialog *dialog)
{
	struct key_order *order = (struct key_order *)dialog;
	subject_done(&order->subject);
	free(order);
}

static const struct dialog_kind kind_of_dialog = {
	.title = title,
	.button = button,
	.sql = sql,
	.params = add_params,
	.verdict = read_verdict,
	.ask_more = ask_more,
	.draw_subject = draw_subject,
	.tell_done = tell_done,
	.free = free_order,
};

/* What may then happen twice is confirmed by a word. */
static void set_field(struct dialog_field *field, enum order_kind kind, const char *state)
{
	if (kind == ORDER_HAPPENED) {
		field->name = "Its id";
		field->hint = "what the provider calls it; optional";
	} else if (kind == ORDER_NEW_KEY && strcmp(state, "dead") != 0) {
		field->name = "Confirm";
		field->hint = "type: twice";
		field->typed = "twice";
	}
}

struct screen *screen_order_new(const struct subject *subject, enum order_kind kind)
{
	struct key_order *order = mem_zero(sizeof(*order));
	dialog_init(&order->dialog, &kind_of_dialog);
	order->dialog.needs_reason = order_form(kind)->reason;
	set_field(&order->dialog.field, kind, subject->state);
	subject_copy(subject, &order->subject);
	order_init(&order->order, kind, subject->id, subject->epoch, subject->state);
	return &order->dialog.screen;
}
