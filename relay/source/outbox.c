/* The connection, its schema check, and the statements. */
#include "outbox.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "crash.h"
#include "installation.h"
#include "mem.h"
#include "row.h"
#include "source.h"
#include "source_check.h"
#include "sql.h"

#define CHECK_AGAIN (2 * USEC_SEC)
#define SAY_EVERY   USEC_MIN

enum outbox_state {
	STATE_DOWN,     /* no connection */
	STATE_CHECKING, /* connected; schema and installation are asked for, or will be by `check`
			 */
	STATE_READY,
};

struct outbox {
	enum outbox_state state;
	struct log *log;
	struct outbox_settings settings;
	struct outbox_events events;
	struct window *window;
	struct meter *meter;
	struct source *source;
	struct pg *pg;
	struct loop_timer *check;
	struct installation_question question;
	struct source_check *source_check;
	struct err misfit; /* why the database cannot be used; "": it can, or nobody knows */

	bool polling;
	struct reader_poll poll; /* the one on its way */
	size_t deleting;
	uint64_t short_deletes;
	usec_t delete_at;        /* earliest time of the next one, after a refusal */
	struct pg_params params; /* memory for the next statement */
	bool advised;            /* once is enough */
	struct log_limit misfit_said;
	struct log_limit refusal_said;
	struct log_limit short_said;
};

/* Rows of one DELETE. */
struct deletion {
	struct outbox *outbox;
	size_t count;
	bool again; /* some of them may be gone already */
	struct window_row *rows[OUTBOX_DELETE_ROWS];
};

static void set_state(struct outbox *outbox, enum outbox_state state)
{
	outbox->state = state;
}

bool outbox_connected(const struct outbox *outbox)
{
	return outbox->state != STATE_DOWN && pg_up(outbox->pg);
}

bool outbox_ready(const struct outbox *outbox)
{
	return outbox->state == STATE_READY && pg_up(outbox->pg);
}

void outbox_say_refusal(struct outbox *outbox, const char *statement, const struct pg_error *error)
{
	uint64_t held;
	if (error->kind == PG_REFUSED &&
	    log_limit_pass(&outbox->refusal_said, usec_boot(), SAY_EVERY, &held))
		log_error(outbox->log, "the database refused a statement: rows wait",
			  LOG_TEXT("statement", statement), LOG_TEXT("text", error->text),
			  LOG_TEXT("sqlstate", error->sqlstate), LOG_INT("held_back", held));
}

/* --- the connection --- */

static const char *message_of(enum installation_answer answer)
{
	switch (answer) {
	case INSTALLATION_OURS:
	case INSTALLATION_MISFIT:
		break;
	case INSTALLATION_FOREIGN:
		return "the database is not this environment's: nothing is published";
	case INSTALLATION_UNKNOWN:
		return "the database does not say whether its schema fits";
	}
	return "the database's schema does not fit";
}

static void does_not_fit(struct outbox *outbox, const char *message, const char *reason)
{
	uint64_t held;
	err_set(&outbox->misfit, "%s", reason);
	if (log_limit_pass(&outbox->misfit_said, usec_boot(), SAY_EVERY, &held))
		log_error(outbox->log, message, LOG_TEXT("text", reason),
			  LOG_INT("held_back", held));
	loop_timer_set(outbox->check, CHECK_AGAIN);
}

static void on_source_checked(void *arg, bool fits, const char *text)
{
	struct outbox *outbox = arg;
	if (!fits) {
		does_not_fit(outbox, "the table does not fit relay.table and its mapping", text);
		return;
	}
	if (*text && !outbox->advised)
		log_warn(outbox->log, "about the table that is published", LOG_TEXT("text", text));
	outbox->advised = true;
	set_state(outbox, STATE_READY);
	outbox->misfit.text[0] = '\0';
	outbox->misfit_said = (struct log_limit){ 0 };
	outbox->events.ready(outbox->events.arg);
}

static void on_checked(void *arg, enum installation_answer answer, const char *reason)
{
	struct outbox *outbox = arg;
	if (answer == INSTALLATION_OURS)
		source_check_start(outbox->source_check, outbox->pg, on_source_checked, outbox);
	else
		does_not_fit(outbox, message_of(answer), reason);
}

const char *outbox_misfit(const struct outbox *outbox)
{
	return outbox->misfit.text;
}

