/* What is read again: shares, cursors, words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "operations/kept_headers.h"
#include "operations/ranges.h"
#include "rules/headers.h"

static void the_last_are_shared_evenly(void **state)
{
	static const struct {
		int64_t ends[3];
		int64_t last;
		int64_t at[3];
	} cases[] = {
		{ { 100, 100, 100 }, 30, { 90, 90, 90 } },
		{ { 100, 100, 100 }, 31, { 89, 90, 90 } },
		{ { 100, 100, 100 }, 1, { 99, 100, 100 } },
		{ { 5, 100, 1 }, 30, { 0, 90, 0 } },
		{ { 5, 1, 1 }, 1000, { 0, 0, 0 } },
	};

	(void)state;
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		struct ranges ranges = { 0 };
		int64_t left = 0;

		for (int32_t p = 0; p < 3; p++)
			ranges_add(&ranges, p, 0, cases[c].ends[p]);
		ranges_last(&ranges, cases[c].last);
		for (int32_t p = 0; p < 3; p++) {
			assert_int_equal(ranges_find(&ranges, p)->at, cases[c].at[p]);
			left += cases[c].ends[p] - cases[c].at[p];
		}
		assert_int_equal(ranges_left(&ranges), left);
		assert_null(ranges_find(&ranges, 3));
		ranges_done(&ranges);
	}
}

static void what_is_not_known_is_left_out(void **state)
{
	static const struct {
		int64_t since, at, forgotten;
	} cases[] = { { 0, 10, 0 }, { 10, 10, 0 }, { 11, 11, 1 }, { 20, 20, 10 }, { 500, 20, 10 } };

	(void)state;
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		struct ranges ranges = { 0 }, copy;

		ranges_add(&ranges, 3, 10, 20);
		copy = ranges_copy(&ranges);
		ranges_known(&ranges, 3, cases[c].since);
		ranges_known(&ranges, 4, 1000);
		assert_int_equal(ranges_find(&ranges, 3)->at, cases[c].at);
		assert_int_equal(ranges_find(&copy, 3)->at, 10);
		assert_int_equal(ranges.forgotten, cases[c].forgotten);
		ranges_done(&copy);
		ranges_done(&ranges);
	}
}

static void a_cursor_comes_back(void **state)
{
	struct ranges ranges = { .read = 12,
				 .duplicates = 9,
				 .fresh = 2,
				 .conflicts = 1,
				 .poison = 3,
				 .unmatched = 4,
				 .forgotten = 5 };
	struct buf cursor BUF_AUTO = { 0 }, again BUF_AUTO = { 0 };
	struct ranges found;

	(void)state;
	ranges_add(&ranges, 0, 10, 20);
	ranges_add(&ranges, 7, 9000000000, 9000000001);
	ranges_first(&ranges, "a|b c:charge");
	ranges_first(&ranges, "another");
	ranges_write(&ranges, &cursor);
	assert_true(ranges_read(cursor.data, &found));
	ranges_write(&found, &again);
	assert_string_equal(cursor.data, again.data);
	assert_string_equal(found.first, "a|b c:charge");
	assert_int_equal(ranges_find(&found, 7)->end, 9000000001);
	ranges_done(&found);
	ranges_done(&ranges);
}

static void what_is_no_cursor(void **state)
{
	static const char *const texts[] = { "",
					     "moved",
					     "1 2 3|0:1:2|",
					     "1 2 3 4 5 6 7|0:1|",
					     "1 2 3 4 5 6 7",
					     "1 2 3 4 5 6|0:1:2|",
					     "1 2 3 4 5 6 7|x|" };
	struct ranges found;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_false(ranges_read(texts[i], &found));
	assert_true(ranges_read("0 0 0 0 0 0 0||", &found));
	assert_int_equal(found.count, 0);
}

static void it_is_told(void **state)
{
	struct ranges known = { .read = 1000, .duplicates = 1000 };
	struct ranges missing = { .read = 1,
				  .fresh = 1,
				  .conflicts = 1,
				  .poison = 2,
				  .forgotten = 1,
				  .first = "order:1" };
	struct buf out BUF_AUTO = { 0 };

	(void)state;
	ranges_say(&known, false, &out);
	assert_string_equal(out.data, "1000 events read again: 1000 duplicates, 0 new");
	buf_clear(&out);
	ranges_say(&missing, true, &out);
	assert_string_equal(out.data, "1 event read again: 0 duplicates, 1 new and recorded, "
				      "1 conflict, 2 poison; the first new key: order:1; "
				      "1 offset was left out: keys of that time were forgotten "
				      "meanwhile");
}

/* --- headers that were kept --------------------------------------------------------------------
 */

static void headers_come_back_as_they_were(void **state)
{
	static const struct event_header headers[] = {
		{ "ce_type", "order.placed", 12 },
		{ "ce_type", "again", 5 },
		{ "raw", "\xff\x00\x7f", 3 },
		{ "nul", "a\0b", 3 },
		{ "none", NULL, 0 },
		{ "empty", "", 0 },
		{ "quote\"", "\\\"\n", 3 },
	};
	const size_t count = sizeof(headers) / sizeof(headers[0]);
	const struct event_source source = { .headers = headers, .header_count = count };
	struct buf json BUF_AUTO = { 0 };
	struct kept_headers found;
	struct err err;

	(void)state;
	headers_all(&source, &json);
	assert_true(kept_headers_read(json.data, json.length, &err, &found));
	assert_int_equal(found.count, count);
	for (size_t i = 0; i < count; i++) {
		assert_string_equal(found.items[i].name, headers[i].name);
		assert_int_equal(found.items[i].length, headers[i].length);
		if (headers[i].value)
			assert_memory_equal(found.items[i].value, headers[i].value,
					    headers[i].length);
		else
			assert_null(found.items[i].value);
	}
	kept_headers_done(&found);
}

static void headers_that_were_not_kept_by_us(void **state)
{
	static const char *const texts[] = { "[]", "{\"a\":1}", "{\"a\":{\"x\":\"00\"}}", "{",
					     "{\"a\":{\"hex\":\"0\"}}" };
	struct kept_headers found;
	struct err err;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_false(kept_headers_read(texts[i], strlen(texts[i]), &err, &found));
	assert_true(kept_headers_read(NULL, 0, &err, &found));
	assert_int_equal(found.count, 0);
	kept_headers_done(&found);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_are_shared_evenly),
		cmocka_unit_test(what_is_not_known_is_left_out),
		cmocka_unit_test(a_cursor_comes_back),
		cmocka_unit_test(what_is_no_cursor),
		cmocka_unit_test(it_is_told),
		cmocka_unit_test(headers_come_back_as_they_were),
		cmocka_unit_test(headers_that_were_not_kept_by_us),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
