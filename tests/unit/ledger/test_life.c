/* The life of a key, by rows. */
#include "usual_life.h"

/* At its first attempt, the marker set. */
static struct life first_attempt(void)
{
	return (struct life){ .mode = EFFECT_IDEMPOTENT,
			      .sent = true,
			      .tries = 1,
			      .unknown_sends = 1,
			      .window_until = NOW + USEC_DAY,
			      .not_after = USEC_NEVER,
			      .first_sent_at = NOW };
}

static struct life_step result(const struct life *life, const struct life_policy *policy,
			       const struct verdict *verdict)
{
	struct life_step step;
	memset(&step, 0xa5, sizeof(step));
	life_result(life, policy, verdict, NOW, 500 * USEC_MS, &step);
	return step;
}

static struct life_step meets(const struct life *life, enum outcome outcome)
{
	const struct verdict verdict = { .outcome = outcome,
					 .unsent = outcome == OUTCOME_NOT_SENT ||
						   outcome == OUTCOME_ABORTED ||
						   outcome == OUTCOME_UNRENDERED ||
						   outcome == OUTCOME_SHADOW };
	return result(life, &usual, &verdict);
}

static void a_first_attempt(void **state)
{
	(void)state;
	static const struct {
		enum outcome outcome;
		enum effect_state state;
		int unknown, attempts, throttled, stalled;
	} rows[] = {
		{ OUTCOME_APPLIED, EFFECT_COMPLETED, -1, 1, 0, 0 },
		{ OUTCOME_NOT_SENT, EFFECT_RETRY_WAIT, -1, 0, 0, 0 },
		{ OUTCOME_ABORTED, EFFECT_PENDING, -1, 0, 0, 0 },
		{ OUTCOME_NO_ANSWER, EFFECT_RETRY_WAIT, 0, 1, 0, 0 },
		{ OUTCOME_SERVER_ERROR, EFFECT_RETRY_WAIT, 0, 1, 0, 0 },
		{ OUTCOME_THROTTLED, EFFECT_RETRY_WAIT, -1, 0, 1, 0 },
		{ OUTCOME_TRY_LATER, EFFECT_RETRY_WAIT, -1, 1, 0, 0 },
		{ OUTCOME_IN_PROGRESS, EFFECT_RETRY_WAIT, 0, 0, 0, 1 },
		{ OUTCOME_REFUSED, EFFECT_DEAD, -1, 1, 0, 0 },
		{ OUTCOME_MISMATCH, EFFECT_DEAD, -1, 1, 0, 0 },
		{ OUTCOME_CREDENTIALS, EFFECT_RETRY_WAIT, -1, 0, 0, 0 },
		{ OUTCOME_FORBIDDEN, EFFECT_DEAD, -1, 1, 0, 0 },
		{ OUTCOME_LOST, EFFECT_RETRY_WAIT, 0, 1, 0, 0 },
		{ OUTCOME_UNRENDERED, EFFECT_DEAD, -1, 0, 0, 0 },
		{ OUTCOME_UNREADABLE, EFFECT_RETRY_WAIT, 0, 1, 0, 0 },
		{ OUTCOME_SHADOW, EFFECT_COMPLETED, -1, 0, 0, 0 },
	};
	const struct life life = first_attempt();
	assert_int_equal(COUNT(rows), OUTCOME_COUNT);
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct life_step step = meets(&life, rows[i].outcome);
		if (step.state != rows[i].state || step.unknown_delta != rows[i].unknown ||
		    step.attempts_delta != rows[i].attempts ||
		    step.throttled_delta != rows[i].throttled ||
		    step.stalled_delta != rows[i].stalled)
			fail_msg("%s: %s %d %d %d %d", outcome_name(rows[i].outcome),
				 effect_state_name(step.state), step.unknown_delta,
				 step.attempts_delta, step.throttled_delta, step.stalled_delta);
	}
}