static void check(void *arg)
{
	struct outbox *outbox = arg;
	if (outbox->state == STATE_CHECKING)
		installation_ask(&outbox->question, outbox->pg);
}

static void on_up(void *arg)
{
	struct outbox *outbox = arg;
	set_state(outbox, STATE_CHECKING);
	check(outbox);
}

static void on_down(void *arg, const char *reason)
{
	struct outbox *outbox = arg;
	bool was_ready = outbox->state == STATE_READY;
	loop_timer_cancel(outbox->check);
	set_state(outbox, STATE_DOWN);
	outbox->events.down(outbox->events.arg, reason, was_ready);
}

/* --- reading --- */

static void on_polled(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct outbox *outbox = arg;
	struct reader_poll poll = outbox->poll; /* the next one may be sent while this is read */
	outbox->polling = false;
	if (error)
		outbox_say_refusal(outbox, "poll", error);
	outbox->events.polled(outbox->events.arg, &poll, result);
}

static void add_gaps(struct pg_params *params, const struct reader_poll *poll,
		     const struct gap *gaps)
{
	PG_ARRAY_AUTO struct pg_array first, last;
	pg_array_init(&first, PG_INT8);
	pg_array_init(&last, PG_INT8);
	for (size_t i = 0; i < poll->gaps; i++) {
		pg_array_int8(&first, gaps[i].first);
		pg_array_int8(&last, gaps[i].last < poll->after ? gaps[i].last : poll->after);
	}
	pg_add_array(params, &first);
	pg_add_array(params, &last);
}

static void add_topics(struct pg_params *params, struct topic *const *topics, size_t count)
{
	PG_ARRAY_AUTO struct pg_array names;
	pg_array_init(&names, PG_TEXT);
	for (size_t i = 0; i < count; i++)
		pg_array_text(&names, topics[i]->name);
	pg_add_array(params, &names);
}

void outbox_poll(struct outbox *outbox, const struct reader_poll *poll, const struct gap *gaps,
		 struct topic *const *topics, size_t topic_count, bool only)
{
	struct pg_params *params = &outbox->params;
	pg_params_clear(params);
	pg_add_int8(params, poll->after);
	add_gaps(params, poll, gaps);
	pg_add_int4(params, (int32_t)poll->rows);
	pg_add_int8(params, (int64_t)poll->bytes);
	pg_add_int8(params, outbox->settings.size_limit);
	add_topics(params, topics, topic_count);
	pg_add_bool(params, only);
	pg_add_text(params, outbox->source->name);
	outbox->poll = *poll;
	outbox->polling = true;
	pg_send(outbox->pg, outbox->source->poll, params, on_polled, outbox);
}

static void on_listed(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct outbox *outbox = arg;
	if (error) {
		outbox_say_refusal(outbox, "holders", error);
		outbox->events.listed(outbox->events.arg, NULL, 0);
		return;
	}
	size_t count = (size_t)pg_rows(result);
	uint64_t *holders = mem_zero(count * sizeof(*holders));
	for (size_t i = 0; i < count; i++) {
		size_t length;
		const char *text = pg_get_bytes(result, (int)i, 0, &length);
		holders[i] = XXH3_64bits(text, length);
	}
	outbox->events.listed(outbox->events.arg, holders, count);
	free(holders);
}

void outbox_list_holders(struct outbox *outbox)
{
	pg_send(outbox->pg, outbox->source->holders, NULL, on_listed, outbox);
}

/* --- deleting --- */

static void settle(const struct deletion *deletion)
{
	for (size_t i = 0; i < deletion->count; i++)
		window_deleted(deletion->outbox->window, deletion->rows[i]);
}

static void keep(const struct deletion *deletion, bool again)
{
	for (size_t i = 0; i < deletion->count; i++)
		window_keep(deletion->outbox->window, deletion->rows[i], again);
}

/* Fewer rows than we had published: somebody else deleted them, or the lease is another's, or the
 * ids were given out again. The sweep sees what is really there. */
static void note_short(struct outbox *outbox, const struct deletion *deletion, size_t deleted)
{
	uint64_t held;
	if (deleted == deletion->count || deletion->again)
		return;
	outbox->short_deletes++;
	series_add(outbox->meter->short_deletes, 1);
	if (log_limit_pass(&outbox->short_said, usec_boot(), SAY_EVERY, &held))
		log_warn(outbox->log, "published rows were not there to be deleted",
			 LOG_INT("rows", deletion->count), LOG_INT("deleted", deleted),
			 LOG_INT("held_back", held));
}

