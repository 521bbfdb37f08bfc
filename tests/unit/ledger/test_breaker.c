/* The circuit breaker: what counts as a failure of the target, when it opens, whom it lets through,
 * what closes it, and that it does not flap by what is over. */
#include "targets/breaker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define NOW  (1000 * USEC_SEC)
#define OPEN (30 * USEC_SEC)

static struct breaker a_breaker(void)
{
	static const struct conf_breaker conf = { .failures = 10, .ratio = 50, .open = OPEN };
	struct breaker breaker;
	breaker_init(&breaker, &conf);
	return breaker;
}

static enum breaker_news judge(struct breaker *breaker, enum breaker_sign sign)
{
	return breaker_judge(breaker, sign, false, NOW, NOW);
}

static void what_an_answer_says_of_the_target(void **state)
{
	(void)state;
	static const struct {
		enum outcome outcome;
		int status;
		bool replayed;
		enum breaker_sign sign;
	} cases[] = {
		{ OUTCOME_NOT_SENT, 0, false, BREAKER_UNREACHABLE },
		{ OUTCOME_NO_ANSWER, 0, false, BREAKER_UNWELL }, /* timeout, reset, cut, garbage */
		{ OUTCOME_NO_ANSWER, 502, false, BREAKER_UNWELL },
		{ OUTCOME_NO_ANSWER, 504, false, BREAKER_UNWELL },
		{ OUTCOME_SERVER_ERROR, 500, false, BREAKER_UNWELL },
		{ OUTCOME_SERVER_ERROR, 503, false, BREAKER_UNWELL },
		{ OUTCOME_SERVER_ERROR, 408, false, BREAKER_UNWELL },
		{ OUTCOME_SERVER_ERROR, 303, false, BREAKER_WELL },
		{ OUTCOME_SERVER_ERROR, 500, true, BREAKER_WELL }, /* an old answer, given again */
		{ OUTCOME_TRY_LATER, 503, false, BREAKER_UNWELL },
		{ OUTCOME_TRY_LATER, 421, false, BREAKER_WELL },
		{ OUTCOME_TRY_LATER, 0, false, BREAKER_WELL }, /* a mail server's 4xx */
		{ OUTCOME_REFUSED, 501, false, BREAKER_UNWELL },
		{ OUTCOME_REFUSED, 400, false, BREAKER_WELL },
		{ OUTCOME_REFUSED, 410, false, BREAKER_WELL },
		{ OUTCOME_REFUSED, 0, false, BREAKER_WELL }, /* a mail server's 5xx */
		{ OUTCOME_APPLIED, 200, false, BREAKER_WELL },
		{ OUTCOME_APPLIED, 0, false, BREAKER_WELL },
		{ OUTCOME_THROTTLED, 429, false, BREAKER_WELL },
		{ OUTCOME_IN_PROGRESS, 409, false, BREAKER_WELL },
		{ OUTCOME_MISMATCH, 422, false, BREAKER_WELL },
		{ OUTCOME_CREDENTIALS, 401, false, BREAKER_WELL },
		{ OUTCOME_CREDENTIALS, 0, false, BREAKER_WELL },
		{ OUTCOME_FORBIDDEN, 403, false, BREAKER_WELL },
		{ OUTCOME_UNREADABLE, 200, false, BREAKER_WELL },
		{ OUTCOME_SHADOW, 0, false, BREAKER_NOTHING },
		{ OUTCOME_ABORTED, 0, false, BREAKER_NOTHING },
		{ OUTCOME_UNRENDERED, 0, false, BREAKER_NOTHING },
		{ OUTCOME_LOST, 0, false, BREAKER_NOTHING },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct verdict verdict = { .outcome = cases[i].outcome,
						 .status = cases[i].status,
						 .replayed = cases[i].replayed };
		if (breaker_sign(&verdict) != cases[i].sign)
			fail_msg("%s %d", outcome_name(cases[i].outcome), cases[i].status);
	}
}

