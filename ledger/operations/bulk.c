/* Bulk orders, carried out.
 *
 *   IDLE --begin--> READING --targets--> WATCHING --pace--> ORDERING --answered--> WATCHING
 *    ^                                           \--pace--> WAITING --time--> WATCHING
 *    +-- the end; given up; an error; nothing happens: others have a turn --+
 *
 * A page of keys is ordered, and written down as ordered, in one transaction; another ledger goes
 * on with those that are left. The replayed keys are due at once and compete with live ones. So
 * only so many of a target run at a time as to keep it busy: the queue of a live key is never
 * longer by more than that. */
#include "bulk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "mem.h"
#include "orders.h"
#include "pace.h"
#include "sql_operations.h"

#define AHEAD        2  /* times the target's concurrency may run */
#define UNKNOWN      20 /* the same of a target that is not ours to serve */
#define ROWS_MAX     50 /* of a page */
#define LOOK_FIRST   (20 * USEC_MS)
#define LOOK_MAX     (2 * USEC_SEC)
#define REST_AFTER   (3 * USEC_SEC) /* without anything that happened */
#define SAY_EVERY    USEC_MIN
#define PAUSE_FACTOR 2 /* times what a look took: nobody waits for it */

enum bulk_phase {
	BULK_IDLE,     /* no order */
	BULK_READING,  /* of which targets it is */
	BULK_WATCHING, /* what became of the keys */
	BULK_ORDERING, /* a page */
	BULK_WAITING,  /* the timer runs */
};

struct bulk_target {
	char *name;
	int64_t cursor; /* keys up to this one are not looked at again */
	int64_t running;
	int64_t most; /* that may run */
	bool left;
};

struct bulk {
	struct log *log;
	struct pg *pg;
	const struct conf *conf;
	struct orders *orders;
	struct loop_timer *timer;
	struct log_limit limit;

	enum bulk_phase phase;
	const struct order *order;
	struct pace pace;
	int64_t done, failed;
	int64_t running;   /* of all targets, those that have no keys left too */
	char failure[256]; /* of the key that failed last */
	struct bulk_target *targets;
	size_t target_count;
	size_t turn; /* the target whose turn it is */

	int64_t rows;    /* that the next page may have */
	int64_t asked;   /* that this page may have */
	usec_t began_at; /* this look */
	usec_t busy_at;  /* when something last happened */
	usec_t pause;    /* before the next one */
};

static void set_phase(struct bulk *bulk, enum bulk_phase phase)
{
	bulk->phase = phase;
}

/* Something happened: we look soon. */
static void stir(struct bulk *bulk)
{
	bulk->pause = LOOK_FIRST;
	bulk->busy_at = usec_boot();
}

/* --- the order is over --- */

static void leave(struct bulk *bulk)
{
	for (size_t i = 0; i < bulk->target_count; i++)
		free(bulk->targets[i].name);
	free(bulk->targets);
	bulk->targets = NULL;
	bulk->target_count = 0;
	bulk->order = NULL;
	loop_timer_cancel(bulk->timer);
	set_phase(bulk, BULK_IDLE);
}

static void end(struct bulk *bulk, const char *state, const char *detail)
{
	orders_end(bulk->orders, state, detail);
	leave(bulk);
}

/* It begins anew, here or elsewhere. */
static void yield(struct bulk *bulk)
{
	leave(bulk);
	orders_yield(bulk->orders);
}

static void fail(struct bulk *bulk, const struct pg_error *error)
{
	uint64_t held;
	if (log_limit_pass(&bulk->limit, usec_boot(), SAY_EVERY, &held))
		log_warn(bulk->log, "order interrupted", LOG_INT("order", bulk->order->id),
			 LOG_TEXT("error", error->text), LOG_INT("held_back", held));
	yield(bulk);
}

