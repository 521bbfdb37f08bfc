/* What the files of the executor share. */
#ifndef LEDGER_EXECUTOR_PRIVATE_H
#define LEDGER_EXECUTOR_PRIVATE_H

#include "alone.h"
#include "attempt.h"
#include "executor.h"
#include "sweep.h"

enum executor_state {
	EXECUTOR_RUNNING,
	EXECUTOR_DRAINING,  /* claims nothing; transfers finish until `end` fires */
	EXECUTOR_RECORDING, /* transfers were taken back; results are written until `end` fires */
	EXECUTOR_STOPPED,   /* `end` tells so */
};

/* The claims of one target, under one of the names that its keys are recorded with. */
struct lane {
	struct executor *executor;
	const struct target *target;
	const char *name;
	struct turn turn; /* among its tenants */
	struct buf aside; /* of this tenant's keys those of paused effects are being put aside */
	bool asking;
	bool full;   /* the last claim got all that it asked for: there may be more */
	bool kicked; /* new rows may be due */
	bool saves;  /* it claims nothing until a key may run alone: one is due */
	int races;
	usec_t not_before;
};

struct executor {
	struct loop *loop;
	struct log *log;
	const struct conf *conf;
	const struct rules *rules;
	struct meter *meter;
	struct executor_events events;
	enum executor_state state;

	struct pg *pg; /* claims and targets */
	struct targets *targets;
	struct markers *markers;
	struct results *results;
	struct attempts *attempts;
	struct sweep *sweep;
	struct claim_events claim_events;
	struct claim_plan *plans;
	struct lane *lanes; /* those of one target behind one another */
	size_t lane_count;
	size_t next;              /* the lane that claims first */
	struct tenants **tenants; /* of each target */
	struct alone alone;
	struct loop_timer *idle;
	struct loop_timer *turn;  /* claims once for all that happened in this turn of the loop */
	struct loop_timer *token; /* claims when a rate lets one through again */
	usec_t token_at;
	struct loop_timer *end;

	int64_t instance; /* 0: no lease */
	usec_t until;     /* boot clock */
	int64_t asked;    /* rows of claims without an answer yet */
	int64_t bytes;    /* that they may bring */
	bool crowded;     /* a lane waits for the bodies of others to go */
	struct {
		int64_t owner;   /* 0: no claim's answer was lost */
		usec_t asked_at; /* of the first such claim */
		bool asking;
	} doubt;

	struct log_limit refusals, strangers;
	loop_fn *stopped;
	void *stopped_arg;
};

/* executor_claims.c: lanes, timers, claim_events. */
void executor_claims_init(struct executor *executor);
void executor_claims_done(struct executor *executor);
/* Keys that have waited for others, or for somebody, are due since long ago. */
void executor_kick_for_old(struct executor *executor);
/* A slot of the target, and of the tenant, has got free. */
void executor_slot_free(struct executor *executor, const struct target *target, size_t tenant);
/* What a claim took whose answer was lost is put back. */
void executor_look_up_doubtful(struct executor *executor);

/* executor.c: called wherever something may have been the last. */
void executor_check_stopped(struct executor *executor);

#endif
