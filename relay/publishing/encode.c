/* CloudEvents in binary mode, or what Debezium's event router puts beside an event. Sources:
 * CloudEvents 1.0.2 and its Kafka protocol binding, 3.2; Debezium's "Outbox Event Router".
 *
 * The row's own headers are members of a JSON object: a string is its text, anything else stands as
 * it was written. */
#include "encode.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "mem.h"
#include "partition.h"
#include "wire.h"

#define FIXED_HEADERS 7 /* id source type specversion time subject content-type */
#define TIME_TEXT     32
#define TIME_FRACTION 20  /* "2026-01-02T03:04:05." */
#define TIME_LENGTH   27  /* of a year with four digits */
#define TOPIC_MAX     249 /* a broker makes file names of them */

#define LITERAL(text) ((struct row_bytes){ .data = (text), .length = sizeof(text) - 1 })

struct encoder {
	struct row_bytes source;
	struct row_bytes content_type;
	enum conf_message_key message_key;
	enum conf_relay_headers style;

	char event_id[ENCODE_UUID_TEXT];
	usec_t second; /* that `time` was made for */
	char time[TIME_TEXT];
	struct encode_header *headers;
	size_t count;
	size_t room;

	char *texts; /* names and values of own headers */
	size_t texts_length;
	size_t texts_room;
	bool typed; /* one of them says what the content is */
	size_t dropped;
	struct err fault;
};

static struct row_bytes text_bytes(const char *text)
{
	return (struct row_bytes){ .data = text, .length = strlen(text) };
}

static bool same(struct row_bytes a, struct row_bytes b)
{
	return a.length == b.length && memcmp(a.data, b.data, a.length) == 0;
}

static void add(struct encoder *encoder, struct row_bytes name, struct row_bytes value)
{
	if (encoder->count == encoder->room) {
		encoder->room = encoder->room ? encoder->room * 2 : 2 * FIXED_HEADERS;
		encoder->headers =
			mem_grow(encoder->headers, encoder->room, sizeof(*encoder->headers));
	}
	encoder->headers[encoder->count++] = (struct encode_header){ .name = name, .value = value };
}

/* Rows of one second share all but the last digits. */
static struct row_bytes time_text(struct encoder *encoder, usec_t wall)
{
	usec_t fraction = wall % USEC_SEC;
	if (wall < 0 || wall - fraction != encoder->second) {
		struct row_bytes text =
			text_bytes(usec_rfc3339(wall, encoder->time, sizeof(encoder->time)));
		encoder->second =
			wall >= 0 && text.length == TIME_LENGTH ? wall - fraction : USEC_NEVER;
		return text;
	}
	for (int digit = 5; digit >= 0; digit--, fraction /= 10)
		encoder->time[TIME_FRACTION + digit] = (char)('0' + fraction % 10);
	return text_bytes(encoder->time);
}

static void add_cloudevents(struct encoder *encoder, const struct row *row)
{
	add(encoder, LITERAL(WIRE_CE_ID), text_bytes(encoder->event_id));
	add(encoder, LITERAL(WIRE_CE_SOURCE), encoder->source);
	add(encoder, LITERAL(WIRE_CE_TYPE), row->type);
	add(encoder, LITERAL(WIRE_CE_SPECVERSION), LITERAL("1.0"));
	if (row->created_at != USEC_NEVER)
		add(encoder, LITERAL(WIRE_CE_TIME), time_text(encoder, row->created_at));
	if (row->ordering_key.data)
		add(encoder, LITERAL(WIRE_CE_SUBJECT), row->ordering_key);
}

static void add_debezium(struct encoder *encoder, const struct row *row)
{
	add(encoder, LITERAL(WIRE_DEBEZIUM_ID), text_bytes(encoder->event_id));
	add(encoder, LITERAL(WIRE_DEBEZIUM_TYPE), row->type);
}

