/* The gate before a target: slots, rate, pause, hold, the counting of 403, probes, 410, and how
 * hold and breaker stand to each other. */
#include "targets/gate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define NOW (1000 * USEC_SEC)

static struct gate open_gate(void)
{
	static const struct conf_breaker conf = { .failures = 3, .ratio = 50, .open = USEC_SEC };
	struct gate gate = { .known = true };
	breaker_init(&gate.breaker, &conf);
	return gate;
}

static enum gate_news judge(struct gate *gate, int64_t key, bool probe, enum outcome outcome,
			    enum outcome *outcome_r)
{
	struct verdict verdict = { .outcome = outcome };
	const enum gate_news news = gate_judge(gate, key, probe, &verdict);
	if (outcome_r)
		*outcome_r = verdict.outcome;
	return news;
}

static void room_is_what_is_not_taken(void **state)
{
	(void)state;
	struct gate gate = open_gate();
	assert_int_equal(gate_room(&gate, 20, NOW), 20);
	gate_take(&gate, 15, NOW);
	assert_int_equal(gate_room(&gate, 20, NOW), 5);
	gate_take(&gate, 5, NOW);
	assert_int_equal(gate_room(&gate, 20, NOW), 0);
	assert_int_equal(gate_room(&gate, 10, NOW), 0); /* concurrency was lowered */
	gate_claimed(&gate, 5, 2, false, NOW);
	assert_int_equal(gate_room(&gate, 20, NOW), 3);
	for (int i = 0; i < 17; i++)
		gate_put(&gate);
	assert_int_equal(gate_room(&gate, 20, NOW), 20);
}

static void nothing_passes_before_the_database_was_asked(void **state)
{
	(void)state;
	const struct gate gate = { 0 };
	assert_int_equal(gate_room(&gate, 20, NOW), 0);
}

static void a_pause_ends_by_itself(void **state)
{
	(void)state;
	struct gate gate = open_gate();
	gate.paused_until = NOW + 1;
	assert_int_equal(gate_room(&gate, 20, NOW), 0);
	assert_int_equal(gate_room(&gate, 20, NOW + 1), 20);
}

static void credentials_hold_at_once_and_only_once(void **state)
{
	(void)state;
	struct gate gate = open_gate();
	assert_int_equal(judge(&gate, 1, false, OUTCOME_CREDENTIALS, NULL), GATE_HELD);
	assert_int_equal(gate_room(&gate, 20, NOW), 0);
	assert_int_equal(judge(&gate, 2, false, OUTCOME_CREDENTIALS, NULL), GATE_SAME);
	assert_true(gate.held && gate.probed);
}

static void five_different_forbidden_keys_are_the_targets_matter(void **state)
{
	(void)state;
	struct gate gate = open_gate();
	enum outcome outcome;
	for (int64_t key = 1; key <= 4; key++) {
		assert_int_equal(judge(&gate, key, false, OUTCOME_FORBIDDEN, &outcome), GATE_SAME);
		assert_int_equal(outcome, OUTCOME_FORBIDDEN);
		/* the same one again says nothing new */
		assert_int_equal(judge(&gate, key, false, OUTCOME_FORBIDDEN, &outcome), GATE_SAME);
		assert_int_equal(outcome, OUTCOME_FORBIDDEN);
	}
	assert_int_equal(judge(&gate, 5, false, OUTCOME_FORBIDDEN, &outcome), GATE_HELD);
	assert_int_equal(outcome, OUTCOME_CREDENTIALS);
	/* what was under way comes back to its line as well */
	assert_int_equal(judge(&gate, 6, false, OUTCOME_FORBIDDEN, &outcome), GATE_SAME);
	assert_int_equal(outcome, OUTCOME_CREDENTIALS);
}

static void a_success_between_begins_the_count_anew(void **state)
{
	(void)state;
	struct gate gate = open_gate();
	for (int64_t key = 1; key <= 4; key++)
		judge(&gate, key, false, OUTCOME_FORBIDDEN, NULL);
	judge(&gate, 99, false, OUTCOME_APPLIED, NULL);
	for (int64_t key = 5; key <= 8; key++)
		assert_int_equal(judge(&gate, key, false, OUTCOME_FORBIDDEN, NULL), GATE_SAME);
	assert_int_equal(judge(&gate, 9, false, OUTCOME_FORBIDDEN, NULL), GATE_HELD);
}

static void other_answers_do_not_disturb_the_count(void **state)
{
	(void)state;
	static const enum outcome others[] = { OUTCOME_NO_ANSWER, OUTCOME_SERVER_ERROR,
					       OUTCOME_REFUSED, OUTCOME_ABORTED };
	struct gate gate = open_gate();
	for (int64_t key = 1; key <= 4; key++) {
		judge(&gate, key, false, OUTCOME_FORBIDDEN, NULL);
		judge(&gate, key + 100, false, others[key - 1], NULL);
	}
	assert_int_equal(judge(&gate, 5, false, OUTCOME_FORBIDDEN, NULL), GATE_HELD);
}