static void end_failed(struct bulk *bulk)
{
	char detail[384];
	(void)snprintf(detail, sizeof(detail), "%lld keys failed again%s%s",
		       (long long)bulk->failed, *bulk->failure ? ", the last one: " : "",
		       bulk->failure);
	end(bulk, "stopped", detail);
}

static void end_canary(struct bulk *bulk)
{
	char detail[384];
	(void)snprintf(detail, sizeof(detail), "the first key failed again%s%s",
		       *bulk->failure ? ": " : "", bulk->failure);
	end(bulk, "stopped", detail);
}

/* --- a page --- */

static void watch(struct bulk *bulk);

/* Is it the key's own fault? Any other error may go away. */
static bool is_of_data(const struct pg_error *error)
{
	static const char *const classes[] = { "22", "23", "54", "P0" };
	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
		if (error->kind == PG_REFUSED && strncmp(error->sqlstate, classes[i], 2) == 0)
			return true;
	return false;
}

static void send_page(struct bulk *bulk, const char *sql, int64_t rows, const char *refusal);

/* Halved until the key that it is about stands alone, which is skipped. */
static void halve(struct bulk *bulk, const struct pg_error *error)
{
	if (bulk->asked == 1)
		return send_page(bulk, SQL_BULK_SKIP, 1, error->text);
	bulk->rows = bulk->asked / 2;
	watch(bulk);
}

/* Else its keys are done with as soon as they were ordered. */
static bool replays(const struct bulk *bulk)
{
	return strcmp(bulk->order->kind, "replay") == 0;
}

static void take_page(struct bulk *bulk, const PGresult *result)
{
	struct bulk_target *target = &bulk->targets[bulk->turn];
	const int64_t looked = pg_get_int8(result, 0, BULK_PAGE_LOOKED);
	const int64_t ordered = pg_get_int8(result, 0, BULK_PAGE_ORDERED);
	target->left = looked == bulk->asked;
	if (looked > 0)
		target->cursor = pg_get_int8(result, 0, BULK_PAGE_LAST);
	orders_counted(bulk->orders, replays(bulk) ? 0 : ordered, 0, looked - ordered);
	if (bulk->rows < ROWS_MAX)
		bulk->rows++;
	pace_spend(&bulk->pace, ordered);
	bulk->turn = (bulk->turn + 1) % bulk->target_count;
	stir(bulk);
}

static void on_page(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct bulk *bulk = arg;
	if (bulk->phase != BULK_ORDERING)
		return;
	if (error && is_of_data(error))
		return halve(bulk, error);
	if (error)
		return fail(bulk, error);
	crash_point("bulk_page.answered");
	if (!pg_get_bool(result, 0, BULK_PAGE_HELD))
		return yield(bulk);
	take_page(bulk, result);
	watch(bulk);
}

static void send_page(struct bulk *bulk, const char *sql, int64_t rows, const char *refusal)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	const struct bulk_target *target = &bulk->targets[bulk->turn];
	bulk->asked = rows;
	set_phase(bulk, BULK_ORDERING);
	pg_add_int8(&params, bulk->order->id);
	pg_add_int8(&params, orders_owned_by(bulk->orders));
	pg_add_text(&params, target->name);
	pg_add_int8(&params, target->cursor);
	pg_add_int8(&params, rows);
	if (refusal)
		pg_add_text(&params, refusal);
	crash_point("bulk_page.send");
	pg_send(bulk->pg, sql, &params, on_page, bulk);
	crash_point("bulk_page.sent");
}

static void order_page(struct bulk *bulk, int64_t count)
{
	send_page(bulk, replays(bulk) ? SQL_BULK_REPLAY : SQL_BULK_RESOLVE,
		  count < bulk->rows ? count : bulk->rows, NULL);
}

/* --- what is next --- */

static int64_t room_of(const struct bulk_target *target)
{
	return target->left && target->running < target->most ? target->most - target->running : 0;
}