/* The charge may have been made by the first of three sends. */
static void a_refusal_after_timeouts(void **state)
{
	(void)state;
	struct life life = first_attempt();
	struct verdict verdict = { .outcome = OUTCOME_REFUSED };
	life.attempts = 2;
	life.unknown_sends = 3;
	struct life_step step = result(&life, &usual, &verdict);
	assert_int_equal(step.state, EFFECT_UNCERTAIN);
	assert_int_equal(step.unknown_delta, -1);
	verdict.settles_key = true; /* it speaks for all three */
	step = result(&life, &usual, &verdict);
	assert_int_equal(step.state, EFFECT_DEAD);
	assert_int_equal(step.unknown_delta, -3);
	life.unknown_before = 1; /* but not for sends with another key */
	step = result(&life, &usual, &verdict);
	assert_int_equal(step.state, EFFECT_UNCERTAIN);
	assert_int_equal(step.unknown_delta, -3);
}

static void the_budget_ends(void **state)
{
	(void)state;
	struct life life = first_attempt();
	life.attempts = 10;
	assert_int_equal(meets(&life, OUTCOME_TRY_LATER).state, EFFECT_RETRY_WAIT);
	life.attempts = 11;
	assert_int_equal(meets(&life, OUTCOME_TRY_LATER).state, EFFECT_DEAD);
	assert_int_equal(meets(&life, OUTCOME_NO_ANSWER).state, EFFECT_UNCERTAIN);
	assert_int_equal(meets(&life, OUTCOME_SERVER_ERROR).state, EFFECT_UNCERTAIN);
	assert_int_equal(meets(&life, OUTCOME_LOST).state, EFFECT_UNCERTAIN);
	/* what uses none of it goes on */
	assert_int_equal(meets(&life, OUTCOME_THROTTLED).state, EFFECT_RETRY_WAIT);
	assert_int_equal(meets(&life, OUTCOME_NOT_SENT).state, EFFECT_RETRY_WAIT);
	assert_int_equal(meets(&life, OUTCOME_CREDENTIALS).state, EFFECT_RETRY_WAIT);
	assert_int_equal(meets(&life, OUTCOME_IN_PROGRESS).state, EFFECT_RETRY_WAIT);
	life.unknown_sends = 2;
	assert_int_equal(meets(&life, OUTCOME_TRY_LATER).state, EFFECT_UNCERTAIN);
}

/* L32: a thousand 429 use no attempt. */
static void throttling_has_its_own_count(void **state)
{
	(void)state;
	struct life life = first_attempt();
	for (int i = 0; i < 1000; i++) {
		const struct life_step step = meets(&life, OUTCOME_THROTTLED);
		assert_int_equal(step.state, EFFECT_RETRY_WAIT);
		assert_int_equal(step.attempts_delta, 0);
		life.throttled += step.throttled_delta;
		life.unknown_sends += step.unknown_delta + 1;
		assert_int_equal(life.unknown_sends, 1);
	}
	assert_int_equal(life.throttled, 1000);
	assert_int_equal(meets(&life, OUTCOME_APPLIED).state, EFFECT_COMPLETED);
}

static void retry_after_is_a_lower_bound(void **state)
{
	(void)state;
	const struct life life = first_attempt();
	struct verdict verdict = { .outcome = OUTCOME_TRY_LATER, .retry_after = 30 * USEC_SEC };
	assert_int_equal(result(&life, &usual, &verdict).due_at, NOW + 30 * USEC_SEC);
	verdict.retry_after = 100 * USEC_MS; /* the backoff drawn is half a second */
	assert_int_equal(result(&life, &usual, &verdict).due_at, NOW + 500 * USEC_MS);
	verdict = (struct verdict){ .outcome = OUTCOME_THROTTLED, .retry_after = USEC_HOUR };
	assert_int_equal(result(&life, &usual, &verdict).due_at, NOW + USEC_HOUR);
	verdict.outcome = OUTCOME_IN_PROGRESS;
	assert_int_equal(result(&life, &usual, &verdict).due_at, NOW + USEC_HOUR);
}

/* Nothing but claims makes the wait for a target that is down longer. */
static void backoff_grows_while_nothing_is_sent(void **state)
{
	(void)state;
	struct life life = first_attempt();
	const struct verdict verdict = { .outcome = OUTCOME_NOT_SENT, .unsent = true };
	struct life_step step;
	life.tries = 20;
	life_result(&life, &usual, &verdict, NOW, (uint64_t)(10 * USEC_MIN), &step);
	assert_int_equal(step.due_at, NOW + 10 * USEC_MIN);
	assert_true(step.unsent);
	assert_int_equal(step.attempts_delta, 0);
}

