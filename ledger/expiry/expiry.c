/* The walk.
 *
 *   idle --timer--> take --it is ours, and time--> page --> step --> idle
 *                     \--else--> idle                \--the last page--> step --> clear --> rest
 *   any --error--> idle
 *
 * Where the walk is stands in the database, so that it goes on with whoever comes next. A step is
 * as large as the database does in STEP_TIME, and the pause after it is a few times as long as it
 * took: what nobody waits for must not be in anybody's way. */
#include "expiry.h"

#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "execution/claim.h"
#include "fate.h"
#include "mem.h"
#include "reach.h"
#include "sql_expiry.h"

#define LOOK_EVERY   (2 * USEC_SEC)
#define LEASE        USEC_MIN
#define REST         (10 * USEC_MIN) /* after a round */
#define STEP_ROWS    1000            /* at most */
#define STEP_TIME    (200 * USEC_MS)
#define PAUSE_FACTOR 4
#define PAUSE_MAX    (5 * USEC_SEC)
#define SAY_EVERY    (10 * USEC_MIN)

enum expiry_phase {
	EXPIRY_STOPPED,
	EXPIRY_IDLE,     /* the timer runs */
	EXPIRY_TAKING,   /* is it ours? */
	EXPIRY_READING,  /* a page */
	EXPIRY_STEPPING, /* it is written */
	EXPIRY_CLEARING, /* what is no key, a table after the other */
	EXPIRY_RESTING,  /* the end of the round is written */
};

struct expiry {
	struct loop *loop;
	struct log *log;
	struct pg *pg;
	const struct conf *conf;
	struct loop_timer *timer;
	struct reach *reach;
	struct fate_rule *rules; /* by index of the effect in the configuration */
	int64_t owner;

	enum expiry_phase phase;
	bool running;
	bool asking;     /* a statement has no answer yet */
	usec_t began_at; /* this step */
	int64_t cursor;
	int64_t next; /* after this step */
	bool last;    /* no page follows */
	int64_t rows; /* of a page */
	bool skip;    /* the one row of the next step was refused */
	size_t table; /* that is cleared */
	struct log_limit limit;
	struct { /* this round, in this process */
		int64_t pruned, forgotten, requests;
	} count;
};

static void set_phase(struct expiry *expiry, enum expiry_phase phase)
{
	expiry->phase = phase;
}

static void wait(struct expiry *expiry, usec_t pause)
{
	set_phase(expiry, expiry->running ? EXPIRY_IDLE : EXPIRY_STOPPED);
	if (expiry->running)
		loop_timer_set(expiry->timer, pause);
}

static void complain(struct expiry *expiry, const struct pg_error *error)
{
	uint64_t held;
	if (log_limit_pass(&expiry->limit, usec_boot(), SAY_EVERY, &held))
		log_warn(expiry->log, "what is old cannot be cleared",
			 LOG_TEXT("error", error->text), LOG_INT("held_back", held));
}

static bool failed(struct expiry *expiry, const struct pg_error *error)
{
	expiry->asking = false;
	if (error && error->kind == PG_REFUSED)
		complain(expiry, error);
	if (error || !expiry->running)
		wait(expiry, LOOK_EVERY);
	return error || !expiry->running;
}

static void ask(struct expiry *expiry, const char *sql, const struct pg_params *params,
		pg_done_fn *done)
{
	expiry->asking = true;
	pg_send(expiry->pg, sql, params, done, expiry);
}

/* --- what is decided --- */

enum {
	PAGE_ID,
	PAGE_EPOCH,
	PAGE_STATE,
	PAGE_EFFECT,
	PAGE_TOPIC,
	PAGE_SINCE,
	PAGE_FINISHED,
	PAGE_WINDOW,
	PAGE_REQUEST,
	PAGE_ATTEMPTS,
	PAGE_LAST,
	PAGE_NOW,
};

/* An effect that reads another topic by now says nothing about the events of the former one. */
static const struct fate_rule *rule_of(struct expiry *expiry, const PGresult *result, int row)
{
	const char *effect = pg_get_text(result, row, PAGE_EFFECT);
	const char *topic = pg_get_text(result, row, PAGE_TOPIC);
	for (size_t i = 0; effect && i < expiry->conf->effect_count; i++) {
		const struct conf_effect *conf = &expiry->conf->effects[i];
		if (strcmp(conf->name, effect) != 0 || strcmp(conf->topic, topic) != 0)
			continue;
		expiry->rules[i].reach = reach_of(expiry->reach, i);
		return &expiry->rules[i];
	}
	return NULL;
}

static struct fate decide(struct expiry *expiry, const PGresult *result, int row)
{
	const struct conf_ledger *conf = &expiry->conf->ledger;
	const struct fate_keep keep = { .request = conf->request_keep,
					.attempts = conf->attempt_keep,
					.pruned = conf->pruned_keep };
	struct fate_key key = {
		.since = pg_get_time(result, row, PAGE_SINCE),
		.finished = pg_get_time(result, row, PAGE_FINISHED),
		.window_until = pg_get_time(result, row, PAGE_WINDOW),
		.has_request = pg_get_bool(result, row, PAGE_REQUEST),
		.has_attempts = pg_get_bool(result, row, PAGE_ATTEMPTS),
	};
	size_t length;
	const char *state = pg_get_bytes(result, row, PAGE_STATE, &length);
	if (!effect_state_parse(state, length, &key.state))
		return (struct fate){ 0 };
	return fate_of(&key, rule_of(expiry, result, row), &keep,
		       pg_get_time(result, row, PAGE_NOW));
}

