/* The life of a key. Every path to a final state goes through finish(), which alone decides between
 * dead and uncertain, and every path to another send through wait_until(), which alone knows when
 * there must be none. */
#include "life.h"

/* One step in the making. */
struct move {
	const struct life *life;
	const struct life_policy *policy;
	usec_t now;
	struct life_step step;
};

static usec_t add(usec_t a, usec_t b)
{
	usec_t sum;
	return __builtin_add_overflow(a, b, &sum) ? USEC_NEVER : sum;
}

static usec_t max_usec(usec_t a, usec_t b)
{
	return a > b ? a : b;
}

/* --- what is known of the sends ------------------------------------------------------------- */

/* This attempt's own marker, if it was set. */
static int32_t own_send(const struct life *life)
{
	return life->sent && life->unknown_sends > 0 ? 1 : 0;
}

/* Sends with the current key that are unaccounted for once the step is taken. */
static int32_t unknown_after(const struct move *move)
{
	return move->life->unknown_sends + move->step.unknown_delta;
}

/* The answer says applied or not of this send, or, where it speaks for the key, of all of them. */
static void account(struct move *move, const struct verdict *verdict)
{
	move->step.unsent = verdict->unsent;
	move->step.unknown_delta =
		verdict->settles_key ? -move->life->unknown_sends : -own_send(move->life);
}

/* Another send is being worked on. A proxy may have made two of this very one, so that one always
 * stays unaccounted for. */
static void account_progress(struct move *move)
{
	move->step.unknown_delta = move->life->unknown_sends > 1 ? -own_send(move->life) : 0;
}

/* --- where a key goes ----------------------------------------------------------------------- */

static void finish(struct move *move)
{
	const bool unknown = unknown_after(move) > 0 || move->life->unknown_before > 0;
	move->step.state = unknown ? EFFECT_UNCERTAIN : EFFECT_DEAD;
	move->step.due_at = move->now;
}

/* Too late for a resend: the provider may have forgotten the key before it arrives. */
static bool window_closing(const struct move *move, usec_t at)
{
	const usec_t until = move->life->window_until;
	return until != USEC_NEVER && at > until - move->policy->margin;
}

/* With every send accounted for there is nothing that could happen twice. */
static bool could_repeat(const struct move *move, usec_t at)
{
	const struct life *life = move->life;
	const bool once = life->mode == EFFECT_AT_MOST_ONCE && !life->resend;
	return unknown_after(move) > 0 && (once || window_closing(move, at));
}

static void wait_until(struct move *move, enum effect_state state, usec_t at)
{
	if (at >= move->life->not_after || could_repeat(move, at))
		return finish(move);
	move->step.state = state;
	move->step.due_at = at;
}

static bool retries(const struct move *move)
{
	return move->policy->retry.strategy != CONF_RETRY_NONE;
}

static void wait_delay(struct move *move, usec_t backoff, const struct verdict *verdict)
{
	if (!retries(move))
		return finish(move);
	wait_until(move, EFFECT_RETRY_WAIT,
		   add(move->now, max_usec(backoff, verdict->retry_after)));
}

/* --- one function an outcome ---------------------------------------------------------------- */

static void on_final(struct move *move, const struct verdict *verdict)
{
	account(move, verdict);
	move->step.attempts_delta = verdict->unsent ? 0 : 1;
	finish(move);
}

static void on_applied(struct move *move, const struct verdict *verdict)
{
	on_final(move, verdict);
	move->step.state = EFFECT_COMPLETED;
}

/* Nothing left, so no budget is used; the claims alone make the wait longer. */
static void on_not_sent(struct move *move, const struct verdict *verdict, uint64_t random)
{
	const struct life *life = move->life;
	const int32_t count = life->tries > life->attempts ? life->tries : life->attempts + 1;
	account(move, verdict);
	wait_delay(move, retry_delay(&move->policy->retry, count, random), verdict);
}

/* It is not the key's matter: as soon as we or the target are able again. */
static void on_postponed(struct move *move, const struct verdict *verdict, enum effect_state state,
			 usec_t at)
{
	account(move, verdict);
	wait_until(move, state, at);
}

static void on_throttled(struct move *move, const struct verdict *verdict, uint64_t random)
{
	account(move, verdict);
	move->step.throttled_delta = 1;
	wait_delay(move, retry_delay(&move->policy->retry, move->life->throttled + 1, random),
		   verdict);
}

static void on_retry(struct move *move, const struct verdict *verdict, uint64_t random)
{
	const int32_t attempts = move->life->attempts + 1;
	move->step.attempts_delta = 1;
	if (attempts >= move->policy->retry.attempts)
		return finish(move);
	wait_delay(move, retry_delay(&move->policy->retry, attempts, random), verdict);
}

