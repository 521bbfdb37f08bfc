/* Records results.
 *
 * A result waits in the queue, then in a batch that is in flight or waiting to be sent (again). A
 * statement whose answer was lost with the connection is sent again: the guard and the unique index
 * of attempt make that harmless. */
#include "result.h"

#include <stdlib.h>

#include "crash.h"
#include "database.h"
#include "mem.h"
#include "sql_execution.h"

#define PIPELINE  2 /* batches in flight: one is prepared while one commits */
#define AGAIN_MIN (100 * USEC_MS)
#define AGAIN_MAX (5 * USEC_SEC)
#define SAY_EVERY (10 * USEC_SEC)

/* The parameters of SQL_RESULT and SQL_RESULT_EVENTS, in their order. */
#define COLUMNS(X)                                                                                 \
	X(ID, PG_INT8)                                                                             \
	X(EPOCH, PG_INT4)                                                                          \
	X(OWNER, PG_INT8)                                                                          \
	X(N, PG_INT4)                                                                              \
	X(STATE, PG_TEXT)                                                                          \
	X(OUTCOME, PG_TEXT)                                                                        \
	X(HTTP_STATUS, PG_INT4)                                                                    \
	X(CURL_CODE, PG_INT4)                                                                      \
	X(ERROR_CLASS, PG_TEXT)                                                                    \
	X(DUE_AT, PG_TIME)                                                                         \
	X(UNKNOWN, PG_INT4)                                                                        \
	X(ATTEMPTS, PG_INT4)                                                                       \
	X(THROTTLED, PG_INT4)                                                                      \
	X(STALLED, PG_INT4)                                                                        \
	X(UNSENT, PG_BOOL)                                                                         \
	X(PROVIDER_ID, PG_TEXT)                                                                    \
	X(STARTED, PG_TIME)                                                                        \
	X(TOOK, PG_INT8)                                                                           \
	X(ERROR, PG_TEXT)                                                                          \
	X(PROVIDER_KEY, PG_TEXT)                                                                   \
	X(HEAD, PG_BYTEA)                                                                          \
	X(BODY, PG_BYTEA)                                                                          \
	X(TRUNCATED, PG_BOOL)                                                                      \
	X(EMIT_FAILED, PG_BOOL)                                                                    \
	X(LETTER_ID, PG_UUID)                                                                      \
	X(LETTER_TOPIC, PG_TEXT)                                                                   \
	X(LETTER_REASON, PG_TEXT)                                                                  \
	X(STORED, PG_BOOL)                                                                         \
	X(EMIT_ID, PG_UUID)                                                                        \
	X(EMIT_DUE, PG_BOOL)

enum {
#define X(name, type) COLUMN_##name,
	COLUMNS(X)
#undef X
		COLUMN_COUNT
};

static const enum pg_type column_types[] = {
#define X(name, type) [COLUMN_##name] = type,
	COLUMNS(X)
#undef X
};

struct results {
	struct log *log;
	struct meter *meter;
	struct results_events events;
	struct pg *pg;
	struct loop_timer *timer; /* the next moment at which something may be sent */
	size_t batch_max;
	usec_t wait;
	bool hurry;
	bool closing;

	struct result *first; /* the queue */
	struct result **end;
	size_t queued;

	struct result_batch *waiting; /* refused, or lost with the connection */
	struct flight {
		struct results *results;
		struct result_batch *batch; /* NULL: free */
	} flights[PIPELINE];
	struct { /* what the database never took: sent, and in flight there until it is taken over
		  */
		int64_t *ids;
		size_t count;
	} given_up;
	size_t count; /* in the queue, waiting or in flight */
	usec_t again; /* the wait after the next refusal */
	struct log_limit limit;

	struct pg_array columns[COLUMN_COUNT];
};

/* --- building the statement --- */

static void add_int4(struct pg_array *array, int32_t value)
{
	if (value == 0)
		pg_array_null(array);
	else
		pg_array_int4(array, value);
}

static void add_bytes(struct pg_array *array, const struct buf *buf, bool some)
{
	pg_array_bytes(array, some ? buf_text(buf) : NULL, buf->length);
}

