/* May it go? Every state, and each thing that must have passed by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "expiry/fate.h"

#define NOW   (1000 * USEC_DAY)
#define DAYS  USEC_DAY
#define NEVER USEC_NEVER

static const struct fate_keep keep = { .request = 30 * DAYS,
				       .attempts = 400 * DAYS,
				       .pruned = 90 * DAYS };
/* Old enough for everything, in any state. */
static const struct fate_rule rule = { .retention = 60 * DAYS, .reach = 14 * DAYS, .margin = 1 };
static const struct fate_key key = {
	.since = NOW - 500 * DAYS,
	.finished = NOW - 500 * DAYS,
	.window_until = NOW - 499 * DAYS,
	.has_request = true,
	.has_attempts = true,
};

static const char *word(struct fate fate)
{
	static char text[64];
	(void)snprintf(text, sizeof(text), "%s%s%s%s", fate.prune ? "prune " : "",
		       fate.forget ? "forget " : "", fate.request ? "request " : "",
		       fate.attempts ? "attempts " : "");
	return text;
}

static void only_finished_keys_go(void **state)
{
	static const char *const expected[EFFECT_STATE_COUNT] = {
		[EFFECT_PENDING] = "",
		[EFFECT_IN_FLIGHT] = "",
		[EFFECT_RETRY_WAIT] = "",
		[EFFECT_UNCERTAIN] = "",
		[EFFECT_DEAD] = "",
		[EFFECT_COMPLETED] = "prune ",
		[EFFECT_CANCELLED] = "prune ",
		[EFFECT_PRUNED] = "forget ",
	};
	(void)state;
	for (size_t i = 0; i < EFFECT_STATE_COUNT; i++) {
		struct fate_key one = key;
		one.state = (enum effect_state)i;
		assert_string_equal(word(fate_of(&one, &rule, &keep, NOW)), expected[i]);
	}
}

static const struct row {
	const char *what;
	enum effect_state state;
	usec_t age; /* in its state */
	usec_t retention, reach;
	usec_t window; /* ended so long ago; negative: it is open; NEVER: none */
	usec_t margin;
	const char *expected;
} rows[] = {
	{ "young", EFFECT_COMPLETED, 29 * DAYS, 60 * DAYS, 14 * DAYS, 28 * DAYS, 0, "" },
	{ "its request", EFFECT_COMPLETED, 30 * DAYS, 60 * DAYS, 14 * DAYS, 29 * DAYS, 0,
	  "request " },
	{ "kept for ever, but for its request", EFFECT_COMPLETED, 399 * DAYS, NEVER, 14 * DAYS,
	  398 * DAYS, 0, "request " },
	{ "and its attempts", EFFECT_CANCELLED, 400 * DAYS, NEVER, 14 * DAYS, 399 * DAYS, 0,
	  "request attempts " },
	{ "a moment too young", EFFECT_COMPLETED, 10 * DAYS - 1, 10 * DAYS, DAYS, 9 * DAYS, 0, "" },
	{ "retention passed", EFFECT_COMPLETED, 10 * DAYS, 10 * DAYS, DAYS, 9 * DAYS, 0, "prune " },
	{ "retention shorter than the topic's", EFFECT_COMPLETED, 14 * DAYS - 1, DAYS, 14 * DAYS,
	  13 * DAYS, 0, "" },
	{ "until that has passed too", EFFECT_COMPLETED, 14 * DAYS, DAYS, 14 * DAYS, 13 * DAYS, 0,
	  "prune " },
	{ "nobody knows the topic's", EFFECT_COMPLETED, 900 * DAYS, DAYS, NEVER, 800 * DAYS, 0,
	  "request attempts " },
	{ "the window is open", EFFECT_COMPLETED, 20 * DAYS, DAYS, DAYS, -1, 0, "" },
	{ "or was until now", EFFECT_COMPLETED, 20 * DAYS, DAYS, DAYS, DAYS - 1, DAYS, "" },
	{ "with its margin", EFFECT_COMPLETED, 20 * DAYS, DAYS, DAYS, DAYS, DAYS, "prune " },
	{ "no window", EFFECT_CANCELLED, 20 * DAYS, DAYS, DAYS, NEVER, DAYS, "prune " },
	{ "from the future", EFFECT_COMPLETED, -DAYS, 0, 0, NEVER, 0, "" },
	{ "pruned lately", EFFECT_PRUNED, 90 * DAYS - 1, DAYS, DAYS, NEVER, 0, "" },
	{ "pruned long ago", EFFECT_PRUNED, 90 * DAYS, DAYS, DAYS, NEVER, 0, "forget " },
	{ "the topic keeps for longer by now", EFFECT_PRUNED, 99 * DAYS, DAYS, 100 * DAYS, NEVER, 0,
	  "" },
	{ "or for ever", EFFECT_PRUNED, 900 * DAYS, DAYS, NEVER, NEVER, 0, "" },
	{ "the effect does by now", EFFECT_PRUNED, 900 * DAYS, NEVER, DAYS, NEVER, 0, "" },
};

static void each_thing_must_have_passed(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		const struct fate_rule its = { row->retention, row->reach, row->margin };
		const struct fate_key one = {
			.state = row->state,
			.since = NOW - row->age,
			.finished = NOW - row->age,
			.window_until = row->window == NEVER ? NEVER : NOW - row->window,
			.has_request = true,
			.has_attempts = true,
		};
		const char *seen = word(fate_of(&one, &its, &keep, NOW));
		if (strcmp(seen, row->expected) != 0)
			fail_msg("%s: \"%s\", not \"%s\"", row->what, seen, row->expected);
	}
}

static void a_longer_retention_holds_for_pruned_keys_too(void **state)
{
	const struct fate_rule longer = { .retention = 600 * DAYS, .reach = DAYS };
	struct fate_key one = key;
	(void)state;
	one.state = EFFECT_PRUNED;
	assert_string_equal(word(fate_of(&one, &longer, &keep, NOW)), "");
	one.finished = NOW - 600 * DAYS;
	assert_string_equal(word(fate_of(&one, &longer, &keep, NOW)), "forget ");
}

static void an_effect_that_is_configured_no_more_keeps_its_keys(void **state)
{
	struct fate_key one = key;
	(void)state;
	one.state = EFFECT_COMPLETED;
	assert_string_equal(word(fate_of(&one, NULL, &keep, NOW)), "request attempts ");
	one.state = EFFECT_PRUNED;
	assert_string_equal(word(fate_of(&one, NULL, &keep, NOW)), "");
}

static void what_is_gone_goes_no_second_time(void **state)
{
	struct fate_key one = key;
	(void)state;
	one.state = EFFECT_COMPLETED;
	one.has_request = one.has_attempts = false;
	assert_string_equal(word(fate_of(&one, NULL, &keep, NOW)), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_finished_keys_go),
		cmocka_unit_test(each_thing_must_have_passed),
		cmocka_unit_test(a_longer_retention_holds_for_pruned_keys_too),
		cmocka_unit_test(an_effect_that_is_configured_no_more_keeps_its_keys),
		cmocka_unit_test(what_is_gone_goes_no_second_time),
	};
	return cmocka_run_group_tests_name("fate", tests, NULL, NULL);
}
