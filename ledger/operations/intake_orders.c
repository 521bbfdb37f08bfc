/* Orders to intake: takes them one at a time and gives each to those that carry out its kind. */
#include "intake_orders.h"

#include <stdlib.h>
#include <string.h>

#include "database.h"
#include "intake_job.h"
#include "mem.h"

static const struct job_kind *const kinds[] = { &poison_job, &redeliver_job, &rewind_job };

enum { KIND_COUNT = sizeof(kinds) / sizeof(kinds[0]) };

struct intake_orders {
	struct workshop shop;
	struct intake_orders_events events;
	const struct order *order; /* ours; NULL: none */
	struct job *job;           /* that carries it out, or an earlier one to its end */
	const char *names[KIND_COUNT];
};

/* As soon as the last job is gone and the connection is there. */
static void begin(struct intake_orders *all)
{
	if (!all->order || all->job || !pg_up(all->shop.pg))
		return;
	for (size_t i = 0; i < KIND_COUNT; i++)
		if (strcmp(kinds[i]->name, all->order->kind) == 0)
			all->job = kinds[i]->begin(&all->shop, all->order);
}

static void on_up(void *arg)
{
	begin(arg);
}

static void on_down(void *arg, const char *reason)
{
	struct intake_orders *all = arg;

	log_warn(all->shop.log, "database away", LOG_TEXT("part", "orders"),
		 LOG_TEXT("reason", reason));
}

static void open_database(struct intake_orders *all)
{
	const struct pg_events events = { .up = on_up, .down = on_down, .arg = all };
	const struct pg_settings settings = database_settings(all->shop.conf, all->shop.meter);

	if (!all->shop.pg)
		all->shop.pg = pg_new(all->shop.loop, all->shop.log, &settings, &events);
}

static void on_begin(void *arg, const struct order *order)
{
	struct intake_orders *all = arg;

	all->order = order;
	open_database(all);
	begin(all);
}

static void on_give_up(void *arg)
{
	struct intake_orders *all = arg;

	all->order = NULL;
	if (all->job)
		job_give_up(all->job);
}

/* What was given up is ours no longer already, and another order may have come since. */
static void on_gone(void *arg)
{
	struct intake_orders *all = arg;

	if (!all->job->given_up)
		all->order = NULL;
	all->job = NULL;
	begin(all);
}

static void on_recorded(void *arg, int64_t effects)
{
	struct intake_orders *all = arg;

	if (effects > 0)
		all->events.recorded(all->events.arg, effects);
}

struct intake_orders *intake_orders_new(struct loop *loop, struct log *log, struct pg *pg,
					const struct conf *conf, struct rules *rules,
					struct meter *meter,
					const struct intake_orders_events *events)
{
	struct intake_orders *all = mem_zero(sizeof(*all));
	const struct orders_events own = { .begin = on_begin, .give_up = on_give_up, .arg = all };

	for (size_t i = 0; i < KIND_COUNT; i++)
		all->names[i] = kinds[i]->name;
	all->events = *events;
	all->shop = (struct workshop){
		.loop = loop,
		.log = log,
		.conf = conf,
		.rules = rules,
		.meter = meter,
		.orders = orders_new(loop, log, pg, meter, all->names, KIND_COUNT, &own),
		.recorded = on_recorded,
		.gone = on_gone,
		.arg = all,
	};
	return all;
}

void intake_orders_free(struct intake_orders *all)
{
	if (!all)
		return;
	if (all->job)
		all->job->given_up = true;
	all->order = NULL;
	if (all->shop.pg)
		pg_free(all->shop.pg); /* the answer that a job waits for */
	orders_free(all->shop.orders);
	if (all->job)
		job_give_up(all->job);
	free(all);
}

void intake_orders_owner(struct intake_orders *all, int64_t owner)
{
	orders_owner(all->shop.orders, owner);
}

void intake_orders_stop(struct intake_orders *all)
{
	orders_stop(all->shop.orders);
}
