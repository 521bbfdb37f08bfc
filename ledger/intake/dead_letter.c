/* Dead letters: the row of the outbox that says an effect of an event has died. */
#include "dead_letter.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "wire.h"

/* message.max.bytes of librdkafka is 1,000,000; the rest is for the headers that the relay adds. */
#define LETTER_MAX (1000000 - 10000)
#define OWN_MAX    4096 /* the letter's own headers */

#define SHA1_SIZE 20

static uint8_t hex_digit(char c)
{
	return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static void namespace_bytes(uint8_t bytes_r[UUID_SIZE])
{
	const char *text = WIRE_NAMESPACE;

	for (size_t i = 0; i < UUID_SIZE; i++, text += 2) {
		if (*text == '-')
			text++;
		bytes_r[i] = (uint8_t)(hex_digit(text[0]) << 4 | hex_digit(text[1]));
	}
}

void uuid5(const char *name, uint8_t uuid_r[UUID_SIZE])
{
	struct buf input BUF_AUTO = { 0 };
	uint8_t digest[SHA1_SIZE];

	namespace_bytes(uuid_r);
	buf_add(&input, uuid_r, UUID_SIZE);
	buf_add_text(&input, name);
	/* One that fails has run out of memory, or libcrypto was built without SHA-1. */
	if (EVP_Digest(input.data, input.length, digest, NULL, EVP_sha1(), NULL) != 1)
		abort();
	memcpy(uuid_r, digest, UUID_SIZE);
	uuid_r[6] = (uint8_t)((uuid_r[6] & 0x0f) | 0x50);
	uuid_r[8] = (uint8_t)((uuid_r[8] & 0x3f) | 0x80);
}

void dead_letter_intake_id(const char *topic, int32_t partition, int64_t offset, const char *effect,
			   const char *event_id, uint8_t uuid_r[UUID_SIZE])
{
	struct buf name BUF_AUTO = { 0 };

	buf_addf(&name, "%s/%" PRId32 "/%" PRId64 "/%s/%s", topic, partition, offset, effect,
		 event_id);
	uuid5(name.data, uuid_r);
}

void dead_letter_topic(const struct conf_effect *effect, const char *topic, struct buf *out)
{
	if (effect && effect->dead_letter_topic[0] != '\0')
		buf_add_text(out, effect->dead_letter_topic);
	else
		buf_addf(out, "%s.dlq", topic);
}

const char *dead_letter_type(const char *event_type)
{
	return event_type[0] != '\0' ? event_type : "unknown";
}

static void add_header(struct buf *json, const char *name, const char *value)
{
	buf_addf(json, "%s\"%s\":\"", json->data[json->length - 1] == '{' ? "" : ",", name);
	json_escape(json, value, strlen(value));
	buf_add_char(json, '"');
}

static void add_number(struct buf *json, const char *name, int64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, number);
	add_header(json, name, text);
}

/* "{" and what was kept, without the brace that ends it. */
static void open_object(const struct death *death, struct buf *json)
{
	if (death->kept && death->kept_length > 2)
		buf_add(json, death->kept, death->kept_length - 1);
	else
		buf_add_char(json, '{');
}

bool dead_letter_keeps_key(const struct death *death)
{
	return death->key_length <= LETTER_MAX - OWN_MAX;
}

bool dead_letter_headers(const struct death *death, struct buf *json)
{
	size_t start = json->length;
	bool fits = death->key_length + death->kept_length <= LETTER_MAX - OWN_MAX;
	struct buf origin BUF_AUTO = { 0 };

	buf_addf(&origin, "%s/%" PRId32 "/%" PRId64, death->topic, death->partition, death->offset);
	if (fits)
		open_object(death, json);
	else
		buf_add_char(json, '{');
	add_header(json, WIRE_EVENT_ID, death->event_id);
	add_header(json, WIRE_DEAD_REASON, death->reason);
	add_header(json, WIRE_DEAD_EFFECT, death->effect);
	add_number(json, WIRE_DEAD_ATTEMPTS, death->attempts);
	add_header(json, WIRE_DEAD_ORIGIN, origin.data);
	fits = fits && json->length - start + death->key_length + death->value_length <= LETTER_MAX;
	if (!fits)
		add_number(json, WIRE_VALUE_OMITTED, (int64_t)death->value_length);
	buf_add_char(json, '}');
	return fits;
}
