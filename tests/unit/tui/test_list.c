/* What a list is made of: columns that fit, and a bar that follows the key. */
#include "data/find.h"
#include "data/lists.h"
#include "terminal/columns.h"
#include "terminal/key.h"
#include "terminal/selection.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct column columns[] = {
	{ "STATE", 8, 10, 3 },  { "KEY", 20, 40, 0 }, { "TOPIC", 10, 10, 2 },
	{ "OWNER", 10, 10, 1 }, { "AGE", 6, 6, 0 },
};
enum { COLUMN_COUNT = sizeof(columns) / sizeof(columns[0]) };

static void columns_that_do_not_fit_go_in_their_order(void **state)
{
	(void)state;
	static const struct {
		int width;
		int widths[COLUMN_COUNT];
	} rows[] = {
		{ 200, { 10, 156, 10, 10, 6 } }, { 84, { 10, 40, 10, 10, 6 } },
		{ 62, { 8, 20, 10, 10, 6 } },    { 61, { 10, 29, 10, 0, 6 } },
		{ 49, { 10, 29, 0, 0, 6 } },     { 37, { 0, 29, 0, 0, 6 } },
		{ 28, { 0, 20, 0, 0, 6 } },
	};
	int widths[COLUMN_COUNT];
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		columns_layout(columns, COLUMN_COUNT, rows[i].width, widths);
		assert_memory_equal(widths, rows[i].widths, sizeof(widths));
	}
}

static void columns_never_pass_the_width(void **state)
{
	(void)state;
	int widths[COLUMN_COUNT];
	for (int width = 1; width < 300; width++) {
		int sum = -COLUMNS_GAP;
		columns_layout(columns, COLUMN_COUNT, width, widths);
		for (size_t i = 0; i < COLUMN_COUNT; i++)
			sum += widths[i] ? widths[i] + COLUMNS_GAP : 0;
		assert_true(widths[1] >= 1);
		if (width >= 28)
			assert_int_equal(sum, width);
	}
}

#define IDS(...)                                                                                   \
	(const struct selection_ids)                                                               \
	{                                                                                          \
		(const int64_t[]){ __VA_ARGS__ }, sizeof((const int64_t[]){ __VA_ARGS__ }) / 8     \
	}

static void the_bar_follows_the_key(void **state)
{
	(void)state;
	const struct selection_ids before = IDS(50, 40, 30, 20, 10);
	const struct {
		struct selection_ids now;
		size_t index;
	} rows[] = {
		{ IDS(50, 40, 30, 20, 10), 2 },
		{ IDS(70, 60, 50, 40, 30), 4 }, /* two came above */
		{ IDS(30, 20), 0 },             /* all above went */
		{ IDS(50, 40, 20, 10), 2 },     /* it went itself: the next below */
		{ IDS(60, 40), 1 },             /* and all below as well: the next above */
		{ IDS(1, 2, 3, 4), 2 },         /* nothing is left of it: the same line */
		{ IDS(1), 0 },
		{ { NULL, 0 }, 0 },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct selection selection = { .index = 2, .top = 1 };
		selection_follow(&selection, &before, &rows[i].now);
		assert_int_equal(selection.index, rows[i].index);
		assert_true(selection.top <= selection.index);
	}
}

static void the_bar_stays_on_its_line(void **state)
{
	(void)state;
	struct selection selection = { .index = 3, .top = 1 };
	const struct selection_ids before = IDS(9, 8, 7, 6), now = IDS(12, 11, 10, 9, 8, 7, 6);
	selection_follow(&selection, &before, &now);
	assert_int_equal(selection.index, 6);
	assert_int_equal(selection.top, 4);
}

static void moving_stops_at_the_ends(void **state)
{
	(void)state;
	struct selection selection = { 0 };
	selection_move(&selection, -1, 5);
	assert_int_equal(selection.index, 0);
	selection_move(&selection, 3, 5);
	assert_int_equal(selection.index, 3);
	selection_move(&selection, 100, 5);
	assert_int_equal(selection.index, 4);
	selection_move(&selection, -100, 5);
	assert_int_equal(selection.index, 0);
	selection_move(&selection, 1, 0);
	assert_int_equal(selection.index, 0);
}

