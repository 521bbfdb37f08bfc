/* Reads an event from a file, by hand-written rules for hand-written files: what is not known is
 * refused, for a misspelt member would otherwise try another event than the one that was meant. */
#include "try_event.h"

#include <limits.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "mem.h"
#include "wire.h"

enum member {
	MEMBER_TOPIC,
	MEMBER_TYPE,
	MEMBER_ID,
	MEMBER_KEY,
	MEMBER_HEADERS,
	MEMBER_PAYLOAD,
	MEMBER_PAYLOAD_BASE64,
	MEMBER_COUNT,
};

static const char *const member_names[] = {
	[MEMBER_TOPIC] = "topic",
	[MEMBER_TYPE] = "type",
	[MEMBER_ID] = "id",
	[MEMBER_KEY] = "key",
	[MEMBER_HEADERS] = "headers",
	[MEMBER_PAYLOAD] = "payload",
	[MEMBER_PAYLOAD_BASE64] = "payload_base64",
};

static const char known_members[] =
	"topic, type, id, key, headers, payload and payload_base64 are known";

struct reading {
	struct try_event *event;
	struct json_value values[MEMBER_COUNT];
};

/* A copy that the event owns. */
static char *keep(struct try_event *event, const char *data, size_t length)
{
	event->kept = mem_grow(event->kept, event->kept_count + 1, sizeof(*event->kept));
	return event->kept[event->kept_count++] = mem_text_n(data, length);
}

/* --- headers --- */

/* value NULL: none */
static void add_header(struct try_event *event, const char *name, size_t name_length,
		       const char *value, size_t length)
{
	const char *own_name = keep(event, name, name_length);
	const char *own_value = value ? keep(event, value, length) : NULL;

	event->headers = mem_grow(event->headers, event->header_count + 1, sizeof(*event->headers));
	event->headers[event->header_count++] =
		(struct event_header){ .name = own_name, .value = own_value, .length = length };
}

static bool take_header(void *arg, const char *name, size_t length, const struct json_value *value,
			struct err *err)
{
	struct try_event *event = arg;

	if (value->type == JSON_NULL)
		add_header(event, name, length, NULL, 0);
	else if (value->type == JSON_STRING)
		add_header(event, name, length, value->text, value->length);
	else
		return err_set(err, "%.*s is no text; write its value in quotes", (int)length,
			       name);
	return true;
}

/* --- members --- */

static bool check_member(void *arg, const char *name, size_t length, const struct json_value *value,
			 struct err *err)
{
	(void)arg;
	(void)value;
	for (size_t i = 0; i < MEMBER_COUNT; i++)
		if (strlen(member_names[i]) == length && !memcmp(member_names[i], name, length))
			return true;
	return err_set(err, "the member \"%.*s\" is not known; %s", (int)length, name,
		       known_members);
}

static bool read_members(struct reading *reading, const char *data, size_t length, struct err *err)
{
	struct json_paths *paths = json_paths_new();
	char pointer[32] = "/";
	size_t index;

	for (size_t i = 0; i < MEMBER_COUNT; i++) {
		memcpy(pointer + 1, member_names[i], strlen(member_names[i]) + 1);
		if (!json_paths_add(paths, pointer, err, &index) || index != i)
			abort(); /* they are constants */
	}
	bool ok = json_read(paths, data, length, err, &reading->event->texts, reading->values);
	json_paths_free(paths);
	return ok;
}

static bool given(const struct reading *reading, enum member member)
{
	return reading->values[member].type != JSON_MISSING;
}

/* Absent, or a text. */
static bool check_text(const struct reading *reading, enum member member, struct err *err)
{
	enum json_type type = reading->values[member].type;

	return type == JSON_MISSING || type == JSON_NULL || type == JSON_STRING ||
	       err_set(err, "%s is no text; write it in quotes", member_names[member]);
}

static bool is_text(const struct reading *reading, enum member member)
{
	return reading->values[member].type == JSON_STRING;
}

/* --- the payload --- */

