/* The statements that move and read, and what becomes of their answers. */
#include "graveyard.h"

#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "mem.h"
#include "pg.h"
#include "sql.h"

#define AGAIN      (500 * USEC_MS) /* after a statement that failed, or moved nothing */
#define FULL_AGAIN (10 * USEC_SEC)
#define PAGE_ROWS  10000   /* of source->blocked */
#define LOCKED     "55P03" /* the SQLSTATE of lock_timeout */

struct graveyard {
	struct log *log;
	struct outbox *outbox;
	struct burial *burial;
	struct keys *keys;
	const char *owner;
	struct graveyard_events events;
	struct loop_timer *again; /* asks once more for the keys */
	uint64_t run;             /* an answer to an earlier one counts for nothing */
	int64_t generation;
	bool fenced; /* no owner before moves anything any more */
	bool burying;
	bool loading;
	struct log_limit full_said;
	struct log_limit locked_said;
	usec_t bury_at; /* earliest time of the next attempt */
};

/* What a callback needs to know of its statement. */
struct errand {
	struct graveyard *graveyard;
	uint64_t run;
};

static struct errand *errand_new(struct graveyard *graveyard)
{
	struct errand *errand = mem_zero(sizeof(*errand));
	*errand = (struct errand){ .graveyard = graveyard, .run = graveyard->run };
	return errand;
}

/* NULL: the answer no longer counts. */
static struct graveyard *back_from(struct errand *errand)
{
	struct graveyard *graveyard = errand->graveyard;
	bool counts = errand->run == graveyard->run;
	free(errand);
	return counts ? graveyard : NULL;
}

/* --- the keys --- */

static void load_again(struct graveyard *graveyard, const char *statement,
		       const struct pg_error *error)
{
	outbox_say_refusal(graveyard->outbox, statement, error);
	loop_timer_set(graveyard->again, AGAIN);
}

/* Were some left out, their rows would overtake the dead ones: nothing is read. */
static void too_many_keys(struct graveyard *graveyard)
{
	uint64_t held;
	if (log_limit_pass(&graveyard->full_said, usec_boot(), USEC_MIN, &held))
		log_error(graveyard->log,
			  "too many ordering keys have a dead row: nothing is published until "
			  "they are fewer",
			  LOG_INT("more_than", KEYS_MAX),
			  LOG_TEXT("remedy", "requeue or discard dead rows"),
			  LOG_INT("held_back", held));
	loop_timer_set(graveyard->again, FULL_AGAIN);
}

static void ask_for_keys(struct graveyard *graveyard, int64_t behind);

static void on_keys(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct graveyard *graveyard = back_from(arg);
	if (!graveyard)
		return;
	if (error) {
		load_again(graveyard, "blocked keys", error);
		return;
	}
	int count = pg_rows(result);
	for (int i = 0; i < count; i++)
		if (!keys_add(graveyard->keys, (uint64_t)pg_get_int8(result, i, 0),
			      pg_get_int8(result, i, 1))) {
			too_many_keys(graveyard);
			return;
		}
	if (count == PAGE_ROWS) {
		ask_for_keys(graveyard, pg_get_int8(result, count - 1, 0));
		return;
	}
	graveyard->loading = false;
	graveyard->events.loaded(graveyard->events.arg);
}

static void ask_for_keys(struct graveyard *graveyard, int64_t behind)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	const struct source *source = outbox_source(graveyard->outbox);
	pg_add_text(&params, source->name);
	pg_add_int8(&params, behind);
	pg_send(outbox_pg(graveyard->outbox), source->blocked, &params, on_keys,
		errand_new(graveyard));
}

/* --- their generation --- */

static void take_generation(struct graveyard *graveyard, const PGresult *result)
{
	graveyard->generation = pg_rows(result) > 0 ? pg_get_int8(result, 0, 0) : 0;
	/* both at once: a row that is condemned from now on keeps its key's followers back */
	keys_forget(graveyard->keys);
	burial_forget(graveyard->burial);
	ask_for_keys(graveyard, INT64_MIN);
}

