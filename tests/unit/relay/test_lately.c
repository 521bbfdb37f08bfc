/* Quantiles: never too low, and by no more than a fifth too high. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "publishing/lately.h"

static void assert_about(usec_t told, usec_t took)
{
	assert_true(told > took);
	/* the told one is the end of a bucket, which it does not hold itself */
	assert_true((told - 1 - took) * 5 <= told);
}

static void one_value_is_its_own_quantile(void **state)
{
	(void)state;
	static const unsigned percents[] = { 1, 50, 99, 100 };
	for (usec_t took = 0; took < 6000 * USEC_SEC; took += took / 17 + 1) {
		struct lately lately = { 0 };
		lately_add(&lately, took);
		for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++)
			assert_about(lately_quantile(&lately, percents[i]), took);
	}
}

static void quantiles_of_many(void **state)
{
	(void)state;
	static const struct {
		usec_t first; /* and so on to the last, each once */
		usec_t last;
		unsigned percent;
		usec_t quantile;
	} rows[] = {
		{ 1, 100, 50, 50 },   { 1, 100, 99, 99 },     { 1, 100, 100, 100 },
		{ 1, 1000, 50, 500 }, { 901, 1000, 99, 999 }, { 20001, 30000, 50, 25000 },
		{ 1, 3, 50, 2 },      { 1, 1, 1, 1 },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct lately lately = { 0 };
		for (usec_t took = rows[i].last; took >= rows[i].first; took--)
			lately_add(&lately, took);
		assert_about(lately_quantile(&lately, rows[i].percent), rows[i].quantile);
	}
}

/* One in a hundred that takes long is in the last hundredth only. */
static void the_tail_is_the_tail(void **state)
{
	(void)state;
	struct lately lately = { 0 };
	for (int i = 0; i < 990; i++)
		lately_add(&lately, 2 * USEC_MS);
	for (int i = 0; i < 10; i++)
		lately_add(&lately, 3 * USEC_SEC);
	assert_about(lately_quantile(&lately, 50), 2 * USEC_MS);
	assert_about(lately_quantile(&lately, 99), 2 * USEC_MS);
	assert_about(lately_quantile(&lately, 100), 3 * USEC_SEC);
}

static void what_is_out_of_bounds_counts_too(void **state)
{
	(void)state;
	struct lately lately = { 0 };
	assert_int_equal(lately_quantile(&lately, 50), 0);
	lately_add(&lately, -5); /* a clock that went back */
	assert_int_equal(lately_quantile(&lately, 50), 1);
	lately_clear(&lately);
	lately_add(&lately, INT64_MAX);
	assert_true(lately_quantile(&lately, 50) > 3600 * USEC_SEC);
	lately_clear(&lately);
	assert_int_equal(lately_quantile(&lately, 99), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_value_is_its_own_quantile),
		cmocka_unit_test(quantiles_of_many),
		cmocka_unit_test(the_tail_is_the_tail),
		cmocka_unit_test(what_is_out_of_bounds_counts_too),
	};
	return cmocka_run_group_tests_name("lately", tests, NULL, NULL);
}
