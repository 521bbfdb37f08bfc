/* Backoff and Retry-After. */
#include "outcome/retry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

static const struct conf_retry exponential = { .strategy = CONF_RETRY_EXPONENTIAL,
					       .first = 2 * USEC_SEC,
					       .max = 10 * USEC_MIN,
					       .attempts = 12 };

static void none_and_fixed(void **state)
{
	(void)state;
	struct conf_retry retry = exponential;
	retry.strategy = CONF_RETRY_NONE;
	assert_int_equal(retry_delay(&retry, 1, UINT64_MAX), 0);
	retry.strategy = CONF_RETRY_FIXED;
	assert_int_equal(retry_delay(&retry, 1, 0), 2 * USEC_SEC);
	assert_int_equal(retry_delay(&retry, 1000, UINT64_MAX), 2 * USEC_SEC);
}

static void exponential_doubles_up_to_its_greatest(void **state)
{
	(void)state;
	static const struct {
		int32_t attempts;
		usec_t bound;
	} rows[] = {
		{ -5, 2 * USEC_SEC },         { 0, 2 * USEC_SEC },   { 1, 2 * USEC_SEC },
		{ 2, 4 * USEC_SEC },          { 3, 8 * USEC_SEC },   { 9, 512 * USEC_SEC },
		{ 10, 10 * USEC_MIN },        { 62, 10 * USEC_MIN }, { 63, 10 * USEC_MIN },
		{ 64, 10 * USEC_MIN },        { 65, 10 * USEC_MIN }, { 1000, 10 * USEC_MIN },
		{ INT32_MAX, 10 * USEC_MIN },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const uint64_t bound = (uint64_t)rows[i].bound;
		assert_int_equal(retry_delay(&exponential, rows[i].attempts, 0), 0);
		assert_int_equal(retry_delay(&exponential, rows[i].attempts, bound), bound);
		assert_int_equal(retry_delay(&exponential, rows[i].attempts, bound + 1), 0);
		assert_true(retry_delay(&exponential, rows[i].attempts, UINT64_MAX) >= 0);
	}
}

static void exponential_never_overflows(void **state)
{
	(void)state;
	struct conf_retry retry = exponential;
	retry.max = USEC_NEVER;
	for (int32_t attempts = 0; attempts < 200; attempts++)
		assert_true(retry_delay(&retry, attempts, UINT64_MAX - 7) >= 0);
	retry.first = 0;
	retry.max = 0;
	assert_int_equal(retry_delay(&retry, 50, 12345), 0);
	retry.first = USEC_HOUR;
	retry.max = USEC_MIN; /* the greatest wins */
	assert_int_equal(retry_delay(&retry, 1, (uint64_t)USEC_MIN), USEC_MIN);
	assert_int_equal(retry_delay(&retry, 1, (uint64_t)USEC_MIN + 1), 0);
}

/* Sun, 06 Nov 1994 08:49:37 GMT */
#define THEN (784111777 * USEC_SEC)