static void a_held_target_lets_one_probe_through(void **state)
{
	(void)state;
	struct gate gate = open_gate();
	judge(&gate, 1, false, OUTCOME_CREDENTIALS, NULL);
	gate.probe_until = NOW + USEC_SEC;
	assert_int_equal(gate_room(&gate, 20, NOW), 1);
	assert_int_equal(gate_room(&gate, 20, NOW + USEC_SEC), 0);
	gate_take(&gate, 20, NOW);
	assert_int_equal(gate_room(&gate, 20, NOW), 0);
	gate_claimed(&gate, 20, 0, true, NOW); /* none was there */
	assert_int_equal(gate_room(&gate, 20, NOW), 1);
	gate.paused_until = NOW + 1;
	assert_int_equal(gate_room(&gate, 20, NOW), 0);
	assert_int_equal(gate_room(&gate, 20, NOW + 1), 1);
	gate_take(&gate, 1, NOW + 1);
	gate_claimed(&gate, 1, 1, true, NOW + 1);
	assert_int_equal(gate_room(&gate, 20, NOW + 1), 0); /* it had its key */
}

static void what_a_person_holds_is_not_probed(void **state)
{
	(void)state;
	struct gate gate = open_gate();
	gate.held = true;
	gate.probe_until = NOW + USEC_SEC;
	assert_int_equal(gate_room(&gate, 20, NOW), 0);
	assert_int_equal(judge(&gate, 1, true, OUTCOME_APPLIED, NULL), GATE_SAME);
	assert_int_equal(judge(&gate, 1, false, OUTCOME_CREDENTIALS, NULL), GATE_SAME);
	assert_true(gate.held);
	assert_false(gate.probed);
}

static void which_answers_open_a_held_target(void **state)
{
	(void)state;
	for (int outcome = 0; outcome < OUTCOME_COUNT; outcome++) {
		bool opens = false;
		switch ((enum outcome)outcome) {
		case OUTCOME_APPLIED:
		case OUTCOME_SERVER_ERROR:
		case OUTCOME_THROTTLED:
		case OUTCOME_TRY_LATER:
		case OUTCOME_IN_PROGRESS:
		case OUTCOME_REFUSED:
		case OUTCOME_MISMATCH:
		case OUTCOME_UNREADABLE:
			opens = true;
			break;
		case OUTCOME_NOT_SENT:
		case OUTCOME_ABORTED:
		case OUTCOME_NO_ANSWER:
		case OUTCOME_CREDENTIALS:
		case OUTCOME_FORBIDDEN:
		case OUTCOME_LOST:
		case OUTCOME_UNRENDERED:
		case OUTCOME_SHADOW:
		case OUTCOME_COUNT:
			break;
		}
		struct gate gate = open_gate();
		judge(&gate, 1, false, OUTCOME_CREDENTIALS, NULL);
		/* an answer to what was sent before the hold opens nothing */
		assert_int_equal(judge(&gate, 2, false, (enum outcome)outcome, NULL), GATE_SAME);
		assert_int_equal(judge(&gate, 3, true, (enum outcome)outcome, NULL),
				 opens ? GATE_OPENED : GATE_SAME);
		assert_int_equal(gate.held, !opens);
	}
}

static void a_rate_bounds_what_slots_would_allow(void **state)
{
	(void)state;
	static const struct conf_rate conf = { .events = 100, .period = USEC_SEC };
	struct gate gate = open_gate();
	rate_init(&gate.rate, &conf);
	rate_join(&gate.rate, NOW, 0);
	assert_int_equal(gate_room(&gate, 20, NOW), 0);
	assert_int_equal(gate_room(&gate, 20, NOW + 30 * USEC_MS), 3);
	assert_int_equal(gate_room(&gate, 2, NOW + 30 * USEC_MS), 2);
	gate_take(&gate, 3, NOW + 30 * USEC_MS);
	assert_int_equal(gate_room(&gate, 20, NOW + 30 * USEC_MS), 0);
	gate_claimed(&gate, 3, 1, false,
		     NOW + 30 * USEC_MS); /* the tokens of the others are back */
	assert_int_equal(gate_room(&gate, 20, NOW + 30 * USEC_MS), 2);
}

static void an_endpoint_that_is_gone_is_disabled(void **state)
{
	(void)state;
	struct verdict gone = { .outcome = OUTCOME_REFUSED, .status = 410 };
	struct verdict other = { .outcome = OUTCOME_REFUSED, .status = 404 };
	struct gate gate = open_gate();
	assert_int_equal(gate_judge(&gate, 1, false, &gone), GATE_SAME); /* it is no webhook's */
	gate.webhook = true;
	assert_int_equal(gate_judge(&gate, 1, false, &other), GATE_SAME);
	assert_int_equal(gate_judge(&gate, 1, false, &gone), GATE_DISABLED);
	assert_int_equal(gate.held, true);
	gate.probe_until = NOW + USEC_SEC;
	assert_int_equal(gate_room(&gate, 20, NOW), 0); /* and nothing probes it */
	assert_int_equal(judge(&gate, 2, true, OUTCOME_APPLIED, NULL), GATE_SAME);
	assert_int_equal(gate_judge(&gate, 3, false, &gone), GATE_SAME);
	assert_int_equal(judge(&gate, 4, false, OUTCOME_CREDENTIALS, NULL), GATE_SAME);
}