static void scrolling_shows_the_bar(void **state)
{
	(void)state;
	struct selection selection = { .index = 7, .top = 0 };
	selection_show(&selection, 5, 20);
	assert_int_equal(selection.top, 3);
	selection.index = 1;
	selection_show(&selection, 5, 20);
	assert_int_equal(selection.top, 1);
	selection = (struct selection){ .index = 19, .top = 19 };
	selection_show(&selection, 5, 20); /* no line is wasted */
	assert_int_equal(selection.top, 15);
	selection_show(&selection, 50, 20);
	assert_int_equal(selection.top, 0);
}

static void names_of_lists(void **state)
{
	(void)state;
	enum list list;
	for (size_t i = 0; i < LIST_COUNT; i++) {
		assert_true(list_parse(list_name((enum list)i), &list));
		assert_int_equal(list, i);
		assert_true(list_parse(list_title((enum list)i), &list));
		assert_int_equal(list, i);
	}
	assert_true(list_parse("in-flight", &list));
	assert_int_equal(list, LIST_IN_FLIGHT);
	assert_false(list_parse("deads", &list));
	assert_false(list_parse("", &list));
	assert_int_equal(list_of_state("retry_wait"), LIST_RETRY_WAIT);
	assert_int_equal(list_of_state("pruned"), LIST_ALL);
	assert_string_equal(list_state_title("retry_wait"), "retrying");
	assert_string_equal(list_state_title("pruned"), "pruned");
}

static void places_in_a_topic(void **state)
{
	(void)state;
	size_t length;
	int32_t partition;
	int64_t offset;
	assert_true(find_place("orders[4]@99120", &length, &partition, &offset));
	assert_int_equal(length, 6);
	assert_int_equal(partition, 4);
	assert_int_equal(offset, 99120);
	assert_true(find_place("a[b][0]@0", &length, &partition, &offset));
	assert_int_equal(length, 4);
	static const char *const others[] = { "",
					      "orders",
					      "[4]@1",
					      "orders[4]",
					      "orders[4]@",
					      "orders[]@1",
					      "orders[4]@1x",
					      "orders[-4]@1",
					      "orders[4]@-1",
					      "orders[4 ]@1",
					      "orders[99999999999]@1",
					      "orders[4]@99999999999999999999" };
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(find_place(others[i], &length, &partition, &offset));
}

static void steps_are_as_long_as_the_part_that_is_seen(void **state)
{
	(void)state;
	static const struct {
		enum request request;
		size_t height;
		long step;
	} rows[] = {
		{ REQUEST_DOWN, 20, 1 },       { REQUEST_UP, 20, -1 },
		{ REQUEST_PAGE_DOWN, 20, 20 }, { REQUEST_PAGE_UP, 20, -20 },
		{ REQUEST_HALF_DOWN, 21, 11 }, { REQUEST_HALF_UP, 20, -10 },
		{ REQUEST_PAGE_DOWN, 0, 1 },   { REQUEST_HALF_UP, 0, -1 },
		{ REQUEST_FIND, 20, 0 },       { REQUEST_NONE, 20, 0 },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(request_step(rows[i].request, rows[i].height), rows[i].step);
	struct selection selection = { 0 };
	selection_move(&selection, request_step(REQUEST_LAST, 20), 5000);
	assert_int_equal(selection.index, 4999);
	selection_move(&selection, request_step(REQUEST_FIRST, 20), 5000);
	assert_int_equal(selection.index, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(columns_that_do_not_fit_go_in_their_order),
		cmocka_unit_test(columns_never_pass_the_width),
		cmocka_unit_test(the_bar_follows_the_key),
		cmocka_unit_test(the_bar_stays_on_its_line),
		cmocka_unit_test(moving_stops_at_the_ends),
		cmocka_unit_test(scrolling_shows_the_bar),
		cmocka_unit_test(names_of_lists),
		cmocka_unit_test(places_in_a_topic),
		cmocka_unit_test(steps_are_as_long_as_the_part_that_is_seen),
	};
	return cmocka_run_group_tests_name("list", tests, NULL, NULL);
}