static void add_step(struct pg_array *columns, const struct life_step *step)
{
	const bool waits = step->state == EFFECT_PENDING || step->state == EFFECT_RETRY_WAIT;
	pg_array_text(&columns[COLUMN_STATE], effect_state_name(step->state));
	pg_array_usec(&columns[COLUMN_DUE_AT], waits ? step->due_at : USEC_NEVER);
	pg_array_int4(&columns[COLUMN_UNKNOWN], step->unknown_delta);
	pg_array_int4(&columns[COLUMN_ATTEMPTS], step->attempts_delta);
	pg_array_int4(&columns[COLUMN_THROTTLED], step->throttled_delta);
	pg_array_int4(&columns[COLUMN_STALLED], step->stalled_delta);
	pg_array_bool(&columns[COLUMN_UNSENT], step->unsent);
}

/* What follows from it: a dead letter, or what the effect emits. */
static void add_events(struct pg_array *columns, const struct result *result, enum batch_form form)
{
	const bool whole = form == BATCH_WHOLE;
	const bool letter = result->has_letter && whole, emit = result->has_emit && whole;
	const bool due = (result->has_letter || result->has_emit) && !whole;
	pg_array_bool(&columns[COLUMN_EMIT_FAILED], due || result->emit_fault);
	pg_array_bool(&columns[COLUMN_EMIT_DUE], due);
	pg_array_bytes(&columns[COLUMN_LETTER_ID], letter ? result->letter.id : NULL,
		       sizeof(result->letter.id));
	pg_array_text(&columns[COLUMN_LETTER_TOPIC], letter ? result->letter.topic.data : NULL);
	pg_array_text(&columns[COLUMN_LETTER_REASON], outcome_name(result->outcome));
	pg_array_bytes(&columns[COLUMN_EMIT_ID], emit ? result->emit_id : NULL,
		       sizeof(result->emit_id));
}

/* What came back; bytes that we have not made ourselves may be what the server refuses. */
static void add_answer(struct pg_array *columns, const struct result *result, enum batch_form form)
{
	const bool whole = form != BATCH_BARE;
	add_int4(&columns[COLUMN_HTTP_STATUS], result->status);
	add_int4(&columns[COLUMN_CURL_CODE], result->curl_code);
	pg_array_text(&columns[COLUMN_ERROR_CLASS], whole ? result->error_class : "");
	pg_array_text(&columns[COLUMN_PROVIDER_ID], whole ? result->provider_id : NULL);
	pg_array_text(&columns[COLUMN_ERROR], whole ? result->error : NULL);
	pg_array_text(&columns[COLUMN_PROVIDER_KEY], whole ? result->provider_key : NULL);
	add_bytes(&columns[COLUMN_HEAD], &result->head, whole && result->status != 0);
	add_bytes(&columns[COLUMN_BODY], &result->body, whole && result->status != 0);
	pg_array_bool(&columns[COLUMN_TRUNCATED], result->truncated);
	pg_array_bool(&columns[COLUMN_STORED], result->stored);
}

static void add_result(struct pg_array *columns, const struct result *result, enum batch_form form)
{
	pg_array_int8(&columns[COLUMN_ID], result->key.id);
	pg_array_int4(&columns[COLUMN_EPOCH], result->key.epoch);
	pg_array_int8(&columns[COLUMN_OWNER], result->key.owner);
	pg_array_int4(&columns[COLUMN_N], result->key.life.tries);
	pg_array_text(&columns[COLUMN_OUTCOME], outcome_name(result->outcome));
	pg_array_usec(&columns[COLUMN_STARTED], result->started);
	pg_array_int8(&columns[COLUMN_TOOK], result->took);
	add_step(columns, &result->step);
	add_events(columns, result, form);
	add_answer(columns, result, form);
}

static void add_batch(struct results *results, const struct result_batch *batch,
		      struct pg_params *params)
{
	for (size_t i = 0; i < COLUMN_COUNT; i++)
		pg_array_clear(&results->columns[i]);
	for (size_t i = 0; i < batch->count; i++)
		add_result(results->columns, batch->items[i], batch->form);
	for (size_t i = 0; i < COLUMN_COUNT; i++)
		pg_add_array(params, &results->columns[i]);
}

