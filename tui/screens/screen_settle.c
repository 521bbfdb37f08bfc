/* The dialog that puts a dead row back, or drops it for good. */
#include <stdlib.h>
#include <string.h>

#include "console.h"
#include "data/order.h"
#include "data/sql_relay.h"
#include "mem.h"
#include "screens/dialog.h"
#include "screens/screens.h"

struct settle {
	struct dialog dialog;
	struct dead_row row;
	bool discard;
	char operation[ORDER_OPERATION];
};

static bool is_discard(const struct dialog *dialog)
{
	return ((const struct settle *)dialog)->discard;
}

static const char *title(const struct dialog *dialog)
{
	return is_discard(dialog) ? "DISCARD" : "REQUEUE";
}

static const char *button(const struct dialog *dialog)
{
	return is_discard(dialog) ? "Discard" : "Requeue";
}

static const char *sql(const struct dialog *dialog)
{
	return is_discard(dialog) ? SQL_DISCARD : SQL_REQUEUE;
}

static void add_params(const struct dialog *dialog, const char *reason, bool dry_run,
		       struct pg_params *params)
{
	const struct settle *settle = (const struct settle *)dialog;
	BUF_AUTO struct buf claims = { 0 };
	PG_ARRAY_AUTO struct pg_array ids = { 0 };
	pg_array_init(&ids, PG_INT8);
	pg_array_int8(&ids, settle->row.id);
	order_claims(&claims);
	pg_add_text(params, settle->row.source);
	pg_add_array(params, &ids);
	pg_add_text(params, settle->operation);
	pg_add_text(params, *reason ? reason : NULL);
	pg_add_text(params, buf_text(&claims));
	pg_add_bool(params, dry_run);
}

/* More than one row is answered where several events had its id. */
static bool read_verdict(struct dialog *dialog, const PGresult *answer)
{
	for (int row = 0; row < pg_rows(answer); row++)
		if (strcmp(pg_get_text(answer, row, SETTLE_RESULT), "done") != 0) {
			dialog_say(dialog, pg_get_text(answer, row, SETTLE_DETAIL));
			return false;
		}
	dialog_say(dialog, pg_get_text(answer, 0, SETTLE_DETAIL));
	return true;
}

static void draw_subject(const struct dialog *dialog, const struct canvas *canvas,
			 const struct area *area)
{
	const struct dead_row *row = &((const struct settle *)dialog)->row;
	canvas_format(canvas, area->row, area->column, area->width, STYLE_STRONG,
		      "row %lld, %s, topic %s", (long long)row->id, row->parked ? "parked" : "dead",
		      row->topic);
	canvas_format(canvas, area->row + 1, area->column, area->width, STYLE_FAINT,
		      row->key ? "of %s, ordering key %s" : "of %s%s", row->source,
		      row->key ? row->key : "");
}

static void tell_done(const struct dialog *dialog)
{
	const struct settle *settle = (const struct settle *)dialog;
	console_say(dialog->screen.console, STYLE_GOOD, "%s row %lld",
		    settle->discard ? "discarded" : "requeued", (long long)settle->row.id);
}

static void free_settle(struct dialog *dialog)
{
	struct settle *settle = (struct settle *)dialog;
	dead_row_done(&settle->row);
	free(settle);
}

/* In production nobody does it without a word of why. */
static void ask_more(struct dialog *dialog)
{
	dialog->needs_reason = console_conf(dialog->screen.console)->general.production;
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
	.free = free_settle,
};

struct screen *screen_settle_new(const struct dead_row *row, bool discard)
{
	struct settle *settle = mem_zero(sizeof(*settle));
	dialog_init(&settle->dialog, &kind);
	dead_row_copy(row, &settle->row);
	settle->discard = discard;
	order_operation(settle->operation);
	return &settle->dialog.screen;
}
