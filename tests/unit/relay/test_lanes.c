/* The lanes: counts by key, whatever comes and goes between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "publishing/lanes.h"

static void a_lane_is_there_while_it_holds_something(void **state)
{
	(void)state;
	struct lanes *lanes = lanes_new(8);
	size_t count;
	assert_null(lanes_find(lanes, 7));
	lanes_in(lanes, 7, NULL, 100, 1000);
	lanes_in(lanes, 7, NULL, 50, 2000);
	assert_int_equal(lanes_find(lanes, 7)->rows, 2);
	assert_int_equal(lanes_find(lanes, 7)->bytes, 150);
	assert_int_equal(lanes_find(lanes, 7)->moved, 1000); /* since when it is not empty */
	lanes_moved(lanes, 7, 3000);
	assert_int_equal(lanes_find(lanes, 7)->moved, 3000);
	lanes_out(lanes, 7, 100);
	lanes_out(lanes, 7, 50);
	assert_null(lanes_find(lanes, 7));
	lanes_moved(lanes, 7, 4000); /* nothing to move */
	(void)lanes_all(lanes, &count);
	assert_int_equal(count, 0);
	lanes_free(lanes);
}

#define KEYS 97

static uint64_t key_of(size_t n)
{
	return (uint64_t)n << 32 | (n % 3); /* as a topic's hash and a partition */
}

/* Against plain counts, in an order that nobody chose. */
static void what_goes_in_comes_out(void **state)
{
	(void)state;
	struct lanes *lanes = lanes_new(KEYS * 4);
	size_t rows[KEYS] = { 0 };
	uint64_t random = 88172645463325252ULL;
	for (size_t step = 0; step < 20000; step++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		size_t n = (size_t)(random >> 8) % KEYS;
		if (random % 2 && rows[n] < 4) {
			lanes_in(lanes, key_of(n), NULL, 10, (usec_t)step);
			rows[n]++;
		} else if (rows[n] > 0) {
			lanes_out(lanes, key_of(n), 10);
			rows[n]--;
		}
		size_t other = step % KEYS;
		const struct lane *lane = lanes_find(lanes, key_of(other));
		assert_int_equal(lane ? lane->rows : 0, rows[other]);
		assert_int_equal(lane ? lane->bytes : 0, rows[other] * 10);
	}
	lanes_free(lanes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lane_is_there_while_it_holds_something),
		cmocka_unit_test(what_goes_in_comes_out),
	};
	return cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
}