static void in_progress_is_waited_for(void **state)
{
	(void)state;
	struct life life = first_attempt();
	usec_t waited = 0;
	life.attempts = 1;
	life.unknown_sends = 2;
	for (life.stalled = 0;; life.stalled++) {
		struct life_step step;
		const struct verdict verdict = { .outcome = OUTCOME_IN_PROGRESS };
		life_result(&life, &usual, &verdict, NOW, UINT64_MAX - 1234567, &step);
		assert_int_equal(step.attempts_delta, 0);
		assert_int_equal(step.stalled_delta, 1);
		assert_int_equal(life.unknown_sends + step.unknown_delta, 1);
		if (step.state != EFFECT_RETRY_WAIT) {
			assert_int_equal(step.state, EFFECT_UNCERTAIN);
			break;
		}
		assert_true(step.due_at >= NOW + USEC_SEC);
		waited += step.due_at - NOW;
	}
	assert_int_equal(life.stalled, LIFE_PROGRESS_MAX - 1);
	assert_true(waited <= 10 * USEC_MIN);
}

/* L38: 409, 409, 200. */
static void in_progress_uses_no_attempt(void **state)
{
	(void)state;
	struct life life = first_attempt();
	for (int i = 0; i < 2; i++) {
		const struct life_step step = meets(&life, OUTCOME_IN_PROGRESS);
		life.attempts += step.attempts_delta;
		life.unknown_sends += step.unknown_delta + 1;
		life.stalled += step.stalled_delta;
	}
	const struct verdict verdict = { .outcome = OUTCOME_APPLIED, .settles_key = true };
	const struct life_step step = result(&life, &usual, &verdict);
	assert_int_equal(step.state, EFFECT_COMPLETED);
	assert_int_equal(life.attempts + step.attempts_delta, 1);
	assert_int_equal(life.unknown_sends + step.unknown_delta, 0);
}

/* L39: the provider only repeats its stored 500. */
static void a_stored_error_is_met_three_times(void **state)
{
	(void)state;
	struct life life = first_attempt();
	const struct verdict verdict = { .outcome = OUTCOME_SERVER_ERROR, .replayed = true };
	for (int i = 0; i < 3; i++) {
		const struct life_step step = result(&life, &usual, &verdict);
		assert_int_equal(step.attempts_delta, 0);
		assert_int_equal(step.stalled_delta, 1);
		assert_int_equal(step.state, i < 2 ? EFFECT_RETRY_WAIT : EFFECT_UNCERTAIN);
		life.stalled += step.stalled_delta;
		life.unknown_sends++;
	}
	struct life_policy policy = usual;
	policy.stores_errors = false; /* then it is an error as any other */
	const struct life_step step = result(&life, &policy, &verdict);
	assert_int_equal(step.state, EFFECT_RETRY_WAIT);
	assert_int_equal(step.attempts_delta, 1);
}

/* A stored 2xx that says neither comes back unchanged, whatever the provider stores of errors. */
static void a_stored_answer_that_cannot_be_read_is_met_three_times(void **state)
{
	(void)state;
	struct life life = first_attempt();
	const struct verdict verdict = { .outcome = OUTCOME_UNREADABLE, .replayed = true };
	life.stalled = LIFE_REPLAYS_MAX - 2;
	struct life_step step = result(&life, &usual, &verdict);
	assert_int_equal(step.state, EFFECT_RETRY_WAIT);
	assert_int_equal(step.stalled_delta, 1);
	assert_int_equal(step.attempts_delta, 0);
	life.stalled++;
	step = result(&life, &usual, &verdict);
	assert_int_equal(step.state, EFFECT_UNCERTAIN);
}

