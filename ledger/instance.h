/* This process in the database: its row in counterfoil.instance and its lease. The lease is counted
 * by the boot clock from the sending of the renewal, so it always ends here before it ends there.
 */
#ifndef LEDGER_INSTANCE_H
#define LEDGER_INSTANCE_H

#include "conf.h"
#include "log.h"
#include "loop.h"
#include "meter.h"
#include "pg.h"

struct instance;

struct instance_events {
	/* A lease is held under this instance id: once for each new id, and again after every
	 * renewal, when instance_until() has moved on. */
	void (*held)(void *arg, int64_t id);
	void (*lost)(void *arg); /* it ended, or ends at once: nothing may be sent any more */
	void *arg;
};

struct instance *instance_new(struct loop *loop, struct log *log, const struct conf *conf,
			      struct meter *meter, const struct instance_events *events);
void instance_free(struct instance *instance);
/* Ends the lease in the database, then calls done (also when the database does not answer). */
void instance_release(struct instance *instance, loop_fn *done, void *arg);

int64_t instance_id(const struct instance *instance);   /* 0: no lease */
usec_t instance_until(const struct instance *instance); /* boot clock; 0: no lease */

#endif