/* --- what is logged of a result --- */

/* The key stands for something else there, or the bytes were not what they had been: either must
 * not be. */
static enum log_level level_of(const struct result *result)
{
	if (result->outcome == OUTCOME_MISMATCH)
		return LOG_ERROR;
	switch (result->step.state) {
	case EFFECT_DEAD:
	case EFFECT_UNCERTAIN:
		return LOG_WARN;
	case EFFECT_PENDING:
	case EFFECT_IN_FLIGHT:
	case EFFECT_RETRY_WAIT:
	case EFFECT_COMPLETED:
	case EFFECT_CANCELLED:
	case EFFECT_PRUNED:
	case EFFECT_STATE_COUNT:
		break;
	}
	return LOG_DEBUG;
}

static void report(const struct results *results, const struct result *result, const char *what,
		   enum log_level level)
{
	if (!log_enabled(results->log, level))
		return;
	log_write(results->log, level, what,
		  LOG_FIELDS(LOG_KEY(&result->key), LOG_TEXT("effect", result->key.effect),
			     LOG_TEXT("target", result->target),
			     LOG_TEXT("outcome", outcome_name(result->outcome)),
			     LOG_TEXT("error", result->error_class),
			     LOG_INT("attempt", result->key.life.tries)));
}

/* Numbers of a batch's items, from 1 and rising, as the statement gives them. */
struct numbers {
	int64_t *items;
	size_t count;
	size_t next;
};

static bool holds(struct numbers *numbers, size_t index)
{
	if (numbers->next == numbers->count || numbers->items[numbers->next] != (int64_t)index + 1)
		return false;
	numbers->next++;
	return true;
}

/* Its completion stands, and whoever waits for its event waits in vain. */
static void report_fault(const struct results *results, const struct result *result)
{
	if (!result->emit_fault)
		return;
	series_add(results->meter->emit_failed, 1);
	log_error(results->log, "nothing is emitted for a completed key", LOG_KEY(&result->key),
		  LOG_TEXT("effect", result->key.effect), LOG_TEXT("reason", result->emit_fault));
}

static void report_batch(const struct results *results, const struct result_batch *batch,
			 const PGresult *answer)
{
	struct numbers changed = { 0 }, late = { 0 };
	changed.items = pg_get_int8_array(answer, 0, 0, &changed.count);
	late.items = pg_get_int8_array(answer, 0, 2, &late.count);
	for (size_t i = 0; i < batch->count; i++) {
		const struct result *result = batch->items[i];
		const enum effect_state state = result->step.state;
		const bool was_uncertain = holds(&late, i);
		if (holds(&changed, i)) {
			meter_moved(results->meter,
				    was_uncertain ? EFFECT_UNCERTAIN : EFFECT_IN_FLIGHT, state, 1);
			report(results, result, effect_state_name(state), level_of(result));
			report_fault(results, result);
		} else if (batch->doubtful) {
			report(results, result, "result recorded before, or late", LOG_INFO);
		} else {
			series_add(results->meter->late_results, 1);
			report(results, result, "late result kept as evidence", LOG_WARN);
		}
	}
	free(changed.items);
	free(late.items);
}

/* --- sending --- */

static void flush(struct results *results);

static void wait_again(struct results *results, struct result_batch *batch)
{
	batch->next = results->waiting;
	results->waiting = batch;
}

static void back_off(struct results *results, struct result_batch *batch)
{
	batch->not_before = usec_boot() + results->again;
	results->again = results->again * 2 < AGAIN_MAX ? results->again * 2 : AGAIN_MAX;
	wait_again(results, batch);
}

static void drop(struct results *results, struct result_batch *batch)
{
	results->count -= batch->count;
	batch_free(batch);
}

/* It must not look like a claim whose answer was lost. */
static void give_up(struct results *results, int64_t id)
{
	results->given_up.ids = mem_grow(results->given_up.ids, results->given_up.count + 1,
					 sizeof(*results->given_up.ids));
	results->given_up.ids[results->given_up.count++] = id;
}

