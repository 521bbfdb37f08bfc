/* Gaps: noticed, held, cleared, dropped, found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "reading/gaps.h"

static void see(struct gaps *gaps, const int64_t *ids)
{
	for (; *ids; ids++)
		(void)gaps_saw(gaps, *ids);
}
#define SEE(gaps, ...) see((gaps), (const int64_t[]){ __VA_ARGS__, 0 })

/* All gaps as text: "3 5-7". */
static const char *text(const struct gaps *gaps)
{
	static char buffer[512];
	size_t count, length = 0;
	const struct gap *all = gaps_all(gaps, &count);
	buffer[0] = '\0';
	for (size_t i = 0; i < count; i++) {
		const char *space = i ? " " : "";
		char *at = buffer + length;
		size_t left = sizeof(buffer) - length;
		if (all[i].first == all[i].last)
			length += (size_t)snprintf(at, left, "%s%lld", space,
						   (long long)all[i].first);
		else
			length += (size_t)snprintf(at, left, "%s%lld-%lld", space,
						   (long long)all[i].first, (long long)all[i].last);
	}
	return buffer;
}

static void list(struct gaps *gaps, uint64_t poll, uint64_t holder)
{
	gaps_list(gaps);
	gaps_listed(gaps, &holder, holder ? 1 : 0, poll);
}

static void what_was_not_seen_is_a_gap(void **state)
{
	(void)state;
	struct gaps *gaps = gaps_new(10);
	SEE(gaps, 1, 2, 4, 8);
	assert_string_equal(text(gaps), "3 5-7");
	assert_int_equal(gaps_highest(gaps), 8);
	assert_true(gaps_saw(gaps, 6));
	assert_string_equal(text(gaps), "3 5 7");
	assert_true(gaps_saw(gaps, 3));
	assert_true(gaps_saw(gaps, 7));
	assert_string_equal(text(gaps), "5");
	assert_false(gaps_saw(gaps, 4));
	assert_true(gaps_saw(gaps, 5));
	assert_string_equal(text(gaps), "");
	gaps_free(gaps);
}

/* The writer of 1 has not committed when 2 is the first row ever seen. */
static void below_the_first_row_is_a_gap(void **state)
{
	(void)state;
	struct gaps *gaps = gaps_new(10);
	SEE(gaps, 5000);
	assert_string_equal(text(gaps), "1-4999");
	gaps_forget(gaps);
	assert_string_equal(text(gaps), "");
	SEE(gaps, 1);
	assert_string_equal(text(gaps), "");
	gaps_free(gaps);
}

static void a_gap_lives_as_long_as_its_holders(void **state)
{
	(void)state;
	struct gaps *gaps = gaps_new(10);
	static const uint64_t both[] = { 11, 12 };
	SEE(gaps, 1, 3);
	gaps_list(gaps);
	gaps_listed(gaps, both, 2, 1);
	gaps_polled(gaps, 2, INT64_MAX);
	assert_string_equal(text(gaps), "2");
	list(gaps, 2, 12);
	gaps_polled(gaps, 3, INT64_MAX);
	assert_string_equal(text(gaps), "2");
	list(gaps, 3, 0);
	assert_string_equal(text(gaps), "2");
	gaps_polled(gaps, 4, INT64_MAX);
	assert_string_equal(text(gaps), "");
	gaps_free(gaps);
}

/* The row may have been committed after the poll looked and before the holders were listed. */
static void only_a_poll_after_the_listing_counts(void **state)
{
	(void)state;
	struct gaps *gaps = gaps_new(10);
	SEE(gaps, 1, 3);
	list(gaps, 7, 0); /* poll 7 was on its way already */
	gaps_polled(gaps, 7, INT64_MAX);
	assert_string_equal(text(gaps), "2");
	gaps_polled(gaps, 8, INT64_MAX);
	assert_string_equal(text(gaps), "");
	gaps_free(gaps);
}

/* A transaction that began later cannot hold an id drawn earlier. */
static void later_transactions_are_no_holders(void **state)
{
	(void)state;
	struct gaps *gaps = gaps_new(10);
	SEE(gaps, 1, 3);
	list(gaps, 1, 11);
	list(gaps, 2, 99);
	gaps_polled(gaps, 3, INT64_MAX);
	assert_string_equal(text(gaps), "");
	gaps_free(gaps);
}

/* Noticed while a listing is on its way: that one says nothing of it. */
static void a_gap_waits_for_a_listing_after_it(void **state)
{
	(void)state;
	struct gaps *gaps = gaps_new(10);
	SEE(gaps, 1, 3);
	gaps_list(gaps);
	SEE(gaps, 5);
	gaps_listed(gaps, NULL, 0, 1);
	gaps_polled(gaps, 2, INT64_MAX);
	assert_string_equal(text(gaps), "4");
	list(gaps, 2, 0);
	gaps_polled(gaps, 3, INT64_MAX);
	assert_string_equal(text(gaps), "");
	gaps_free(gaps);
}

