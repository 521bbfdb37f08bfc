/* Messages made of rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "buf.h"
#include "publishing/encode.h"
#include "publishing/partition.h"
#include "wire.h"

#define EVENT_ID "018f3c2a-9b1e-7abc-8def-0123456789ab"

static const unsigned char event_id[] = { 0x01, 0x8f, 0x3c, 0x2a, 0x9b, 0x1e, 0x7a, 0xbc,
					  0x8d, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab };

static struct row_bytes bytes(const char *text)
{
	return (struct row_bytes){ .data = text, .length = text ? strlen(text) : 0 };
}

static struct row sample(void)
{
	return (struct row){
		.id = 1,
		.event_id = event_id,
		.topic = bytes("orders"),
		.type = bytes("order.placed"),
		.ordering_key = bytes("order-42"),
		.partition = -1,
		.payload = bytes("{}"),
		.created_at = 1767323045 * USEC_SEC + 6,
		.fetched = true,
	};
}

/* "name=value" lines. */
static const char *shown(const struct encode_message *message, struct buf *buf)
{
	buf_clear(buf);
	for (size_t i = 0; i < message->header_count; i++) {
		const struct encode_header *header = &message->headers[i];
		buf_add(buf, header->name.data, header->name.length);
		buf_add_char(buf, '=');
		buf_add(buf, header->value.data, header->value.length);
		buf_add_char(buf, '\n');
	}
	return buf_text(buf);
}

static struct encoder *encoder_of(enum conf_message_key key, enum conf_relay_headers headers)
{
	static char source[] = "/shop", content_type[] = "application/json";
	static struct conf_relay conf;
	conf = (struct conf_relay){ .source = source,
				    .content_type = content_type,
				    .message_key = key,
				    .headers = headers };
	return encoder_new(&conf);
}

static struct encoder *encoder_with(enum conf_message_key key)
{
	return encoder_of(key, CONF_HEADERS_CLOUDEVENTS);
}

static void cloudevents_headers(void **state)
{
	(void)state;
	BUF_AUTO struct buf buf = { 0 };
	struct encoder *encoder = encoder_with(CONF_KEY_EVENT_ID);
	struct encode_message message;
	struct row row = sample();
	encode_row(encoder, &row, &message);
	assert_string_equal(shown(&message, &buf), "ce_id=" EVENT_ID "\n"
						   "ce_source=/shop\n"
						   "ce_type=order.placed\n"
						   "ce_specversion=1.0\n"
						   "ce_time=2026-01-02T03:04:05.000006Z\n"
						   "ce_subject=order-42\n"
						   "content-type=application/json\n");
	assert_int_equal(message.dropped, 0);
	encoder_free(encoder);
}

static void without_ordering_key_and_time_there_is_less(void **state)
{
	(void)state;
	BUF_AUTO struct buf buf = { 0 };
	struct encoder *encoder = encoder_with(CONF_KEY_EVENT_ID);
	struct encode_message message;
	struct row row = sample();
	row.ordering_key = bytes(NULL);
	row.created_at = USEC_NEVER;
	encode_row(encoder, &row, &message);
	assert_string_equal(shown(&message, &buf), "ce_id=" EVENT_ID "\n"
						   "ce_source=/shop\n"
						   "ce_type=order.placed\n"
						   "ce_specversion=1.0\n"
						   "content-type=application/json\n");
	encoder_free(encoder);
}

/* The digits behind the second are written over the text of the row before. */
static void times_are_exact(void **state)
{
	(void)state;
	BUF_AUTO struct buf buf = { 0 };
	struct encoder *encoder = encoder_with(CONF_KEY_NONE);
	static const struct {
		usec_t wall;
		const char *text;
	} times[] = {
		{ 1767323045 * USEC_SEC, "ce_time=2026-01-02T03:04:05.000000Z\n" },
		{ 1767323045 * USEC_SEC + 999999, "ce_time=2026-01-02T03:04:05.999999Z\n" },
		{ 1767323045 * USEC_SEC + 120, "ce_time=2026-01-02T03:04:05.000120Z\n" },
		{ 1767323046 * USEC_SEC + 1, "ce_time=2026-01-02T03:04:06.000001Z\n" },
		{ -1, "ce_time=1969-12-31T23:59:59.999999Z\n" },
		{ 5, "ce_time=1970-01-01T00:00:00.000005Z\n" },
		{ 253402300800 * USEC_SEC + 7, "ce_time=10000-01-01T00:00:00.000007Z\n" },
		{ 253402300800 * USEC_SEC + 8, "ce_time=10000-01-01T00:00:00.000008Z\n" },
	};
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		struct encode_message message;
		struct row row = sample();
		row.created_at = times[i].wall;
		encode_row(encoder, &row, &message);
		assert_non_null(strstr(shown(&message, &buf), times[i].text));
	}
	encoder_free(encoder);
}

