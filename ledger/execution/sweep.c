/* The sweep.
 *
 *   idle --timer--> stale --all pages--> expired (now and then; a page, more while it finds some)
 *        --> release (a page) --> aside (all pages) --> emit (what is owed) --> backlog (now and
 * then)
 *        --> forget (seldom) --> idle
 *   any --error--> idle
 *
 * No row is locked while it is decided on: what is written is guarded by the epoch and the state,
 * and for a take-over by its being stale still. */
#include "sweep.h"

#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "database.h"
#include "emitter.h"
#include "mem.h"
#include "result_batch.h"
#include "sql_claim.h"
#include "swept.h"

#define ROUND_EVERY   USEC_SEC
#define ROUND_JITTER  (100 * USEC_MS)
#define FIRST_ROUND   (2 * USEC_SEC) /* after a connection was made */
#define STALE_PAGE    200
#define EXPIRED_PAGE  1000
#define RELEASE_PAGE  1000
#define ASIDE_PAGE    1000
#define EXPIRED_EVERY 3 /* rounds: the claim refuses what has expired meanwhile */
#define BACKLOG_EVERY 3
#define FORGET_EVERY  600
#define SAY_EVERY     (10 * USEC_SEC)

enum sweep_step {
	SWEEP_IDLE,    /* the timer runs, no statement is out */
	SWEEP_STALE,   /* keys whose owner or deadline has run out, by id */
	SWEEP_EXPIRED, /* waiting keys past their window or not_after, in the order of the due index
			*/
	SWEEP_RELEASE, /* heads of serial keys that nothing will free */
	SWEEP_ASIDE,   /* keys of effects that are not paused any more */
	SWEEP_EMIT,    /* events and dead letters that are owed */
	SWEEP_BACKLOG, /* how many keys are due */
	SWEEP_FORGET,  /* instances of long ago */
};

struct sweep {
	struct log *log;
	const struct conf *conf;
	const struct rules *rules;
	const struct claim_plan *plans;
	struct meter *meter;
	struct sweep_events events;
	struct pg *pg;
	struct loop_timer *timer;
	enum sweep_step step;
	bool closing;
	uint64_t round;
	struct log_limit limit;

	struct swept_page page; /* decided on, being written */
	size_t at, span;        /* the items in the statement that is out */
	bool letters;
	bool more;     /* the page was full */
	int64_t after; /* this id: stale */
	struct {       /* the last of the page before: expired */
		struct buf target, tenant;
		usec_t due_at;
		int64_t id;
	} waiting;
	struct { /* release */
		struct buf target, tenant, serial;
	} serial;
	struct emitter *emitter;
	bool high; /* the backlog */
};

static void set_step(struct sweep *sweep, enum sweep_step step)
{
	sweep->step = step;
}

static void end_round(struct sweep *sweep)
{
	set_step(sweep, SWEEP_IDLE);
	swept_clear(&sweep->page);
	if (!sweep->closing)
		loop_timer_set(sweep->timer, ROUND_EVERY - ROUND_JITTER +
						     (usec_t)arc4random_uniform(2 * ROUND_JITTER));
}

/* The round ends at any error: the next one begins again. */
static bool failed(struct sweep *sweep, const struct pg_error *error)
{
	uint64_t held;
	if (!error)
		return false;
	if (error->kind == PG_REFUSED &&
	    log_limit_pass(&sweep->limit, usec_boot(), SAY_EVERY, &held))
		log_error(sweep->log, "sweep refused", LOG_TEXT("error", error->text),
			  LOG_INT("held_back", held));
	end_round(sweep);
	return true;
}

/* --- writing what was decided --- */

static void begin_stale(struct sweep *sweep);
static void begin_expired(struct sweep *sweep);
static void begin_release(struct sweep *sweep);

static void report(const struct sweep *sweep, const struct swept *swept)
{
	meter_moved(sweep->meter, swept->from, swept->step.state, 1);
	if (sweep->step == SWEEP_STALE)
		meter_lost(sweep->meter, swept->target);
	log_warn(sweep->log, sweep->step == SWEEP_STALE ? "taken over" : swept->why,
		 LOG_KEY(&swept->key), LOG_TEXT("effect", swept->key.effect),
		 LOG_TEXT("target", swept->target),
		 LOG_TEXT("state", effect_state_name(swept->step.state)),
		 LOG_INT("owner", swept->key.owner), LOG_INT("attempt", swept->key.life.tries));
}

