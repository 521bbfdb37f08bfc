/* Refused rows: who waits, who goes alone, who passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "refused.h"

#define NOW (1000 * USEC_SEC)

enum { KEY = 77, OTHER = 78 };

static void only_the_key_behind_it_waits(void **state)
{
	(void)state;
	struct refused *refused = refused_new(10);
	assert_int_equal(refused_check(refused, 5, KEY, NOW), REFUSED_SEND);
	assert_true(refused_add(refused, 5, KEY, REFUSED_ITSELF, NOW));
	static const struct {
		int64_t id;
		uint64_t order;
		enum refused_verdict verdict;
	} rows[] = {
		{ 4, KEY, REFUSED_SEND }, /* before it */
		{ 5, KEY, REFUSED_WAIT },   { 6, KEY, REFUSED_WAIT },
		{ 6, OTHER, REFUSED_SEND }, { 7, 0, REFUSED_SEND },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(refused_check(refused, rows[i].id, rows[i].order, NOW),
				 rows[i].verdict);
	assert_true(refused_settle(refused, 5));
	assert_int_equal(refused_check(refused, 6, KEY, NOW), REFUSED_SEND);
	assert_false(refused_settle(refused, 5));
	refused_free(refused);
}

static void rows_without_a_key_hold_nothing(void **state)
{
	(void)state;
	struct refused *refused = refused_new(10);
	assert_true(refused_add(refused, 5, 0, REFUSED_ITSELF, NOW));
	assert_int_equal(refused_check(refused, 6, 0, NOW), REFUSED_SEND);
	assert_int_equal(refused_check(refused, 5, 0, NOW), REFUSED_WAIT);
	refused_free(refused);
}

static void tries_are_further_and_further_apart(void **state)
{
	(void)state;
	struct refused *refused = refused_new(10);
	usec_t now = NOW, wait = REFUSED_FIRST;
	for (int i = 0; i < 12; i++) {
		assert_true(refused_add(refused, 5, KEY, REFUSED_ITSELF, now));
		assert_int_equal(refused_check(refused, 5, KEY, now + wait - 1), REFUSED_WAIT);
		assert_int_equal(refused_check(refused, 5, KEY, now + wait), REFUSED_SEND);
		now += wait;
		wait = wait * 2 < REFUSED_LAST ? wait * 2 : REFUSED_LAST;
	}
	assert_int_equal(refused_count(refused), 1);
	refused_free(refused);
}

static void a_suspect_goes_alone_and_at_once(void **state)
{
	(void)state;
	struct refused *refused = refused_new(10);
	assert_true(refused_add(refused, 5, KEY, REFUSED_IN_COMPANY, NOW));
	assert_true(refused_add(refused, 6, KEY, REFUSED_IN_COMPANY, NOW));
	assert_int_equal(refused_check(refused, 5, KEY, NOW), REFUSED_ALONE);
	assert_int_equal(refused_check(refused, 6, KEY, NOW), REFUSED_WAIT); /* behind 5 */
	assert_true(refused_settle(refused, 5));
	assert_int_equal(refused_check(refused, 6, KEY, NOW), REFUSED_ALONE);
	assert_true(refused_add(refused, 6, KEY, REFUSED_ITSELF, NOW)); /* it was the one */
	assert_int_equal(refused_check(refused, 6, KEY, NOW), REFUSED_WAIT);
	assert_int_equal(refused_check(refused, 6, KEY, NOW + REFUSED_FIRST), REFUSED_ALONE);
	refused_free(refused);
}

static void there_is_a_cap(void **state)
{
	(void)state;
	struct refused *refused = refused_new(200);
	for (int64_t id = 1; id <= 200; id++)
		assert_true(refused_add(refused, id, 0, REFUSED_ITSELF, NOW));
	assert_true(refused_full(refused));
	assert_false(refused_add(refused, 201, 0, REFUSED_ITSELF, NOW));
	assert_true(refused_add(refused, 200, 0, REFUSED_ITSELF, NOW)); /* known already */
	assert_true(refused_settle(refused, 100));
	assert_true(refused_add(refused, 201, 0, REFUSED_ITSELF, NOW));
	refused_forget(refused);
	assert_int_equal(refused_count(refused), 0);
	assert_int_equal(refused_check(refused, 1, 0, NOW), REFUSED_SEND);
	refused_free(refused);
}

/* An operator deleted the row: the rows behind it must not wait for ever. */
static void a_row_that_a_sweep_does_not_meet_is_settled(void **state)
{
	(void)state;
	struct refused *refused = refused_new(10);
	int64_t lowest = 4711;
	assert_true(refused_add(refused, 5, KEY, REFUSED_ITSELF, NOW));
	assert_true(refused_add(refused, 8, OTHER, REFUSED_ITSELF, NOW));
	refused_sweep_begin(refused);
	(void)refused_check(refused, 5, KEY, NOW);
	refused_seen(refused, 8);
	assert_true(refused_add(refused, 9, 0, REFUSED_ITSELF, NOW)); /* met by this very sweep */
	assert_false(refused_sweep_end(refused, &lowest));
	assert_int_equal(lowest, 4711);
	refused_sweep_begin(refused);
	refused_seen(refused, 9);
	assert_true(refused_sweep_end(refused, &lowest));
	assert_int_equal(lowest, 5);
	assert_int_equal(refused_count(refused), 1);
	assert_int_equal(refused_check(refused, 6, KEY, NOW), REFUSED_SEND);
	refused_free(refused);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_key_behind_it_waits),
		cmocka_unit_test(rows_without_a_key_hold_nothing),
		cmocka_unit_test(tries_are_further_and_further_apart),
		cmocka_unit_test(a_suspect_goes_alone_and_at_once),
		cmocka_unit_test(there_is_a_cap),
		cmocka_unit_test(a_row_that_a_sweep_does_not_meet_is_settled),
	};
	return cmocka_run_group_tests_name("refused", tests, NULL, NULL);
}