static void no_resend_near_the_end_of_the_window(void **state)
{
	(void)state;
	struct life life = first_attempt();
	/* the backoff drawn is half a second */
	life.window_until = NOW + usual.margin + 500 * USEC_MS;
	assert_int_equal(meets(&life, OUTCOME_NO_ANSWER).state, EFFECT_RETRY_WAIT);
	life.window_until--;
	assert_int_equal(meets(&life, OUTCOME_NO_ANSWER).state, EFFECT_UNCERTAIN);
	life.window_until = NOW + usual.margin - 1;
	assert_int_equal(meets(&life, OUTCOME_LOST).state, EFFECT_UNCERTAIN);
	life.unknown_sends = 2;
	assert_int_equal(meets(&life, OUTCOME_CREDENTIALS).state, EFFECT_UNCERTAIN);
	assert_int_equal(meets(&life, OUTCOME_ABORTED).state, EFFECT_UNCERTAIN);
	assert_int_equal(meets(&life, OUTCOME_NOT_SENT).state, EFFECT_UNCERTAIN);
}

/* With nothing unaccounted for, nothing can happen twice. */
static void an_empty_window_may_end(void **state)
{
	(void)state;
	struct life life = first_attempt();
	life.window_until = NOW - USEC_DAY;
	const struct life_step step = meets(&life, OUTCOME_THROTTLED);
	assert_int_equal(step.state, EFFECT_RETRY_WAIT);
	assert_int_equal(step.due_at, NOW + 500 * USEC_MS);
	assert_int_equal(meets(&life, OUTCOME_NO_ANSWER).state, EFFECT_UNCERTAIN);
}

static void not_after_ends_a_key(void **state)
{
	(void)state;
	struct life life = first_attempt();
	life.not_after = NOW + 500 * USEC_MS; /* just when it would be due */
	assert_int_equal(meets(&life, OUTCOME_THROTTLED).state, EFFECT_DEAD);
	assert_int_equal(meets(&life, OUTCOME_NO_ANSWER).state, EFFECT_UNCERTAIN);
	life.not_after++;
	assert_int_equal(meets(&life, OUTCOME_THROTTLED).state, EFFECT_RETRY_WAIT);
	life.not_after = NOW - 1; /* an answer counts nevertheless */
	assert_int_equal(meets(&life, OUTCOME_APPLIED).state, EFFECT_COMPLETED);
	assert_int_equal(meets(&life, OUTCOME_CREDENTIALS).state, EFFECT_DEAD);
	assert_int_equal(meets(&life, OUTCOME_ABORTED).state, EFFECT_DEAD);
}

static void without_retries(void **state)
{
	(void)state;
	struct life_policy policy = usual;
	struct life life = first_attempt();
	policy.retry.strategy = CONF_RETRY_NONE;
	static const struct {
		enum outcome outcome;
		enum effect_state state;
	} rows[] = {
		{ OUTCOME_NOT_SENT, EFFECT_DEAD },
		{ OUTCOME_THROTTLED, EFFECT_DEAD },
		{ OUTCOME_TRY_LATER, EFFECT_DEAD },
		{ OUTCOME_NO_ANSWER, EFFECT_UNCERTAIN },
		{ OUTCOME_SERVER_ERROR, EFFECT_UNCERTAIN },
		{ OUTCOME_UNREADABLE, EFFECT_UNCERTAIN },
		{ OUTCOME_IN_PROGRESS, EFFECT_UNCERTAIN },
		{ OUTCOME_LOST, EFFECT_UNCERTAIN },
		{ OUTCOME_ABORTED, EFFECT_PENDING },
		{ OUTCOME_CREDENTIALS, EFFECT_RETRY_WAIT },
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct verdict verdict = { .outcome = rows[i].outcome };
		if (result(&life, &policy, &verdict).state != rows[i].state)
			fail_msg("%s", outcome_name(rows[i].outcome));
	}
}