/* The targets take turns; one without room is passed over. */
static struct pace_figures figures_of(struct bulk *bulk)
{
	struct pace_figures figures = { .done = bulk->done,
					.failed = bulk->failed,
					.running = bulk->running };
	for (size_t i = 0; i < bulk->target_count && figures.room == 0; i++) {
		const size_t at = (bulk->turn + i) % bulk->target_count;
		figures.room = room_of(&bulk->targets[at]);
		if (figures.room > 0)
			bulk->turn = at;
	}
	for (size_t i = 0; i < bulk->target_count; i++)
		figures.left |= bulk->targets[i].left;
	return figures;
}

/* The longer nothing happens, the more rarely we look; then others have a turn. */
static void wait(struct bulk *bulk, usec_t wanted)
{
	if (wanted == USEC_NEVER && usec_boot() - bulk->busy_at > REST_AFTER) {
		leave(bulk);
		return orders_rest(bulk->orders);
	}
	const usec_t took = usec_boot() - bulk->began_at;
	usec_t pause = bulk->pause;
	if (pause < took * PAUSE_FACTOR)
		pause = took * PAUSE_FACTOR;
	if (bulk->pause < LOOK_MAX)
		bulk->pause += bulk->pause / 2;
	set_phase(bulk, BULK_WAITING);
	loop_timer_set(bulk->timer, wanted < pause ? wanted : pause);
}

static void go_on(struct bulk *bulk)
{
	const struct pace_figures figures = figures_of(bulk);
	const struct pace_next next = pace_next(&bulk->pace, &figures, usec_boot());
	switch (next.step) {
	case PACE_ORDER:
		order_page(bulk, next.count);
		break;
	case PACE_WAIT:
		wait(bulk, next.wait);
		break;
	case PACE_DONE:
		end(bulk, "done", "");
		break;
	case PACE_CANARY:
		end_canary(bulk);
		break;
	case PACE_FAILED:
		end_failed(bulk);
		break;
	}
}

/* --- what became of the keys --- */

static struct bulk_target *find_target(struct bulk *bulk, const char *name)
{
	for (size_t i = 0; i < bulk->target_count; i++)
		if (strcmp(bulk->targets[i].name, name) == 0)
			return &bulk->targets[i];
	return NULL;
}

static void take_running(struct bulk *bulk, const PGresult *result)
{
	bulk->running = 0;
	for (size_t i = 0; i < bulk->target_count; i++)
		bulk->targets[i].running = 0;
	for (int row = 0; row < pg_rows(result); row++) {
		const char *name = pg_get_text(result, row, BULK_WATCH_TARGET);
		struct bulk_target *target = name ? find_target(bulk, name) : NULL;
		const int64_t running = pg_get_int8(result, row, BULK_WATCH_RUNNING);
		if (target)
			target->running = running;
		bulk->running += running;
	}
}

static void on_watched(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct bulk *bulk = arg;
	if (bulk->phase != BULK_WATCHING)
		return;
	if (error)
		return fail(bulk, error);
	crash_point("bulk_watch.answered");
	if (pg_rows(result) > 0) /* what has ended was written, whosever the order is by now */
		orders_counted(bulk->orders, pg_get_int8(result, 0, BULK_WATCH_NEW_DONE),
			       pg_get_int8(result, 0, BULK_WATCH_NEW_FAILED),
			       pg_get_int8(result, 0, BULK_WATCH_NEW_SKIPPED));
	if (pg_rows(result) == 0 || !pg_get_bool(result, 0, BULK_WATCH_HELD))
		return yield(bulk);
	bulk->done = pg_get_int8(result, 0, BULK_WATCH_DONE);
	bulk->failed = pg_get_int8(result, 0, BULK_WATCH_FAILED);
	if (!pg_null(result, 0, BULK_WATCH_FAILURE))
		(void)snprintf(bulk->failure, sizeof(bulk->failure), "%s",
			       pg_get_text(result, 0, BULK_WATCH_FAILURE));
	if (pg_get_int8(result, 0, BULK_WATCH_ENDED) > 0)
		stir(bulk);
	take_running(bulk, result);
	go_on(bulk);
}

