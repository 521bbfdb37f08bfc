/* Dead letters: their ids, topics and headers, and what is kept of an event's own headers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "intake/dead_letter.h"
#include "json.h"
#include "rules/headers.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define HEADER(name_, value_)                                                                      \
	{                                                                                          \
		(name_), (value_), sizeof(value_) - 1                                              \
	}

/* --- ids --- */

static void hex(const uint8_t uuid[UUID_SIZE], char text[2 * UUID_SIZE + 1])
{
	for (size_t i = 0; i < UUID_SIZE; i++)
		snprintf(text + 2 * i, 3, "%02x", uuid[i]);
}

/* The right column is another implementation's: Python's uuid.uuid5(). */
static const struct uuid_case {
	const char *name;
	const char *uuid;
} uuid_cases[] = {
	{ "orders/3/17/charge/e-1", "ce32cfdaa01855e38ca1565862f66dbb" },
	{ "1/0/dead", "d76be20e8fab58a7831fffd6369ce269" },
	{ "", "148891a9b0f05b97bd3cfb0ecb17ad66" },
};

static void uuid_is_version_five(void **state)
{
	(void)state;
	for (size_t i = 0; i < LENGTH(uuid_cases); i++) {
		uint8_t uuid[UUID_SIZE];
		char text[2 * UUID_SIZE + 1];

		uuid5(uuid_cases[i].name, uuid);
		hex(uuid, text);
		assert_string_equal(text, uuid_cases[i].uuid);
	}
}

static void intake_id_names_the_place(void **state)
{
	uint8_t uuid[UUID_SIZE];
	char text[2 * UUID_SIZE + 1];

	(void)state;
	dead_letter_intake_id("orders", 3, 17, "charge", "e-1", uuid);
	hex(uuid, text);
	assert_string_equal(text, uuid_cases[0].uuid);
}

/* --- topic and type --- */

static void topic_is_configured_or_derived(void **state)
{
	char configured[] = "graveyard", none[] = "";
	struct conf_effect effect = { .dead_letter_topic = configured };
	struct buf topic BUF_AUTO = { 0 };

	(void)state;
	dead_letter_topic(&effect, "orders", &topic);
	assert_string_equal(topic.data, "graveyard");
	buf_clear(&topic);
	effect.dead_letter_topic = none;
	dead_letter_topic(&effect, "orders", &topic);
	assert_string_equal(topic.data, "orders.dlq");
	buf_clear(&topic);
	dead_letter_topic(NULL, "orders", &topic);
	assert_string_equal(topic.data, "orders.dlq");
}

static void type_is_never_empty(void **state)
{
	(void)state;
	assert_string_equal(dead_letter_type("order.placed"), "order.placed");
	assert_string_equal(dead_letter_type(""), "unknown");
}

/* --- headers --- */

static struct death death_of(const char *kept, size_t value_length)
{
	return (struct death){
		.effect = "charge",
		.reason = "refused",
		.attempts = 3,
		.topic = "orders",
		.partition = 2,
		.offset = 41,
		.event_id = "e-\"1\"",
		.kept = kept,
		.kept_length = kept ? strlen(kept) : 0,
		.key_length = 4,
		.value_length = value_length,
	};
}

#define OWN                                                                                        \
	"\"cf-event-id\":\"e-\\\"1\\\"\",\"cf-dead-reason\":\"refused\","                          \
	"\"cf-dead-effect\":\"charge\",\"cf-dead-attempts\":\"3\","                                \
	"\"cf-dead-origin\":\"orders/2/41\""

static const struct headers_case {
	const char *kept;
	size_t value_length;
	bool whole;
	const char *json;
} headers_cases[] = {
	{ NULL, 10, true, "{" OWN "}" },
	{ "{}", 10, true, "{" OWN "}" },
	{ "{\"tenant\":\"a\"}", 10, true, "{\"tenant\":\"a\"," OWN "}" },
	{ NULL, 980000, true, "{" OWN "}" },
	{ NULL, 990000, false, "{" OWN ",\"cf-value-omitted\":\"990000\"}" },
	{ NULL, (size_t)5 << 30, false, "{" OWN ",\"cf-value-omitted\":\"5368709120\"}" },
};

static void headers_are_a_constant_number(void **state)
{
	(void)state;
	for (size_t i = 0; i < LENGTH(headers_cases); i++) {
		const struct headers_case *row = &headers_cases[i];
		struct death death = death_of(row->kept, row->value_length);
		struct buf json BUF_AUTO = { 0 };

		assert_int_equal(dead_letter_headers(&death, &json), row->whole);
		assert_string_equal(json.data, row->json);
	}
}

/* Whatever an event brings, its letter can be published: the value goes first, then its headers,
 * and a key that leaves no room for the letter's own. */