static void report_changed(const struct sweep *sweep, const PGresult *result)
{
	size_t count;
	int64_t *changed = pg_get_int8_array(result, 0, 0, &count);
	for (size_t i = 0; i < count; i++)
		report(sweep, &sweep->page.items[sweep->at + (size_t)changed[i] - 1]);
	free(changed);
	if (count > 0)
		sweep->events.found(sweep->events.arg);
}

static void page_written(struct sweep *sweep)
{
	const bool some = sweep->page.count > 0;
	swept_clear(&sweep->page);
	if (sweep->step == SWEEP_STALE)
		return sweep->more ? begin_stale(sweep) : begin_expired(sweep);
	return some && sweep->more ? begin_expired(sweep) : begin_release(sweep);
}

static void write_page(struct sweep *sweep);

/* One bad row must not hide the others: each is tried alone, then without its dead letter, then
 * left where it is. */
static void narrow(struct sweep *sweep, const struct pg_error *error)
{
	const struct swept *swept = &sweep->page.items[sweep->at];
	uint64_t held;
	if (sweep->span > 1) {
		sweep->span = 1;
	} else if (sweep->letters && swept->has_letter) {
		sweep->letters = false;
	} else {
		if (log_limit_pass(&sweep->limit, usec_boot(), SAY_EVERY, &held))
			log_error(sweep->log, "key cannot be moved", LOG_KEY(&swept->key),
				  LOG_TEXT("error", error->text), LOG_INT("held_back", held));
		sweep->at++;
		sweep->letters = true;
	}
	write_page(sweep);
}

static void on_written(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct sweep *sweep = arg;
	if (error && error->kind == PG_REFUSED && !refusal_passes(error->sqlstate))
		return narrow(sweep, error);
	if (failed(sweep, error))
		return;
	crash_point("sweep.answered");
	report_changed(sweep, result);
	sweep->at += sweep->span;
	sweep->letters = true;
	write_page(sweep);
}

static const char *statement(const struct sweep *sweep, bool letters)
{
	if (sweep->step == SWEEP_STALE)
		return letters ? SQL_TAKE_OVER_EVENTS : SQL_TAKE_OVER;
	return letters ? SQL_EXPIRE_EVENTS : SQL_EXPIRE;
}

static void write_page(struct sweep *sweep)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	if (sweep->at >= sweep->page.count)
		return page_written(sweep);
	const struct swept_page span = { sweep->page.items + sweep->at, sweep->span };
	swept_params(&span, sweep->letters, &params);
	crash_point("sweep.send");
	pg_send(sweep->pg, statement(sweep, swept_letters(&span) && sweep->letters), &params,
		on_written, sweep);
	crash_point("sweep.sent");
}

static void begin_writing(struct sweep *sweep)
{
	sweep->at = 0;
	sweep->span = sweep->page.count;
	sweep->letters = true;
	write_page(sweep);
}

/* --- stale --- */

static void on_stale(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct sweep *sweep = arg;
	if (failed(sweep, error))
		return;
	for (int row = 0; row < pg_rows(result); row++) {
		swept_stale(&sweep->page, result, row, sweep->rules, sweep->plans);
		sweep->after = sweep->page.items[row].key.id;
	}
	sweep->more = pg_rows(result) == STALE_PAGE;
	begin_writing(sweep);
}

static void begin_stale(struct sweep *sweep)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	set_step(sweep, SWEEP_STALE);
	pg_add_int8(&params, sweep->after);
	pg_add_int8(&params, STALE_PAGE);
	pg_send(sweep->pg, SQL_STALE, &params, on_stale, sweep);
}

/* --- expired --- */

enum { EXPIRED_OVER = SWEPT_COLUMN_COUNT, EXPIRED_LAST, EXPIRED_TENANT, EXPIRED_DUE_AT };

static void set_text(struct buf *buf, const char *text)
{
	buf_clear(buf);
	buf_add_text(buf, text);
}

static void remember(struct sweep *sweep, const PGresult *result, int row)
{
	set_text(&sweep->waiting.target, pg_get_text(result, row, KEY_COLUMN_COUNT));
	set_text(&sweep->waiting.tenant, pg_get_text(result, row, EXPIRED_TENANT));
	sweep->waiting.due_at = pg_get_time(result, row, EXPIRED_DUE_AT);
	sweep->waiting.id = pg_get_int8(result, row, 0);
}

