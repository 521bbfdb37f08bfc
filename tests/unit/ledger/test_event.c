/* From a Kafka message to an event: where each part comes from, and what makes a message poison. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rules/event.h"
#include "wire.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define HEADER(name_, value_)                                                                      \
	{                                                                                          \
		(name_), (value_), sizeof(value_) - 1                                              \
	}
#define MAX_HEADERS 6

static struct event_source source_of(const struct event_header *headers)
{
	struct event_source source = {
		.topic = "orders",
		.partition = 3,
		.offset = 1234567890123,
		.value = "{}",
		.value_length = 2,
		.headers = headers,
		.sent_at = 1700000000 * USEC_SEC,
	};
	while (source.header_count < MAX_HEADERS && headers[source.header_count].name)
		source.header_count++;
	return source;
}

struct identity_case {
	struct event_header headers[MAX_HEADERS];
	const char *id;
	const char *type;
	const char *subject; /* NULL: none */
};

static const struct identity_case identity_cases[] = {
	{ { { 0 } }, "orders/3/1234567890123", "", "key" },
	{ { HEADER("id", "d1"), HEADER("eventType", "t") }, "d1", "t", "key" },
	{ { HEADER("ce_id", "c1"), HEADER("id", "d1") }, "c1", "", "key" },
	{ { HEADER("ce_id", "c1"), HEADER("cf-event-id", "o1"), HEADER("id", "d1") },
	  "o1",
	  "",
	  "key" },
	{ { HEADER("ce_type", "a"), HEADER("eventType", "b") },
	  "orders/3/1234567890123",
	  "a",
	  "key" },
	/* Of repeated headers the last wins, also where it takes the value away. */
	{ { HEADER("ce_id", "c1"), HEADER("ce_id", "c2") }, "c2", "", "key" },
	{ { HEADER("ce_id", "c1"), { "ce_id", NULL, 0 }, HEADER("id", "d1") }, "d1", "", "key" },
	{ { HEADER("ce_id", ""), HEADER("id", "d1") }, "d1", "", "key" },
	{ { HEADER("ce_subject", "s1"), HEADER("ce_subject", "s2") },
	  "orders/3/1234567890123",
	  "",
	  "s2" },
	{ { HEADER("ce_subject", "") }, "orders/3/1234567890123", "", "key" },
	/* Names compare byte for byte. */
	{ { HEADER("CE_ID", "x"), HEADER("Ce_Type", "y") }, "orders/3/1234567890123", "", "key" },
	{ { HEADER("ce_id", "\xc3\xa9 \xe2\x80\xae:%0d") },
	  "\xc3\xa9 \xe2\x80\xae:%0d",
	  "",
	  "key" },
};

static void identity_comes_from_the_first_that_has_it(void **state)
{
	(void)state;
	for (size_t i = 0; i < LENGTH(identity_cases); i++) {
		const struct identity_case *c = &identity_cases[i];
		struct event_source source = source_of(c->headers);
		struct event event;
		struct err err;
		source.key = "key";
		source.key_length = 3;
		assert_true(event_decode(&source, &err, &event));
		assert_string_equal(event.id, c->id);
		assert_string_equal(event.type, c->type);
		assert_int_equal(event.subject_length, strlen(c->subject));
		assert_memory_equal(event.subject, c->subject, event.subject_length);
	}
}

static char long_text[4096];

