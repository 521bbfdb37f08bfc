/* The targets' gates, shared by all processes through counterfoil.target_state: a hold, a pause and
 * an open breaker that were decided on here are written there, what the others decided is read
 * every second, and how many share a rate. */
#ifndef LEDGER_TARGETS_H
#define LEDGER_TARGETS_H

#include "conf.h"
#include "gate.h"
#include "log.h"
#include "loop.h"
#include "pg.h"
#include "rules/rules.h"

struct targets;

/* pg is the caller's and outlives the targets' statements: free it first. */
struct targets *targets_new(struct loop *loop, struct log *log, struct pg *pg,
			    const struct conf *conf, const struct rules *rules);
void targets_free(struct targets *targets);
void targets_read(struct targets *targets); /* now: the database answers again */
/* A lease was taken, or there is none to claim under: then others may try what is to be tried. */
void targets_join(struct targets *targets);
void targets_leave(struct targets *targets);

struct gate *targets_gate(struct targets *targets, size_t target);

/* What an answer says of its target; see gate_judge() and breaker_judge(). */
struct target_answer {
	size_t target;
	int64_t key;
	bool probe;     /* of the key that was let through */
	usec_t started; /* boot clock */
};
void targets_judge(struct targets *targets, const struct target_answer *answer,
		   struct verdict *verdict);
/* The target asks not to be called for so long. */
void targets_pause(struct targets *targets, size_t target, usec_t length);

#endif