/* --- a step --- */

enum { STEP_MINE, STEP_PRUNED, STEP_FORGOTTEN, STEP_REQUESTS };

/* Columns of arrays, as SQL_EXPIRY_STEP names them. */
enum { ID, EPOCH, STATE, PRUNE, FORGET, REQUEST, ATTEMPTS, COLUMN_COUNT };

struct items {
	struct pg_array columns[COLUMN_COUNT];
};

static void items_init(struct items *items)
{
	static const enum pg_type types[COLUMN_COUNT] = {
		[ID] = PG_INT8,     [EPOCH] = PG_INT4,   [STATE] = PG_TEXT,    [PRUNE] = PG_BOOL,
		[FORGET] = PG_BOOL, [REQUEST] = PG_BOOL, [ATTEMPTS] = PG_BOOL,
	};
	for (size_t i = 0; i < COLUMN_COUNT; i++)
		pg_array_init(&items->columns[i], types[i]);
}

static void items_done(struct items *items)
{
	for (size_t i = 0; i < COLUMN_COUNT; i++)
		pg_array_done(&items->columns[i]);
}

static void items_add(struct items *items, const PGresult *result, int row, struct fate fate)
{
	struct pg_array *columns = items->columns;
	if (!fate.prune && !fate.forget && !fate.request && !fate.attempts)
		return;
	pg_array_int8(&columns[ID], pg_get_int8(result, row, PAGE_ID));
	pg_array_int4(&columns[EPOCH], pg_get_int4(result, row, PAGE_EPOCH));
	pg_array_text(&columns[STATE], pg_get_text(result, row, PAGE_STATE));
	pg_array_bool(&columns[PRUNE], fate.prune);
	pg_array_bool(&columns[FORGET], fate.forget);
	pg_array_bool(&columns[REQUEST], fate.request);
	pg_array_bool(&columns[ATTEMPTS], fate.attempts);
}

static void clear_table(struct expiry *expiry);

/* As much as the database does in its time. */
static usec_t adapt(struct expiry *expiry)
{
	const usec_t took = usec_boot() - expiry->began_at;
	if (took > STEP_TIME && expiry->rows > 1)
		expiry->rows /= 2;
	else if (took < STEP_TIME / 2)
		expiry->rows = expiry->rows * 2 < STEP_ROWS ? expiry->rows * 2 : STEP_ROWS;
	return took * PAUSE_FACTOR < PAUSE_MAX ? took * PAUSE_FACTOR : PAUSE_MAX;
}

static void count(struct expiry *expiry, const PGresult *result)
{
	expiry->count.pruned += pg_get_int8(result, 0, STEP_PRUNED);
	expiry->count.forgotten += pg_get_int8(result, 0, STEP_FORGOTTEN);
	expiry->count.requests += pg_get_int8(result, 0, STEP_REQUESTS);
}

static void say_round(struct expiry *expiry)
{
	if (expiry->count.pruned + expiry->count.forgotten + expiry->count.requests > 0)
		log_info(expiry->log, "finished keys cleared",
			 LOG_INT("pruned", expiry->count.pruned),
			 LOG_INT("forgotten", expiry->count.forgotten),
			 LOG_INT("requests", expiry->count.requests));
	expiry->count.pruned = expiry->count.forgotten = expiry->count.requests = 0;
}

static void on_step(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct expiry *expiry = arg;
	const bool resting = expiry->phase == EXPIRY_RESTING;
	if (error && error->kind == PG_REFUSED) {
		expiry->skip = expiry->rows == 1;
		expiry->rows = 1;
	}
	if (failed(expiry, error))
		return;
	crash_point("expiry_step.answered");
	expiry->skip = false;
	if (!pg_get_bool(result, 0, STEP_MINE))
		return wait(expiry, LOOK_EVERY);
	count(expiry, result);
	expiry->cursor = expiry->next;
	const usec_t pause = adapt(expiry);
	if (resting) {
		say_round(expiry);
		wait(expiry, LOOK_EVERY);
	} else if (expiry->last) {
		expiry->table = 0;
		clear_table(expiry);
	} else {
		wait(expiry, pause);
	}
}

static void write_step(struct expiry *expiry, usec_t pause, const struct items *items)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	pg_add_int8(&params, expiry->owner);
	pg_add_int8(&params, expiry->cursor);
	pg_add_int8(&params, expiry->next);
	pg_add_interval(&params, pause);
	pg_add_interval(&params, LEASE);
	for (size_t i = 0; i < COLUMN_COUNT; i++)
		pg_add_array(&params, &items->columns[i]);
	crash_point("expiry_step.send");
	ask(expiry, SQL_EXPIRY_STEP, &params, on_step);
	crash_point("expiry_step.sent");
}

