/* One target's gate and its row in counterfoil.target_state: what is decided here and written
 * there, what is seen there, and the one key that of all processes only one may let through. */
#ifndef LEDGER_TARGET_STATE_H
#define LEDGER_TARGET_STATE_H

#include "conf.h"
#include "gate.h"
#include "log.h"
#include "pg.h"
#include "rules/rules.h"

struct target_state {
	struct log *log;
	struct pg *pg;
	const struct target *target;
	const char *name;    /* of its row: the one under which its keys are recorded */
	usec_t trial_length; /* longer than a trial can take */
	struct gate gate;

	enum gate_news hold;      /* that the database has not got yet */
	enum gate_news hold_sent; /* a statement about it has no answer yet */
	bool probing;             /* a probe is being asked for */
	char reason[40];

	enum breaker_news trip;      /* as above, of the breaker */
	enum breaker_news trip_sent; /* */
	bool trying;                 /* a trial is being asked for */
	usec_t trial;                /* breaker_until as we wrote it for ours; USEC_NEVER: none */

	int pausing;     /* pauses without an answer yet */
	bool pause_seen; /* the pause stands in the database */
};

void target_state_init(struct target_state *state, struct log *log, struct pg *pg,
		       const struct conf *conf, const struct target *target);

/* What the database says. */
void target_state_see_hold(struct target_state *state, bool held, bool probed, const char *reason);
void target_state_see_pause(struct target_state *state, usec_t left); /* 0: none */
/* until: breaker_until, and what is left of it; USEC_NEVER: it is closed. */
void target_state_see_breaker(struct target_state *state, usec_t until, usec_t left);

void target_state_write(struct target_state *state); /* what it has not got yet */
void target_state_ask(struct target_state *state);   /* for the one key, where its time has come */

void target_state_decide_hold(struct target_state *state, enum gate_news news,
			      const struct verdict *verdict);
void target_state_decide_breaker(struct target_state *state, enum breaker_news news,
				 const struct verdict *verdict);
void target_state_pause(struct target_state *state, usec_t length);

#endif