static void on_try_later(struct move *move, const struct verdict *verdict, uint64_t random)
{
	account(move, verdict);
	on_retry(move, verdict, random);
}

static void on_stalled(struct move *move, const struct verdict *verdict, int32_t limit,
		       usec_t backoff)
{
	move->step.stalled_delta = 1;
	if (move->life->stalled + 1 >= limit)
		return finish(move);
	wait_delay(move, backoff, verdict);
}

static void on_progress(struct move *move, const struct verdict *verdict, uint64_t random)
{
	usec_t backoff = retry_delay(&move->policy->retry, move->life->stalled + 1, random);
	if (backoff > LIFE_PROGRESS_WAIT)
		backoff = LIFE_PROGRESS_WAIT;
	account_progress(move);
	on_stalled(move, verdict, LIFE_PROGRESS_MAX, max_usec(backoff, USEC_SEC));
}

/* Everything but the send: the key is as if it had been done. */
static void on_shadow(struct move *move, const struct verdict *verdict)
{
	account(move, verdict);
	move->step.state = EFFECT_COMPLETED;
	move->step.due_at = move->now;
}

/* What is stored comes back unchanged. */
static void on_server_error(struct move *move, const struct verdict *verdict, bool stored,
			    uint64_t random)
{
	if (!stored)
		return on_retry(move, verdict, random);
	on_stalled(move, verdict, LIFE_REPLAYS_MAX,
		   retry_delay(&move->policy->retry, move->life->attempts + 1, random));
}

static void on_lost(struct move *move)
{
	if (!move->life->sent)
		return wait_until(move, EFFECT_RETRY_WAIT, move->now);
	move->step.attempts_delta = 1;
	if (!retries(move) || move->life->attempts + 1 >= move->policy->retry.attempts)
		return finish(move);
	wait_until(move, EFFECT_RETRY_WAIT, move->now);
}

/* --- the events ----------------------------------------------------------------------------- */

void life_result(const struct life *life, const struct life_policy *policy,
		 const struct verdict *verdict, usec_t now, uint64_t random,
		 struct life_step *step_r)
{
	struct move move = { .life = life, .policy = policy, .now = now };
	switch (verdict->outcome) {
	case OUTCOME_APPLIED:
		on_applied(&move, verdict);
		break;
	case OUTCOME_NOT_SENT:
		on_not_sent(&move, verdict, random);
		break;
	case OUTCOME_ABORTED:
		on_postponed(&move, verdict, EFFECT_PENDING, add(now, verdict->retry_after));
		break;
	case OUTCOME_CREDENTIALS:
		on_postponed(&move, verdict, EFFECT_RETRY_WAIT, now);
		break;
	case OUTCOME_NO_ANSWER:
		on_retry(&move, verdict, random);
		break;
	case OUTCOME_SERVER_ERROR:
		on_server_error(&move, verdict, verdict->replayed && policy->stores_errors, random);
		break;
	case OUTCOME_UNREADABLE:
		on_server_error(&move, verdict, verdict->replayed, random);
		break;
	case OUTCOME_SHADOW:
		on_shadow(&move, verdict);
		break;
	case OUTCOME_THROTTLED:
		on_throttled(&move, verdict, random);
		break;
	case OUTCOME_TRY_LATER:
		on_try_later(&move, verdict, random);
		break;
	case OUTCOME_IN_PROGRESS:
		on_progress(&move, verdict, random);
		break;
	case OUTCOME_REFUSED:
	case OUTCOME_MISMATCH:
	case OUTCOME_FORBIDDEN:
	case OUTCOME_UNRENDERED:
		on_final(&move, verdict);
		break;
	case OUTCOME_LOST:
	case OUTCOME_COUNT:
		on_lost(&move);
		break;
	}
	*step_r = move.step;
}

void life_takeover(const struct life *life, const struct life_policy *policy, usec_t now,
		   struct life_step *step_r)
{
	struct move move = { .life = life, .policy = policy, .now = now };
	on_lost(&move);
	*step_r = move.step;
}

void life_expire(const struct life *life, const struct life_policy *policy, usec_t now,
		 struct life_step *step_r)
{
	struct move move = { .life = life, .policy = policy, .now = now };
	wait_until(&move, EFFECT_RETRY_WAIT, now);
	*step_r = move.step;
}

usec_t life_margin(const struct conf_retry *retry, usec_t connect_timeout, usec_t timeout,
		   usec_t window)
{
	usec_t backoff = 0;
	switch (retry->strategy) {
	case CONF_RETRY_NONE:
		break;
	case CONF_RETRY_FIXED:
		backoff = retry->first;
		break;
	case CONF_RETRY_EXPONENTIAL:
		backoff = retry->max;
		break;
	}
	const usec_t margin = add(add(backoff, connect_timeout), timeout);
	return window == USEC_NEVER ? margin : add(margin, window / 10);
}