static void at_most_once_is_never_resent(void **state)
{
	(void)state;
	struct life life = first_attempt();
	life.mode = EFFECT_AT_MOST_ONCE;
	life.window_until = USEC_NEVER;
	static const struct {
		enum outcome outcome;
		enum effect_state state;
	} rows[] = {
		{ OUTCOME_APPLIED, EFFECT_COMPLETED },
		{ OUTCOME_NOT_SENT, EFFECT_RETRY_WAIT },
		{ OUTCOME_ABORTED, EFFECT_PENDING },
		{ OUTCOME_NO_ANSWER, EFFECT_UNCERTAIN },
		{ OUTCOME_SERVER_ERROR, EFFECT_UNCERTAIN },
		{ OUTCOME_THROTTLED, EFFECT_RETRY_WAIT },
		{ OUTCOME_TRY_LATER, EFFECT_RETRY_WAIT },
		{ OUTCOME_IN_PROGRESS, EFFECT_UNCERTAIN },
		{ OUTCOME_REFUSED, EFFECT_DEAD },
		{ OUTCOME_MISMATCH, EFFECT_DEAD },
		{ OUTCOME_CREDENTIALS, EFFECT_RETRY_WAIT },
		{ OUTCOME_FORBIDDEN, EFFECT_DEAD },
		{ OUTCOME_LOST, EFFECT_UNCERTAIN },
		{ OUTCOME_UNRENDERED, EFFECT_DEAD },
		{ OUTCOME_UNREADABLE, EFFECT_UNCERTAIN },
		{ OUTCOME_SHADOW, EFFECT_COMPLETED },
	};
	assert_int_equal(COUNT(rows), OUTCOME_COUNT);
	for (size_t i = 0; i < COUNT(rows); i++) {
		if (meets(&life, rows[i].outcome).state != rows[i].state)
			fail_msg("%s", outcome_name(rows[i].outcome));
	}
}

/* Where a second time was said to be fine: as the others, without a window. */
static void at_most_once_is_resent_when_that_was_chosen(void **state)
{
	(void)state;
	struct life life = first_attempt();
	life.mode = EFFECT_AT_MOST_ONCE;
	life.resend = true;
	life.window_until = USEC_NEVER;
	static const enum outcome unknown[] = { OUTCOME_NO_ANSWER, OUTCOME_SERVER_ERROR,
						OUTCOME_IN_PROGRESS, OUTCOME_LOST };
	for (size_t i = 0; i < COUNT(unknown); i++) {
		const struct life_step step = meets(&life, unknown[i]);
		assert_int_equal(step.state, EFFECT_RETRY_WAIT);
		assert_int_equal(step.unknown_delta, 0);
		assert_int_equal(step.attempts_delta, unknown[i] != OUTCOME_IN_PROGRESS);
	}
	assert_int_equal(meets(&life, OUTCOME_REFUSED).state, EFFECT_DEAD);
	life.unknown_sends = 2; /* the first may have been applied */
	assert_int_equal(meets(&life, OUTCOME_REFUSED).state, EFFECT_UNCERTAIN);
	assert_int_equal(meets(&life, OUTCOME_THROTTLED).state, EFFECT_RETRY_WAIT);
	life.attempts = 11;
	assert_int_equal(meets(&life, OUTCOME_NO_ANSWER).state, EFFECT_UNCERTAIN);
	assert_int_equal(meets(&life, OUTCOME_LOST).state, EFFECT_UNCERTAIN);
	assert_int_equal(meets(&life, OUTCOME_APPLIED).state, EFFECT_COMPLETED);
}

/* Whatever becomes of the attempt at hand, an earlier send forbids another one. */
static void at_most_once_with_a_send_unaccounted_for_waits_for_nothing(void **state)
{
	(void)state;
	struct life life = first_attempt();
	life.mode = EFFECT_AT_MOST_ONCE;
	life.window_until = USEC_NEVER;
	life.unknown_sends = 2;
	for (int i = 0; i < OUTCOME_COUNT; i++) {
		if (i == OUTCOME_APPLIED || i == OUTCOME_SHADOW)
			continue;
		if (meets(&life, (enum outcome)i).state != EFFECT_UNCERTAIN)
			fail_msg("%s", outcome_name((enum outcome)i));
	}
	struct life_step step;
	life.sent = false;
	life.unknown_sends = 1;
	life_takeover(&life, &usual, NOW, &step);
	assert_int_equal(step.state, EFFECT_UNCERTAIN);
	life_expire(&life, &usual, NOW, &step);
	assert_int_equal(step.state, EFFECT_UNCERTAIN);
}

