/* How a bulk order goes on: what is next for figures and a time, and a rate over many pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "operations/pace.h"

#define NOW  (100 * USEC_SEC)
#define ROOM 1000
#define PLAIN                                                                                      \
	{                                                                                          \
		.rate = 0                                                                          \
	}

static const char *word(struct pace_next next)
{
	static char text[64];
	switch (next.step) {
	case PACE_ORDER:
		(void)snprintf(text, sizeof(text), "order %lld", (long long)next.count);
		return text;
	case PACE_WAIT:
		return next.wait == USEC_NEVER ? "wait" : "wait for a token";
	case PACE_DONE:
		return "done";
	case PACE_CANARY:
		return "the canary failed";
	case PACE_FAILED:
		return "too many failed";
	}
	return "";
}

static const struct row {
	const char *what;
	struct pace pace;
	struct pace_figures figures;
	const char *expected;
} rows[] = {
	{ "nothing was ever selected", PLAIN, { .done = 0 }, "done" },
	{ "a page at the beginning", PLAIN, { .left = true, .room = ROOM }, "order 50" },
	{ "no more than there is room for", PLAIN, { .left = true, .room = 7 }, "order 7" },
	{ "no room", PLAIN, { .left = true, .running = 9 }, "wait" },
	{ "no room, and nothing runs", PLAIN, { .left = true }, "wait" },
	{ "the last ones run", PLAIN, { .done = 5, .running = 1, .room = ROOM }, "wait" },
	{ "the last one has ended", PLAIN, { .done = 5, .failed = 3 }, "done" },
	{ "failures, and no limit", PLAIN, { .failed = 900, .left = true, .room = 1 }, "order 1" },

	{ "one below the limit",
	  { .stop_after = 3 },
	  { .failed = 2, .left = true, .room = 1 },
	  "order 1" },
	{ "at the limit",
	  { .stop_after = 3 },
	  { .failed = 3, .left = true, .room = 1 },
	  "too many failed" },
	{ "at the limit while others run",
	  { .stop_after = 3 },
	  { .failed = 4, .running = 8, .left = true },
	  "too many failed" },
	{ "at the limit with the last key",
	  { .stop_after = 3 },
	  { .failed = 3 },
	  "too many failed" },

	{ "the canary", { .canary = true }, { .left = true, .room = ROOM }, "order 1" },
	{ "it runs", { .canary = true }, { .left = true, .running = 1, .room = ROOM }, "wait" },
	{ "it is completed",
	  { .canary = true },
	  { .done = 1, .left = true, .room = ROOM },
	  "order 50" },
	{ "it failed",
	  { .canary = true },
	  { .failed = 1, .left = true, .room = ROOM },
	  "the canary failed" },
	{ "it was the only one, and failed",
	  { .canary = true },
	  { .failed = 1 },
	  "the canary failed" },
	{ "it was completed, another one failed",
	  { .canary = true },
	  { .done = 1, .failed = 1, .left = true, .room = ROOM },
	  "order 50" },
	{ "a canary within its rate",
	  { .canary = true, .rate = 100, .tokens = 20, .at = NOW },
	  { .left = true, .room = ROOM },
	  "order 1" },

	{ "the first key of a rate at once",
	  { .rate = 0.001 },
	  { .left = true, .room = ROOM },
	  "order 1" },
	{ "no token",
	  { .rate = 5, .at = NOW },
	  { .left = true, .room = ROOM },
	  "wait for a token" },
	{ "some tokens",
	  { .rate = 100, .tokens = 3.5, .at = NOW },
	  { .left = true, .room = ROOM },
	  "order 3" },
	{ "tokens, and no room",
	  { .rate = 100, .tokens = 3, .at = NOW },
	  { .left = true, .running = 1 },
	  "wait" },
	{ "what was not used is not kept",
	  { .rate = 100, .at = 1 },
	  { .left = true, .room = ROOM },
	  "order 20" },
};

static void what_is_next(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct pace pace = rows[i].pace;
		const char *seen = word(pace_next(&pace, &rows[i].figures, NOW));
		print_message("%s: %s\n", rows[i].what, seen);
		assert_string_equal(seen, rows[i].expected);
	}
}

/* Keys that are ordered in a minute when each page takes `took`. */
static int64_t ordered_in_a_minute(double rate, usec_t took)
{
	struct pace pace = { .rate = rate };
	const struct pace_figures figures = { .left = true, .room = ROOM };
	int64_t count = 0;
	for (usec_t now = NOW; now < NOW + USEC_MIN;) {
		const struct pace_next next = pace_next(&pace, &figures, now);
		if (next.step == PACE_WAIT) {
			assert_true(next.wait > 0);
			now += next.wait;
			continue;
		}
		pace_spend(&pace, next.count);
		count += next.count;
		now += took;
	}
	return count;
}

static void a_rate_is_kept(void **state)
{
	static const double rates[] = { 0.1, 1, 3, 20, 99, 500 };
	static const usec_t times[] = { 1, USEC_MS, 40 * USEC_MS };
	(void)state;
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
		for (size_t j = 0; j < sizeof(times) / sizeof(times[0]); j++) {
			const double wanted = rates[i] * 60;
			const double count = (double)ordered_in_a_minute(rates[i], times[j]);
			print_message("%g/s: %g in a minute\n", rates[i], count);
			assert_true(count <= wanted + 1 + rates[i] / 5);
			assert_true(count >= wanted * 0.97 - 1);
		}
}

/* A page whose keys had all changed meanwhile costs nothing. */
static void what_is_skipped_costs_nothing(void **state)
{
	struct pace pace = { .rate = 1 };
	const struct pace_figures figures = { .left = true, .room = ROOM };
	(void)state;
	assert_int_equal(pace_next(&pace, &figures, NOW).step, PACE_ORDER);
	pace_spend(&pace, 0);
	assert_int_equal(pace_next(&pace, &figures, NOW).step, PACE_ORDER);
	pace_spend(&pace, 1);
	assert_int_equal(pace_next(&pace, &figures, NOW).step, PACE_WAIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_next),
		cmocka_unit_test(a_rate_is_kept),
		cmocka_unit_test(what_is_skipped_costs_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