static void watch(struct bulk *bulk)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	set_phase(bulk, BULK_WATCHING);
	bulk->began_at = usec_boot();
	pg_add_int8(&params, bulk->order->id);
	pg_add_int8(&params, orders_owned_by(bulk->orders));
	crash_point("bulk_watch.send");
	pg_send(bulk->pg, SQL_BULK_WATCH, &params, on_watched, bulk);
	crash_point("bulk_watch.sent");
}

static void on_timer(void *arg)
{
	struct bulk *bulk = arg;
	if (bulk->phase == BULK_WAITING)
		watch(bulk);
}

/* --- the beginning --- */

static bool is_called(const struct conf_target *target, const char *name)
{
	if (strcmp(target->name, name) == 0)
		return true;
	for (size_t i = 0; i < target->alias.count; i++)
		if (strcmp(target->alias.items[i], name) == 0)
			return true;
	return false;
}

static int64_t most_of(const struct bulk *bulk, const char *name)
{
	for (size_t i = 0; i < bulk->conf->target_count; i++)
		if (is_called(&bulk->conf->targets[i], name))
			return AHEAD * bulk->conf->targets[i].concurrency;
	return UNKNOWN;
}

static void on_targets(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct bulk *bulk = arg;
	if (bulk->phase != BULK_READING)
		return;
	if (error)
		return fail(bulk, error);
	bulk->target_count = (size_t)pg_rows(result);
	bulk->targets = mem_zero((bulk->target_count + 1) * sizeof(*bulk->targets));
	for (size_t i = 0; i < bulk->target_count; i++) {
		const char *name = pg_get_text(result, (int)i, 0);
		bulk->targets[i] = (struct bulk_target){ .name = mem_text(name),
							 .most = most_of(bulk, name),
							 .left = true };
	}
	watch(bulk);
}

static void on_begin(void *arg, const struct order *order)
{
	struct bulk *bulk = arg;
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	bulk->order = order;
	bulk->pace = (struct pace){ .rate = order->rate,
				    .canary = order->canary,
				    .stop_after = order->stop_after };
	bulk->failure[0] = '\0';
	bulk->turn = 0;
	bulk->rows = ROWS_MAX;
	stir(bulk);
	set_phase(bulk, BULK_READING);
	pg_add_int8(&params, order->id);
	pg_send(bulk->pg, SQL_BULK_TARGETS, &params, on_targets, bulk);
}

static void on_give_up(void *arg)
{
	leave(arg);
}

/* --- publics --- */

void bulk_owner(struct bulk *bulk, int64_t owner)
{
	orders_owner(bulk->orders, owner);
}

void bulk_stop(struct bulk *bulk)
{
	orders_stop(bulk->orders);
}

struct bulk *bulk_new(struct loop *loop, struct log *log, struct pg *pg, const struct conf *conf,
		      struct meter *meter)
{
	static const char *const kinds[] = { "replay", "resolve" };
	struct bulk *bulk = mem_zero(sizeof(*bulk));
	const struct orders_events events = { .begin = on_begin,
					      .give_up = on_give_up,
					      .arg = bulk };
	bulk->log = log;
	bulk->pg = pg;
	bulk->conf = conf;
	bulk->timer = loop_timer_new(loop, on_timer, bulk);
	bulk->orders =
		orders_new(loop, log, pg, meter, kinds, sizeof(kinds) / sizeof(kinds[0]), &events);
	return bulk;
}

void bulk_free(struct bulk *bulk)
{
	if (!bulk)
		return;
	leave(bulk);
	orders_free(bulk->orders);
	loop_timer_free(bulk->timer);
	free(bulk);
}