/* The window has no end, the budget has one. */
static void natural_is_resent_without_a_window(void **state)
{
	(void)state;
	struct life life = first_attempt();
	life.mode = EFFECT_NATURAL;
	life.window_until = USEC_NEVER;
	static const struct {
		enum outcome outcome;
		enum effect_state state, last; /* at the first attempt, and at the last */
	} rows[] = {
		{ OUTCOME_APPLIED, EFFECT_COMPLETED, EFFECT_COMPLETED },
		{ OUTCOME_NOT_SENT, EFFECT_RETRY_WAIT, EFFECT_RETRY_WAIT },
		{ OUTCOME_ABORTED, EFFECT_PENDING, EFFECT_PENDING },
		{ OUTCOME_NO_ANSWER, EFFECT_RETRY_WAIT, EFFECT_UNCERTAIN },
		{ OUTCOME_SERVER_ERROR, EFFECT_RETRY_WAIT, EFFECT_UNCERTAIN },
		{ OUTCOME_THROTTLED, EFFECT_RETRY_WAIT, EFFECT_RETRY_WAIT },
		{ OUTCOME_TRY_LATER, EFFECT_RETRY_WAIT, EFFECT_DEAD },
		{ OUTCOME_IN_PROGRESS, EFFECT_RETRY_WAIT, EFFECT_RETRY_WAIT },
		{ OUTCOME_REFUSED, EFFECT_DEAD, EFFECT_DEAD },
		{ OUTCOME_MISMATCH, EFFECT_DEAD, EFFECT_DEAD },
		{ OUTCOME_CREDENTIALS, EFFECT_RETRY_WAIT, EFFECT_RETRY_WAIT },
		{ OUTCOME_FORBIDDEN, EFFECT_DEAD, EFFECT_DEAD },
		{ OUTCOME_LOST, EFFECT_RETRY_WAIT, EFFECT_UNCERTAIN },
		{ OUTCOME_UNRENDERED, EFFECT_DEAD, EFFECT_DEAD },
		{ OUTCOME_UNREADABLE, EFFECT_RETRY_WAIT, EFFECT_UNCERTAIN },
		{ OUTCOME_SHADOW, EFFECT_COMPLETED, EFFECT_COMPLETED },
	};
	assert_int_equal(COUNT(rows), OUTCOME_COUNT);
	for (size_t i = 0; i < COUNT(rows); i++) {
		life.attempts = 0;
		const enum effect_state first = meets(&life, rows[i].outcome).state;
		life.attempts = 11;
		if (first != rows[i].state || meets(&life, rows[i].outcome).state != rows[i].last)
			fail_msg("%s", outcome_name(rows[i].outcome));
	}
}

/* Taken back by ourselves, and not to be claimed again at once. */
static void an_abort_may_ask_for_a_pause(void **state)
{
	(void)state;
	const struct life life = first_attempt();
	const struct verdict verdict = { .outcome = OUTCOME_ABORTED,
					 .unsent = true,
					 .retry_after = USEC_SEC };
	const struct life_step step = result(&life, &usual, &verdict);
	assert_int_equal(step.state, EFFECT_PENDING);
	assert_int_equal(step.due_at, NOW + USEC_SEC);
}

static void a_take_over(void **state)
{
	(void)state;
	struct life life = first_attempt();
	struct life_step step;
	life_takeover(&life, &usual, NOW, &step);
	assert_int_equal(step.state, EFFECT_RETRY_WAIT);
	assert_int_equal(step.due_at, NOW);
	assert_int_equal(step.attempts_delta, 1);
	assert_int_equal(step.unknown_delta, 0);
	life.attempts = 11;
	life_takeover(&life, &usual, NOW, &step);
	assert_int_equal(step.state, EFFECT_UNCERTAIN);
	life.attempts = 0;
	life.mode = EFFECT_AT_MOST_ONCE;
	life_takeover(&life, &usual, NOW, &step);
	assert_int_equal(step.state, EFFECT_UNCERTAIN);
	/* claimed, and the marker never set: safe in any mode, and it costs nothing */
	life.sent = false;
	life.unknown_sends = 0;
	life.first_sent_at = USEC_NEVER;
	life.window_until = USEC_NEVER;
	life_takeover(&life, &usual, NOW, &step);
	assert_int_equal(step.state, EFFECT_RETRY_WAIT);
	assert_int_equal(step.due_at, NOW);
	assert_int_equal(step.attempts_delta, 0);
	assert_int_equal(step.unknown_delta, 0);
}

