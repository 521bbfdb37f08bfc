/* One target's gate and the database. */
#include "target_state.h"

#include <string.h>

#include "crash.h"
#include "execution/sql_execution.h"

#define PROBE_EVERY USEC_MIN
#define PROBE_FOR   (PROBE_EVERY - 10 * USEC_SEC) /* nobody else is let through before */
#define TRIAL_FOR   (5 * USEC_SEC)                /* within it a key must be claimed */
#define PAUSE_STEP  (50 * USEC_MS)                /* a pause longer by less is not written */

/* --- holds, on their way to the database --- */

static void write_hold(struct target_state *state);

static void report_hold(const struct target_state *state, bool changed)
{
	if (!changed)
		return; /* another process was first, and has said so */
	switch (state->hold) {
	case GATE_SAME:
		break;
	case GATE_HELD:
		log_error(state->log, "target held: it refuses us, not the keys",
			  LOG_TEXT("target", state->name), LOG_TEXT("reason", state->reason));
		break;
	case GATE_DISABLED:
		log_error(state->log, "target disabled: its endpoint is gone, until it is released",
			  LOG_TEXT("target", state->name), LOG_TEXT("reason", state->reason));
		break;
	case GATE_OPENED:
		log_warn(state->log, "target open again", LOG_TEXT("target", state->name));
		break;
	}
}

static void on_hold(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct target_state *state = arg;
	const enum gate_news sent = state->hold_sent;
	state->hold_sent = GATE_SAME;
	if (error)
		return; /* the next reading writes it again */
	crash_point("target_decide.answered");
	if (state->hold == sent) {
		report_hold(state, pg_rows(result) > 0);
		state->hold = GATE_SAME;
	} else { /* it was decided otherwise meanwhile */
		write_hold(state);
	}
}

static void write_hold(struct target_state *state)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	if (state->hold == GATE_SAME || state->hold_sent != GATE_SAME || !pg_up(state->pg))
		return;
	state->hold_sent = state->hold;
	crash_point("target_decide.send");
	pg_add_text(&params, state->name);
	if (state->hold == GATE_OPENED) {
		pg_send(state->pg, SQL_TARGET_OPEN, &params, on_hold, state);
	} else {
		pg_add_text(&params, state->reason);
		pg_add_interval(&params, state->hold == GATE_HELD ? PROBE_EVERY : USEC_NEVER);
		pg_send(state->pg, SQL_TARGET_HOLD, &params, on_hold, state);
	}
	crash_point("target_decide.sent");
}

void target_state_decide_hold(struct target_state *state, enum gate_news news,
			      const struct verdict *verdict)
{
	if (news == GATE_SAME)
		return;
	if (news == GATE_DISABLED)
		memcpy(state->reason, "410 gone", sizeof("410 gone"));
	else
		memcpy(state->reason, verdict->error_class, sizeof(state->reason));
	state->hold = news;
	write_hold(state);
}

/* --- probes of a held target --- */

static void on_probe(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct target_state *state = arg;
	state->probing = false;
	if (error || pg_rows(result) == 0 || !state->gate.held)
		return;
	crash_point("target_probe.answered");
	state->gate.probe_until = usec_boot() + PROBE_FOR;
	log_info(state->log, "probing a held target", LOG_TEXT("target", state->name));
}

static void ask_probe(struct target_state *state)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	if (!state->gate.probed || state->hold != GATE_SAME || state->probing ||
	    state->gate.probe_until > usec_boot())
		return;
	state->probing = true;
	crash_point("target_probe.send");
	pg_add_text(&params, state->name);
	pg_add_interval(&params, PROBE_EVERY);
	pg_send(state->pg, SQL_TARGET_PROBE, &params, on_probe, state);
	crash_point("target_probe.sent");
}

/* --- the breaker's moves, on their way to the database --- */

static void write_trip(struct target_state *state);

static void on_trip(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct target_state *state = arg;
	const enum breaker_news sent = state->trip_sent;
	(void)result; /* no row: others moved it meanwhile, as is read */
	state->trip_sent = BREAKER_SAME;
	if (error)
		return; /* the next reading writes it again */
	crash_point("breaker_move.answered");
	if (state->trip == sent)
		state->trip = BREAKER_SAME;
	else
		write_trip(state);
}

static void write_trip(struct target_state *state)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	if (state->trip == BREAKER_SAME || state->trip_sent != BREAKER_SAME || !pg_up(state->pg))
		return;
	state->trip_sent = state->trip;
	crash_point("breaker_move.send");
	pg_add_text(&params, state->name);
	if (state->trip != BREAKER_OPENED)
		pg_add_time(&params, state->trial);
	if (state->trip != BREAKER_HEALED)
		pg_add_interval(&params, state->target->conf->breaker.open);
	pg_send(state->pg,
		state->trip == BREAKER_OPENED     ? SQL_BREAKER_OPEN
		: state->trip == BREAKER_REOPENED ? SQL_BREAKER_REOPEN
						  : SQL_BREAKER_CLOSE,
		&params, on_trip, state);
	crash_point("breaker_move.sent");
}

static void report_trip(const struct target_state *state, enum breaker_news news,
			const struct verdict *verdict)
{
	const char *name = state->name, *why = verdict->error_class;
	switch (news) {
	case BREAKER_SAME:
		break;
	case BREAKER_OPENED:
		log_warn(state->log, "breaker opened: the target is left alone for a while",
			 LOG_TEXT("target", name), LOG_TEXT("last", why));
		break;
	case BREAKER_REOPENED:
		log_info(state->log, "breaker stays open: the trial failed",
			 LOG_TEXT("target", name), LOG_TEXT("last", why));
		break;
	case BREAKER_HEALED:
		log_warn(state->log, "breaker closed: the target answers again",
			 LOG_TEXT("target", name));
		break;
	}
}

