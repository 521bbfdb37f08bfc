/* The set of blocked ordering keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "dead/keys.h"

/* Hashes, some of which want the same place. */
static uint64_t nth(uint64_t i)
{
	return i % 3 ? i * 0x9e3779b97f4a7c15ULL : (i + 1) << 40;
}

static void what_was_added_is_there_and_nothing_else(void **state)
{
	(void)state;
	static const uint64_t sizes[] = { 0, 1, 31, 32, 33, 1000, 20000 };
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		struct keys *keys = keys_new(100000);
		for (uint64_t i = 1; i <= sizes[s]; i++)
			assert_true(keys_add(keys, nth(i), 1));
		assert_int_equal(keys_count(keys), sizes[s]);
		for (uint64_t i = 1; i <= 2 * sizes[s] + 10; i++)
			assert_int_equal(keys_has(keys, nth(i)), i <= sizes[s]);
		keys_free(keys);
	}
}

static void one_that_is_there_takes_no_room(void **state)
{
	(void)state;
	struct keys *keys = keys_new(2);
	assert_true(keys_add(keys, 1, 1));
	assert_true(keys_add(keys, UINT64_MAX, 1));
	assert_false(keys_add(keys, 2, 1));
	assert_true(keys_add(keys, 1, 1));
	assert_true(keys_has(keys, UINT64_MAX));
	assert_false(keys_has(keys, 2));
	assert_int_equal(keys_count(keys), 2);
	keys_free(keys);
}

/* Whatever the order in which they are told: the first dead row counts. */
static void rows_before_the_first_dead_one_are_not_behind_it(void **state)
{
	(void)state;
	struct keys *keys = keys_new(2);
	assert_true(keys_add(keys, 7, 300));
	assert_true(keys_add(keys, 7, 200));
	assert_true(keys_add(keys, 7, 400));
	assert_false(keys_behind(keys, 7, 199));
	assert_false(keys_behind(keys, 7, 200)); /* itself */
	assert_true(keys_behind(keys, 7, 201));
	assert_false(keys_behind(keys, 8, 500));
	keys_free(keys);
}

static void forgotten_is_forgotten(void **state)
{
	(void)state;
	struct keys *keys = keys_new(2);
	keys_forget(keys);
	assert_true(keys_add(keys, 1, 1) && keys_add(keys, 2, 1));
	keys_forget(keys);
	assert_int_equal(keys_count(keys), 0);
	assert_false(keys_has(keys, 1));
	assert_true(keys_add(keys, 3, 1) && keys_add(keys, 4, 1));
	assert_false(keys_add(keys, 5, 1));
	keys_free(keys);
	keys_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_added_is_there_and_nothing_else),
		cmocka_unit_test(one_that_is_there_takes_no_room),
		cmocka_unit_test(rows_before_the_first_dead_one_are_not_behind_it),
		cmocka_unit_test(forgotten_is_forgotten),
	};
	return cmocka_run_group_tests_name("keys", tests, NULL, NULL);
}
