/* The targets' gates and the database.
 *
 * A decision made here counts at once; until the database has it, what is read of that target is
 * older than the decision and does not count. */
#include "targets.h"

#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "mem.h"
#include "sql_execution.h"

#define READ_EVERY  USEC_SEC
#define PROBE_EVERY USEC_MIN
#define PROBE_FOR   (PROBE_EVERY - 10 * USEC_SEC) /* nobody else is let through before */
#define PAUSE_STEP  (50 * USEC_MS)                /* a pause longer by less is not written */

enum decision { DECIDED_NOTHING, DECIDED_HOLD, DECIDED_OPEN };

struct slot {
	struct targets *targets;
	const struct target *target;
	struct gate gate;
	enum decision decision; /* that the database has not got yet */
	bool writing;           /* a statement about it has no answer yet */
	bool probing;           /* a probe is being asked for */
	char reason[40];
};

struct targets {
	struct log *log;
	struct pg *pg;
	struct loop_timer *timer;
	struct slot *slots;
	size_t count;
	bool reading;
};

/* --- decisions, on their way to the database --- */

static void write_decision(struct slot *slot);

static void report_decision(struct slot *slot, bool changed)
{
	struct log *log = slot->targets->log;
	const char *name = slot->target->conf->name;
	if (!changed)
		return; /* another process was first, and has said so */
	if (slot->decision == DECIDED_HOLD)
		log_error(log, "target held: it refuses us, not the keys", LOG_TEXT("target", name),
			  LOG_TEXT("reason", slot->reason));
	else
		log_warn(log, "target open again", LOG_TEXT("target", name));
}

static void on_decision(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct slot *slot = arg;
	const bool held = slot->decision == DECIDED_HOLD;
	slot->writing = false;
	if (error)
		return; /* the next reading writes it again */
	crash_point("target_decide.answered");
	if (held == slot->gate.held) {
		report_decision(slot, pg_rows(result) > 0);
		slot->decision = DECIDED_NOTHING;
	} else { /* it was decided otherwise meanwhile */
		write_decision(slot);
	}
}

static void write_decision(struct slot *slot)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	struct pg *pg = slot->targets->pg;
	if (slot->decision == DECIDED_NOTHING || slot->writing || !pg_up(pg))
		return;
	slot->writing = true;
	slot->decision = slot->gate.held ? DECIDED_HOLD : DECIDED_OPEN;
	crash_point("target_decide.send");
	pg_add_text(&params, slot->target->conf->name);
	if (slot->decision == DECIDED_HOLD) {
		pg_add_text(&params, slot->reason);
		pg_add_interval(&params, PROBE_EVERY);
		pg_send(pg, SQL_TARGET_HOLD, &params, on_decision, slot);
	} else {
		pg_send(pg, SQL_TARGET_OPEN, &params, on_decision, slot);
	}
	crash_point("target_decide.sent");
}

static void on_ignored(void *arg, const PGresult *result, const struct pg_error *error)
{
	(void)arg;
	(void)result;
	(void)error; /* a pause that is not known elsewhere is met there by its own 429 */
	crash_point("target_pause.answered");
}

static void write_pause(struct slot *slot, usec_t length)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	struct pg *pg = slot->targets->pg;
	if (!pg_up(pg))
		return;
	pg_add_text(&params, slot->target->conf->name);
	pg_add_interval(&params, length);
	crash_point("target_pause.send");
	pg_send(pg, SQL_TARGET_PAUSE, &params, on_ignored, NULL);
	crash_point("target_pause.sent");
}

/* --- probes --- */

static void on_probe(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct slot *slot = arg;
	slot->probing = false;
	if (error || pg_rows(result) == 0 || !slot->gate.held)
		return;
	crash_point("target_probe.answered");
	slot->gate.probe_until = usec_boot() + PROBE_FOR;
	log_info(slot->targets->log, "probing a held target",
		 LOG_TEXT("target", slot->target->conf->name));
}

static void ask_probe(struct slot *slot)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	struct pg *pg = slot->targets->pg;
	const struct gate *gate = &slot->gate;
	if (!gate->held || !gate->by_system || slot->decision != DECIDED_NOTHING || slot->probing ||
	    gate->probe_until > usec_boot())
		return;
	slot->probing = true;
	crash_point("target_probe.send");
	pg_add_text(&params, slot->target->conf->name);
	pg_add_interval(&params, PROBE_EVERY);
	pg_send(pg, SQL_TARGET_PROBE, &params, on_probe, slot);
	crash_point("target_probe.sent");
}