static void a_lost_listing_is_no_answer(void **state)
{
	(void)state;
	struct gaps *gaps = gaps_new(10);
	SEE(gaps, 1, 3);
	gaps_list(gaps);
	gaps_unlisted(gaps);
	gaps_polled(gaps, 100, INT64_MAX);
	assert_string_equal(text(gaps), "2");
	list(gaps, 100, 0);
	gaps_polled(gaps, 101, INT64_MAX);
	assert_string_equal(text(gaps), "");
	gaps_free(gaps);
}

/* Many groups with holders of their own, cleared out of order. */
static void groups_do_not_mix(void **state)
{
	(void)state;
	struct gaps *gaps = gaps_new(10);
	SEE(gaps, 1, 3);
	list(gaps, 1, 11);
	SEE(gaps, 5);
	gaps_list(gaps);
	gaps_listed(gaps, (const uint64_t[]){ 11, 12 }, 2, 2);
	SEE(gaps, 7, 9);
	gaps_list(gaps);
	gaps_listed(gaps, (const uint64_t[]){ 12 }, 1, 3); /* 11 has ended */
	gaps_polled(gaps, 4, INT64_MAX);
	assert_string_equal(text(gaps), "4 6 8");
	assert_true(gaps_saw(gaps, 6));
	list(gaps, 4, 0);
	gaps_polled(gaps, 5, INT64_MAX);
	assert_string_equal(text(gaps), "");
	gaps_free(gaps);
}

/* Nothing is ever left out: at the cap the newest gaps become one, known rows between them. */
static void at_the_cap_gaps_are_merged(void **state)
{
	(void)state;
	struct gaps *gaps = gaps_new(3);
	SEE(gaps, 1, 3, 5, 7);
	assert_string_equal(text(gaps), "2 4 6");
	SEE(gaps, 9);
	assert_string_equal(text(gaps), "2 4 6-8");
	list(gaps, 1, 11);
	SEE(gaps, 20);
	assert_string_equal(text(gaps), "2 4 6-19");
	assert_false(gaps_saw(gaps, 9)); /* cannot be split */
	assert_true(gaps_saw(gaps, 6));
	assert_true(gaps_saw(gaps, 19));
	assert_string_equal(text(gaps), "2 4 7-18");
	/* the merged one has to wait for a new listing, the others do not */
	gaps_listed(gaps, NULL, 0, 2);
	gaps_polled(gaps, 3, INT64_MAX);
	assert_string_equal(text(gaps), "7-18");
	assert_true(gaps_saw(gaps, 9));
	assert_string_equal(text(gaps), "7-8 10-18");
	list(gaps, 3, 0);
	gaps_polled(gaps, 4, INT64_MAX);
	assert_string_equal(text(gaps), "");
	gaps_free(gaps);
}

/* Polls that are cut within the gaps again and again get rid of them all the same. */
static void a_cut_poll_tells_of_what_it_came_to(void **state)
{
	(void)state;
	struct gaps *gaps = gaps_new(2);
	SEE(gaps, 1, 3, 5, 7, 9);
	assert_string_equal(text(gaps), "2 4-8");
	gaps_polled(gaps, 1, 5);
	assert_string_equal(text(gaps), "2 4-8"); /* they may be held */
	list(gaps, 1, 0);
	gaps_polled(gaps, 2, 5);
	assert_string_equal(text(gaps), "6-8");
	gaps_polled(gaps, 3, 5);
	assert_string_equal(text(gaps), "6-8");
	gaps_polled(gaps, 4, 8);
	assert_string_equal(text(gaps), "");
	gaps_free(gaps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_not_seen_is_a_gap),
		cmocka_unit_test(below_the_first_row_is_a_gap),
		cmocka_unit_test(a_gap_lives_as_long_as_its_holders),
		cmocka_unit_test(only_a_poll_after_the_listing_counts),
		cmocka_unit_test(later_transactions_are_no_holders),
		cmocka_unit_test(a_gap_waits_for_a_listing_after_it),
		cmocka_unit_test(a_lost_listing_is_no_answer),
		cmocka_unit_test(groups_do_not_mix),
		cmocka_unit_test(at_the_cap_gaps_are_merged),
		cmocka_unit_test(a_cut_poll_tells_of_what_it_came_to),
	};
	return cmocka_run_group_tests_name("gaps", tests, NULL, NULL);
}
