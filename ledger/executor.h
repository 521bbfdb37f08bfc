/* Execution: claims due keys, sends their requests, records what came of it, takes over what is
 * stale. Owns the HTTP transfers and the connections for claims, results and the sweep. */
#ifndef LEDGER_EXECUTOR_H
#define LEDGER_EXECUTOR_H

#include "conf.h"
#include "instance.h"
#include "log.h"
#include "loop.h"
#include "rules.h"

struct executor;

struct executor_events {
	/* Due rows passed ledger.due_high, or fell below due_low. */
	void (*backlog)(void *arg, bool high);
	void *arg;
};

/* conf and rules are borrowed. */
struct executor *executor_new(struct loop *loop, struct log *log, const struct conf *conf,
			      const struct rules *rules, const struct executor_events *events);
/* The lease as it stands: id 0 takes every transfer back at once. */
void executor_lease_set(struct executor *executor, int64_t instance, usec_t until_boot);
void executor_kick(struct executor *executor); /* new rows may be due: claim now */
/* Claims nothing more; transfers finish until `deadline` (boot clock), then are taken back; results
 * are written; then calls done. */
void executor_stop(struct executor *executor, usec_t deadline_boot, loop_fn *done, void *arg);
void executor_free(struct executor *executor);

#endif