static void ask_for(struct graveyard *graveyard, const char *sql, pg_done_fn *done)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_text(&params, outbox_source(graveyard->outbox)->name);
	pg_send(outbox_pg(graveyard->outbox), sql, &params, done, errand_new(graveyard));
}

static void on_generation(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct graveyard *graveyard = back_from(arg);
	if (!graveyard)
		return;
	if (error)
		load_again(graveyard, "generation", error);
	else
		take_generation(graveyard, result);
}

static void wait_for_burial(struct graveyard *graveyard)
{
	uint64_t held;
	if (log_limit_pass(&graveyard->locked_said, usec_boot(), USEC_MIN, &held))
		log_warn(graveyard->log,
			 "dead rows are still being moved under an earlier lease, and wait for a "
			 "lock: nothing is published until that is over",
			 LOG_TEXT("remedy", "end the transaction that has locked rows of the "
					    "table; see pg_blocking_pids()"),
			 LOG_INT("held_back", held));
	loop_timer_set(graveyard->again, AGAIN);
}

/* Who puts rows back may take his time, and the others do not wait for him. When he is done the
 * keys are read again, behind a fence. */
static void on_may_bury(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct graveyard *graveyard = back_from(arg);
	if (!graveyard)
		return;
	if (error)
		load_again(graveyard, "burials under way", error);
	else if (pg_rows(result) > 0)
		wait_for_burial(graveyard);
	else
		ask_for(graveyard, sql_generation, on_generation);
}

static void on_fence(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct graveyard *graveyard = back_from(arg);
	if (!graveyard)
		return;
	if (!error) {
		graveyard->fenced = true;
		take_generation(graveyard, result);
	} else if (strcmp(error->sqlstate, LOCKED) == 0) {
		ask_for(graveyard, sql_may_bury, on_may_bury);
	} else {
		load_again(graveyard, "fence", error);
	}
}

static void load(void *arg)
{
	struct graveyard *graveyard = arg;
	if (graveyard->fenced)
		ask_for(graveyard, sql_generation, on_generation);
	else
		ask_for(graveyard, sql_fence, on_fence);
}

/* What is condemned was found out under the generation before. Our own statements are answered in
 * their order, so a burial that is under way is over before the keys come. One of an owner before,
 * or of a connection that we lost, is not: it may wait for a lock, and what follows a dead row that
 * it brings late would overtake it. So the keys are read behind all of those. */
void graveyard_load(struct graveyard *graveyard)
{
	if (graveyard->loading)
		return;
	graveyard->loading = true;
	load(graveyard);
}

int64_t graveyard_generation(const struct graveyard *graveyard)
{
	return graveyard->generation;
}

/* --- moving --- */

static int by_value(const void *a, const void *b)
{
	const int64_t *left = a, *right = b;
	return (*left > *right) - (*left < *right);
}

/* Who puts rows back keeps all from being moved, and may take his time: the rows are not missing.
 */
static size_t note_moved(struct graveyard *graveyard, const PGresult *result, bool *vanished_r)
{
	int64_t *ids = mem_zero((size_t)(pg_rows(result) + 1) * sizeof(*ids));
	size_t count = 0, left = burial_count(graveyard->burial);
	bool could = false;
	for (int i = 0; i < pg_rows(result); i++) {
		if (pg_null(result, i, 0))
			could = true;
		else
			ids[count++] = pg_get_int8(result, i, 0);
	}
	qsort(ids, count, sizeof(*ids), by_value);
	if (could)
		left = burial_moved(graveyard->burial, ids, count, vanished_r);
	else
		burial_kept(graveyard->burial);
	free(ids);
	return left;
}

static void on_buried(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct graveyard *graveyard = back_from(arg);
	size_t left = 1;
	bool vanished = false;
	if (!graveyard)
		return;
	graveyard->burying = false;
	if (error) {
		outbox_say_refusal(graveyard->outbox, "bury", error);
		burial_kept(graveyard->burial);
	} else {
		crash_point("bury.answered");
		left = note_moved(graveyard, result, &vanished);
	}
	graveyard->bury_at = left > 0 ? usec_boot() + AGAIN : 0;
	graveyard->events.moved(graveyard->events.arg, vanished);
}

