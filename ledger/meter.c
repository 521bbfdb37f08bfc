/* The ledger's metrics. */
#include "meter.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "version.h"

static struct series *counter(struct meter *meter, const char *name, const char *help)
{
	return metric_series(metrics_counter(meter->metrics, name, help, NULL, NULL), NULL, NULL);
}

/* --- keys --- */

/* Those that finished well are not counted: no index knows them, and there is no end to them. */
static void add_states(struct meter *meter)
{
	static const enum effect_state counted[] = { EFFECT_PENDING,    EFFECT_IN_FLIGHT,
						     EFFECT_RETRY_WAIT, EFFECT_UNCERTAIN,
						     EFFECT_DEAD,       EFFECT_CANCELLED };
	struct metric *keys = metrics_gauge(
		meter->metrics, "effect_keys",
		"Keys in this state, of all processes; counted up to 10000.", "state", NULL);
	struct metric *oldest =
		metrics_gauge(meter->metrics, "effect_oldest_age_seconds",
			      "How long the oldest of these keys has been in its state, in "
			      "seconds; 0: there is none.",
			      "state", NULL);
	for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++) {
		const enum effect_state state = counted[i];
		meter->keys[state] = metric_series(keys, effect_state_name(state), NULL);
		meter->oldest_age[state] = metric_series(oldest, effect_state_name(state), NULL);
		series_set(meter->keys[state], (double)NAN);
		series_set(meter->oldest_age[state], (double)NAN);
	}
}

static struct series *transition(struct meter *meter, enum effect_state from, enum effect_state to)
{
	struct series **series = &meter->transitions[from][to];
	if (!*series)
		*series = metric_series(meter->transition,
					from == METER_NEW ? "new" : effect_state_name(from),
					effect_state_name(to));
	return *series;
}

/* The steps that this program makes: those of ledger/outcome/life.h, intake and claim. */
static void add_transitions(struct meter *meter)
{
	static const enum effect_state steps[][2] = {
		{ METER_NEW, EFFECT_PENDING },           { METER_NEW, EFFECT_DEAD },
		{ EFFECT_PENDING, EFFECT_IN_FLIGHT },    { EFFECT_PENDING, EFFECT_UNCERTAIN },
		{ EFFECT_PENDING, EFFECT_DEAD },         { EFFECT_RETRY_WAIT, EFFECT_IN_FLIGHT },
		{ EFFECT_RETRY_WAIT, EFFECT_UNCERTAIN }, { EFFECT_RETRY_WAIT, EFFECT_DEAD },
		{ EFFECT_IN_FLIGHT, EFFECT_PENDING },    { EFFECT_IN_FLIGHT, EFFECT_RETRY_WAIT },
		{ EFFECT_IN_FLIGHT, EFFECT_COMPLETED },  { EFFECT_IN_FLIGHT, EFFECT_UNCERTAIN },
		{ EFFECT_IN_FLIGHT, EFFECT_DEAD },       { EFFECT_UNCERTAIN, EFFECT_COMPLETED },
	};
	meter->transition = metrics_counter(meter->metrics, "effect_transitions_total",
					    "Keys that this process has moved.", "from", "to");
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		(void)transition(meter, steps[i][0], steps[i][1]);
}

void meter_moved(struct meter *meter, enum effect_state from, enum effect_state to, uint64_t count)
{
	series_add(transition(meter, from, to), count);
}

/* --- intake --- */

static void add_intake(struct meter *meter)
{
	const struct conf *conf = meter->conf;
	const size_t topics = rules_topic_count(meter->rules);
	struct metric *duplicates = metrics_counter(
		meter->metrics, "duplicates_suppressed_total",
		"Events whose key was recorded before, with the same content.", "effect", NULL);
	struct metric *unmatched =
		metrics_counter(meter->metrics, "unmatched_total",
				"Events that no effect asks for.", "topic", NULL);
	meter->duplicates = mem_zero((conf->effect_count + 1) * sizeof(struct series *));
	for (size_t i = 0; i < conf->effect_count; i++)
		meter->duplicates[i] = metric_series(duplicates, conf->effects[i].name, NULL);
	meter->unmatched = mem_zero((topics + 1) * sizeof(struct series *));
	for (size_t i = 0; i < topics; i++)
		meter->unmatched[i] = metric_series(unmatched, rules_topic(meter->rules, i), NULL);
	meter->conflicts = counter(meter, "conflicts_total",
				   "Events whose key stands for something else already.");
	meter->poison = counter(meter, "poison_total", "Messages that were kept as poison.");
	meter->position_mismatch =
		counter(meter, "position_mismatch_total",
			"Times that a partition was not where this process had left it, in the "
			"database or in Kafka.");
	meter->rebalances =
		counter(meter, "rebalances_total", "Assignments of partitions to this process.");
	meter->lag = metrics_gauge(meter->metrics, "consumer_lag_messages",
				   "Messages that Kafka had and the ledger had not recorded, when "
				   "this process last fetched.",
				   "topic", "partition");
}