static void poison_says_which_header(void **state)
{
	(void)state;
	const struct {
		struct event_header header;
		const char *why;
	} cases[] = {
		{ HEADER("ce_id", "a\0b"), "header ce_id: holds a NUL" },
		{ HEADER("ce_id", "a\nb"), "header ce_id: holds a NUL or another control" },
		{ HEADER("ce_id", "a\xc2\x85"), "header ce_id: holds a NUL or another control" },
		{ HEADER("ce_id", "\xff"), "header ce_id: not UTF-8" },
		{ HEADER("ce_id", "\xc0\x80"), "header ce_id: not UTF-8" },
		{ { "ce_id", long_text, EVENT_ID_MAX + 1 }, "header ce_id: longer than 288 bytes" },
		{ HEADER("cf-event-id", "\r"), "header cf-event-id: holds" },
		{ HEADER("id", "\x1b[2J"), "header id: holds" },
		{ HEADER("ce_type", "\x7f"), "header ce_type: holds" },
		{ HEADER("eventType", "\xed\xa0\x80"), "header eventType: not UTF-8" },
		{ { "ce_type", long_text, EVENT_TYPE_MAX + 1 }, "header ce_type: longer than 255" },
		{ HEADER("ce_subject", "a\tb"), "header ce_subject: holds" },
		{ { "ce_subject", long_text, EVENT_SUBJECT_MAX + 1 },
		  "header ce_subject: longer than 1024" },
	};

	memset(long_text, 'x', sizeof(long_text));
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct event_header headers[MAX_HEADERS] = { cases[i].header };
		struct event_source source = source_of(headers);
		struct event event = { .id = "untouched" };
		struct err err = { "" };
		assert_false(event_decode(&source, &err, &event));
		if (!strstr(err.text, cases[i].why))
			fail_msg("\"%s\" instead of \"%s\"", err.text, cases[i].why);
		assert_string_equal(event.id, "untouched");
	}
}

static void the_greatest_lengths_pass(void **state)
{
	(void)state;
	struct event_header headers[MAX_HEADERS] = {
		{ "ce_id", long_text, EVENT_ID_MAX },
		{ "ce_type", long_text, EVENT_TYPE_MAX },
		{ "ce_subject", long_text, EVENT_SUBJECT_MAX },
	};
	struct event_source source = source_of(headers);
	struct event event;
	char topic[250];

	memset(long_text, 'x', sizeof(long_text));
	assert_true(event_decode(&source, NULL, &event));
	assert_int_equal(strlen(event.id), EVENT_ID_MAX);
	assert_int_equal(strlen(event.type), EVENT_TYPE_MAX);
	assert_int_equal(event.subject_length, EVENT_SUBJECT_MAX);

	memset(topic, 't', sizeof(topic) - 1);
	topic[sizeof(topic) - 1] = '\0';
	source = (struct event_source){ .topic = topic,
					.partition = INT32_MAX,
					.offset = INT64_MAX };
	assert_true(event_decode(&source, NULL, &event));
	assert_string_equal(event.id + 249, "/2147483647/9223372036854775807");
}

static void a_binary_key_is_no_subject(void **state)
{
	(void)state;
	static const struct {
		const char *key;
		size_t length;
	} keys[] = {
		{ NULL, 0 }, { "", 0 }, { "\0\0\0\5", 4 }, { "\xff", 1 }, { long_text, 2000 }
	};

	for (size_t i = 0; i < LENGTH(keys); i++) {
		struct event_header headers[MAX_HEADERS] = { { 0 } };
		struct event_source source = source_of(headers);
		struct event event;
		source.key = keys[i].key;
		source.key_length = keys[i].length;
		assert_true(event_decode(&source, NULL, &event));
		assert_null(event.subject);
		assert_int_equal(event.subject_length, 0);
	}
}

