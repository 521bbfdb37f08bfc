/* Figures in words. */
#include "words/format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

static void ages(void **state)
{
	(void)state;
	static const struct {
		usec_t age;
		const char *text;
	} rows[] = {
		{ 0, "0s" },
		{ -5 * USEC_SEC, "0s" }, /* a clock that was set: never negative */
		{ 999 * USEC_MS, "0s" },
		{ 59 * USEC_SEC, "59s" },
		{ USEC_MIN, "1m 00s" },
		{ 6 * USEC_MIN + 12 * USEC_SEC, "6m 12s" },
		{ USEC_HOUR - 1, "59m 59s" },
		{ 2 * USEC_HOUR + 10 * USEC_MIN, "2h 10m" },
		{ USEC_DAY - 1, "23h 59m" },
		{ 3 * USEC_DAY + 4 * USEC_HOUR, "3d 04h" },
		{ 99 * USEC_DAY + 23 * USEC_HOUR, "99d 23h" },
		{ 421 * USEC_DAY, "421d" },
		{ USEC_NEVER, "-" },
	};
	char buffer[FORMAT_SIZE];
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_string_equal(format_age(rows[i].age, buffer), rows[i].text);
}

static void durations(void **state)
{
	(void)state;
	static const struct {
		usec_t took;
		const char *text;
	} rows[] = {
		{ 0, "0 ms" },
		{ -1, "0 ms" },
		{ 212 * USEC_MS, "212 ms" },
		{ 3 * USEC_SEC, "3.00 s" },
		{ 30 * USEC_SEC, "30.0 s" },
		{ 125 * USEC_SEC, "2m 05s" },
		{ USEC_NEVER, "-" },
	};
	char buffer[FORMAT_SIZE];
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_string_equal(format_took(rows[i].took, buffer), rows[i].text);
}

static void times(void **state)
{
	(void)state;
	const usec_t now = 1748786551 * USEC_SEC; /* 2025-06-01 14:02:31 UTC */
	char buffer[FORMAT_SIZE];
	assert_string_equal(format_time(now, CONF_ZONE_UTC, buffer), "2025-06-01 14:02:31 UTC");
	assert_string_equal(format_time(USEC_NEVER, CONF_ZONE_UTC, buffer), "-");
	assert_string_equal(format_time_short(now, now, CONF_ZONE_UTC, buffer), "06-01 14:02:31");
	assert_string_equal(format_time_short(now - USEC_DAY, now, CONF_ZONE_UTC, buffer),
			    "05-31 14:02:31");
	assert_string_equal(format_time_short(now - 365 * USEC_DAY, now, CONF_ZONE_UTC, buffer),
			    "2024-06-01");
	assert_string_equal(format_time_short(USEC_NEVER, now, CONF_ZONE_UTC, buffer), "-");
	assert_string_equal(format_clock(now, CONF_ZONE_UTC, buffer), "UTC 14:02:31");
	setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
	tzset();
	assert_string_equal(format_time(now, CONF_ZONE_LOCAL, buffer), "2025-06-01 16:02:31 CEST");
	assert_string_equal(format_time(now, CONF_ZONE_UTC, buffer), "2025-06-01 14:02:31 UTC");
	assert_string_equal(format_time_short(now, now, CONF_ZONE_LOCAL, buffer), "06-01 16:02:31");
	assert_string_equal(format_clock(now, CONF_ZONE_LOCAL, buffer), "CEST 16:02:31");
}

static void counts_and_sizes(void **state)
{
	(void)state;
	char buffer[FORMAT_SIZE];
	assert_string_equal(format_count(0, buffer), "0");
	assert_string_equal(format_count(999, buffer), "999");
	assert_string_equal(format_count(1284, buffer), "1,284");
	assert_string_equal(format_count(INT64_MAX, buffer), "9,223,372,036,854,775,807");
	assert_string_equal(format_count(-1, buffer), "0");
	assert_string_equal(format_about(123456, buffer), "123,000");
	assert_string_equal(format_about(8412345, buffer), "8.4 M");
	assert_string_equal(format_size(87, buffer), "87 B");
	assert_string_equal(format_size(1434, buffer), "1.4 KiB");
	assert_string_equal(format_size(20 * 1024 * 1024, buffer), "20.0 MiB");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ages),
		cmocka_unit_test(durations),
		cmocka_unit_test(times),
		cmocka_unit_test(counts_and_sizes),
	};
	return cmocka_run_group_tests_name("format", tests, NULL, NULL);
}
