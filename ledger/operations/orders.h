/* Orders: rows of counterfoil.operation that a ledger carries out, one at a time, under a lease of
 * its own. Who serves some kinds of them makes one of these with the names of those kinds.
 *
 * An order survives its ledger: another one takes it over where `cursor` stands. So whoever carries
 * one out must be able to do its last step twice. */
#ifndef LEDGER_ORDERS_H
#define LEDGER_ORDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log.h"
#include "loop.h"
#include "meter.h"
#include "pg.h"

struct orders;

/* One order while it is carried out. Texts live until the order has ended or was given up. */
struct order {
	int64_t id;
	const char *operation; /* uuid */
	const char *kind;
	const char *params; /* JSON */
	const char *cursor; /* "" at first */
	const char *who;
	const char *claims; /* JSON */
	const char *reason;
	double rate; /* keys a second; 0: none was asked for */
	bool canary;
	int64_t stop_after;                   /* 0: never */
	int64_t total, done, failed, skipped; /* when it was taken */
};

struct orders_events {
	/* It is ours: carry it out, in steps, and end it by orders_end(). */
	void (*begin)(void *arg, const struct order *order);
	/* It is ours no longer (paused, cancelled, the lease lost, progress not written, the ledger
	 * stops): not one step more. What was sent to the database before may stand. */
	void (*give_up)(void *arg);
	void *arg;
};

/* `kinds` live as long as the orders. pg is the caller's and is freed first; its statements may be
 * used for the steps too. Nothing is taken before orders_owner(). */
struct orders *orders_new(struct loop *loop, struct log *log, struct pg *pg, struct meter *meter,
			  const char *const *kinds, size_t count,
			  const struct orders_events *events);
void orders_free(struct orders *orders); /* NULL is fine; gives nothing up by itself */
/* The instance's id, as often as it is renewed; 0: no lease, what is carried out is given up. */
void orders_owner(struct orders *orders, int64_t owner);
void orders_stop(struct orders *orders); /* takes no more, gives up what is carried out */

/* These only between begin() and give_up() or orders_end(). */

/* Adds to the figures of the order that is carried out, and sets the cursor unless it is NULL: one
 * statement. When it changes nothing, or its answer is lost, give_up() follows. */
void orders_progress(struct orders *orders, int64_t done, int64_t failed, int64_t skipped,
		     const char *cursor);
/* For the metrics: figures of this order that the executor's own statement has added. */
void orders_counted(struct orders *orders, int64_t done, int64_t failed, int64_t skipped);
/* state: "done", "stopped" or "failed". When that cannot be written the order begins once more. */
void orders_end(struct orders *orders, const char *state, const char *detail);
/* A step found that it cannot go on now, or that the order is no longer ours: it begins once more
 * in a while, here or elsewhere, if it still stands. give_up() is not called. */
void orders_yield(struct orders *orders);
/* Nothing can be done of it for now: others have their turn before it begins once more. give_up()
 * is not called. */
void orders_rest(struct orders *orders);
int64_t orders_owned_by(const struct orders *orders); /* for guarding the steps' own statements */

#endif
