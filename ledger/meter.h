/* What the ledger counts and measures, for /metrics. Whoever knows a number sets it. Labels: names
 * of the configuration, states, outcomes; all series but those of the lag are made at the start. */
#ifndef LEDGER_METER_H
#define LEDGER_METER_H

#include "conf.h"
#include "effect.h"
#include "metrics.h"
#include "outcome/outcome.h"
#include "rules/rules.h"

#define METER_NEW EFFECT_STATE_COUNT /* where a new key comes from */

struct meter {
	struct metrics *metrics;
	struct series *keys[EFFECT_STATE_COUNT];       /* NULL: not counted */
	struct series *oldest_age[EFFECT_STATE_COUNT]; /* the same */
	struct series *conflicts;
	struct series *poison;
	struct series *lease_lost;
	struct series *late_results;
	struct series *emit_failed;
	struct series *position_mismatch;
	struct series *rebalances;
	struct series *db_reconnects;

	/* By index of the target in the rules. */
	struct series **oldest_due;
	struct series **held;
	struct series **paused;
	struct series **breaker;
	struct series **attempt_seconds;
	struct series *(*attempts)[OUTCOME_COUNT];

	struct series **duplicates; /* by index of the effect in the configuration */
	struct series **unmatched;  /* by index of the topic in the rules */
	struct series *transitions[EFFECT_STATE_COUNT + 1][EFFECT_STATE_COUNT];
	struct metric *transition;
	struct metric *lag; /* its partitions come and go */
	const struct conf *conf;
	const struct rules *rules;
};

/* conf and rules are borrowed. */
struct meter *meter_new(const struct conf *conf, const struct rules *rules);
void meter_free(struct meter *meter);

/* from: a state, or METER_NEW. */
void meter_moved(struct meter *meter, enum effect_state from, enum effect_state to, uint64_t count);
void meter_lost(struct meter *meter, const char *target); /* an attempt, by who made it */
void meter_duplicate(struct meter *meter, const struct conf_effect *effect);
void meter_unmatched(struct meter *meter, const char *topic);
void meter_lag(struct meter *meter, const char *topic, int32_t partition, int64_t messages);

#endif