static bool take_base64(struct try_event *event, const struct json_value *value, struct err *err)
{
	size_t padding = 0;

	if (value->type != JSON_STRING || value->length > INT_MAX)
		return err_set(err, "payload_base64 is no text");
	while (padding < 2 && padding < value->length &&
	       value->text[value->length - padding - 1] == '=')
		padding++;
	char *bytes = keep(event, value->text, value->length); /* decoded it is shorter */
	int length = EVP_DecodeBlock((unsigned char *)bytes, (const unsigned char *)value->text,
				     (int)value->length);
	if (length < 0)
		return err_set(err, "payload_base64 is not base64");
	event->source.value = bytes;
	event->source.value_length = (size_t)length - (length > 0 ? padding : 0);
	return true;
}

static bool take_payload(const struct reading *reading, struct err *err)
{
	struct try_event *event = reading->event;
	const struct json_value *value = &reading->values[MEMBER_PAYLOAD];
	bool encoded = given(reading, MEMBER_PAYLOAD_BASE64);

	if (given(reading, MEMBER_PAYLOAD) == encoded)
		return err_set(err, encoded ? "payload and payload_base64 are both there"
					    : "the payload is missing; write \"payload\": null for "
					      "a tombstone");
	if (encoded)
		return take_base64(event, &reading->values[MEMBER_PAYLOAD_BASE64], err);
	if (value->type != JSON_NULL) {
		event->source.value = value->text;
		event->source.value_length = value->length;
	}
	return true;
}

/* --- the two forms --- */

/* A member that is short for a header; the last header of a name counts. */
static void add_short(const struct reading *reading, enum member member, const char *name)
{
	const struct json_value *value = &reading->values[member];

	if (value->type == JSON_STRING)
		add_header(reading->event, name, strlen(name), value->text, value->length);
}

static bool take_names(const struct reading *reading, struct err *err)
{
	struct try_event *event = reading->event;
	const struct json_value *values = reading->values;

	if (!check_text(reading, MEMBER_TYPE, err) || !check_text(reading, MEMBER_ID, err) ||
	    !check_text(reading, MEMBER_KEY, err))
		return false;
	event->source.topic = keep(event, values[MEMBER_TOPIC].text, values[MEMBER_TOPIC].length);
	if (is_text(reading, MEMBER_KEY)) {
		event->source.key = values[MEMBER_KEY].text;
		event->source.key_length = values[MEMBER_KEY].length;
	}
	if (given(reading, MEMBER_HEADERS) &&
	    !json_members(values[MEMBER_HEADERS].text, values[MEMBER_HEADERS].length, err,
			  take_header, event))
		return err_prefix(err, "headers");
	add_short(reading, MEMBER_ID, WIRE_CE_ID);
	add_short(reading, MEMBER_TYPE, WIRE_CE_TYPE);
	return true;
}

static bool read_named(struct try_event *event, const char *data, size_t length, struct err *err)
{
	static const char hint[] = "a file holds one event, a JSON object with \"topic\" and "
				   "\"payload\"; for a bare payload name its --topic";
	struct reading reading = { .event = event };
	struct err why;

	if (!read_members(&reading, data, length, &why))
		return err_set(err, "%.300s; %s", why.text, hint);
	if (!is_text(&reading, MEMBER_TOPIC) || !reading.values[MEMBER_TOPIC].length)
		return err_set(err, "names no topic; %s", hint);
	return json_members(data, length, err, check_member, NULL) && take_names(&reading, err) &&
	       take_payload(&reading, err);
}

static void read_bare(struct try_event *event, const char *data, size_t length,
		      const struct try_form *form)
{
	event->source.topic = form->topic;
	if (form->type)
		add_header(event, WIRE_CE_TYPE, strlen(WIRE_CE_TYPE), form->type,
			   strlen(form->type));
	event->source.value = data;
	event->source.value_length = length;
}

bool try_event_read(const char *data, size_t length, const struct try_form *form, struct err *err,
		    struct try_event *event_r)
{
	struct try_event event = { .source = { .sent_at = USEC_NEVER } };

	if (form->topic) {
		read_bare(&event, data, length, form);
	} else if (!read_named(&event, data, length, err)) {
		try_event_done(&event);
		return false;
	}
	event.source.headers = event.headers;
	event.source.header_count = event.header_count;
	*event_r = event;
	return true;
}

void try_event_done(struct try_event *event)
{
	for (size_t i = 0; i < event->kept_count; i++)
		free(event->kept[i]);
	free(event->kept);
	free(event->headers);
	buf_done(&event->texts);
	*event = (struct try_event){ 0 };
}