/* '-' unreachable, 'x' unwell, '.' well, ' ' nothing; opens by the last one or not at all. */
static void when_it_opens(void **state)
{
	(void)state;
	static const struct {
		const char *signs;
		int times;
		bool opens;
	} cases[] = {
		{ "-", 9, false },
		{ "-", 10, true },
		{ "---------.", 1, false },
		{ "---------x-", 1, false }, /* it was reached between */
		{ "---------.----------", 1, true },
		{ "- ", 9, false }, /* nothing says nothing */
		{ "x", 19, false }, /* too few for a share */
		{ "x", 20, true },
		{ ".x", 9, false },
		{ ".x", 10, true },  /* half of twenty */
		{ "x.", 10, false }, /* a good answer never opens it */
		{ "x..", 100, false },
		{ ".", 100, false },
		{ ".x.-.x.-.x.-.x.-.x.-", 1, true },
		{ "....................xxxxxxxxxxxxxxxxxxxx", 1, true },
		{ "....................xxxxxxxxxxxxxxxxxxx", 1, false },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct breaker breaker = a_breaker();
		enum breaker_news news = BREAKER_SAME;
		for (int n = 0; n < cases[i].times; n++)
			for (const char *at = cases[i].signs; *at; at++) {
				assert_int_equal(news, BREAKER_SAME);
				news = judge(&breaker, *at == '-'   ? BREAKER_UNREACHABLE
						       : *at == 'x' ? BREAKER_UNWELL
						       : *at == '.' ? BREAKER_WELL
								    : BREAKER_NOTHING);
			}
		if ((news == BREAKER_OPENED) != cases[i].opens)
			fail_msg("case %zu: %s", i, cases[i].signs);
		assert_int_equal(breaker.state, cases[i].opens ? BREAKER_OPEN : BREAKER_CLOSED);
	}
}

static void only_the_last_hundred_count(void **state)
{
	(void)state;
	struct breaker breaker = a_breaker();
	for (int i = 0; i < 1000; i++)
		judge(&breaker, BREAKER_WELL);
	for (int i = 0; i < 49; i++)
		assert_int_equal(judge(&breaker, BREAKER_UNWELL), BREAKER_SAME);
	assert_int_equal(judge(&breaker, BREAKER_UNWELL), BREAKER_OPENED);
}

static void nought_is_never(void **state)
{
	(void)state;
	static const struct conf_breaker never = { .open = OPEN };
	struct breaker breaker;
	breaker_init(&breaker, &never);
	for (int i = 0; i < 1000; i++) {
		assert_int_equal(judge(&breaker, BREAKER_UNREACHABLE), BREAKER_SAME);
		assert_int_equal(judge(&breaker, BREAKER_UNWELL), BREAKER_SAME);
	}
}

static struct breaker open_breaker(void)
{
	struct breaker breaker = a_breaker();
	for (int i = 0; i < 10; i++)
		judge(&breaker, BREAKER_UNREACHABLE);
	assert_int_equal(breaker.state, BREAKER_OPEN);
	return breaker;
}

static void while_it_is_open_nothing_counts(void **state)
{
	(void)state;
	struct breaker breaker = open_breaker();
	const usec_t until = breaker.until;
	assert_int_equal(until, NOW + OPEN);
	/* what was under way fails, or even succeeds */
	for (int i = 0; i < 50; i++)
		assert_int_equal(judge(&breaker, i % 2 ? BREAKER_UNWELL : BREAKER_WELL),
				 BREAKER_SAME);
	assert_int_equal(breaker.until, until);
	assert_false(breaker_lets_one(&breaker, until + OPEN)); /* not without being asked for */
	assert_false(breaker_wants_trial(&breaker, until - 1));
	assert_true(breaker_wants_trial(&breaker, until));
}

static struct breaker tried_breaker(void)
{
	struct breaker breaker = open_breaker();
	breaker_grant(&breaker, NOW + OPEN + 5 * USEC_SEC);
	assert_true(breaker_lets_one(&breaker, NOW + OPEN));
	breaker_try(&breaker);
	assert_false(breaker_lets_one(&breaker, NOW + OPEN));
	assert_false(breaker_wants_trial(&breaker, NOW + 10 * OPEN)); /* it has its end */
	return breaker;
}

static void what_a_trial_comes_to(void **state)
{
	(void)state;
	static const struct {
		enum breaker_sign sign;
		bool probe;
		enum breaker_news news;
		enum breaker_state state;
	} cases[] = {
		{ BREAKER_WELL, true, BREAKER_HEALED, BREAKER_CLOSED },
		{ BREAKER_UNWELL, true, BREAKER_REOPENED, BREAKER_OPEN },
		{ BREAKER_UNREACHABLE, true, BREAKER_REOPENED, BREAKER_OPEN },
		{ BREAKER_NOTHING, true, BREAKER_SAME, BREAKER_TRIAL },
		/* answers to what was sent before */
		{ BREAKER_WELL, false, BREAKER_SAME, BREAKER_TRYING },
		{ BREAKER_UNWELL, false, BREAKER_SAME, BREAKER_TRYING },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct breaker breaker = tried_breaker();
		const usec_t now = NOW + OPEN + USEC_SEC;
		assert_int_equal(breaker_judge(&breaker, cases[i].sign, cases[i].probe, now, now),
				 cases[i].news);
		assert_int_equal(breaker.state, cases[i].state);
		if (cases[i].news == BREAKER_REOPENED)
			assert_int_equal(breaker.until, now + OPEN);
	}
}

