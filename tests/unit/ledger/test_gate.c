/* The gate before a target: slots, pause, hold, the counting of 403, probes. */
#include "execution/gate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define NOW (1000 * USEC_SEC)

static struct gate open_gate(void)
{
	return (struct gate){ .known = true };
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
	gate_take(&gate, 15);
	assert_int_equal(gate_room(&gate, 20, NOW), 5);
	gate_take(&gate, 5);
	assert_int_equal(gate_room(&gate, 20, NOW), 0);
	assert_int_equal(gate_room(&gate, 10, NOW), 0); /* concurrency was lowered */
	gate_put(&gate, 20);
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
	assert_true(gate.held && gate.by_system);
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
	gate_take(&gate, 20);
	assert_int_equal(gate_room(&gate, 20, NOW), 0);
	gate_put(&gate, 20);
	gate.paused_until = NOW + 1;
	assert_int_equal(gate_room(&gate, 20, NOW), 0);
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
	assert_false(gate.by_system);
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
			opens = true;
			break;
		case OUTCOME_NOT_SENT:
		case OUTCOME_ABORTED:
		case OUTCOME_NO_ANSWER:
		case OUTCOME_CREDENTIALS:
		case OUTCOME_FORBIDDEN:
		case OUTCOME_LOST:
		case OUTCOME_UNRENDERED:
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
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