static void a_probe_may_find_that_the_endpoint_is_gone(void **state)
{
	(void)state;
	struct verdict gone = { .outcome = OUTCOME_REFUSED, .status = 410 };
	struct gate gate = open_gate();
	gate.webhook = true;
	judge(&gate, 1, false, OUTCOME_CREDENTIALS, NULL);
	assert_int_equal(gate_judge(&gate, 2, true, &gone), GATE_DISABLED);
	assert_true(gate.held && !gate.probed);
}

static void open_breaker(struct gate *gate)
{
	for (int i = 0; i < 3; i++)
		breaker_judge(&gate->breaker, BREAKER_UNREACHABLE, false, NOW, NOW);
	assert_int_equal(gate->breaker.state, BREAKER_OPEN);
}

static void an_open_breaker_lets_nothing_through_but_its_trial(void **state)
{
	(void)state;
	struct gate gate = open_gate();
	assert_true(gate_open(&gate, NOW) && gate_lets(&gate, false, NOW));
	open_breaker(&gate);
	assert_false(gate_open(&gate, NOW));
	assert_int_equal(gate_room(&gate, 20, NOW), 0);
	assert_false(gate_lets(&gate, false, NOW)); /* what was claimed before goes back */
	breaker_grant(&gate.breaker, NOW + USEC_SEC);
	assert_true(gate_lets_one(&gate));
	assert_int_equal(gate_room(&gate, 20, NOW), 1);
	gate_take(&gate, 1, NOW);
	assert_int_equal(gate_room(&gate, 20, NOW), 0); /* one at a time */
	gate_claimed(&gate, 1, 0, true, NOW);
	assert_int_equal(gate_room(&gate, 20, NOW), 1); /* there was no key */
	gate_take(&gate, 1, NOW);
	gate_claimed(&gate, 1, 1, true, NOW);
	assert_true(gate_lets(&gate, true, NOW));
	assert_int_equal(gate_room(&gate, 20, NOW), 0);
}

/* The claim of a trial is lost with its connection, and its key is found claimed. */
static void a_key_that_is_found_is_no_trial(void **state)
{
	(void)state;
	struct gate gate = open_gate();
	open_breaker(&gate);
	breaker_grant(&gate.breaker, NOW + USEC_SEC);
	gate_take(&gate, 1, NOW);
	gate_claimed(&gate, 1, 0, true, NOW);
	gate_found(&gate, NOW);
	assert_int_equal(gate_room(&gate, 1, NOW), 0);                  /* it has its slot */
	breaker_judge(&gate.breaker, BREAKER_NOTHING, false, NOW, NOW); /* and is put back */
	gate_put(&gate);
	assert_int_equal(gate_room(&gate, 1, NOW), 1);
	assert_true(breaker_wants_trial(&gate.breaker, NOW + USEC_SEC));
}

static void a_hold_goes_before_a_breaker(void **state)
{
	(void)state;
	struct gate gate = open_gate();
	judge(&gate, 1, false, OUTCOME_CREDENTIALS, NULL);
	open_breaker(&gate);
	gate.probe_until = NOW + USEC_SEC;
	assert_int_equal(gate_room(&gate, 20, NOW), 1);
	gate.probe_until = 0;
	breaker_grant(&gate.breaker, NOW + USEC_SEC);
	assert_int_equal(gate_room(&gate, 20, NOW), 0); /* a trial opens no held target */
	gate.held = true;
	gate.probed = false;
	assert_false(gate_lets(&gate, true, NOW)); /* a person came between claim and send */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(room_is_what_is_not_taken),
		cmocka_unit_test(nothing_passes_before_the_database_was_asked),
		cmocka_unit_test(a_pause_ends_by_itself),
		cmocka_unit_test(credentials_hold_at_once_and_only_once),
		cmocka_unit_test(five_different_forbidden_keys_are_the_targets_matter),
		cmocka_unit_test(a_success_between_begins_the_count_anew),
		cmocka_unit_test(other_answers_do_not_disturb_the_count),
		cmocka_unit_test(a_held_target_lets_one_probe_through),
		cmocka_unit_test(what_a_person_holds_is_not_probed),
		cmocka_unit_test(which_answers_open_a_held_target),
		cmocka_unit_test(a_rate_bounds_what_slots_would_allow),
		cmocka_unit_test(an_endpoint_that_is_gone_is_disabled),
		cmocka_unit_test(a_probe_may_find_that_the_endpoint_is_gone),
		cmocka_unit_test(an_open_breaker_lets_nothing_through_but_its_trial),
		cmocka_unit_test(a_key_that_is_found_is_no_trial),
		cmocka_unit_test(a_hold_goes_before_a_breaker),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