static void a_waiting_key_expires(void **state)
{
	(void)state;
	struct life_step step;
	struct life life = first_attempt(); /* waiting now, its send unaccounted for */
	life.sent = false;
	life.window_until = NOW + usual.margin - 1;
	life_expire(&life, &usual, NOW, &step);
	assert_int_equal(step.state, EFFECT_UNCERTAIN);
	assert_int_equal(step.unknown_delta, 0);
	assert_int_equal(step.attempts_delta, 0);
	life.unknown_sends = 0;
	life_expire(&life, &usual, NOW, &step);
	assert_int_equal(step.state, EFFECT_RETRY_WAIT);
	assert_int_equal(step.due_at, NOW);
	life.not_after = NOW;
	life_expire(&life, &usual, NOW, &step);
	assert_int_equal(step.state, EFFECT_DEAD);
	life.unknown_before = 1;
	life_expire(&life, &usual, NOW, &step);
	assert_int_equal(step.state, EFFECT_UNCERTAIN);
	life.unknown_before = 0;
	life.unknown_sends = 1;
	life.window_until = USEC_NEVER;
	life_expire(&life, &usual, NOW, &step);
	assert_int_equal(step.state, EFFECT_UNCERTAIN);
}

static void the_margin(void **state)
{
	(void)state;
	struct conf_retry retry = usual.retry;
	assert_int_equal(life_margin(&retry, 3 * USEC_SEC, 30 * USEC_SEC, 20 * USEC_HOUR),
			 10 * USEC_MIN + 33 * USEC_SEC + 2 * USEC_HOUR);
	assert_int_equal(life_margin(&retry, 3 * USEC_SEC, 30 * USEC_SEC, USEC_NEVER),
			 10 * USEC_MIN + 33 * USEC_SEC);
	retry.strategy = CONF_RETRY_FIXED;
	assert_int_equal(life_margin(&retry, USEC_SEC, USEC_SEC, 0), 4 * USEC_SEC);
	retry.strategy = CONF_RETRY_NONE;
	assert_int_equal(life_margin(&retry, USEC_SEC, USEC_SEC, 0), 2 * USEC_SEC);
	assert_int_equal(life_margin(&retry, USEC_NEVER, USEC_NEVER, USEC_NEVER), USEC_NEVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_first_attempt),
		cmocka_unit_test(a_refusal_after_timeouts),
		cmocka_unit_test(the_budget_ends),
		cmocka_unit_test(throttling_has_its_own_count),
		cmocka_unit_test(retry_after_is_a_lower_bound),
		cmocka_unit_test(backoff_grows_while_nothing_is_sent),
		cmocka_unit_test(in_progress_is_waited_for),
		cmocka_unit_test(in_progress_uses_no_attempt),
		cmocka_unit_test(a_stored_error_is_met_three_times),
		cmocka_unit_test(a_stored_answer_that_cannot_be_read_is_met_three_times),
		cmocka_unit_test(no_resend_near_the_end_of_the_window),
		cmocka_unit_test(an_empty_window_may_end),
		cmocka_unit_test(not_after_ends_a_key),
		cmocka_unit_test(without_retries),
		cmocka_unit_test(at_most_once_is_never_resent),
		cmocka_unit_test(at_most_once_is_resent_when_that_was_chosen),
		cmocka_unit_test(at_most_once_with_a_send_unaccounted_for_waits_for_nothing),
		cmocka_unit_test(natural_is_resent_without_a_window),
		cmocka_unit_test(an_abort_may_ask_for_a_pause),
		cmocka_unit_test(a_take_over),
		cmocka_unit_test(a_waiting_key_expires),
		cmocka_unit_test(the_margin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