static void on_deleted(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct deletion *deletion = arg;
	struct outbox *outbox = deletion->outbox;
	bool none = false;
	outbox->deleting--;
	if (!error) {
		crash_point("delete.answered");
		size_t deleted = (size_t)pg_affected(result);
		none = deleted == 0 && !deletion->again;
		note_short(outbox, deletion, deleted);
		settle(deletion);
	} else {
		outbox_say_refusal(outbox, "delete", error);
		keep(deletion, error->kind == PG_LOST);
		outbox->delete_at = error->kind == PG_REFUSED ? usec_boot() + USEC_SEC : 0;
	}
	free(deletion);
	outbox->events.deleted(outbox->events.arg, none);
}

static void delete_some(struct outbox *outbox, int64_t token)
{
	struct deletion *deletion = mem_zero(sizeof(*deletion));
	struct pg_params *params = &outbox->params;
	PG_ARRAY_AUTO struct pg_array ids, event_ids;
	pg_array_init(&ids, PG_INT8);
	pg_array_init(&event_ids, PG_UUID);
	deletion->outbox = outbox;
	deletion->count = window_take(outbox->window, deletion->rows, OUTBOX_DELETE_ROWS);
	for (size_t i = 0; i < deletion->count; i++) {
		const struct window_row *row = deletion->rows[i];
		pg_array_int8(&ids, row->id);
		pg_array_bytes(&event_ids, row->event_id, WINDOW_UUID);
		deletion->again = deletion->again || row->again;
	}
	pg_params_clear(params);
	pg_add_array(params, &ids);
	pg_add_array(params, &event_ids);
	pg_add_text(params, outbox->source->lease);
	pg_add_int8(params, token);
	outbox->deleting++;
	crash_point("delete.send");
	pg_send(outbox->pg, outbox->source->remove, params, on_deleted, deletion);
	crash_point("delete.sent");
}

void outbox_delete(struct outbox *outbox, int64_t token, size_t least)
{
	if (!outbox_ready(outbox) || usec_boot() < outbox->delete_at)
		return;
	while (window_acked(outbox->window) >= least && window_acked(outbox->window) > 0 &&
	       outbox->deleting < OUTBOX_DELETES)
		delete_some(outbox, token);
}

static void on_expired(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct outbox *outbox = arg;
	if (error)
		outbox_say_refusal(outbox, "expire", error);
	else
		outbox->events.expired(outbox->events.arg, (size_t)pg_affected(result));
}

void outbox_expire_once(struct outbox *outbox, int32_t rows)
{
	struct pg_params *params = &outbox->params;
	pg_params_clear(params);
	pg_add_int4(params, rows);
	pg_send(outbox->pg, sql_expire_once, params, on_expired, outbox);
}

struct pg *outbox_pg(struct outbox *outbox)
{
	return outbox->pg;
}

const struct source *outbox_source(const struct outbox *outbox)
{
	return outbox->source;
}

bool outbox_polling(const struct outbox *outbox)
{
	return outbox->polling;
}

uint64_t outbox_short_deletes(const struct outbox *outbox)
{
	return outbox->short_deletes;
}

struct outbox *outbox_new(struct loop *loop, struct log *log, const struct pg_settings *pg,
			  const struct outbox_settings *settings, struct window *window,
			  struct meter *meter, const struct outbox_events *events)
{
	struct outbox *outbox = mem_zero(sizeof(*outbox));
	const struct pg_events pg_events = { .up = on_up, .down = on_down, .arg = outbox };
	outbox->log = log;
	outbox->settings = *settings;
	outbox->events = *events;
	outbox->window = window;
	outbox->meter = meter;
	outbox->source = settings->source;
	outbox->check = loop_timer_new(loop, check, outbox);
	outbox->source_check = source_check_new(settings->conf, settings->source, true);
	outbox->question = (struct installation_question){ .environment = settings->environment,
							   .answered = on_checked,
							   .arg = outbox };
	outbox->pg = pg_new(loop, log, pg, &pg_events);
	return outbox;
}

void outbox_free(struct outbox *outbox)
{
	if (!outbox)
		return;
	pg_free(outbox->pg);
	source_check_free(outbox->source_check);
	loop_timer_free(outbox->check);
	pg_params_done(&outbox->params);
	free(outbox);
}
