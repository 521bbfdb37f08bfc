/* Reads a consumed Kafka message as an event: its identity, type, subject and time. */
#include "event.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "wire.h"

/* --- RFC 3339 --- */

struct scan {
	const char *text;
	const char *end;
};

static bool take(struct scan *scan, char c)
{
	if (scan->text == scan->end || *scan->text != c)
		return false;
	scan->text++;
	return true;
}

/* Exactly `digits` digits, as a number of at most `max`. */
static bool take_number(struct scan *scan, int digits, int max, int *number_r)
{
	int number = 0;

	for (int i = 0; i < digits; i++) {
		if (scan->text == scan->end || *scan->text < '0' || *scan->text > '9')
			return false;
		number = number * 10 + (*scan->text++ - '0');
	}
	if (number > max)
		return false;
	*number_r = number;
	return true;
}

/* ".123456789": what is finer than a microsecond is cut. */
static bool take_fraction(struct scan *scan, usec_t *usec_r)
{
	usec_t unit = USEC_SEC, usec = 0;
	const char *begin = scan->text;

	for (; scan->text < scan->end && *scan->text >= '0' && *scan->text <= '9'; scan->text++) {
		unit /= 10;
		usec += unit * (*scan->text - '0');
	}
	*usec_r = usec;
	return scan->text > begin;
}

static bool take_zone(struct scan *scan, usec_t *offset_r)
{
	int hours, minutes;

	if (take(scan, 'Z') || take(scan, 'z')) {
		*offset_r = 0;
		return true;
	}
	bool west = take(scan, '-');
	if (!west && !take(scan, '+'))
		return false;
	if (!take_number(scan, 2, 23, &hours) || !take(scan, ':') ||
	    !take_number(scan, 2, 59, &minutes))
		return false;
	*offset_r = (hours * USEC_HOUR + minutes * USEC_MIN) * (west ? -1 : 1);
	return true;
}

static bool take_date(struct scan *scan, struct tm *tm)
{
	if (!take_number(scan, 4, 9999, &tm->tm_year) || !take(scan, '-') ||
	    !take_number(scan, 2, 12, &tm->tm_mon) || !take(scan, '-') ||
	    !take_number(scan, 2, 31, &tm->tm_mday))
		return false;
	tm->tm_year -= 1900;
	tm->tm_mon -= 1;
	return tm->tm_mon >= 0 && tm->tm_mday >= 1;
}

static bool take_clock(struct scan *scan, struct tm *tm)
{
	return take_number(scan, 2, 23, &tm->tm_hour) && take(scan, ':') &&
	       take_number(scan, 2, 59, &tm->tm_min) && take(scan, ':') &&
	       take_number(scan, 2, 60, &tm->tm_sec);
}

static bool time_parse(const char *text, size_t length, usec_t *wall_r)
{
	struct scan scan = { text, text + length };
	struct tm tm = { 0 };
	usec_t fraction = 0, offset;

	if (!take_date(&scan, &tm) || (!take(&scan, 'T') && !take(&scan, 't')) ||
	    !take_clock(&scan, &tm))
		return false;
	if (take(&scan, '.') && !take_fraction(&scan, &fraction))
		return false;
	if (!take_zone(&scan, &offset) || scan.text != scan.end)
		return false;
	int day = tm.tm_mday;
	usec_t seconds = tm.tm_sec; /* a leap second is none of the calendar's business */
	tm.tm_sec = 0;
	usec_t minute = (usec_t)timegm(&tm) * USEC_SEC;
	if (tm.tm_mday != day) /* 31 April */
		return false;
	*wall_r = minute + seconds * USEC_SEC + fraction - offset;
	return true;
}

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

	if (!header || !time_parse(header->value, header->length, &event->time))
		event->time = event->source.sent_at;
}

const struct event_header *event_header_find(const struct event_source *source, const char *name)
{
	for (size_t i = source->header_count; i-- > 0;)
		if (!strcmp(source->headers[i].name, name))
			return &source->headers[i];
	return NULL;
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
