/* Durations and times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "usec.h"

static void durations_parse(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		usec_t usec;
	} good[] = {
		{ "0s", 0 },
		{ "1us", 1 },
		{ "20ms", 20 * USEC_MS },
		{ "30s", 30 * USEC_SEC },
		{ "10m", 10 * USEC_MIN },
		{ "6h", 6 * USEC_HOUR },
		{ "7d", 7 * USEC_DAY },
		{ "2y", 730 * USEC_DAY },
		{ "100y", 36500 * USEC_DAY },
		{ "007s", 7 * USEC_SEC },
	};
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		usec_t usec = -1;
		assert_true(usec_parse(good[i].text, NULL, &usec));
		assert_int_equal(usec, good[i].usec);
	}
}

static void what_is_no_duration_is_refused(void **state)
{
	(void)state;
	static const char *const bad[] = { "",
					   "30",
					   "s",
					   "-1s",
					   "+1s",
					   " 1s",
					   "1 s",
					   "1S",
					   "1.5s",
					   "1sec",
					   "1s1ms",
					   "0x1s",
					   "101y",
					   "999999999999999999999s",
					   "9223372036854775807us" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err err = { "" };
		usec_t usec = 4711;
		assert_false(usec_parse(bad[i], &err, &usec));
		assert_int_equal(usec, 4711);
		assert_true(strlen(err.text) > 0);
	}
}

static void durations_print_as_they_read(void **state)
{
	(void)state;
	static const char *const same[] = { "0s",  "1us", "20ms", "1500ms", "30s", "90s",
					    "10m", "25h", "7d",   "2y",     "366d" };
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		char buffer[32];
		usec_t usec;
		assert_true(usec_parse(same[i], NULL, &usec));
		assert_string_equal(usec_format(usec, buffer, sizeof(buffer)), same[i]);
	}
}

static void times_print_in_utc(void **state)
{
	(void)state;
	char buffer[32];
	assert_string_equal(usec_rfc3339(0, buffer, sizeof(buffer)), "1970-01-01T00:00:00.000000Z");
	assert_string_equal(usec_rfc3339(1709210096 * USEC_SEC + 7, buffer, sizeof(buffer)),
			    "2024-02-29T12:34:56.000007Z");
	assert_string_equal(usec_rfc3339(-1, buffer, sizeof(buffer)),
			    "1969-12-31T23:59:59.999999Z");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(durations_parse),
		cmocka_unit_test(what_is_no_duration_is_refused),
		cmocka_unit_test(durations_print_as_they_read),
		cmocka_unit_test(times_print_in_utc),
	};
	return cmocka_run_group_tests_name("usec", tests, NULL, NULL);
}
