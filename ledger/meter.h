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

/* Of orders that a ledger carries out. X(symbol, name in counterfoil.operation) */
#define METER_KINDS(X)                                                                             \
	X(REPLAY, "replay")                                                                        \
	X(RESOLVE, "resolve")                                                                      \
	X(POISON, "poison")                                                                        \
	X(REDELIVER, "redeliver")                                                                  \
	X(REWIND, "rewind")
#define METER_OPEN_STATES(X)                                                                       \
	X(QUEUED, "queued")                                                                        \
	X(RUNNING, "running")                                                                      \
	X(PAUSED, "paused")
#define METER_ENDS(X)                                                                              \
	X(DONE, "done")                                                                            \
	X(STOPPED, "stopped")                                                                      \
	X(FAILED, "failed")
#define METER_RESULTS(X)                                                                           \
	X(DONE, "done")                                                                            \
	X(FAILED, "failed")                                                                        \
	X(SKIPPED, "skipped")
#define X(symbol, name) METER_KIND_##symbol,
enum meter_kind { METER_KINDS(X) METER_KIND_COUNT };
#undef X
#define X(symbol, name) METER_OPEN_##symbol,
enum meter_open { METER_OPEN_STATES(X) METER_OPEN_COUNT };
#undef X
#define X(symbol, name) METER_END_##symbol,
enum meter_end { METER_ENDS(X) METER_END_COUNT };
#undef X
#define X(symbol, name) METER_RESULT_##symbol,
enum meter_result { METER_RESULTS(X) METER_RESULT_COUNT };
#undef X

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

	struct series *operations[METER_KIND_COUNT][METER_OPEN_COUNT];
	struct series *operation_items_open[METER_KIND_COUNT];
	struct series *operations_ended[METER_KIND_COUNT][METER_END_COUNT];
	struct series *operation_items[METER_KIND_COUNT][METER_RESULT_COUNT];

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
/* Orders: those that are open, of all processes, and what this one did of them. A kind or state
 * that is not in the lists above is not counted. */
void meter_operations_set(struct meter *meter, double value); /* all of those that are open */
void meter_operations(struct meter *meter, const char *kind, const char *state, int64_t orders,
		      int64_t items);
void meter_operation_ended(struct meter *meter, const char *kind, const char *state);
void meter_operation_items(struct meter *meter, const char *kind, enum meter_result result,
			   int64_t items);
void meter_lag(struct meter *meter, const char *topic, int32_t partition, int64_t messages);

#endif