static void add_ours(struct encoder *encoder, const struct row *row)
{
	switch (encoder->style) {
	case CONF_HEADERS_CLOUDEVENTS:
		add_cloudevents(encoder, row);
		break;
	case CONF_HEADERS_DEBEZIUM:
		add_debezium(encoder, row);
		break;
	case CONF_HEADERS_NONE:
		break;
	}
}

/* A row may not say what its event is in our place: two readers would see two events. */
static bool reserved(enum conf_relay_headers style, struct row_bytes name)
{
	struct row_bytes prefix = LITERAL(WIRE_CE_PREFIX);
	if (name.length >= prefix.length && memcmp(name.data, prefix.data, prefix.length) == 0)
		return true;
	return style == CONF_HEADERS_DEBEZIUM &&
	       (same(name, LITERAL(WIRE_DEBEZIUM_ID)) || same(name, LITERAL(WIRE_DEBEZIUM_TYPE)));
}

static bool can_carry(const struct encoder *encoder, struct row_bytes name)
{
	return name.length > 0 && name.length <= WIRE_HEADER_NAME_MAX &&
	       !reserved(encoder->style, name);
}

static struct row_bytes keep(struct encoder *encoder, struct row_bytes bytes)
{
	char *kept = encoder->texts + encoder->texts_length;
	memcpy(kept, bytes.data, bytes.length);
	encoder->texts_length += bytes.length;
	return (struct row_bytes){ .data = kept, .length = bytes.length };
}

/* False: it cannot be carried, and is counted. */
static bool take_name(struct encoder *encoder, struct row_bytes name)
{
	bool carried = can_carry(encoder, name);
	encoder->dropped += !carried;
	encoder->typed = encoder->typed || same(name, LITERAL(WIRE_CONTENT_TYPE));
	return carried;
}

static bool add_member(void *arg, const char *name_text, size_t name_length,
		       const struct json_value *value, struct err *err)
{
	struct encoder *encoder = arg;
	struct row_bytes name = { .data = name_text, .length = name_length };
	struct row_bytes text = { .data = value->text, .length = value->length };
	(void)err;
	if (value->type == JSON_NULL) {
		encoder->dropped++;
	} else if (take_name(encoder, name)) {
		name = keep(encoder, name);
		add(encoder, name, keep(encoder, text));
	}
	return true;
}

/* A string of a text without escapes, from its first quote on; false: there is none. */
static bool take_string(struct row_bytes *rest, struct row_bytes *string_r)
{
	const char *end;
	if (rest->length < 2 || rest->data[0] != '"')
		return false;
	end = memchr(rest->data + 1, '"', rest->length - 1);
	if (!end)
		return false;
	*string_r = (struct row_bytes){ .data = rest->data + 1,
					.length = (size_t)(end - rest->data) - 1 };
	rest->length -= string_r->length + 2;
	rest->data = end + 1;
	return true;
}

static bool take_text(struct row_bytes *rest, struct row_bytes text)
{
	if (rest->length < text.length || memcmp(rest->data, text.data, text.length) != 0)
		return false;
	rest->data += text.length;
	rest->length -= text.length;
	return true;
}

/* Most headers are strings without escapes, as PostgreSQL prints them: `{"name": "value", ...}`.
 * They need no parser and no copy. False: these are not such, and nothing was added. */
static bool add_plain(struct encoder *encoder, struct row_bytes rest)
{
	size_t before = encoder->count;
	struct row_bytes name, value;
	bool more = rest.length > 2 && !memchr(rest.data, '\\', rest.length) &&
		    take_text(&rest, LITERAL("{"));
	while (more) {
		if (!take_string(&rest, &name) || !take_text(&rest, LITERAL(": ")) ||
		    !take_string(&rest, &value))
			break;
		if (take_name(encoder, name))
			add(encoder, name, value);
		more = take_text(&rest, LITERAL(", "));
		if (!more && rest.length == 1 && rest.data[0] == '}')
			return true;
	}
	encoder->count = before;
	encoder->dropped = 0;
	encoder->typed = false;
	return false;
}

/* No name and no value is longer than it stands in the text, so all of them find room in a text of
 * that length, which need not move while they are added. */
