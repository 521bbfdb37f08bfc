/* Moments as events write them. */
#include "rules/moment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define SECOND_2026 ((usec_t)1767225600) /* 2026-01-01T00:00:00Z */

static const struct {
	const char *text;
	bool rfc3339, reads;
	usec_t wall;
} moments[] = {
	{ "2026-01-01T00:00:00Z", true, true, SECOND_2026 *USEC_SEC },
	{ "2026-01-01t01:30:00.25+01:30", true, true, SECOND_2026 *USEC_SEC + 250 * USEC_MS },
	{ "1767225600", false, true, SECOND_2026 *USEC_SEC },
	{ "1767225600123", false, true, SECOND_2026 *USEC_SEC + 123 * USEC_MS },
	{ "0", false, true, 0 },
	{ "99999999999", false, true, 99999999999 * USEC_SEC },
	{ "100000000000", false, true, 100000000000 * USEC_MS },
	{ "99999999999999", false, true, 99999999999999 * USEC_MS },
	{ "100000000000000", false, false, 0 },
	{ "18446744073709551617", false, false, 0 },
	{ "", false, false, 0 },
	{ "-1", false, false, 0 },
	{ "1767225600.5", false, false, 0 },
	{ " 1767225600", false, false, 0 },
	{ "1767225600 ", false, false, 0 },
	{ "1e9", false, false, 0 },
	{ "tomorrow", false, false, 0 },
	{ "2026-02-30T00:00:00Z", false, false, 0 },
	{ "2026-01-01", false, false, 0 },
	{ "2026-01-01T00:00:00", false, false, 0 },
};

static void each_is_read_or_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++) {
		const char *text = moments[i].text;
		usec_t wall = -1, parsed = -1;
		if (moment_read(text, strlen(text), &wall) != moments[i].reads ||
		    moment_parse(text, strlen(text), &parsed) != moments[i].rfc3339)
			fail_msg("\"%s\"", text);
		assert_int_equal(wall, moments[i].reads ? moments[i].wall : -1);
		assert_int_equal(parsed, moments[i].rfc3339 ? moments[i].wall : -1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(each_is_read_or_refused) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
