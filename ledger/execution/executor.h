/* Execution: claims due keys, sends their requests, records what came of it, takes over what is
 * stale. Owns the HTTP transfers and the connections for claims, results and the sweep. */
#ifndef LEDGER_EXECUTOR_H
#define LEDGER_EXECUTOR_H

#include "conf.h"
#include "instance.h"
#include "log.h"
#include "loop.h"
#include "meter.h"
#include "rules/rules.h"

struct executor;

struct executor_events {
	/* Due rows passed ledger.due_high, or fell below due_low. */
	void (*backlog)(void *arg, bool high);
	void *arg;
};

/* conf, rules and meter are borrowed. */
struct executor *executor_new(struct loop *loop, struct log *log, const struct conf *conf,
			      const struct rules *rules, struct meter *meter,
			      const struct executor_events *events);
/* The lease as it stands: id 0 takes every transfer back at once. */
void executor_lease_set(struct executor *executor, int64_t instance, usec_t until_boot);
void executor_kick(struct executor *executor); /* new rows may be due: claim now */
/* Claims nothing more; transfers finish until `deadline` (boot clock), then are taken back; results
 * are written; then calls done. */
void executor_stop(struct executor *executor, usec_t deadline_boot, loop_fn *done, void *arg);
void executor_free(struct executor *executor);

/* Is the target, by its index, sent to? Not while it is held, or has asked for a pause. */
bool executor_target_open(const struct executor *executor, size_t target);
void executor_measure(const struct executor *executor); /* into the meter */

#endif