void target_state_decide_breaker(struct target_state *state, enum breaker_news news,
				 const struct verdict *verdict)
{
	if (news == BREAKER_SAME)
		return;
	report_trip(state, news, verdict);
	state->trip = news;
	write_trip(state);
}

/* --- the trial of a breaker that is half open --- */

static void on_trial(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct target_state *state = arg;
	state->trying = false;
	if (error || pg_rows(result) == 0)
		return;
	crash_point("breaker_trial.answered");
	state->trial = pg_get_time(result, 0, 0);
	breaker_grant(&state->gate.breaker, usec_boot() + TRIAL_FOR);
	log_info(state->log, "breaker lets one key through", LOG_TEXT("target", state->name));
}

/* One that came to nothing, for want of a key, is asked for again before others may. */
static void ask_trial(struct target_state *state)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	if (!breaker_wants_trial(&state->gate.breaker, usec_boot()) || state->gate.held ||
	    state->trip != BREAKER_SAME || state->trying)
		return;
	state->trying = true;
	crash_point("breaker_trial.send");
	pg_add_text(&params, state->name);
	pg_add_interval(&params, state->trial_length);
	pg_add_time(&params, state->trial);
	pg_send(state->pg, SQL_BREAKER_TRIAL, &params, on_trial, state);
	crash_point("breaker_trial.sent");
}

/* --- pauses --- */

static void on_pause(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct target_state *state = arg;
	(void)result;
	state->pausing--;
	state->pause_seen =
		!error; /* if it is not known elsewhere, it is met there by its own 429 */
	crash_point("target_pause.answered");
}

static void write_pause(struct target_state *state, usec_t length)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	if (!pg_up(state->pg))
		return;
	state->pausing++;
	pg_add_text(&params, state->name);
	pg_add_interval(&params, length);
	crash_point("target_pause.send");
	pg_send(state->pg, SQL_TARGET_PAUSE, &params, on_pause, state);
	crash_point("target_pause.sent");
}

void target_state_pause(struct target_state *state, usec_t length)
{
	const usec_t until = usec_boot() + length;
	if (length <= 0 || until <= state->gate.paused_until + PAUSE_STEP)
		return;
	state->gate.paused_until = until;
	state->pause_seen = false;
	write_pause(state, length);
}

/* --- what the database says --- */

/* What is not probed, a person holds, or only a person can open: nothing that was decided here goes
 * before that, and it need not be written. */
void target_state_see_hold(struct target_state *state, bool held, bool probed, const char *reason)
{
	struct gate *gate = &state->gate;
	if (held && !probed)
		state->hold = GATE_SAME;
	if (state->hold != GATE_SAME)
		return;
	if (gate->held != held)
		log_warn(state->log, held ? "target is held" : "target is open",
			 LOG_TEXT("target", state->name), LOG_TEXT("reason", reason));
	gate->held = held;
	gate->probed = probed;
	if (!probed)
		gate->probe_until = 0;
}

/* One that was there and is gone before its time was lifted by a person. */
void target_state_see_pause(struct target_state *state, usec_t left)
{
	const usec_t until = usec_boot() + left;
	if (state->pausing > 0)
		return;
	if (left > 0 && until > state->gate.paused_until)
		state->gate.paused_until = until;
	else if (left == 0 && state->pause_seen)
		state->gate.paused_until = 0;
	state->pause_seen = left > 0;
}

static bool trial_is_ours(const struct target_state *state, usec_t until)
{
	switch (state->gate.breaker.state) {
	case BREAKER_CLOSED:
	case BREAKER_OPEN:
		break;
	case BREAKER_TRIAL:
	case BREAKER_TRYING:
		return until == state->trial;
	}
	return false;
}

void target_state_see_breaker(struct target_state *state, usec_t until, usec_t left)
{
	struct breaker *breaker = &state->gate.breaker;
	const usec_t now = usec_boot();
	if (state->trip != BREAKER_SAME || state->trying || trial_is_ours(state, until))
		return;
	const bool closed = until == USEC_NEVER;
	if (closed != breaker_closed(breaker))
		log_info(state->log, closed ? "breaker is closed" : "breaker is open",
			 LOG_TEXT("target", state->name));
	state->trial = USEC_NEVER;
	if (closed)
		breaker_see_closed(breaker, now);
	else
		breaker_see_open(breaker, now + left);
}

void target_state_write(struct target_state *state)
{
	write_hold(state);
	write_trip(state);
}

void target_state_ask(struct target_state *state)
{
	ask_probe(state);
	ask_trial(state);
}

void target_state_init(struct target_state *state, struct log *log, struct pg *pg,
		       const struct conf *conf, const struct target *target)
{
	const struct conf_target *of = target->conf;
	*state = (struct target_state){
		.log = log,
		.pg = pg,
		.target = target,
		.name = target_name(target, 0),
		.trial_length = TRIAL_FOR + conf->ledger.lease + of->connect_timeout + of->timeout,
		.trial = USEC_NEVER,
		.gate.webhook = target->signing != NULL,
	};
	rate_init(&state->gate.rate, &of->rate);
	breaker_init(&state->gate.breaker, &of->breaker);
}