static void time_is_read_or_passed_over(void **state)
{
	(void)state;
	const usec_t sent = 1700000000 * USEC_SEC;
	static const struct {
		const char *text;
		usec_t time; /* 0: the message's own */
	} cases[] = {
		{ "1970-01-01T00:00:01Z", 1000000 },
		{ "2026-01-02T03:04:05.000006Z", 1767323045000006 },
		{ "2026-01-02T03:04:05.5Z", 1767323045500000 },
		{ "2026-01-02t03:04:05.123456789z", 1767323045123456 },
		{ "2026-01-02T04:04:05+01:00", 1767323045000000 },
		{ "2026-01-01T21:34:05-05:30", 1767323045000000 },
		{ "2024-02-29T00:00:00Z", 1709164800000000 },
		{ "2016-12-31T23:59:60Z", 1483228800000000 },
		{ "1969-12-31T23:59:59Z", -1000000 },
		{ "2026-02-29T00:00:00Z", 0 },
		{ "2026-04-31T00:00:00Z", 0 },
		{ "2026-13-01T00:00:00Z", 0 },
		{ "2026-00-01T00:00:00Z", 0 },
		{ "2026-01-00T00:00:00Z", 0 },
		{ "2026-01-02T24:00:00Z", 0 },
		{ "2026-01-02T03:04:05", 0 },
		{ "2026-01-02 03:04:05Z", 0 },
		{ "2026-01-02T03:04:05.Z", 0 },
		{ "2026-01-02T03:04:05Zx", 0 },
		{ "2026-01-02T03:04:05+1:00", 0 },
		{ "2026-01-02T03:04", 0 },
		{ "1767323045", 0 },
		{ "-026-01-02T03:04:05Z", 0 },
		{ "yesterday", 0 },
	};

	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct event_header headers[MAX_HEADERS] = { { "ce_time", cases[i].text,
							       strlen(cases[i].text) } };
		struct event_source source = source_of(headers);
		struct event event;
		assert_true(event_decode(&source, NULL, &event));
		if (event.time != (cases[i].time ? cases[i].time : sent))
			fail_msg("%s: %jd", cases[i].text, (intmax_t)event.time);
	}
	struct event_header none[MAX_HEADERS] = { { 0 } };
	struct event_source source = source_of(none);
	struct event event;
	source.sent_at = USEC_NEVER;
	assert_true(event_decode(&source, NULL, &event));
	assert_true(event.time == USEC_NEVER);
}

static void hash_of(const char *value, size_t length, uint8_t hash[EFFECT_HASH_SIZE])
{
	struct event_source source = { .topic = "t", .value = value, .value_length = length };
	struct event event;

	assert_true(event_decode(&source, NULL, &event));
	memcpy(hash, event.hash, EFFECT_HASH_SIZE);
}

static void the_hash_is_of_the_raw_value(void **state)
{
	(void)state;
	static const uint8_t empty_golden[] = { 0x99, 0xaa, 0x06, 0xd3, 0x01, 0x47, 0x98, 0xd8,
						0x60, 0x01, 0xc3, 0x24, 0x46, 0x8d, 0x49, 0x7f };
	static const struct {
		const char *value;
		size_t length;
	} values[] = { { NULL, 0 }, { "", 0 },    { "\0", 1 },   { "a", 1 },    { "a\0", 2 },
		       { "{}", 2 }, { "{ }", 3 }, { "\xff", 1 }, { "a\0b", 3 }, { "a\0c", 3 } };
	uint8_t hashes[LENGTH(values)][EFFECT_HASH_SIZE], again[EFFECT_HASH_SIZE];

	for (size_t i = 0; i < LENGTH(values); i++) {
		hash_of(values[i].value, values[i].length, hashes[i]);
		hash_of(values[i].value, values[i].length, again);
		assert_memory_equal(hashes[i], again, sizeof(again));
		for (size_t j = 0; j < i; j++)
			assert_memory_not_equal(hashes[i], hashes[j], sizeof(again));
	}
	assert_memory_equal(hashes[1], empty_golden, sizeof(empty_golden));
}

static void content_type_is_borrowed(void **state)
{
	(void)state;
	struct event_header headers[MAX_HEADERS] = { HEADER("content-type", "text/plain"),
						     HEADER("content-type", "a/b") };
	struct event_source source = source_of(headers);
	struct event event;

	assert_true(event_decode(&source, NULL, &event));
	assert_int_equal(event.content_type_length, 3);
	assert_ptr_equal(event.content_type, headers[1].value);
	headers[1].value = NULL;
	assert_true(event_decode(&source, NULL, &event));
	assert_string_equal(event.content_type, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(identity_comes_from_the_first_that_has_it),
		cmocka_unit_test(poison_says_which_header),
		cmocka_unit_test(the_greatest_lengths_pass),
		cmocka_unit_test(a_binary_key_is_no_subject),
		cmocka_unit_test(time_is_read_or_passed_over),
		cmocka_unit_test(the_hash_is_of_the_raw_value),
		cmocka_unit_test(content_type_is_borrowed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
