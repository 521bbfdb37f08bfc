/* Orders.
 *
 *   STOPPED --an owner--> IDLE --time--> TAKING --a row--> CARRYING --end--> ENDING --answered-->
 * IDLE ^               \--none--> IDLE    |
 *                          +---- lost, paused, cancelled -----+
 *   any --no owner, stop--> STOPPED
 *
 * Statements are answered in the order of sending. Answers that belong to an order that is carried
 * out no more are told by its round. */
#include "orders.h"

#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "mem.h"
#include "sql_operations.h"
#include "usec.h"

#define LEASE      (10 * USEC_SEC)
#define LOOK_EVERY USEC_SEC
#define SAY_EVERY  USEC_MIN

enum orders_state {
	ORDERS_STOPPED,  /* no lease, or the ledger stops */
	ORDERS_IDLE,     /* the timer looks for one */
	ORDERS_TAKING,   /* is there one? */
	ORDERS_CARRYING, /* the timer renews its lease */
	ORDERS_ENDING,   /* its end is written */
};

struct orders {
	struct log *log;
	struct pg *pg;
	struct meter *meter;
	struct orders_events events;
	struct pg_array kinds;
	struct loop_timer *timer;
	struct log_limit limit;

	enum orders_state state;
	bool stopped;  /* for good */
	int64_t owner; /* 0: nobody */
	struct order order;
	PGresult *row;   /* its texts */
	usec_t until;    /* boot clock: its lease */
	usec_t asked_at; /* when a lease was last asked for */
	size_t waiting;  /* answers to come that are about this order */
	size_t obsolete; /* answers to come before those: nobody cares for them any more */
};

static void set_state(struct orders *orders, enum orders_state state)
{
	orders->state = state;
}

/* --- statements --- */

static void ask(struct orders *orders, const char *sql, const struct pg_params *params,
		pg_done_fn *done)
{
	orders->waiting++;
	pg_send(orders->pg, sql, params, done, orders);
}

/* Counts an answer. False: it is about an order that is over. */
static bool is_awaited(struct orders *orders)
{
	if (orders->obsolete) {
		orders->obsolete--;
		return false;
	}
	orders->waiting--;
	return true;
}

static void add_held(const struct orders *orders, struct pg_params *params)
{
	pg_add_int8(params, orders->order.id);
	pg_add_int8(params, orders->owner);
}

static void complain(struct orders *orders, const struct pg_error *error)
{
	uint64_t held;
	if (error->kind == PG_REFUSED &&
	    log_limit_pass(&orders->limit, usec_boot(), SAY_EVERY, &held))
		log_warn(orders->log, "orders cannot be carried out",
			 LOG_TEXT("error", error->text), LOG_INT("held_back", held));
}

/* --- the order is over --- */

static void leave(struct orders *orders, usec_t pause)
{
	orders->obsolete += orders->waiting;
	orders->waiting = 0;
	pg_drop(orders->row);
	orders->row = NULL;
	if (orders->stopped || !orders->owner) {
		set_state(orders, ORDERS_STOPPED);
		loop_timer_cancel(orders->timer);
	} else {
		set_state(orders, ORDERS_IDLE);
		loop_timer_set(orders->timer, pause);
	}
}

static void give_up(struct orders *orders, const char *why)
{
	log_info(orders->log, "order given up", LOG_INT("order", orders->order.id),
		 LOG_TEXT("kind", orders->order.kind), LOG_TEXT("reason", why));
	orders->events.give_up(orders->events.arg);
	leave(orders, LOOK_EVERY);
}

/* Of a statement that is guarded by the owner: is the order still ours? */
static bool is_held(struct orders *orders, const PGresult *result, const struct pg_error *error)
{
	if (error) {
		complain(orders, error);
		give_up(orders, error->text);
		return false;
	}
	if (pg_rows(result) == 1)
		return true;
	give_up(orders, "it is paused or cancelled, or another ledger's");
	return false;
}

static void on_released(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct orders *orders = arg;
	(void)result;
	(void)error; /* then its lease runs out */
	(void)is_awaited(orders);
	crash_point("orders_release.answered");
}