static void on_refused(struct results *results, struct result_batch *batch,
		       const struct pg_error *error)
{
	uint64_t held;
	if (log_limit_pass(&results->limit, usec_boot(), SAY_EVERY, &held))
		log_error(results->log, "results refused", LOG_TEXT("error", error->text),
			  LOG_INT("results", batch->count), LOG_KEY(&batch->items[0]->key),
			  LOG_INT("held_back", held));
	switch (batch_refused(batch, error->sqlstate)) {
	case BATCH_AGAIN:
		return back_off(results, batch);
	case BATCH_SPLIT:
		wait_again(results, batch_split(batch));
		return wait_again(results, batch);
	case BATCH_PUT_OFF:
		batch->form = BATCH_WITHOUT_EVENTS;
		return wait_again(results, batch);
	case BATCH_STRIP:
		batch->form = BATCH_BARE;
		return wait_again(results, batch);
	case BATCH_GIVE_UP:
		log_error(results->log, "result cannot be recorded", LOG_KEY(&batch->items[0]->key),
			  LOG_TEXT("error", error->text));
		give_up(results, batch->items[0]->key.id);
		drop(results, batch);
		results->events.written(results->events.arg, false);
	}
}

static void on_lost(struct results *results, struct result_batch *batch, bool sent)
{
	batch->doubtful |= sent;
	wait_again(results, batch);
}

/* What had to be left out. */
static void report_form(const struct results *results, const struct result_batch *batch)
{
	if (batch->form == BATCH_BARE)
		log_error(results->log, "recorded without its answer",
			  LOG_KEY(&batch->items[0]->key));
	if (batch->form == BATCH_WHOLE || batch_events(batch) == 0)
		return;
	series_add(results->meter->emit_failed, batch_events(batch));
	log_error(results->log, "events and dead letters put off: the outbox does not take them",
		  LOG_INT("events", batch_events(batch)), LOG_KEY(&batch->items[0]->key));
}

static void on_written(struct results *results, struct result_batch *batch, const PGresult *answer)
{
	const bool freed = pg_get_int8(answer, 0, 1) > 0;
	crash_point("result.answered");
	results->again = AGAIN_MIN;
	report_form(results, batch);
	report_batch(results, batch, answer);
	drop(results, batch);
	results->events.written(results->events.arg, freed);
}

static void on_done(void *arg, const PGresult *answer, const struct pg_error *error)
{
	struct flight *flight = arg;
	struct results *results = flight->results;
	struct result_batch *batch = flight->batch;
	flight->batch = NULL;
	if (!error)
		on_written(results, batch, answer);
	else if (error->kind == PG_REFUSED)
		on_refused(results, batch, error);
	else
		on_lost(results, batch, error->kind == PG_LOST);
	flush(results);
}

static void send(struct flight *flight, struct result_batch *batch)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	struct results *results = flight->results;
	add_batch(results, batch, &params);
	flight->batch = batch;
	crash_point("result.send");
	pg_send(results->pg,
		batch->form == BATCH_WHOLE && batch_events(batch) > 0 ? SQL_RESULT_EVENTS
								      : SQL_RESULT,
		&params, on_done, flight);
	crash_point("result.sent");
}

/* --- what is sent when --- */

static struct result_batch *take_waiting(struct results *results, usec_t now)
{
	for (struct result_batch **link = &results->waiting; *link; link = &(*link)->next) {
		struct result_batch *batch = *link;
		if (batch->not_before > now)
			continue;
		*link = batch->next;
		return batch;
	}
	return NULL;
}

static struct result_batch *take_queued(struct results *results, usec_t now)
{
	if (!results->first)
		return NULL;
	if (results->queued < results->batch_max && !results->hurry &&
	    now < results->first->queued_at + results->wait)
		return NULL;
	struct result_batch *batch = batch_take(&results->first, results->batch_max);
	results->queued -= batch->count;
	if (!results->first)
		results->end = &results->first;
	return batch;
}