static void retry_after_is_read(void **state)
{
	(void)state;
	static const char now[] = "Sun, 06 Nov 1994 08:49:37 GMT";
	static const struct {
		const char *value, *date;
		usec_t delay;
	} rows[] = {
		{ "0", NULL, 0 },
		{ "7", NULL, 7 * USEC_SEC },
		{ "0007", NULL, 7 * USEC_SEC },
		{ "120", now, 120 * USEC_SEC },
		{ "3600", NULL, USEC_HOUR },
		{ "3601", NULL, USEC_HOUR },
		{ "99999999999999999999999999999999", NULL, USEC_HOUR },
		{ NULL, now, 0 },
		{ "", now, 0 },
		{ " 7", NULL, 0 },
		{ "-7", NULL, 0 },
		{ "+7", NULL, 0 },
		{ "7.5", NULL, 0 },
		{ "7s", NULL, 0 },
		{ "0x10", NULL, 0 },
		{ "soon", now, 0 },
		{ "Sun, 06 Nov 1994 08:50:07 GMT", now, 30 * USEC_SEC },
		{ "Sunday, 06-Nov-94 08:50:07 GMT", now, 30 * USEC_SEC },
		{ "Sun Nov  6 08:50:07 1994", now, 30 * USEC_SEC },
		{ "Thu Nov 10 08:50:07 1994", now, USEC_HOUR },
		{ "Sun, 06 Nov 1994 08:49:36 GMT", now, 0 },
		{ "Sun, 06 Nov 1994 08:49:37 GMT", now, 0 },
		{ "Sun, 06 Nov 1904 08:49:37 GMT", now, 0 },
		{ "Fri, 31 Dec 9999 23:59:59 GMT", now, USEC_HOUR },
		/* against the answer's own Date, in whatever form; else against our clock */
		{ "Sun, 06 Nov 1994 09:00:00 GMT", "Sun, 06 Nov 1994 08:59:50 GMT", 10 * USEC_SEC },
		{ "Sun, 06 Nov 1994 09:00:00 GMT", "Sunday, 06-Nov-94 08:59:50 GMT",
		  10 * USEC_SEC },
		{ "Sun, 06 Nov 1994 09:00:00 GMT", "Sun Nov  6 08:59:50 1994", 10 * USEC_SEC },
		{ "Fri, 01 Jan 2100 00:00:10 GMT", "Fri, 01 Jan 2100 00:00:00 GMT", 10 * USEC_SEC },
		{ "Sun, 06 Nov 1994 08:49:40 GMT", NULL, 3 * USEC_SEC },
		{ "Sun, 06 Nov 1994 08:49:40 GMT", "yesterday", 3 * USEC_SEC },
		/* a leap day, a leap second, and days that do not exist */
		{ "Thu, 29 Feb 1996 00:00:01 GMT", "Wed, 28 Feb 1996 23:59:59 GMT", 2 * USEC_SEC },
		{ "Fri, 01 Mar 1996 00:00:01 GMT", "Thu, 29 Feb 1996 23:59:59 GMT", 2 * USEC_SEC },
		{ "Wed, 01 Mar 2000 00:00:01 GMT", "Tue, 29 Feb 2000 23:59:59 GMT", 2 * USEC_SEC },
		{ "Mon, 01 Mar 1999 00:00:01 GMT", "Sun, 28 Feb 1999 23:59:59 GMT", 2 * USEC_SEC },
		{ "Sun, 01 Jan 1995 00:00:00 GMT", "Sat, 31 Dec 1994 23:59:60 GMT", 0 },
		{ "Wed, 29 Feb 1995 00:00:00 GMT", now, 0 },
		{ "Wed, 31 Nov 1994 09:00:00 GMT", now, 0 },
		{ "Wed, 00 Nov 1994 09:00:00 GMT", now, 0 },
		{ "Sun, 06 Nov 1994 24:00:00 GMT", now, 0 },
		{ "Sun, 06 Nov 1994 09:60:00 GMT", now, 0 },
		{ "Sun, 06 Nov 1994 09:00:61 GMT", now, 0 },
		/* nearly dates */
		{ "Sun, 06 Nov 1994 09:00:00", now, 0 },
		{ "Sun, 06 Nov 1994 09:00:00 GMT ", now, 0 },
		{ "Sun, 06 Nov 1994 09:00:00 +0100", now, 0 },
		{ "Sun, 6 Nov 1994 09:00:00 GMT", now, 0 },
		{ "Sun, 06 Nov", now, 0 },
		{ "Sun, 06 Nov 199", now, 0 },
		{ "Sun, ", now, 0 },
		{ "Sun", now, 0 },
		{ "Su", now, 0 },
		{ "Son, 06 Nov 1994 09:00:00 GMT", now, 0 },
		{ "Sun, 06 Nvo 1994 09:00:00 GMT", now, 0 },
		{ "1994-11-06T09:00:00Z", now, 0 },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const usec_t delay = retry_after_parse(rows[i].value, rows[i].date, THEN);
		if (delay != rows[i].delay)
			fail_msg("row %zu: %s gave %lld", i, rows[i].value, (long long)delay);
	}
}

static void a_year_of_two_digits_finds_its_century(void **state)
{
	(void)state;
	const usec_t y2026 = 1782000000 * USEC_SEC; /* 2026-06-21 */
	assert_int_equal(retry_after_parse("Sunday, 21-Jun-26 00:00:10 GMT",
					   "Sun, 21 Jun 2026 00:00:00 GMT", y2026),
			 10 * USEC_SEC);
	assert_int_equal(retry_after_parse("Sunday, 21-Jun-76 00:00:10 GMT", NULL, y2026),
			 USEC_HOUR); /* 2076 */
	assert_int_equal(retry_after_parse("Sunday, 21-Jun-77 00:00:10 GMT", NULL, y2026),
			 0); /* 1977 */
}

/* The very same numbers in any zone: nothing asks the C library for the time of day. */
static void no_time_zone_matters(void **state)
{
	(void)state;
	assert_int_equal(setenv("TZ", "Pacific/Auckland", 1), 0);
	tzset();
	retry_after_is_read(NULL);
	assert_int_equal(unsetenv("TZ"), 0);
	tzset();
}

/* Every second of some days against gmtime(). */
static void the_calendar_agrees_with_gmtime(void **state)
{
	(void)state;
	char value[64], date[64];
	for (time_t day = 0; day < 60000; day += 1) {
		const time_t at = day * 86400 + day % 86400;
		const time_t later = at + 59;
		struct tm tm;
		strftime(value, sizeof(value), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&later, &tm));
		strftime(date, sizeof(date), "%a %b %e %H:%M:%S %Y", gmtime_r(&at, &tm));
		assert_int_equal(retry_after_parse(value, date, 0), 59 * USEC_SEC);
		assert_int_equal(retry_after_parse(value, NULL, at * USEC_SEC), 59 * USEC_SEC);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(none_and_fixed),
		cmocka_unit_test(exponential_doubles_up_to_its_greatest),
		cmocka_unit_test(exponential_never_overflows),
		cmocka_unit_test(retry_after_is_read),
		cmocka_unit_test(a_year_of_two_digits_finds_its_century),
		cmocka_unit_test(no_time_zone_matters),
		cmocka_unit_test(the_calendar_agrees_with_gmtime),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