static void a_letter_always_fits(void **state)
{
	static const struct {
		size_t key, kept, value;
		bool whole, keeps_headers, keeps_key;
	} cases[] = {
		{ 10, 100, 900000, true, true, true }, { 10, 100, 995000, false, true, true },
		{ 10, 985000, 0, true, true, true },   { 10, 985000, 10000, false, true, true },
		{ 10, 990000, 0, false, false, true }, { 500000, 490000, 0, false, false, true },
		{ 985000, 2, 0, true, true, true },    { 990000, 0, 0, false, false, false },
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct buf kept BUF_AUTO = { 0 }, json BUF_AUTO = { 0 };
		struct death death = death_of(NULL, cases[i].value);

		buf_add_text(&kept, "{\"x\":\"");
		while (cases[i].kept > 8 && kept.length < cases[i].kept - 2)
			buf_add_char(&kept, 'y');
		buf_add_text(&kept, "\"}");
		death.kept = cases[i].kept > 2 ? kept.data : NULL;
		death.kept_length = cases[i].kept > 2 ? kept.length : 0;
		death.key_length = cases[i].key;
		bool whole = dead_letter_headers(&death, &json);
		bool key = dead_letter_keeps_key(&death);
		size_t size = json.length + (key ? death.key_length : 0) +
			      (whole ? death.value_length : 0);
		if (whole != cases[i].whole || key != cases[i].keeps_key || size > 990000 + 100)
			fail_msg("case %zu: whole %d, key %d, %zu bytes", i, whole, key, size);
		if (death.kept)
			assert_int_equal(strstr(json.data, "yyy") != NULL, cases[i].keeps_headers);
		assert_int_equal(strstr(json.data, "cf-value-omitted") == NULL, whole);
	}
}

/* --- what is kept --- */

static const struct keep_case {
	struct event_header header;
	const char *kept;
	const char *all;
} keep_cases[] = {
	{ HEADER("tenant", "acme"), "{\"tenant\":\"acme\"}", "{\"tenant\":\"acme\"}" },
	{ HEADER("a\"b", "x\ny\\"), "{\"a\\\"b\":\"x\\ny\\\\\"}", "{\"a\\\"b\":\"x\\ny\\\\\"}" },
	{ HEADER("ce_type", "order.placed"), "", "{\"ce_type\":\"order.placed\"}" },
	{ HEADER("cf-dead-reason", "x"), "", "{\"cf-dead-reason\":\"x\"}" },
	{ HEADER("cf-event-id", "x"), "", "{\"cf-event-id\":\"x\"}" },
	{ HEADER("cf-idempotency-key", "k"), "{\"cf-idempotency-key\":\"k\"}",
	  "{\"cf-idempotency-key\":\"k\"}" },
	{ HEADER("bytes", "\xff\x01"), "", "{\"bytes\":{\"hex\":\"ff01\"}}" },
	{ HEADER("cut", "a\0b"), "", "{\"cut\":{\"hex\":\"610062\"}}" },
	{ { "none", NULL, 0 }, "", "{\"none\":null}" },
	{ HEADER("", "x"), "", "{\"\":\"x\"}" },
	{ HEADER("\xc3(", "x"), "", "{\"c328\":\"x\"}" },
};

static void only_what_json_can_hold_is_kept(void **state)
{
	(void)state;
	for (size_t i = 0; i < LENGTH(keep_cases); i++) {
		struct event_source source = { .headers = &keep_cases[i].header,
					       .header_count = 1 };
		struct buf kept BUF_AUTO = { 0 }, all BUF_AUTO = { 0 };

		headers_keep(&source, &kept);
		assert_string_equal(buf_text(&kept), keep_cases[i].kept);
		headers_all(&source, &all);
		assert_string_equal(all.data, keep_cases[i].all);
	}
}

/* A letter that is consumed and dies again has the same headers, not more. */
static void a_second_death_replaces_the_first(void **state)
{
	static const struct event_header first[] = {
		HEADER("ce_id", "d"),          HEADER("tenant", "a"),
		HEADER("cf-event-id", "e-1"),  HEADER("cf-dead-reason", "refused"),
		HEADER("cf-dead-effect", "x"), HEADER("cf-dead-attempts", "1"),
		HEADER("cf-dead-origin", "o"), HEADER("cf-value-omitted", "9"),
		HEADER("cf-hops", "2"),
	};
	struct event_source source = { .headers = first, .header_count = LENGTH(first) };
	struct buf kept BUF_AUTO = { 0 };

	(void)state;
	headers_keep(&source, &kept);
	assert_string_equal(kept.data, "{\"tenant\":\"a\",\"cf-hops\":\"2\"}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uuid_is_version_five),
		cmocka_unit_test(intake_id_names_the_place),
		cmocka_unit_test(topic_is_configured_or_derived),
		cmocka_unit_test(type_is_never_empty),
		cmocka_unit_test(headers_are_a_constant_number),
		cmocka_unit_test(a_letter_always_fits),
		cmocka_unit_test(only_what_json_can_hold_is_kept),
		cmocka_unit_test(a_second_death_replaces_the_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