static void start_over(struct sweep *sweep)
{
	buf_clear(&sweep->waiting.target);
	buf_clear(&sweep->waiting.tenant);
	sweep->waiting.due_at = 0;
	sweep->waiting.id = 0;
}

static void on_expired(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct sweep *sweep = arg;
	if (failed(sweep, error))
		return;
	sweep->more = false;
	for (int row = 0; row < pg_rows(result); row++) {
		if (pg_get_bool(result, row, EXPIRED_OVER))
			swept_expired(&sweep->page, result, row, sweep->rules, sweep->plans);
		if (!pg_get_bool(result, row, EXPIRED_LAST))
			continue;
		remember(sweep, result, row);
		sweep->more = true;
	}
	if (!sweep->more)
		start_over(sweep);
	begin_writing(sweep);
}

static void add_margins(struct sweep *sweep, struct pg_params *params)
{
	struct pg_array names PG_ARRAY_AUTO = { 0 }, margins PG_ARRAY_AUTO = { 0 };
	pg_array_init(&names, PG_TEXT);
	pg_array_init(&margins, PG_INTERVAL);
	for (size_t i = 0; i < rules_target_count(sweep->rules); i++) {
		const struct target *target = rules_target(sweep->rules, i);
		const char *name;
		for (size_t k = 0; (name = target_name(target, k)); k++) {
			pg_array_text(&names, name);
			pg_array_usec(&margins, sweep->plans[i].margin);
		}
	}
	pg_add_array(params, &names);
	pg_add_array(params, &margins);
}

static void begin_expired(struct sweep *sweep)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	if (sweep->round % EXPIRED_EVERY != 0)
		return begin_release(sweep);
	set_step(sweep, SWEEP_EXPIRED);
	pg_add_text(&params, buf_text(&sweep->waiting.target));
	pg_add_text(&params, buf_text(&sweep->waiting.tenant));
	pg_add_time(&params, sweep->waiting.due_at);
	pg_add_int8(&params, sweep->waiting.id);
	pg_add_int8(&params, EXPIRED_PAGE);
	add_margins(sweep, &params);
	pg_send(sweep->pg, SQL_EXPIRED, &params, on_expired, sweep);
}

/* --- the backlog, and instances of long ago --- */

static void on_forgotten(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct sweep *sweep = arg;
	(void)result;
	if (!failed(sweep, error))
		end_round(sweep);
}

static void begin_forget(struct sweep *sweep)
{
	if (sweep->round % FORGET_EVERY != 0)
		return end_round(sweep);
	set_step(sweep, SWEEP_FORGET);
	pg_send(sweep->pg, SQL_INSTANCE_FORGET, NULL, on_forgotten, sweep);
}

static void on_backlog(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct sweep *sweep = arg;
	if (failed(sweep, error))
		return;
	const int64_t due = pg_get_int8(result, 0, 0);
	const bool high = sweep->high ? due >= sweep->conf->ledger.due_low
				      : due >= sweep->conf->ledger.due_high;
	if (high != sweep->high) {
		sweep->high = high;
		sweep->events.backlog(sweep->events.arg, high);
	}
	begin_forget(sweep);
}

static void add_targets(const struct sweep *sweep, struct pg_params *params)
{
	struct pg_array names PG_ARRAY_AUTO;
	pg_array_init(&names, PG_TEXT);
	for (size_t i = 0; i < rules_target_count(sweep->rules); i++) {
		const struct target *target = rules_target(sweep->rules, i);
		const char *name;
		for (size_t k = 0; (name = target_name(target, k)); k++)
			pg_array_text(&names, name);
	}
	pg_add_array(params, &names);
}

/* Counts no further than to the mark that matters now. */
static void begin_backlog(struct sweep *sweep)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	if (sweep->round % BACKLOG_EVERY != 1) /* the first is one */
		return begin_forget(sweep);
	set_step(sweep, SWEEP_BACKLOG);
	pg_add_int8(&params,
		    sweep->high ? sweep->conf->ledger.due_low : sweep->conf->ledger.due_high);
	add_targets(sweep, &params);
	pg_send(sweep->pg, SQL_BACKLOG, &params, on_backlog, sweep);
}

