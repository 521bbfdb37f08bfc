/* Rows counted by topic, up to a number of topics. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "meter.h"

static uint8_t number_of(struct meter *meter, const char *name, uint32_t hash)
{
	const struct row_bytes bytes = { .data = name, .length = strlen(name) };
	return meter_topic(meter, bytes, hash);
}

static void assert_has(const struct meter *meter, const char *line)
{
	struct buf out BUF_AUTO = { 0 };
	metrics_write(meter->metrics, &out);
	if (!strstr(buf_text(&out), line))
		fail_msg("%s is not in\n%s", line, buf_text(&out));
}

/* Also those whose names have the same hash. */
static void each_topic_has_its_own(void **state)
{
	(void)state;
	struct meter *meter = meter_new();
	assert_int_equal(number_of(meter, "a", 7), 0);
	assert_int_equal(number_of(meter, "b", 7), 1);
	assert_int_equal(number_of(meter, "ab", 8), 2);
	assert_int_equal(number_of(meter, "a", 7), 0);
	assert_int_equal(number_of(meter, "a", 7), 0);
	assert_int_equal(number_of(meter, "ab", 8), 2);
	meter_published(meter, 1, USEC_MS);
	meter_published(meter, 1, USEC_MS);
	meter_published(meter, 2, USEC_MS);
	assert_has(meter, "\ncounterfoil_outbox_published_total{topic=\"a\"} 0\n");
	assert_has(meter, "\ncounterfoil_outbox_published_total{topic=\"b\"} 2\n");
	assert_has(meter, "\ncounterfoil_outbox_published_total{topic=\"ab\"} 1\n");
	assert_has(meter, "\ncounterfoil_outbox_publish_seconds_count 3\n");
	meter_free(meter);
	meter_free(NULL);
}

static void there_is_an_end_to_them(void **state)
{
	(void)state;
	struct meter *meter = meter_new();
	char name[16];
	for (uint32_t i = 0; i < METER_TOPICS; i++) {
		(void)snprintf(name, sizeof(name), "topic-%u", i);
		assert_int_equal(number_of(meter, name, i), i);
	}
	uint8_t other = number_of(meter, "one more", 1000);
	assert_int_equal(other, number_of(meter, "and another", 1001));
	assert_int_equal(number_of(meter, "topic-0", 0), 0);
	meter_published(meter, other, 0);
	assert_has(meter, "\ncounterfoil_outbox_published_total{topic=\"(other)\"} 1\n");
	meter_free(meter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_topic_has_its_own),
		cmocka_unit_test(there_is_an_end_to_them),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
