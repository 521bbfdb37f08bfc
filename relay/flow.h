/* The way of the rows while the relay owns the outbox: polled, published, acknowledged, deleted. It
 * asks own() before each step that only the owner may take. */
#ifndef COUNTERFOIL_RELAY_FLOW_H
#define COUNTERFOIL_RELAY_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf.h"
#include "err.h"
#include "health.h"
#include "log.h"
#include "loop.h"
#include "meter.h"
#include "pg.h"

struct flow_events {
	/* The database can be used. */
	void (*ready)(void *arg);
	/* It cannot; was_ready: it could before. */
	void (*down)(void *arg, const char *reason, bool was_ready);
	/* Is the outbox still ours? When it no longer is, flow_retire() was called. */
	bool (*own)(void *arg);
	/* Perhaps it no longer is: none of the rows to delete was there. */
	void (*doubt)(void *arg);
	/* What the relay is, in a word. */
	const char *(*role)(void *arg);
	/* After flow_drain(): nothing is in flight, and everything acknowledged is deleted. */
	void (*drained)(void *arg);
	void *arg;
};

struct flow;

/* owner: of the lease; borrowed like conf and the meter. False: the configuration does not do. */
MUST_USE bool flow_new(struct loop *loop, struct log *log, const struct conf *conf,
		       const struct pg_settings *pg, const char *owner, struct meter *meter,
		       const struct flow_events *events, struct err *err, struct flow **flow_r);
void flow_free(struct flow *flow);

/* The outbox is ours, under this token; unclean: the owner before did not stop cleanly. */
void flow_start(struct flow *flow, int64_t token, bool unclean);
void flow_drain(struct flow *flow); /* nothing more is read */

struct flow_left {
	size_t in_flight;   /* sent, their fate unknown: they will be sent again */
	size_t not_deleted; /* acknowledged */
};
/* At once: nothing that has not left yet will. What was in flight is forgotten. */
struct flow_left flow_retire(struct flow *flow);
/* Ids may have been given out again: none that is remembered means anything. */
void flow_forget(struct flow *flow);

void flow_say_totals(const struct flow *flow); /* into the log */

const char *flow_lease(const struct flow *flow); /* its name */

bool flow_suspects(const struct flow *flow);             /* rows are held back, see suspects.h */
bool flow_database(const struct flow *flow);             /* connected */
bool flow_schema(const struct flow *flow);               /* its schema fits, and it is ours */
const char *flow_misfit(const struct flow *flow);        /* why not, last; "": not known */
struct health_wait flow_oldest(const struct flow *flow); /* row of the outbox */
void flow_measure(const struct flow *flow);              /* into the meter */

#endif