/* --- the end of a round --- */

static void end_round(struct expiry *expiry)
{
	struct items none;
	items_init(&none);
	set_phase(expiry, EXPIRY_RESTING);
	expiry->next = 0;
	write_step(expiry, REST, &none);
	items_done(&none);
}

static void on_cleared(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct expiry *expiry = arg;
	if (error && error->kind == PG_REFUSED && expiry->running) {
		complain(expiry, error); /* the others may be cleared */
		expiry->table++;
		return clear_table(expiry);
	}
	if (failed(expiry, error))
		return;
	crash_point("expiry_clear.answered");
	if (pg_get_int8(result, 0, 0) < STEP_ROWS)
		expiry->table++;
	clear_table(expiry);
}

static void clear_table(struct expiry *expiry)
{
	static const char *const tables[] = { SQL_EXPIRY_AUDIT,     SQL_EXPIRY_POISON,
					      SQL_EXPIRY_CONFLICTS, SQL_EXPIRY_UNMATCHED,
					      SQL_EXPIRY_ITEMS,     SQL_EXPIRY_OPERATIONS };
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	if (expiry->table >= sizeof(tables) / sizeof(tables[0]))
		return end_round(expiry);
	set_phase(expiry, EXPIRY_CLEARING);
	pg_add_interval(&params, expiry->conf->ledger.audit_keep);
	pg_add_int8(&params, STEP_ROWS);
	crash_point("expiry_clear.send");
	ask(expiry, tables[expiry->table], &params, on_cleared);
	crash_point("expiry_clear.sent");
}

/* --- a page --- */

static void on_page(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct expiry *expiry = arg;
	struct items items;
	if (failed(expiry, error))
		return;
	set_phase(expiry, EXPIRY_STEPPING);
	items_init(&items);
	expiry->last = true;
	expiry->next = expiry->cursor;
	for (int row = 0; row < pg_rows(result); row++) {
		if (!expiry->skip)
			items_add(&items, result, row, decide(expiry, result, row));
		expiry->next = pg_get_int8(result, row, PAGE_ID);
		expiry->last = !pg_get_bool(result, row, PAGE_LAST);
	}
	write_step(expiry, 0, &items);
	items_done(&items);
}

static void on_taken(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct expiry *expiry = arg;
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	if (failed(expiry, error))
		return;
	crash_point("expiry_take.answered");
	if (pg_rows(result) == 0)
		return wait(expiry, LOOK_EVERY);
	set_phase(expiry, EXPIRY_READING);
	expiry->cursor = pg_get_int8(result, 0, 0);
	pg_add_int8(&params, expiry->cursor);
	pg_add_int8(&params, expiry->rows);
	ask(expiry, SQL_EXPIRY_PAGE, &params, on_page);
}

static void on_timer(void *arg)
{
	struct expiry *expiry = arg;
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	set_phase(expiry, EXPIRY_TAKING);
	expiry->began_at = usec_boot();
	pg_add_int8(&params, expiry->owner);
	pg_add_interval(&params, LEASE);
	pg_add_interval(&params, REST);
	crash_point("expiry_take.send");
	ask(expiry, SQL_EXPIRY_TAKE, &params, on_taken);
	crash_point("expiry_take.sent");
}

/* --- publics --- */

void expiry_start(struct expiry *expiry)
{
	expiry->running = true;
	if (!expiry->reach)
		expiry->reach = reach_new(expiry->loop, expiry->log, expiry->conf);
	if (!expiry->asking)
		wait(expiry, LOOK_EVERY);
}

void expiry_stop(struct expiry *expiry)
{
	expiry->running = false;
	loop_timer_cancel(expiry->timer);
}

static void read_rules(struct expiry *expiry, const struct rules *rules)
{
	for (size_t i = 0; i < expiry->conf->effect_count; i++) {
		const struct conf_effect *effect = &expiry->conf->effects[i];
		struct claim_plan plan;
		claim_plan(expiry->conf,
			   rules_find(rules, effect->name, strlen(effect->name))->target, &plan);
		expiry->rules[i] =
			(struct fate_rule){ .retention = effect->retention, .margin = plan.margin };
	}
}

struct expiry *expiry_new(struct loop *loop, struct log *log, struct pg *pg,
			  const struct conf *conf, const struct rules *rules)
{
	struct expiry *expiry = mem_zero(sizeof(*expiry));
	expiry->loop = loop;
	expiry->log = log;
	expiry->pg = pg;
	expiry->conf = conf;
	expiry->timer = loop_timer_new(loop, on_timer, expiry);
	expiry->rules = mem_zero((conf->effect_count + 1) * sizeof(*expiry->rules));
	expiry->rows = STEP_ROWS;
	arc4random_buf(&expiry->owner, sizeof(expiry->owner));
	read_rules(expiry, rules);
	return expiry;
}

void expiry_free(struct expiry *expiry)
{
	if (!expiry)
		return;
	reach_free(expiry->reach);
	loop_timer_free(expiry->timer);
	free(expiry->rules);
	free(expiry);
}