/* So that nobody need wait for the lease's end. */
static void release(struct orders *orders)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	add_held(orders, &params);
	crash_point("orders_release.send");
	ask(orders, SQL_ORDERS_RELEASE, &params, on_released);
	crash_point("orders_release.sent");
}

/* --- one is carried out --- */

static void on_renewed(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct orders *orders = arg;
	if (!is_awaited(orders) || !is_held(orders, result, error))
		return;
	crash_point("orders_renew.answered");
	orders->until = orders->asked_at + LEASE;
}

static void renew(struct orders *orders)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	if (usec_boot() >= orders->until)
		return give_up(orders, "its lease could not be renewed in time");
	orders->asked_at = usec_boot();
	loop_timer_set(orders->timer, LEASE / 3);
	add_held(orders, &params);
	pg_add_interval(&params, LEASE);
	crash_point("orders_renew.send");
	ask(orders, SQL_ORDERS_RENEW, &params, on_renewed);
	crash_point("orders_renew.sent");
}

static void read_order(struct orders *orders)
{
	const PGresult *row = orders->row;
	orders->order = (struct order){
		.id = pg_get_int8(row, 0, ORDER_ID),
		.operation = pg_get_text(row, 0, ORDER_OPERATION),
		.kind = pg_get_text(row, 0, ORDER_KIND),
		.params = pg_get_text(row, 0, ORDER_PARAMS),
		.cursor = pg_get_text(row, 0, ORDER_CURSOR),
		.who = pg_get_text(row, 0, ORDER_WHO),
		.claims = pg_get_text(row, 0, ORDER_CLAIMS),
		.reason = pg_get_text(row, 0, ORDER_REASON),
		.rate = strtod(pg_get_text(row, 0, ORDER_RATE), NULL),
		.canary = pg_get_bool(row, 0, ORDER_CANARY),
		.stop_after = pg_get_int8(row, 0, ORDER_STOP_AFTER),
		.total = pg_get_int8(row, 0, ORDER_TOTAL),
		.done = pg_get_int8(row, 0, ORDER_DONE),
		.failed = pg_get_int8(row, 0, ORDER_FAILED),
		.skipped = pg_get_int8(row, 0, ORDER_SKIPPED),
	};
}

static void on_taken(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct orders *orders = arg;
	if (!is_awaited(orders))
		return;
	if (error)
		complain(orders, error);
	if (error || pg_rows(result) == 0)
		return leave(orders, LOOK_EVERY);
	crash_point("orders_take.answered");
	orders->row = pg_keep(result);
	orders->until = orders->asked_at + LEASE;
	read_order(orders);
	set_state(orders, ORDERS_CARRYING);
	loop_timer_set(orders->timer, LEASE / 3);
	log_write(orders->log, pg_get_bool(result, 0, ORDER_FRESH) ? LOG_INFO : LOG_DEBUG,
		  "order begun",
		  LOG_FIELDS(LOG_INT("order", orders->order.id),
			     LOG_TEXT("kind", orders->order.kind),
			     LOG_TEXT("who", orders->order.who)));
	orders->events.begin(orders->events.arg, &orders->order);
}

static void take(struct orders *orders)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	set_state(orders, ORDERS_TAKING);
	orders->asked_at = usec_boot();
	pg_add_int8(&params, orders->owner);
	pg_add_array(&params, &orders->kinds);
	pg_add_interval(&params, LEASE);
	crash_point("orders_take.send");
	ask(orders, SQL_ORDERS_TAKE, &params, on_taken);
	crash_point("orders_take.sent");
}

static void on_timer(void *arg)
{
	struct orders *orders = arg;
	switch (orders->state) {
	case ORDERS_STOPPED:
	case ORDERS_TAKING:
	case ORDERS_ENDING:
		break;
	case ORDERS_IDLE:
		take(orders);
		break;
	case ORDERS_CARRYING:
		renew(orders);
		break;
	}
}

/* --- publics --- */

static void count_items(struct meter *meter, const char *kind, int64_t done, int64_t failed,
			int64_t skipped)
{
	meter_operation_items(meter, kind, METER_RESULT_DONE, done);
	meter_operation_items(meter, kind, METER_RESULT_FAILED, failed);
	meter_operation_items(meter, kind, METER_RESULT_SKIPPED, skipped);
}

