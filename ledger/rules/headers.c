/* The headers of a message as a JSON object in text. */
#include "headers.h"

#include <string.h>

#include "json.h"
#include "utf8.h"
#include "wire.h"

/* Set anew on each dead letter, so that their number stays the same however often an event dies. */
static const char *const letter_names[] = {
	WIRE_EVENT_ID,      WIRE_DEAD_REASON, WIRE_DEAD_EFFECT,
	WIRE_DEAD_ATTEMPTS, WIRE_DEAD_ORIGIN, WIRE_VALUE_OMITTED,
};

static bool is_letter_name(const char *name)
{
	for (size_t i = 0; i < sizeof(letter_names) / sizeof(letter_names[0]); i++)
		if (strcmp(name, letter_names[i]) == 0)
			return true;
	return false;
}

static bool name_is_kept(const char *name)
{
	size_t length = strlen(name);

	return length > 0 && length <= WIRE_HEADER_NAME_MAX && utf8_valid(name, length) &&
	       strncmp(name, WIRE_CE_PREFIX, strlen(WIRE_CE_PREFIX)) != 0 && !is_letter_name(name);
}

static bool value_is_kept(const struct event_header *header)
{
	return header->value && memchr(header->value, '\0', header->length) == NULL &&
	       utf8_valid(header->value, header->length);
}

static void add_string(struct buf *json, const char *text, size_t length)
{
	buf_add_char(json, '"');
	json_escape(json, text, length);
	buf_add_char(json, '"');
}

static void add_hex(struct buf *json, const char *data, size_t length)
{
	buf_add_char(json, '"');
	for (size_t i = 0; i < length; i++)
		buf_addf(json, "%02x", (unsigned)(unsigned char)data[i]);
	buf_add_char(json, '"');
}

static void add_value(struct buf *json, const struct event_header *header)
{
	if (!header->value) {
		buf_add_text(json, "null");
	} else if (value_is_kept(header)) {
		add_string(json, header->value, header->length);
	} else {
		buf_add_text(json, "{\"hex\":");
		add_hex(json, header->value, header->length);
		buf_add_char(json, '}');
	}
}

static void add_name(struct buf *json, const char *name)
{
	size_t length = strlen(name);

	if (utf8_valid(name, length))
		add_string(json, name, length);
	else
		add_hex(json, name, length);
	buf_add_char(json, ':');
}

void headers_keep(const struct event_source *source, struct buf *json)
{
	bool any = false;

	for (size_t i = 0; i < source->header_count; i++) {
		const struct event_header *header = &source->headers[i];

		if (!name_is_kept(header->name) || !value_is_kept(header))
			continue;
		buf_add_char(json, any ? ',' : '{');
		add_name(json, header->name);
		add_string(json, header->value, header->length);
		any = true;
	}
	if (any)
		buf_add_char(json, '}');
}

void headers_all(const struct event_source *source, struct buf *json)
{
	buf_add_char(json, '{');
	for (size_t i = 0; i < source->header_count; i++) {
		if (i > 0)
			buf_add_char(json, ',');
		add_name(json, source->headers[i].name);
		add_value(json, &source->headers[i]);
	}
	buf_add_char(json, '}');
}
