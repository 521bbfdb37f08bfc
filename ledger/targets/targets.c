/* The targets' gates and the database.
 *
 * A decision made here counts at once; until the database has it, what is read of that target is
 * older than the decision and does not count. */
#include "targets.h"

#include <stdlib.h>
#include <string.h>

#include "execution/sql_execution.h"
#include "mem.h"
#include "target_state.h"

#define READ_EVERY USEC_SEC
#define JOIN_GRACE (2 * READ_EVERY) /* by then every other ledger has seen a new one */

struct targets {
	struct log *log;
	struct pg *pg;
	struct loop_timer *timer;
	struct target_state *states;
	size_t count;
	bool reading;
	bool serving;   /* there is a lease to claim under */
	bool joining;   /* under it, nothing was read yet */
	usec_t read_at; /* boot clock, at the sending of the latest reading */
	usec_t joined_at;
};

/* --- what the database says --- */

enum {
	COLUMN_LEDGERS,
	COLUMN_TARGET,
	COLUMN_HELD,
	COLUMN_PROBED,
	COLUMN_REASON,
	COLUMN_PAUSE,
	COLUMN_BREAKER_LEFT,
	COLUMN_BREAKER_UNTIL,
};

static bool is_called(const struct target_state *state, const char *name)
{
	return target_is_called(state->target, name);
}

/* What all rows of one target say: it may have several names, and whoever holds it holds it by any
 * of them. */
struct seen {
	bool held, probed;
	const char *reason;
	usec_t pause;
	usec_t breaker_until, breaker_left; /* of the row that we write */
};

static void add_row(struct seen *seen, const struct target_state *state, const PGresult *result,
		    int row)
{
	const usec_t pause = pg_get_int8(result, row, COLUMN_PAUSE);
	if (pg_get_bool(result, row, COLUMN_HELD)) {
		const bool probed = pg_get_bool(result, row, COLUMN_PROBED);
		seen->probed = seen->held ? seen->probed && probed : probed;
		seen->held = true;
		seen->reason = pg_get_text(result, row, COLUMN_REASON);
	}
	seen->pause = pause > seen->pause ? pause : seen->pause;
	if (!strcmp(pg_get_text(result, row, COLUMN_TARGET), state->name)) {
		seen->breaker_until = pg_get_time(result, row, COLUMN_BREAKER_UNTIL);
		seen->breaker_left = pg_get_int8(result, row, COLUMN_BREAKER_LEFT);
	}
}

static void take_seen(struct target_state *state, const struct seen *seen)
{
	target_state_see_hold(state, seen->held, seen->probed, seen->reason);
	target_state_see_pause(state, seen->pause);
	target_state_see_breaker(state, seen->breaker_until, seen->breaker_left);
}

/* Of several the others may not know of us yet. */
static void take_ledgers(const struct targets *targets, struct target_state *state, int64_t ledgers)
{
	const usec_t now = usec_boot();
	if (targets->joining)
		rate_join(&state->gate.rate, now, ledgers > 1 ? JOIN_GRACE : 0);
	rate_share(&state->gate.rate, ledgers, now);
}

static void take_rows(struct targets *targets, const PGresult *result)
{
	for (size_t i = 0; i < targets->count; i++) {
		struct target_state *state = &targets->states[i];
		struct seen seen = { .reason = "", .breaker_until = USEC_NEVER };
		for (int row = 0; row < pg_rows(result); row++) {
			const char *name = pg_get_text(result, row, COLUMN_TARGET);
			if (name && is_called(state, name))
				add_row(&seen, state, result, row);
		}
		take_seen(state, &seen);
		take_ledgers(targets, state, pg_get_int8(result, 0, COLUMN_LEDGERS));
		state->gate.known = true;
		target_state_write(state);
		if (targets->serving)
			target_state_ask(state);
	}
	targets->joining = false;
}

static void on_read(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct targets *targets = arg;
	targets->reading = false;
	if (error && error->kind == PG_REFUSED)
		log_warn(targets->log, "targets cannot be read", LOG_TEXT("error", error->text));
	if (targets->joining && targets->read_at <= targets->joined_at)
		targets_read(targets); /* it may not count ourselves */
	else if (!error)
		take_rows(targets, result);
}

void targets_read(struct targets *targets)
{
	if (targets->reading || !pg_up(targets->pg))
		return;
	targets->reading = true;
	targets->read_at = usec_boot();
	pg_send(targets->pg, SQL_TARGETS, NULL, on_read, targets);
}

static void on_timer(void *arg)
{
	struct targets *targets = arg;
	loop_timer_set(targets->timer, READ_EVERY);
	targets_read(targets);
}

void targets_join(struct targets *targets)
{
	targets->serving = true;
	targets->joining = true;
	targets->joined_at = usec_boot();
	for (size_t i = 0; i < targets->count; i++)
		targets->states[i].gate.known = false;
	targets_read(targets);
}

void targets_leave(struct targets *targets)
{
	targets->serving = false;
}

/* --- what answers say --- */

void targets_judge(struct targets *targets, const struct target_answer *answer,
		   struct verdict *verdict)
{
	struct target_state *state = &targets->states[answer->target];
	const enum breaker_sign sign = breaker_sign(verdict);
	target_state_decide_breaker(state,
				    breaker_judge(&state->gate.breaker, sign, answer->probe,
						  answer->started, usec_boot()),
				    verdict);
	target_state_decide_hold(
		state, gate_judge(&state->gate, answer->key, answer->probe, verdict), verdict);
}

void targets_pause(struct targets *targets, size_t target, usec_t length)
{
	target_state_pause(&targets->states[target], length);
}

struct gate *targets_gate(struct targets *targets, size_t target)
{
	return &targets->states[target].gate;
}

struct targets *targets_new(struct loop *loop, struct log *log, struct pg *pg,
			    const struct conf *conf, const struct rules *rules)
{
	struct targets *targets = mem_zero(sizeof(*targets));
	targets->log = log;
	targets->pg = pg;
	targets->count = rules_target_count(rules);
	targets->states = mem_grow(NULL, targets->count + 1, sizeof(struct target_state));
	for (size_t i = 0; i < targets->count; i++)
		target_state_init(&targets->states[i], log, pg, conf, rules_target(rules, i));
	targets->timer = loop_timer_new(loop, on_timer, targets);
	loop_timer_set(targets->timer, 0);
	return targets;
}

void targets_free(struct targets *targets)
{
	if (!targets)
		return;
	loop_timer_free(targets->timer);
	free(targets->states);
	free(targets);
}