/* --- what is owed --- */

static void on_emitted(void *arg, const struct pg_error *error)
{
	struct sweep *sweep = arg;
	if (!failed(sweep, error))
		begin_backlog(sweep);
}

static void begin_emit(struct sweep *sweep)
{
	set_step(sweep, SWEEP_EMIT);
	emitter_round(sweep->emitter);
}

/* --- keys of resumed effects --- */

static void begin_aside(struct sweep *sweep);

static void on_taken_back(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct sweep *sweep = arg;
	if (failed(sweep, error))
		return;
	crash_point("take_back.answered");
	if (pg_get_int8(result, 0, 0) == 0)
		return begin_emit(sweep);
	sweep->events.found(sweep->events.arg);
	begin_aside(sweep);
}

static void begin_aside(struct sweep *sweep)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	set_step(sweep, SWEEP_ASIDE);
	pg_add_int8(&params, ASIDE_PAGE);
	crash_point("take_back.send");
	pg_send(sweep->pg, SQL_TAKE_BACK, &params, on_taken_back, sweep);
	crash_point("take_back.sent");
}

/* --- release --- */

static void on_released(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct sweep *sweep = arg;
	if (failed(sweep, error))
		return;
	const bool some = pg_rows(result) > 0;
	set_text(&sweep->serial.target, some ? pg_get_text(result, 0, 0) : "");
	set_text(&sweep->serial.tenant, some ? pg_get_text(result, 0, 1) : "");
	set_text(&sweep->serial.serial, some ? pg_get_text(result, 0, 2) : "");
	if (some && pg_get_int8(result, 0, 3) > 0)
		sweep->events.found(sweep->events.arg);
	begin_aside(sweep);
}

static void begin_release(struct sweep *sweep)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	set_step(sweep, SWEEP_RELEASE);
	pg_add_text(&params, buf_text(&sweep->serial.target));
	pg_add_text(&params, buf_text(&sweep->serial.tenant));
	pg_add_text(&params, buf_text(&sweep->serial.serial));
	pg_add_int4(&params, RELEASE_PAGE);
	pg_send(sweep->pg, SQL_RELEASE, &params, on_released, sweep);
}

/* --- the rounds --- */

static void on_timer(void *arg)
{
	struct sweep *sweep = arg;
	if (!pg_up(sweep->pg))
		return; /* on_up() begins */
	sweep->round++;
	sweep->after = 0;
	begin_stale(sweep);
}

/* When the database comes back after more than a lease, every key in flight is stale, and every
 * process holds results that it could not write. They come first. */
static void on_up(void *arg)
{
	struct sweep *sweep = arg;
	loop_timer_set(sweep->timer, FIRST_ROUND);
}

static void on_down(void *arg, const char *reason)
{
	struct sweep *sweep = arg;
	log_warn(sweep->log, "database away", LOG_TEXT("part", "sweep"),
		 LOG_TEXT("reason", reason));
}

struct sweep *sweep_new(struct loop *loop, struct log *log, const struct conf *conf,
			const struct rules *rules, const struct claim_plan *plans,
			struct meter *meter, const struct sweep_events *events)
{
	struct sweep *sweep = mem_zero(sizeof(*sweep));
	const struct pg_settings settings = database_settings(conf, meter);
	const struct pg_events pg_events = { .up = on_up, .down = on_down, .arg = sweep };
	sweep->log = log;
	sweep->conf = conf;
	sweep->rules = rules;
	sweep->plans = plans;
	sweep->meter = meter;
	sweep->events = *events;
	sweep->timer = loop_timer_new(loop, on_timer, sweep);
	sweep->pg = pg_new(loop, log, &settings, &pg_events);
	sweep->emitter = emitter_new(log, sweep->pg, rules, meter, on_emitted, sweep);
	return sweep;
}

void sweep_free(struct sweep *sweep)
{
	if (!sweep)
		return;
	sweep->closing = true;
	pg_free(sweep->pg); /* its statement fails, and with it the round */
	emitter_free(sweep->emitter);
	swept_clear(&sweep->page);
	buf_done(&sweep->waiting.target);
	buf_done(&sweep->waiting.tenant);
	buf_done(&sweep->serial.target);
	buf_done(&sweep->serial.tenant);
	buf_done(&sweep->serial.serial);
	loop_timer_free(sweep->timer);
	free(sweep);
}
