/* Reads a consumed Kafka message as an event: its identity, type, subject and time. */
#include "event.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "moment.h"
#include "wire.h"

/* --- headers --- */

/* The last header of that name if it holds something. */
static const struct event_header *valued(const struct event_source *source, const char *name)
{
	const struct event_header *header = event_header_find(source, name);

	return header && header->value && header->length ? header : NULL;
}

static bool text_check(const struct event_header *header, size_t max, struct err *err)
{
	if (header->length > max)
		return err_set(err, "header %s: longer than %zu bytes", header->name, max);
	if (!utf8_valid(header->value, header->length))
		return err_set(err, "header %s: not UTF-8", header->name);
	if (!utf8_printable(header->value, header->length))
		return err_set(err, "header %s: holds a NUL or another control character",
			       header->name);
	return true;
}

static bool copy(const struct event_header *header, size_t max, struct err *err, char *text)
{
	if (!text_check(header, max, err))
		return false;
	memcpy(text, header->value, header->length);
	text[header->length] = '\0';
	return true;
}

/* --- the parts of an event --- */

static int64_t source_number(const struct event_source *source)
{
	const struct event_header *header = valued(source, WIRE_CE_SOURCE);

	return header ? (int64_t)(XXH3_64bits(header->value, header->length) & INT64_MAX) : 0;
}

static bool decode_id(struct event *event, struct err *err)
{
	static const char *const names[] = { WIRE_EVENT_ID, WIRE_CE_ID, WIRE_DEBEZIUM_ID };
	const struct event_source *source = &event->source;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct event_header *header = valued(source, names[i]);
		if (header) {
			event->number = source_number(source);
			return copy(header, EVENT_ID_MAX, err, event->id);
		}
	}
	event->number = EVENT_NUMBER_NONE;
	(void)snprintf(event->id, sizeof(event->id), "%s/%" PRId32 "/%" PRId64, source->topic,
		       source->partition, source->offset);
	return true;
}

static bool decode_type(struct event *event, struct err *err)
{
	const struct event_header *header = valued(&event->source, WIRE_CE_TYPE);

	if (!header)
		header = valued(&event->source, WIRE_DEBEZIUM_TYPE);
	return !header || copy(header, EVENT_TYPE_MAX, err, event->type);
}

static bool decode_subject(struct event *event, struct err *err)
{
	const struct event_source *source = &event->source;
	const struct event_header *header = valued(source, WIRE_CE_SUBJECT);

	if (header) {
		if (!text_check(header, EVENT_SUBJECT_MAX, err))
			return false;
		event->subject = header->value;
		event->subject_length = header->length;
	} else if (source->key && source->key_length && source->key_length <= EVENT_SUBJECT_MAX &&
		   utf8_printable(source->key, source->key_length)) {
		event->subject = source->key;
		event->subject_length = source->key_length;
	}
	return true;
}

static void decode_content_type(struct event *event)
{
	const struct event_header *header = valued(&event->source, WIRE_CONTENT_TYPE);

	event->content_type = header ? header->value : "";
	event->content_type_length = header ? header->length : 0;
}

static void decode_time(struct event *event)
{
	const struct event_header *header = valued(&event->source, WIRE_CE_TIME);

	if (!header || !moment_parse(header->value, header->length, &event->time))
		event->time = event->source.sent_at;
}

const struct event_header *event_header_find(const struct event_source *source, const char *name)
{
	for (size_t i = source->header_count; i-- > 0;)
		if (!strcmp(source->headers[i].name, name))
			return &source->headers[i];
	return NULL;
}

const struct event_header *event_trace(const struct event *event)
{
	const struct event_header *trace = event_header_find(&event->source, WIRE_TRACEPARENT);

	if (!trace || !trace->value || !trace->length || trace->length > EVENT_TRACE_MAX)
		return NULL;
	for (size_t i = 0; i < trace->length; i++)
		if (trace->value[i] < ' ' || trace->value[i] > '~')
			return NULL;
	return trace;
}

void event_hash(const struct event_source *source, uint8_t hash[EFFECT_HASH_SIZE])
{
	/* A tombstone has a seed of its own: no value hashes as it does. */
	XXH128_hash_t whole = source->value ? XXH3_128bits(source->value, source->value_length)
					    : XXH3_128bits_withSeed("", 0, 1);
	XXH128_canonical_t canonical;

	XXH128_canonicalFromHash(&canonical, whole);
	_Static_assert(sizeof(canonical.digest) == EFFECT_HASH_SIZE, "XXH3-128");
	memcpy(hash, canonical.digest, EFFECT_HASH_SIZE);
}

bool event_decode(const struct event_source *source, struct err *err, struct event *event_r)
{
	struct event event = { .source = *source };

	if (!decode_id(&event, err) || !decode_type(&event, err) || !decode_subject(&event, err))
		return false;
	decode_content_type(&event);
	decode_time(&event);
	event_hash(source, event.hash);
	*event_r = event;
	return true;
}