static bool add_members(struct encoder *encoder, struct row_bytes object)
{
	if (add_plain(encoder, object))
		return true;
	encoder->texts_length = 0;
	if (object.length > encoder->texts_room) {
		encoder->texts_room = object.length;
		encoder->texts = mem_grow(encoder->texts, object.length, 1);
	}
	return json_members(object.data, object.length, &encoder->fault, add_member, encoder) ||
	       err_prefix(&encoder->fault, "its headers");
}

static bool add_own(struct encoder *encoder, const struct row *row)
{
	encoder->typed = false;
	encoder->dropped = 0;
	if (row->headers.data && !add_members(encoder, row->headers))
		return false;
	if (!encoder->typed && encoder->style == CONF_HEADERS_CLOUDEVENTS)
		add(encoder, LITERAL(WIRE_CONTENT_TYPE), encoder->content_type);
	return true;
}

static struct row_bytes key_of(const struct encoder *encoder, const struct row *row)
{
	if (row->message_key.data)
		return row->message_key;
	switch (encoder->message_key) {
	case CONF_KEY_EVENT_ID:
		return text_bytes(encoder->event_id);
	case CONF_KEY_ORDERING_KEY:
		return row->ordering_key;
	case CONF_KEY_NONE:
		break;
	}
	return (struct row_bytes){ 0 };
}

/* A message without any key goes by its event id: anywhere, but always to the same place. */
static uint32_t hash_of(const struct encoder *encoder, const struct row *row, struct row_bytes key)
{
	struct row_bytes by = row->ordering_key.data ? row->ordering_key : key;
	if (!by.data)
		by = text_bytes(encoder->event_id);
	return partition_hash(by.data, by.length);
}

void encode_row(struct encoder *encoder, const struct row *row, struct encode_message *message_r)
{
	encoder->count = 0;
	(void)encode_uuid(row->event_id, encoder->event_id);
	add_ours(encoder, row);
	bool fits = add_own(encoder, row);
	struct row_bytes key = key_of(encoder, row);
	*message_r = (struct encode_message){
		.key = key,
		.value = row->payload,
		.headers = encoder->headers,
		.header_count = encoder->count,
		.dropped = encoder->dropped,
		.fault = fits ? NULL : encoder->fault.text,
		.hash = hash_of(encoder, row, key),
	};
}

bool encode_topic(struct row_bytes topic, struct err *err)
{
	if (topic.length == 0 || topic.length > TOPIC_MAX)
		return err_set(err, "a topic's name has 1 to %d characters, this one %zu",
			       TOPIC_MAX, topic.length);
	if (same(topic, LITERAL(".")) || same(topic, LITERAL("..")))
		return err_set(err, "a topic cannot be named \"%s\"", topic.data);
	for (size_t i = 0; i < topic.length; i++) {
		unsigned char c = (unsigned char)topic.data[i];
		if (!isalnum(c) && c != '.' && c != '_' && c != '-')
			return err_set(err, "a topic's name has letters, digits, '.', '_' and '-', "
					    "and nothing else");
	}
	return true;
}

const char *encode_uuid(const unsigned char *uuid, char *text)
{
	static const char digits[] = "0123456789abcdef";
	char *end = text;
	for (size_t i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*end++ = '-';
		*end++ = digits[uuid[i] >> 4];
		*end++ = digits[uuid[i] & 15];
	}
	*end = '\0';
	return text;
}

struct encoder *encoder_new(const struct conf_relay *conf)
{
	struct encoder *encoder = mem_zero(sizeof(*encoder));
	encoder->source = text_bytes(conf->source);
	encoder->content_type = text_bytes(conf->content_type);
	encoder->message_key = conf->message_key;
	encoder->style = conf->headers;
	encoder->second = USEC_NEVER;
	return encoder;
}

void encoder_free(struct encoder *encoder)
{
	if (!encoder)
		return;
	free(encoder->headers);
	free(encoder->texts);
	free(encoder);
}