/* --- what the database says --- */

static struct slot *find(struct targets *targets, const char *name)
{
	for (size_t i = 0; i < targets->count; i++) {
		if (!strcmp(targets->slots[i].target->conf->name, name))
			return &targets->slots[i];
	}
	return NULL;
}

static void take_held(struct slot *slot, bool held, bool by_system, const char *reason)
{
	struct gate *gate = &slot->gate;
	if (slot->decision != DECIDED_NOTHING)
		return;
	if (gate->held != held)
		log_warn(slot->targets->log, held ? "target is held" : "target is open",
			 LOG_TEXT("target", slot->target->conf->name), LOG_TEXT("reason", reason));
	gate->held = held;
	gate->by_system = by_system;
	if (!held)
		gate->probe_until = 0;
}

static void take_row(struct targets *targets, const PGresult *result, int row, bool *seen)
{
	struct slot *slot = find(targets, pg_get_text(result, row, 0));
	if (!slot)
		return;
	const usec_t pause = pg_null(result, row, 4) ? 0 : pg_get_int8(result, row, 4);
	const usec_t until = usec_boot() + pause;
	seen[slot - targets->slots] = true;
	take_held(slot, pg_get_bool(result, row, 1), pg_get_bool(result, row, 2),
		  pg_get_text(result, row, 3));
	if (pause > 0 && until > slot->gate.paused_until)
		slot->gate.paused_until = until;
}

static void take_rows(struct targets *targets, const PGresult *result)
{
	bool *seen = mem_zero(targets->count + 1);
	for (int row = 0; row < pg_rows(result); row++)
		take_row(targets, result, row, seen);
	for (size_t i = 0; i < targets->count; i++) {
		struct slot *slot = &targets->slots[i];
		if (!seen[i])
			take_held(slot, false, false, "");
		slot->gate.known = true;
		write_decision(slot);
		ask_probe(slot);
	}
	free(seen);
}

static void on_read(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct targets *targets = arg;
	targets->reading = false;
	if (error && error->kind == PG_REFUSED)
		log_warn(targets->log, "targets cannot be read", LOG_TEXT("error", error->text));
	if (!error)
		take_rows(targets, result);
}

void targets_read(struct targets *targets)
{
	if (targets->reading || !pg_up(targets->pg))
		return;
	targets->reading = true;
	pg_send(targets->pg, SQL_TARGETS, NULL, on_read, targets);
}

static void on_timer(void *arg)
{
	struct targets *targets = arg;
	loop_timer_set(targets->timer, READ_EVERY);
	targets_read(targets);
}

/* --- what answers say --- */

void targets_judge(struct targets *targets, size_t target, int64_t key, bool probe,
		   struct verdict *verdict)
{
	struct slot *slot = &targets->slots[target];
	switch (gate_judge(&slot->gate, key, probe, verdict)) {
	case GATE_SAME:
		return;
	case GATE_HELD:
		memcpy(slot->reason, verdict->error_class, sizeof(slot->reason));
		slot->decision = DECIDED_HOLD;
		return write_decision(slot);
	case GATE_OPENED:
		slot->decision = DECIDED_OPEN;
		return write_decision(slot);
	}
}

void targets_pause(struct targets *targets, size_t target, usec_t length)
{
	struct slot *slot = &targets->slots[target];
	const usec_t until = usec_boot() + length;
	if (length <= 0 || until <= slot->gate.paused_until + PAUSE_STEP)
		return;
	slot->gate.paused_until = until;
	write_pause(slot, length);
}

struct gate *targets_gate(struct targets *targets, size_t target)
{
	return &targets->slots[target].gate;
}

struct targets *targets_new(struct loop *loop, struct log *log, struct pg *pg,
			    const struct rules *rules)
{
	struct targets *targets = mem_zero(sizeof(*targets));
	targets->log = log;
	targets->pg = pg;
	targets->count = rules_target_count(rules);
	targets->slots = mem_grow(NULL, targets->count + 1, sizeof(struct slot));
	for (size_t i = 0; i < targets->count; i++)
		targets->slots[i] =
			(struct slot){ .targets = targets, .target = rules_target(rules, i) };
	targets->timer = loop_timer_new(loop, on_timer, targets);
	loop_timer_set(targets->timer, 0);
	return targets;
}

void targets_free(struct targets *targets)
{
	if (!targets)
		return;
	loop_timer_free(targets->timer);
	free(targets->slots);
	free(targets);
}
