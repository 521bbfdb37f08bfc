/* Orders to intake: poison that is taken in after all, events that are read again, positions that
 * go back. One at a time, on a connection of their own, made for the first. */
#ifndef LEDGER_INTAKE_ORDERS_H
#define LEDGER_INTAKE_ORDERS_H

#include "conf.h"
#include "log.h"
#include "loop.h"
#include "meter.h"
#include "pg.h"
#include "rules/rules.h"

struct intake_orders;

struct intake_orders_events {
	void (*recorded)(void *arg, int64_t effects); /* new rows were committed */
	void *arg;
};

/* pg is the caller's and is freed first. Nothing is done before intake_orders_owner(). */
struct intake_orders *intake_orders_new(struct loop *loop, struct log *log, struct pg *pg,
					const struct conf *conf, struct rules *rules,
					struct meter *meter,
					const struct intake_orders_events *events);
void intake_orders_free(struct intake_orders *all);                 /* NULL is fine */
void intake_orders_owner(struct intake_orders *all, int64_t owner); /* 0: no lease */
void intake_orders_stop(struct intake_orders *all);

#endif
