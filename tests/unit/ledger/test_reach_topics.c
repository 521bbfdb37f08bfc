/* What an answer about a topic means for the keys of its events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "expiry/reach_topics.h"

#define TOLD  KAFKA_TOPIC_TOLD
#define LAZY  (15 * USEC_MIN)
#define NEVER USEC_NEVER

static const struct row {
	struct kafka_topic topic;
	bool letters;
	usec_t reach;
} rows[] = {
	{ { .answer = KAFKA_TOPIC_UNTOLD, .retention = 1, .segment = 1 }, false, NEVER },
	{ { .answer = KAFKA_TOPIC_UNTOLD }, true, NEVER },
	{ { .answer = KAFKA_TOPIC_MISSING }, false, NEVER },
	{ { .answer = KAFKA_TOPIC_MISSING }, true, 0 },
	{ { .answer = TOLD, .retention = 5, .segment = 2 }, false, 7 + LAZY },
	{ { .answer = TOLD, .retention = 5, .segment = 2 }, true, 7 + LAZY },
	{ { .answer = TOLD, .retention = 5, .segment = 2, .compact = true }, false, NEVER },
	{ { .answer = TOLD, .retention = NEVER, .segment = 2 }, false, NEVER },
	{ { .answer = TOLD, .retention = 5, .segment = NEVER }, false, NEVER },
	{ { .answer = TOLD, .retention = NEVER - 1, .segment = NEVER - 1 }, false, NEVER },
};

static void an_event_lies_as_long_as_its_segment(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(reach_of_topic(&rows[i].topic, rows[i].letters), rows[i].reach);
}

static void only_what_is_told_can_be_longer(void **state)
{
	const struct conf_effect effect = { .retention = 10 };
	struct kafka_topic topic = { .answer = TOLD, .retention = 10 };
	(void)state;
	assert_false(reach_is_shorter(&effect, &topic));
	topic.retention = 11;
	assert_true(reach_is_shorter(&effect, &topic));
	topic.answer = KAFKA_TOPIC_UNTOLD;
	assert_false(reach_is_shorter(&effect, &topic));
}

static void both_topics_of_each_effect_are_asked_for(void **state)
{
	char orders[] = "orders", refunds[] = "refunds", lost[] = "lost", none[] = "";
	struct conf_effect effects[] = {
		{ .topic = orders, .dead_letter_topic = none, .retention = NEVER },
		{ .topic = refunds, .dead_letter_topic = lost, .retention = NEVER },
	};
	const struct conf conf = { .effects = effects, .effect_count = 2 };
	struct reach_topics topics;
	(void)state;
	assert_false(reach_topics_wanted(&conf));
	effects[1].retention = 1;
	assert_true(reach_topics_wanted(&conf));
	reach_topics_init(&topics, &conf);
	assert_int_equal(topics.count, 4);
	assert_string_equal(topics.items[0].name, "orders");
	assert_string_equal(topics.items[1].name, "orders.dlq");
	assert_string_equal(topics.items[2].name, "refunds");
	assert_string_equal(topics.items[3].name, "lost");
	reach_topics_done(&topics);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_event_lies_as_long_as_its_segment),
		cmocka_unit_test(only_what_is_told_can_be_longer),
		cmocka_unit_test(both_topics_of_each_effect_are_asked_for),
	};
	return cmocka_run_group_tests_name("reach_topics", tests, NULL, NULL);
}
