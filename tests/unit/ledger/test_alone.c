/* When a key runs alone. */
#include "execution/alone.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define T0 (100 * USEC_SEC)

static void nothing_happens_unasked(void **state)
{
	(void)state;
	struct alone alone = { 0 };
	assert_false(alone_next(&alone, T0));
	alone_nothing(&alone, T0);
	assert_int_equal(alone.state, ALONE_OFF);
	assert_int_equal(alone.rest, 0);
}

static void the_others_end_first(void **state)
{
	(void)state;
	struct alone alone = { 0 };
	alone_wanted(&alone, 3, T0);
	assert_int_equal(alone.state, ALONE_DRAINING);
	assert_int_equal(alone.lane, 3);
	alone_wanted(&alone, 4, T0); /* one after the other */
	assert_int_equal(alone.lane, 3);
	assert_true(alone_next(&alone, T0 + USEC_SEC));
	assert_int_equal(alone.state, ALONE_RUNNING);
}

/* One after the other for a second; then the others have as much time as it took. */
static void the_others_have_half_of_the_time(void **state)
{
	(void)state;
	struct alone alone = { 0 };
	alone_wanted(&alone, 0, T0);
	const usec_t begun = T0 + 10 * USEC_SEC; /* so long something was in flight */
	for (usec_t now = begun; now < begun + USEC_SEC; now += 100 * USEC_MS)
		assert_true(alone_next(&alone, now));
	const usec_t end = begun + 2 * USEC_SEC;
	assert_false(alone_next(&alone, end));
	assert_int_equal(alone.state, ALONE_OFF);
	assert_true(alone_rests(&alone, end + 12 * USEC_SEC - 1));
	alone_wanted(&alone, 0, end + 12 * USEC_SEC - 1);
	assert_int_equal(alone.state, ALONE_OFF);
	assert_false(alone_rests(&alone, end + 12 * USEC_SEC));
	alone_wanted(&alone, 0, end + 12 * USEC_SEC);
	assert_int_equal(alone.state, ALONE_DRAINING);
}

/* It was due, and somebody else has it, or something else keeps it from being claimed. */
static void what_cannot_be_claimed_is_not_waited_for(void **state)
{
	(void)state;
	struct alone alone = { 0 };
	alone_wanted(&alone, 0, T0);
	assert_true(alone_next(&alone, T0));
	alone_nothing(&alone, T0 + USEC_MS);
	assert_int_equal(alone.state, ALONE_OFF);
	alone_wanted(&alone, 0, T0 + USEC_SEC);
	assert_int_equal(alone.state, ALONE_OFF);
	alone_wanted(&alone, 0, T0 + 6 * USEC_SEC);
	assert_int_equal(alone.state, ALONE_DRAINING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_happens_unasked),
		cmocka_unit_test(the_others_end_first),
		cmocka_unit_test(the_others_have_half_of_the_time),
		cmocka_unit_test(what_cannot_be_claimed_is_not_waited_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