void meter_duplicate(struct meter *meter, const struct conf_effect *effect)
{
	series_add(meter->duplicates[effect - meter->conf->effects], 1);
}

void meter_unmatched(struct meter *meter, const char *topic)
{
	for (size_t i = 0; i < rules_topic_count(meter->rules); i++)
		if (strcmp(rules_topic(meter->rules, i), topic) == 0)
			series_add(meter->unmatched[i], 1);
}

void meter_lag(struct meter *meter, const char *topic, int32_t partition, int64_t messages)
{
	char number[16];
	(void)snprintf(number, sizeof(number), "%" PRId32, partition);
	series_set(metric_series(meter->lag, topic, number), (double)messages);
}

/* --- execution --- */

static struct series **by_target(const struct meter *meter, struct metric *metric)
{
	const size_t count = rules_target_count(meter->rules);
	struct series **all = mem_zero((count + 1) * sizeof(struct series *));
	for (size_t i = 0; i < count; i++)
		all[i] = metric_series(metric, rules_target(meter->rules, i)->conf->name, NULL);
	return all;
}

static void add_attempts(struct meter *meter)
{
	const size_t count = rules_target_count(meter->rules);
	struct metric *attempts =
		metrics_counter(meter->metrics, "attempts_total", "Attempts, by what they came to.",
				"target", "outcome");
	meter->attempts = mem_zero((count + 1) * sizeof(*meter->attempts));
	for (size_t i = 0; i < count; i++)
		for (enum outcome outcome = 0; outcome < OUTCOME_COUNT; outcome++)
			meter->attempts[i][outcome] =
				metric_series(attempts, rules_target(meter->rules, i)->conf->name,
					      outcome_name(outcome));
	meter->attempt_seconds = by_target(
		meter, metrics_histogram(meter->metrics, "attempt_seconds",
					 "How long requests took, answered or not, in seconds.",
					 "target"));
}

void meter_lost(struct meter *meter, const char *target)
{
	for (size_t i = 0; i < rules_target_count(meter->rules); i++)
		if (strcmp(rules_target(meter->rules, i)->conf->name, target) == 0)
			series_add(meter->attempts[i][OUTCOME_LOST], 1);
}

static void add_execution(struct meter *meter)
{
	struct metric *held = metrics_gauge(meter->metrics, "target_held",
					    "1 while nothing is sent to the target, because of "
					    "its answers or a person.",
					    "target", NULL);
	struct metric *paused =
		metrics_gauge(meter->metrics, "target_paused",
			      "1 while the target has asked to be left alone.", "target", NULL);
	struct metric *breaker = metrics_gauge(meter->metrics, "target_breaker_open",
					       "1 while nothing is sent to the target, but for a "
					       "trial now and then, because it fails.",
					       "target", NULL);
	struct metric *due = metrics_gauge(meter->metrics, "effect_oldest_due_age_seconds",
					   "How long the oldest key that is due waits to be sent, "
					   "in seconds; 0: there is none.",
					   "target", NULL);
	add_attempts(meter);
	meter->held = by_target(meter, held);
	meter->paused = by_target(meter, paused);
	meter->breaker = by_target(meter, breaker);
	meter->oldest_due = by_target(meter, due);
	for (size_t i = 0; i < rules_target_count(meter->rules); i++)
		series_set(meter->oldest_due[i], (double)NAN);
	meter->lease_lost = counter(meter, "lease_lost_total",
				    "Times that this process could not renew its lease.");
	meter->emit_failed = counter(
		meter, "emit_failed_total",
		"Ended keys whose event or dead letter could not be written with their result.");
	meter->late_results =
		counter(meter, "late_results_total",
			"Results of claims that were no longer in force: kept as evidence.");
}

/* --- orders --- */

#define X(symbol, name) name,
static const char *const kind_names[] = { METER_KINDS(X) };
static const char *const open_names[] = { METER_OPEN_STATES(X) };
static const char *const end_names[] = { METER_ENDS(X) };
static const char *const result_names[] = { METER_RESULTS(X) };
#undef X

