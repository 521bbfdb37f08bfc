/* The targets' gates, shared by all processes through counterfoil.target_state: a hold and a pause
 * decided here is written there, what the others decided is read every second. */
#ifndef LEDGER_TARGETS_H
#define LEDGER_TARGETS_H

#include "gate.h"
#include "log.h"
#include "loop.h"
#include "pg.h"
#include "rules/rules.h"

struct targets;

/* pg is the caller's and outlives the targets' statements: free it first. */
struct targets *targets_new(struct loop *loop, struct log *log, struct pg *pg,
			    const struct rules *rules);
void targets_free(struct targets *targets);
void targets_read(struct targets *targets); /* now: the database answers again */

struct gate *targets_gate(struct targets *targets, size_t target);
/* What an answer says of its target; see gate_judge(). */
void targets_judge(struct targets *targets, size_t target, int64_t key, bool probe,
		   struct verdict *verdict);
/* The target asks not to be called for so long. */
void targets_pause(struct targets *targets, size_t target, usec_t length);

#endif