static void a_trial_without_a_key_is_over(void **state)
{
	(void)state;
	struct breaker breaker = open_breaker();
	const usec_t until = NOW + OPEN + 5 * USEC_SEC;
	breaker_grant(&breaker, until);
	breaker_try(&breaker);
	breaker_untry(&breaker);
	assert_true(breaker_lets_one(&breaker, until - 1));
	assert_false(breaker_lets_one(&breaker, until));
	assert_true(breaker_wants_trial(&breaker, until));
}

static void it_does_not_flap_by_what_is_over(void **state)
{
	(void)state;
	struct breaker breaker = tried_breaker();
	const usec_t healed = NOW + OPEN + USEC_SEC;
	breaker_judge(&breaker, BREAKER_WELL, true, healed, healed);
	/* those that were sent before the outage time out one after the other */
	for (int i = 0; i < 200; i++)
		assert_int_equal(breaker_judge(&breaker, BREAKER_UNWELL, false, healed - 1,
					       healed + USEC_SEC),
				 BREAKER_SAME);
	/* it begins to count anew: a few failures are not yet an outage */
	for (int i = 0; i < 9; i++)
		assert_int_equal(
			breaker_judge(&breaker, BREAKER_UNREACHABLE, false, healed, healed),
			BREAKER_SAME);
	assert_int_equal(breaker_judge(&breaker, BREAKER_UNREACHABLE, false, healed, healed),
			 BREAKER_OPENED);
}

static void a_target_that_flaps_is_called_once_in_a_while(void **state)
{
	(void)state;
	struct breaker breaker = open_breaker();
	usec_t now = NOW;
	int calls = 0;
	/* it answers every second trial, and then fails until it is left alone again */
	for (int round = 0; round < 20; round++) {
		now = breaker.until;
		assert_true(breaker_wants_trial(&breaker, now));
		breaker_grant(&breaker, now + USEC_SEC);
		breaker_try(&breaker);
		calls++;
		breaker_judge(&breaker, round % 2 ? BREAKER_WELL : BREAKER_UNREACHABLE, true, now,
			      now);
		while (breaker_closed(&breaker)) {
			breaker_judge(&breaker, BREAKER_UNREACHABLE, false, now, now);
			calls++;
		}
	}
	assert_int_equal(now - NOW, 20 * OPEN);
	assert_int_equal(calls, 20 + 10 * 10);
}

static void what_others_decided_goes_before(void **state)
{
	(void)state;
	struct breaker breaker = a_breaker();
	breaker_see_open(&breaker, NOW + USEC_SEC);
	assert_int_equal(breaker.state, BREAKER_OPEN);
	assert_true(breaker_wants_trial(&breaker, NOW + USEC_SEC));
	breaker_see_closed(&breaker, NOW + 2 * USEC_SEC);
	assert_true(breaker_closed(&breaker));
	/* what began before says nothing of now */
	for (int i = 0; i < 50; i++)
		assert_int_equal(judge(&breaker, BREAKER_UNREACHABLE), BREAKER_SAME);
	breaker = tried_breaker();
	breaker_see_closed(&breaker, NOW + OPEN); /* a person released it */
	assert_int_equal(breaker_judge(&breaker, BREAKER_UNWELL, true, NOW + OPEN, NOW + OPEN),
			 BREAKER_SAME);
	assert_true(breaker_closed(&breaker));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_an_answer_says_of_the_target),
		cmocka_unit_test(when_it_opens),
		cmocka_unit_test(only_the_last_hundred_count),
		cmocka_unit_test(nought_is_never),
		cmocka_unit_test(while_it_is_open_nothing_counts),
		cmocka_unit_test(what_a_trial_comes_to),
		cmocka_unit_test(a_trial_without_a_key_is_over),
		cmocka_unit_test(it_does_not_flap_by_what_is_over),
		cmocka_unit_test(a_target_that_flaps_is_called_once_in_a_while),
		cmocka_unit_test(what_others_decided_goes_before),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