static void add_operations_of(struct meter *meter, enum meter_kind kind, struct metric *open,
			      struct metric *ended, struct metric *items)
{
	for (size_t i = 0; i < METER_OPEN_COUNT; i++)
		meter->operations[kind][i] = metric_series(open, kind_names[kind], open_names[i]);
	for (size_t i = 0; i < METER_END_COUNT; i++)
		meter->operations_ended[kind][i] =
			metric_series(ended, kind_names[kind], end_names[i]);
	for (size_t i = 0; i < METER_RESULT_COUNT; i++)
		meter->operation_items[kind][i] =
			metric_series(items, kind_names[kind], result_names[i]);
}

static void add_operations(struct meter *meter)
{
	struct metric *open =
		metrics_gauge(meter->metrics, "operations_open",
			      "Orders that have not ended, of all processes.", "kind", "state");
	struct metric *left = metrics_gauge(
		meter->metrics, "operation_items_open",
		"Keys of these orders that nothing was done to yet, where their number is known.",
		"kind", NULL);
	struct metric *ended =
		metrics_counter(meter->metrics, "operations_ended_total",
				"Orders that this process has ended.", "kind", "state");
	struct metric *items = metrics_counter(
		meter->metrics, "operation_items_total",
		"Keys or messages of orders that this process is through with, by what came of "
		"them.",
		"kind", "result");
	for (enum meter_kind kind = 0; kind < METER_KIND_COUNT; kind++) {
		add_operations_of(meter, kind, open, ended, items);
		meter->operation_items_open[kind] = metric_series(left, kind_names[kind], NULL);
	}
	meter_operations_set(meter, (double)NAN);
}

/* `count`: it is none of them. */
static size_t index_of(const char *const *names, size_t count, const char *name)
{
	size_t at = 0;
	while (at < count && strcmp(names[at], name) != 0)
		at++;
	return at;
}

void meter_operations_set(struct meter *meter, double value)
{
	for (size_t kind = 0; kind < METER_KIND_COUNT; kind++) {
		for (size_t i = 0; i < METER_OPEN_COUNT; i++)
			series_set(meter->operations[kind][i], value);
		series_set(meter->operation_items_open[kind], value);
	}
}

void meter_operations(struct meter *meter, const char *kind, const char *state, int64_t orders,
		      int64_t items)
{
	const size_t at = index_of(kind_names, METER_KIND_COUNT, kind);
	const size_t open = index_of(open_names, METER_OPEN_COUNT, state);
	if (at == METER_KIND_COUNT || open == METER_OPEN_COUNT)
		return;
	series_set(meter->operations[at][open], (double)orders);
	series_set(meter->operation_items_open[at], (double)items);
}

void meter_operation_ended(struct meter *meter, const char *kind, const char *state)
{
	const size_t at = index_of(kind_names, METER_KIND_COUNT, kind);
	const size_t end = index_of(end_names, METER_END_COUNT, state);
	if (at < METER_KIND_COUNT && end < METER_END_COUNT)
		series_add(meter->operations_ended[at][end], 1);
}

void meter_operation_items(struct meter *meter, const char *kind, enum meter_result result,
			   int64_t items)
{
	const size_t at = index_of(kind_names, METER_KIND_COUNT, kind);
	if (at < METER_KIND_COUNT && items > 0)
		series_add(meter->operation_items[at][result], (uint64_t)items);
}

/* --- the whole --- */

struct meter *meter_new(const struct conf *conf, const struct rules *rules)
{
	struct meter *meter = mem_zero(sizeof(*meter));
	meter->metrics = metrics_new();
	meter->conf = conf;
	meter->rules = rules;
	add_states(meter);
	add_transitions(meter);
	add_intake(meter);
	add_execution(meter);
	add_operations(meter);
	meter->db_reconnects =
		counter(meter, "db_reconnects_total", "Connections to PostgreSQL made anew.");
	struct metric *build = metrics_gauge(meter->metrics, "build_info",
					     "1; the labels tell the build.", "version", NULL);
	series_set(metric_series(build, COUNTERFOIL_VERSION, NULL), 1);
	return meter;
}

void meter_free(struct meter *meter)
{
	if (!meter)
		return;
	free(meter->oldest_due);
	free(meter->held);
	free(meter->paused);
	free(meter->breaker);
	free(meter->attempt_seconds);
	free(meter->attempts);
	free(meter->duplicates);
	free(meter->unmatched);
	metrics_free(meter->metrics);
	free(meter);
}
