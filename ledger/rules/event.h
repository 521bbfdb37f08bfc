/* A consumed Kafka message as an event. Everything is borrowed from the message. */
#ifndef LEDGER_EVENT_H
#define LEDGER_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "effect.h"
#include "err.h"
#include "usec.h"
#include "utf8.h"

struct event_header {
	const char *name;
	const char *value; /* NULL: a header without a value */
	size_t length;
};

/* The message as it came; filled by the consumer. */
struct event_source {
	const char *topic;
	int32_t partition;
	int64_t offset;
	const char *key; /* NULL: none */
	size_t key_length;
	const char *value; /* NULL: a tombstone */
	size_t value_length;
	const struct event_header *headers; /* in their order; of repeated ones the last wins */
	size_t header_count;
	usec_t sent_at; /* the Kafka timestamp; USEC_NEVER: none */
};

#define EVENT_ID_MAX      288 /* room for the longest topic/partition/offset */
#define EVENT_NUMBER_NONE (-1)
#define EVENT_TYPE_MAX    255
#define EVENT_TRACE_MAX   255
#define EVENT_SUBJECT_MAX 1024

struct event {
	struct event_source source;
	char id[EVENT_ID_MAX +
		1]; /* cf-event-id, else ce_id, else id, else topic/partition/offset */
	char type[EVENT_TYPE_MAX + 1]; /* ce_type, else eventType, else "" */
	const char *subject; /* ce_subject, else the message key if it is text, else NULL */
	size_t subject_length;
	const char *content_type; /* the content-type header, else "" (not NUL-terminated beyond
				     length) */
	size_t content_type_length;
	/* Of ids that the event brings itself: 0, or a number made of its ce_source, for two
	 * sources may count alike. EVENT_NUMBER_NONE: the id is only its place. */
	int64_t number;
	usec_t time;                    /* ce_time, else the Kafka timestamp, else USEC_NEVER */
	uint8_t hash[EFFECT_HASH_SIZE]; /* XXH3-128 of the raw value; a tombstone differs from empty
					 */
};

/* Fails (the message is poison) on an id, type or subject header that is not UTF-8, holds a NUL or
 * control character, or is too long; the text says which. A header without a value, or with an
 * empty one, counts as absent for all of them. A message key that would not do is no subject, and
 * no fault: keys may be binary. A ce_time that is no RFC 3339 time is passed over. */
MUST_USE bool event_decode(const struct event_source *source, struct err *err,
			   struct event *event_r);

/* XXH3-128 of the raw value, for a message that is no event too. */
void event_hash(const struct event_source *source, uint8_t hash[EFFECT_HASH_SIZE]);

/* The last header of that name, or NULL. Names compare byte for byte. */
const struct event_header *event_header_find(const struct event_source *source, const char *name);

/* Its traceparent, which goes on to the request and to what is emitted; NULL: it has none, or what
 * it has could not stand in every header. */
const struct event_header *event_trace(const struct event *event);

#endif