static void own_headers_join(void **state)
{
	(void)state;
	BUF_AUTO struct buf buf = { 0 };
	struct encoder *encoder = encoder_with(CONF_KEY_EVENT_ID);
	struct encode_message message;
	struct row row = sample();
	row.headers = bytes(
		"{\"tenant\": \"acme\", \"n\": 1.10, \"o\": {\"a\": 1}, \"empty\": \"\", "
		"\"yes\": true, \"list\": [1, \"x\"], \"\\u00e9\\n\": \"\\\"\\ud83d\\ude00\"}");
	encode_row(encoder, &row, &message);
	assert_non_null(strstr(shown(&message, &buf), "tenant=acme\nn=1.10\no={\"a\": 1}\nempty=\n"
						      "yes=true\nlist=[1, \"x\"]\n"
						      "\xc3\xa9\n=\"\xf0\x9f\x98\x80\n"
						      "content-type=application/json\n"));
	assert_int_equal(message.dropped, 0);
	encoder_free(encoder);
}

static void what_cannot_be_carried_is_dropped_and_counted(void **state)
{
	(void)state;
	BUF_AUTO struct buf buf = { 0 };
	BUF_AUTO struct buf json = { 0 };
	char longest[WIRE_HEADER_NAME_MAX + 1], longer[WIRE_HEADER_NAME_MAX + 2];
	struct encoder *encoder = encoder_with(CONF_KEY_EVENT_ID);
	struct encode_message message;
	struct row row = sample();
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	memset(longer, 'y', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	buf_addf(&json,
		 "{\"null\": null, \"ce_id\": \"forged\", \"ce_\": \"x\", \"\": \"nameless\","
		 " \"%s\": \"kept\", \"%s\": \"lost\", \"ce\": \"kept too\"}",
		 longest, longer);
	row.headers = bytes(buf_text(&json));
	encode_row(encoder, &row, &message);
	const char *text = shown(&message, &buf);
	assert_int_equal(message.dropped, 5);
	assert_int_equal(message.header_count, 9);
	assert_null(strstr(text, "forged"));
	assert_null(strstr(text, "nameless"));
	assert_non_null(strstr(text, "x=kept\n"));
	assert_non_null(strstr(text, "ce=kept too\n"));
	encoder_free(encoder);
}

static void a_row_may_say_what_its_content_is(void **state)
{
	(void)state;
	BUF_AUTO struct buf buf = { 0 };
	struct encoder *encoder = encoder_with(CONF_KEY_EVENT_ID);
	struct encode_message message;
	struct row row = sample();
	row.headers = bytes("{\"content-type\": \"text/plain\"}");
	encode_row(encoder, &row, &message);
	assert_non_null(strstr(shown(&message, &buf), "content-type=text/plain\n"));
	assert_null(strstr(shown(&message, &buf), "application/json"));
	encoder_free(encoder);
}

/* As PostgreSQL prints a jsonb, and the same as only a parser reads it. */
static void plain_headers_are_read_like_any_others(void **state)
{
	(void)state;
	static const char *const plain[] = {
		"{\"a\": \"b\"}",
		"{\"a\": \"\", \"ce_id\": \"x\", \"content-type\": \"t\", \"\": \"y\"}",
		"{\"a\": \": \", \"b\": \", \", \"c\": \"}\", \"d\": \"\xc3\xa9\"}",
		"{\"a\": \"b\", \"n\": 1}",
		"{\"a\": \"b\", \"o\": {\"c\": \"d\"}, \"e\": \"f\"}",
	};
	struct encoder *encoder = encoder_with(CONF_KEY_EVENT_ID);
	struct encode_message message;
	struct row row = sample();
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		BUF_AUTO struct buf spaced = { 0 }, ours = { 0 }, parsed = { 0 };
		row.headers = bytes(plain[i]);
		encode_row(encoder, &row, &message);
		size_t dropped = message.dropped;
		(void)shown(&message, &ours);
		buf_addf(&spaced, " %s", plain[i]);
		row.headers = bytes(buf_text(&spaced));
		encode_row(encoder, &row, &message);
		assert_string_equal(shown(&message, &parsed), buf_text(&ours));
		assert_int_equal(message.dropped, dropped);
	}
	encoder_free(encoder);
}

static void headers_that_cannot_be_read_are_a_fault(void **state)
{
	(void)state;
	struct encoder *encoder = encoder_with(CONF_KEY_EVENT_ID);
	static const char *const garbage[] = {
		"",
		"[]",
		"\"x\"",
		"{\"a\": 1",
		"{\"a\": \"\\u0000\"}",
		"{\"a\": \"\\ud800\"}",
		"{\"a\": \"b\"",
		"{\"a\": \"b\"} ]",
		"{\"a\": \"b\", }",
	};
	struct encode_message message;
	struct row row = sample();
	for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
		row.headers = bytes(garbage[i]);
		encode_row(encoder, &row, &message);
		assert_non_null(message.fault);
		assert_memory_equal(message.fault, "its headers: ", 13);
	}
	row.headers = bytes(" { } ");
	encode_row(encoder, &row, &message);
	assert_null(message.fault);
	assert_int_equal(message.header_count, 7);
	encoder_free(encoder);
}