struct columns {
	struct pg_array ids, event_ids, orders, parked, reasons, sizes;
};

static void columns_init(struct columns *columns)
{
	pg_array_init(&columns->ids, PG_INT8);
	pg_array_init(&columns->event_ids, PG_UUID);
	pg_array_init(&columns->orders, PG_INT8);
	pg_array_init(&columns->parked, PG_BOOL);
	pg_array_init(&columns->reasons, PG_TEXT);
	pg_array_init(&columns->sizes, PG_INT8);
}

static void columns_done(struct columns *columns)
{
	pg_array_done(&columns->ids);
	pg_array_done(&columns->event_ids);
	pg_array_done(&columns->orders);
	pg_array_done(&columns->parked);
	pg_array_done(&columns->reasons);
	pg_array_done(&columns->sizes);
}

static void columns_add(struct columns *columns, const struct burial_row *row)
{
	pg_array_int8(&columns->ids, row->row->id);
	if (row->no_event_id)
		pg_array_null(&columns->event_ids);
	else
		pg_array_bytes(&columns->event_ids, row->row->event_id, WINDOW_UUID);
	if (row->row->order)
		pg_array_int8(&columns->orders, (int64_t)row->row->order);
	else
		pg_array_null(&columns->orders);
	pg_array_bool(&columns->parked, row->parked);
	pg_array_text(&columns->reasons, row->reason);
	pg_array_int8(&columns->sizes, row->size);
}

static void add_columns(struct pg_params *params, const struct columns *columns)
{
	pg_add_array(params, &columns->ids);
	pg_add_array(params, &columns->event_ids);
	pg_add_array(params, &columns->orders);
	pg_add_array(params, &columns->parked);
	pg_add_array(params, &columns->reasons);
	pg_add_array(params, &columns->sizes);
}

static void send_burial(struct graveyard *graveyard, struct burial_row *const *rows, size_t count,
			int64_t token)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	const struct source *source = outbox_source(graveyard->outbox);
	struct columns columns;
	columns_init(&columns);
	for (size_t i = 0; i < count; i++)
		columns_add(&columns, rows[i]);
	add_columns(&params, &columns);
	columns_done(&columns);
	pg_add_text(&params, source->lease);
	pg_add_int8(&params, token);
	pg_add_text(&params, source->name);
	pg_add_int8(&params, graveyard->generation);
	pg_add_text(&params, graveyard->owner);
	graveyard->burying = true;
	crash_point("bury.send");
	pg_send(outbox_pg(graveyard->outbox), source->bury, &params, on_buried,
		errand_new(graveyard));
	crash_point("bury.sent");
}

void graveyard_bury(struct graveyard *graveyard, int64_t token)
{
	struct burial_row *rows[BURIAL_ROWS];
	if (graveyard->burying || graveyard->loading || !outbox_ready(graveyard->outbox) ||
	    usec_boot() < graveyard->bury_at)
		return;
	size_t count = burial_take(graveyard->burial, rows);
	if (count > 0)
		send_burial(graveyard, rows, count, token);
}

bool graveyard_busy(const struct graveyard *graveyard)
{
	return graveyard->burying;
}

/* --- the rest --- */

void graveyard_stop(struct graveyard *graveyard)
{
	graveyard->run++;
	graveyard->fenced = false;
	graveyard->burying = false;
	graveyard->loading = false;
	graveyard->bury_at = 0;
	loop_timer_cancel(graveyard->again);
}

struct graveyard *graveyard_new(struct loop *loop, struct log *log, struct outbox *outbox,
				struct burial *burial, struct keys *keys, const char *owner,
				const struct graveyard_events *events)
{
	struct graveyard *graveyard = mem_zero(sizeof(*graveyard));
	graveyard->log = log;
	graveyard->outbox = outbox;
	graveyard->burial = burial;
	graveyard->keys = keys;
	graveyard->owner = owner;
	graveyard->events = *events;
	graveyard->again = loop_timer_new(loop, load, graveyard);
	return graveyard;
}

void graveyard_free(struct graveyard *graveyard)
{
	if (!graveyard)
		return;
	loop_timer_free(graveyard->again);
	free(graveyard);
}