void orders_counted(struct orders *orders, int64_t done, int64_t failed, int64_t skipped)
{
	count_items(orders->meter, orders->order.kind, done, failed, skipped);
}

/* What was written is counted also when the order is over meanwhile. */
static void on_progress(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct orders *orders = arg;
	if (!error)
		crash_point("orders_progress.answered");
	if (!error && pg_rows(result) == 1)
		count_items(orders->meter, pg_get_text(result, 0, PROGRESS_KIND),
			    pg_get_int8(result, 0, PROGRESS_DONE),
			    pg_get_int8(result, 0, PROGRESS_FAILED),
			    pg_get_int8(result, 0, PROGRESS_SKIPPED));
	if (is_awaited(orders))
		(void)is_held(orders, result, error);
}

void orders_progress(struct orders *orders, int64_t done, int64_t failed, int64_t skipped,
		     const char *cursor)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	add_held(orders, &params);
	pg_add_int8(&params, done);
	pg_add_int8(&params, failed);
	pg_add_int8(&params, skipped);
	pg_add_text(&params, cursor);
	crash_point("orders_progress.send");
	ask(orders, SQL_ORDERS_PROGRESS, &params, on_progress);
	crash_point("orders_progress.sent");
}

static void on_ended(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct orders *orders = arg;
	if (!is_awaited(orders))
		return;
	if (error)
		complain(orders, error);
	else
		crash_point("orders_end.answered");
	if (!error && pg_rows(result) == 1) /* else it had been cancelled or lost before */
		meter_operation_ended(orders->meter, orders->order.kind, pg_get_text(result, 0, 0));
	leave(orders, error ? LOOK_EVERY : 0);
}

void orders_end(struct orders *orders, const char *state, const char *detail)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	log_info(orders->log, "order ends", LOG_INT("order", orders->order.id),
		 LOG_TEXT("kind", orders->order.kind), LOG_TEXT("state", state),
		 LOG_TEXT("detail", detail));
	set_state(orders, ORDERS_ENDING);
	loop_timer_cancel(orders->timer);
	orders->obsolete += orders->waiting; /* it is the executor's no longer */
	orders->waiting = 0;
	add_held(orders, &params);
	pg_add_text(&params, state);
	pg_add_text(&params, detail);
	crash_point("orders_end.send");
	ask(orders, SQL_ORDERS_END, &params, on_ended);
	crash_point("orders_end.sent");
}

void orders_yield(struct orders *orders)
{
	leave(orders, LOOK_EVERY);
}

void orders_rest(struct orders *orders)
{
	release(orders);
	leave(orders, 0);
}

int64_t orders_owned_by(const struct orders *orders)
{
	return orders->owner;
}

static void end(struct orders *orders, const char *why)
{
	if (orders->state == ORDERS_CARRYING)
		give_up(orders, why);
	else
		leave(orders, 0);
}

void orders_owner(struct orders *orders, int64_t owner)
{
	if (orders->stopped || orders->owner == owner)
		return;
	orders->owner = owner;
	end(orders, "the instance's lease was lost");
}

void orders_stop(struct orders *orders)
{
	if (orders->stopped)
		return;
	orders->stopped = true;
	if (orders->state == ORDERS_CARRYING)
		release(orders);
	end(orders, "stopping");
}

struct orders *orders_new(struct loop *loop, struct log *log, struct pg *pg, struct meter *meter,
			  const char *const *kinds, size_t count,
			  const struct orders_events *events)
{
	struct orders *orders = mem_zero(sizeof(*orders));
	orders->log = log;
	orders->pg = pg;
	orders->meter = meter;
	orders->events = *events;
	orders->timer = loop_timer_new(loop, on_timer, orders);
	pg_array_init(&orders->kinds, PG_TEXT);
	for (size_t i = 0; i < count; i++)
		pg_array_text(&orders->kinds, kinds[i]);
	return orders;
}

void orders_free(struct orders *orders)
{
	if (!orders)
		return;
	pg_array_done(&orders->kinds);
	pg_drop(orders->row);
	loop_timer_free(orders->timer);
	free(orders);
}
