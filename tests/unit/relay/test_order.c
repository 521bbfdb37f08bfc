/* The detector of rows that were delivered out of order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "publishing/order.h"

#define FAR 0x100000000ULL /* a key that far from another one has the same place */

static void violations_are_seen(void **state)
{
	(void)state;
	static const struct {
		uint64_t key;
		int64_t id;
		int64_t behind; /* 0: it is none */
	} rows[] = {
		{ 1, 10, 0 },        { 2, 5, 0 },   /* another key */
		{ 1, 11, 0 },        { 1, 11, 0 },  /* a duplicate */
		{ 1, 9, 11 },        { 1, 10, 11 }, /* each one counts */
		{ 1, 12, 0 },        { 0, 20, 0 },
		{ 0, 3, 0 }, /* no key, no order */
		{ 2, INT64_MAX, 0 }, { 2, 1, INT64_MAX },
		{ 1 + FAR, 4, 0 }, /* takes the place of 1 */
		{ 1, 2, 0 },       /* forgotten rather than reported wrongly */
		{ 1, 1, 2 },
	};
	struct order *order = order_new();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int64_t later = 0;
		bool violated = order_delivered(order, rows[i].key, rows[i].id, &later);
		assert_int_equal(violated, rows[i].behind != 0);
		assert_int_equal(later, rows[i].behind);
	}
	order_free(order);
}

static void ids_may_come_to_mean_other_rows(void **state)
{
	(void)state;
	struct order *order = order_new();
	int64_t later = 0;
	for (uint64_t key = 1; key < 100000; key++)
		assert_false(order_delivered(order, key, 1000, &later));
	order_forget(order);
	for (uint64_t key = 1; key < 100000; key++)
		assert_false(order_delivered(order, key, 1, &later));
	order_free(order);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(violations_are_seen),
		cmocka_unit_test(ids_may_come_to_mean_other_rows),
	};
	return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
