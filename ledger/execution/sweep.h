/* The sweep: about once a second, in every process, it takes over what is stale, ends what time has
 * ended, frees heads that a race left waiting, and estimates the backlog. Owns its connection. */
#ifndef LEDGER_SWEEP_H
#define LEDGER_SWEEP_H

#include "claim.h"
#include "conf.h"
#include "log.h"
#include "loop.h"
#include "meter.h"
#include "rules/rules.h"

struct sweep;

struct sweep_events {
	void (*found)(void *arg);              /* keys are due now */
	void (*backlog)(void *arg, bool high); /* see executor.h */
	void *arg;
};

/* plans: one a target, by its index; borrowed like the rest. */
struct sweep *sweep_new(struct loop *loop, struct log *log, const struct conf *conf,
			const struct rules *rules, const struct claim_plan *plans,
			struct meter *meter, const struct sweep_events *events);
void sweep_free(struct sweep *sweep);

#endif