static struct flight *free_flight(struct results *results)
{
	for (size_t i = 0; i < PIPELINE; i++) {
		if (!results->flights[i].batch)
			return &results->flights[i];
	}
	return NULL;
}

static void set_timer(struct results *results, usec_t now)
{
	usec_t next = results->first ? results->first->queued_at + results->wait : USEC_NEVER;
	for (const struct result_batch *b = results->waiting; b; b = b->next) {
		if (b->not_before < next)
			next = b->not_before;
	}
	if (next != USEC_NEVER)
		loop_timer_set(results->timer, next - now);
}

static void flush(struct results *results)
{
	struct flight *flight;
	const usec_t now = usec_boot();
	if (results->closing || !pg_up(results->pg))
		return;
	while ((flight = free_flight(results))) {
		struct result_batch *batch = take_waiting(results, now);
		if (!batch)
			batch = take_queued(results, now);
		if (!batch)
			return set_timer(results, now);
		send(flight, batch);
	}
}

static void on_timer(void *arg)
{
	flush(arg);
}

static void on_up(void *arg)
{
	flush(arg);
}

static void on_down(void *arg, const char *reason)
{
	struct results *results = arg;
	log_warn(results->log, "database away", LOG_TEXT("part", "results"),
		 LOG_TEXT("reason", reason), LOG_INT("unwritten", results->count));
}

/* --- the public face --- */

struct results *results_new(struct loop *loop, struct log *log, const struct conf *conf,
			    struct meter *meter, const struct results_events *events)
{
	struct results *results = mem_zero(sizeof(*results));
	const struct pg_settings settings = database_busy_settings(conf, meter);
	const struct pg_events pg_events = { .up = on_up, .down = on_down, .arg = results };
	results->log = log;
	results->meter = meter;
	results->events = *events;
	results->batch_max = (size_t)conf->ledger.result_batch;
	results->wait = conf->ledger.result_wait;
	results->again = AGAIN_MIN;
	results->end = &results->first;
	for (size_t i = 0; i < PIPELINE; i++)
		results->flights[i].results = results;
	for (size_t i = 0; i < COLUMN_COUNT; i++)
		pg_array_init(&results->columns[i], column_types[i]);
	results->timer = loop_timer_new(loop, on_timer, results);
	results->pg = pg_new(loop, log, &settings, &pg_events);
	return results;
}

void results_free(struct results *results)
{
	if (!results)
		return;
	results->closing = true;
	pg_free(results->pg); /* what is in flight is waiting again */
	while (results->first)
		drop(results, batch_take(&results->first, results->count));
	while (results->waiting) {
		struct result_batch *batch = results->waiting;
		results->waiting = batch->next;
		drop(results, batch);
	}
	for (size_t i = 0; i < COLUMN_COUNT; i++)
		pg_array_done(&results->columns[i]);
	loop_timer_free(results->timer);
	free(results->given_up.ids);
	free(results);
}

void results_add(struct results *results, struct result *result)
{
	result->next = NULL;
	result->queued_at = usec_boot();
	*results->end = result;
	results->end = &result->next;
	results->queued++;
	results->count++;
	crash_point("result.queued");
	flush(results);
}

size_t results_count(const struct results *results)
{
	return results->count;
}

void results_hurry(struct results *results)
{
	results->hurry = true;
	flush(results);
}

static void add_ids(const struct result_batch *batch, struct pg_array *ids)
{
	for (size_t i = 0; i < batch->count; i++)
		pg_array_int8(ids, batch->items[i]->key.id);
}

void results_ids(const struct results *results, struct pg_array *ids)
{
	for (const struct result *r = results->first; r; r = r->next)
		pg_array_int8(ids, r->key.id);
	for (const struct result_batch *b = results->waiting; b; b = b->next)
		add_ids(b, ids);
	for (size_t i = 0; i < results->given_up.count; i++)
		pg_array_int8(ids, results->given_up.ids[i]);
	for (size_t i = 0; i < PIPELINE; i++) {
		if (results->flights[i].batch)
			add_ids(results->flights[i].batch, ids);
	}
}