static void other_styles_of_headers(void **state)
{
	(void)state;
	static const struct {
		enum conf_relay_headers style;
		const char *shown;
		size_t dropped;
	} styles[] = {
		{ CONF_HEADERS_DEBEZIUM, "id=" EVENT_ID "\neventType=order.placed\nx=1\n", 3 },
		{ CONF_HEADERS_NONE, "id=7\neventType=other\nx=1\n", 1 },
	};
	for (size_t i = 0; i < sizeof(styles) / sizeof(styles[0]); i++) {
		BUF_AUTO struct buf buf = { 0 };
		struct encoder *encoder = encoder_of(CONF_KEY_EVENT_ID, styles[i].style);
		struct encode_message message;
		struct row row = sample();
		row.headers =
			bytes("{\"id\": 7, \"eventType\": \"other\", \"ce_id\": 1, \"x\": 1}");
		encode_row(encoder, &row, &message);
		assert_string_equal(shown(&message, &buf), styles[i].shown);
		assert_int_equal(message.dropped, styles[i].dropped);
		encoder_free(encoder);
	}
}

static void keys_and_hashes(void **state)
{
	(void)state;
	static const struct {
		enum conf_message_key setting;
		const char *ordering_key, *message_key;
		const char *key;    /* NULL: none */
		const char *hashed; /* what chooses the partition */
	} rows[] = {
		{ CONF_KEY_EVENT_ID, "o", NULL, EVENT_ID, "o" },
		{ CONF_KEY_EVENT_ID, NULL, NULL, EVENT_ID, EVENT_ID },
		{ CONF_KEY_ORDERING_KEY, "o", NULL, "o", "o" },
		{ CONF_KEY_ORDERING_KEY, NULL, NULL, NULL, EVENT_ID },
		{ CONF_KEY_NONE, "o", NULL, NULL, "o" },
		{ CONF_KEY_NONE, NULL, NULL, NULL, EVENT_ID },
		{ CONF_KEY_EVENT_ID, "o", "m", "m", "o" },
		{ CONF_KEY_EVENT_ID, NULL, "m", "m", "m" },
		{ CONF_KEY_NONE, NULL, "", "", "" }, /* an empty key is a key */
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct encoder *encoder = encoder_with(rows[i].setting);
		struct encode_message message;
		struct row row = sample();
		row.ordering_key = bytes(rows[i].ordering_key);
		row.message_key = bytes(rows[i].message_key);
		encode_row(encoder, &row, &message);
		assert_int_equal(message.key.data != NULL, rows[i].key != NULL);
		if (rows[i].key)
			assert_memory_equal(message.key.data, rows[i].key, strlen(rows[i].key));
		assert_int_equal(message.hash,
				 partition_hash(rows[i].hashed, strlen(rows[i].hashed)));
		encoder_free(encoder);
	}
}

static void values_stay_what_they_are(void **state)
{
	(void)state;
	struct encoder *encoder = encoder_with(CONF_KEY_EVENT_ID);
	struct encode_message message;
	struct row row = sample();
	row.payload = bytes(NULL);
	encode_row(encoder, &row, &message);
	assert_null(message.value.data); /* a tombstone */
	row.payload = bytes("");
	encode_row(encoder, &row, &message);
	assert_non_null(message.value.data);
	assert_int_equal(message.value.length, 0);
	row.payload = (struct row_bytes){ .data = "a\0b", .length = 3 };
	encode_row(encoder, &row, &message);
	assert_int_equal(message.value.length, 3);
	assert_memory_equal(message.value.data, "a\0b", 3);
	encoder_free(encoder);
}

static void topics_have_legal_names(void **state)
{
	(void)state;
	static const char *const good[] = { "a", "orders", "a.b_c-D9", "...", "_" };
	static const char *const bad[] = { "", ".", "..", "a b", "a/b", "\xc3\xa9", "a\n" };
	char longest[250];
	struct err err;
	memset(longest, 'x', sizeof(longest));
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(encode_topic(bytes(good[i]), &err));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(encode_topic(bytes(bad[i]), &err));
	assert_true(encode_topic((struct row_bytes){ longest, 249 }, &err));
	assert_false(encode_topic((struct row_bytes){ longest, 250 }, &err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cloudevents_headers),
		cmocka_unit_test(without_ordering_key_and_time_there_is_less),
		cmocka_unit_test(times_are_exact),
		cmocka_unit_test(own_headers_join),
		cmocka_unit_test(what_cannot_be_carried_is_dropped_and_counted),
		cmocka_unit_test(a_row_may_say_what_its_content_is),
		cmocka_unit_test(plain_headers_are_read_like_any_others),
		cmocka_unit_test(headers_that_cannot_be_read_are_a_fault),
		cmocka_unit_test(other_styles_of_headers),
		cmocka_unit_test(keys_and_hashes),
		cmocka_unit_test(values_stay_what_they_are),
		cmocka_unit_test(topics_have_legal_names),
	};
	return cmocka_run_group_tests_name("encode", tests, NULL, NULL);
}
