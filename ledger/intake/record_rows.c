/* The parameters of the statements that record a batch. */
#include "record_rows.h"

#include <stdlib.h>
#include <string.h>

#include "dead_letter.h"
#include "mem.h"
#include "rules/fingerprint.h"
#include "rules/headers.h"
#include "rules/profile.h"
#include "wire.h"

#define COLUMNS_MAX 36

/* --- columns --- */

struct columns {
	struct pg_array items[COLUMNS_MAX];
	size_t count;
};

#define COLUMNS_AUTO __attribute__((cleanup(columns_done)))

static void columns_init(struct columns *columns, const enum pg_type *types, size_t count)
{
	columns->count = count;
	for (size_t i = 0; i < count; i++)
		pg_array_init(&columns->items[i], types[i]);
}

#define columns_of(columns, types)                                                                 \
	columns_init((columns), (types), sizeof(types) / sizeof((types)[0]))

static void columns_done(struct columns *columns)
{
	for (size_t i = 0; i < columns->count; i++)
		pg_array_done(&columns->items[i]);
}

/* Each goes once it is copied: together they are as large as the batch. */
static void columns_add(struct columns *columns, struct pg_params *params)
{
	for (size_t i = 0; i < columns->count; i++) {
		pg_add_array(params, &columns->items[i]);
		pg_array_done(&columns->items[i]);
	}
}

static void add_slice(struct pg_array *column, const struct batch *batch, struct slice slice)
{
	pg_array_bytes(column, batch_text(batch, slice), slice.length);
}

static const struct batch_message *message_of(const struct batch *batch,
					      const struct batch_row *row)
{
	return &batch->messages[row->message];
}

/* --- positions --- */

static const enum pg_type position_types[] = { PG_TEXT, PG_INT4, PG_INT8, PG_INT8 };

void rows_positions(const struct positions *positions, struct pg_params *params)
{
	struct columns columns COLUMNS_AUTO;

	columns_of(&columns, position_types);
	for (size_t i = 0; i < positions->count; i++) {
		const struct position *position = &positions->items[i];
		struct pg_array *column = columns.items;

		if (!position->moves)
			continue;
		pg_array_text(column++, position->topic);
		pg_array_int4(column++, position->partition);
		pg_array_int8(column++, position->next);
		pg_array_int8(column++, position->moved);
	}
	columns_add(&columns, params);
}

/* --- effects --- */

static const enum pg_type effect_types[] = {
	PG_TEXT,  PG_TEXT,     PG_TEXT, PG_TEXT,  PG_TEXT,  PG_TEXT, /* key .. provider key */
	PG_BYTEA, PG_BYTEA,                                          /* fingerprint, hash */
	PG_TEXT,  PG_INT4,     PG_INT8,                              /* topic .. offset */
	PG_TEXT,  PG_TEXT,     PG_TEXT,                              /* event id .. subject */
	PG_TIME,  PG_INTERVAL,                                       /* not_after, delay */
	PG_TEXT,  PG_TEXT,     PG_TEXT, PG_BYTEA, PG_BYTEA,          /* why .. body */
	PG_BYTEA, PG_BYTEA,    PG_BOOL, PG_BYTEA, /* event key .. event headers */
	PG_TEXT,  PG_BOOL,     PG_INT8,           /* serial key, resend, event number */
	PG_BYTEA, PG_TEXT,     PG_BOOL,           /* emit, key header, shadow */
	PG_TIME,                                  /* not_before */
};

static struct pg_array *add_identity(struct pg_array *column, const struct batch *batch,
				     const struct batch_row *row)
{
	const struct event *event = &message_of(batch, row)->event;
	const struct conf_effect *conf = row->rule->conf;

	add_slice(column++, batch, row->key);
	pg_array_text(column++, target_name(row->rule->target, 0));
	add_slice(column++, batch, row->tenant);
	pg_array_text(column++, conf->name);
	pg_array_text(column++, effect_mode_name(conf->mode));
	add_slice(column++, batch, row->provider_key);
	pg_array_bytes(column++, row->fingerprint, sizeof(row->fingerprint));
	pg_array_bytes(column++, event->hash, sizeof(event->hash));
	pg_array_text(column++, event->source.topic);
	pg_array_int4(column++, event->source.partition);
	pg_array_int8(column++, event->source.offset);
	pg_array_text(column++, event->id);
	pg_array_text(column++, event->type);
	pg_array_bytes(column++, event->subject, event->subject_length);
	pg_array_usec(column++, row->not_after);
	pg_array_usec(column++, row->delay);
	return column;
}

static void add_body(struct pg_array *column, const struct batch *batch,
		     const struct batch_row *row)
{
	const struct event_source *source = &message_of(batch, row)->event.source;

	if (row->body_is_value)
		pg_array_bytes(column, source->value, source->value_length);
	else
		add_slice(column, batch, row->body);
}

static struct pg_array *add_request(struct pg_array *column, const struct batch *batch,
				    const struct batch_row *row)
{
	if (row->dead) {
		add_slice(column++, batch, row->why);
		for (int i = 0; i < 4; i++)
			pg_array_null(column++);
		return column;
	}
	pg_array_null(column++);
	pg_array_text(column++, rule_method(row->rule));
	add_slice(column++, batch, row->url);
	add_slice(column++, batch, row->headers);
	add_body(column++, batch, row);
	return column;
}

static struct pg_array *add_event(struct pg_array *column, const struct batch *batch,
				  const struct batch_row *row)
{
	const struct event_source *source = &message_of(batch, row)->event.source;
	bool same = batch_row_body_is_value(batch, row);
	struct buf headers BUF_AUTO = { 0 };

	pg_array_bytes(column++, source->key, source->key_length);
	pg_array_bytes(column++, same ? NULL : source->value, source->value_length);
	pg_array_bool(column++, same);
	headers_keep(source, &headers);
	pg_array_bytes(column++, headers.data, headers.length);
	return column;
}

static void add_number(struct pg_array *column, const struct event *event)
{
	if (event->number == EVENT_NUMBER_NONE)
		pg_array_null(column);
	else
		pg_array_int8(column, event->number);
}

/* What execution must know of the effect, beside its mode. */
static void add_manner(struct pg_array *column, const struct batch *batch,
		       const struct batch_row *row)
{
	struct buf header BUF_AUTO = { 0 };

	if (row->serial_key.length > 0)
		add_slice(column++, batch, row->serial_key);
	else
		pg_array_null(column++);
	pg_array_bool(column++, row->rule->conf->on_uncertain == CONF_UNCERTAIN_RESEND);
	add_number(column++, &message_of(batch, row)->event);
	if (row->emit.length > 0)
		add_slice(column++, batch, row->emit);
	else
		pg_array_null(column++);
	key_header(row->rule->target->profile, &header);
	pg_array_text(column++, buf_text(&header));
	pg_array_bool(column++, row->rule->shadow);
	pg_array_usec(column++, row->not_before);
}

/* The other names of the targets of these rows, each beside the one that it is recorded with. */
static void add_names(const struct batch *batch, const size_t *rows, size_t count,
		      struct pg_params *params)
{
	struct pg_array others PG_ARRAY_AUTO = { 0 }, names PG_ARRAY_AUTO = { 0 };
	const struct target *last = NULL;
	const char *other;

	pg_array_init(&others, PG_TEXT);
	pg_array_init(&names, PG_TEXT);
	for (size_t i = 0; i < count; i++) {
		const struct target *target = batch->rows[rows[i]].rule->target;
		for (size_t k = 1; target != last && (other = target_name(target, k)); k++) {
			pg_array_text(&others, other);
			pg_array_text(&names, target_name(target, 0));
		}
		last = target;
	}
	pg_add_array(params, &others);
	pg_add_array(params, &names);
}

void rows_effects(const struct batch *batch, const size_t *rows, size_t count,
		  struct pg_params *params)
{
	struct columns columns COLUMNS_AUTO;

	columns_of(&columns, effect_types);
	for (size_t i = 0; i < count; i++) {
		const struct batch_row *row = &batch->rows[rows[i]];
		struct pg_array *column = add_identity(columns.items, batch, row);

		column = add_request(column, batch, row);
		column = add_event(column, batch, row);
		add_manner(column, batch, row);
	}
	columns_add(&columns, params);
	add_names(batch, rows, count, params);
}

/* --- what was not inserted --- */

static const enum pg_type compare_types[] = { PG_TEXT,  PG_TEXT, PG_TEXT, PG_BYTEA,
					      PG_BYTEA, PG_TEXT, PG_TEXT, PG_INT8 };

void rows_compare(const struct batch *batch, const size_t *rows, size_t count,
		  struct pg_params *params)
{
	struct columns columns COLUMNS_AUTO;

	columns_of(&columns, compare_types);
	for (size_t i = 0; i < count; i++) {
		const struct batch_row *row = &batch->rows[rows[i]];
		const struct event *event = &message_of(batch, row)->event;
		struct pg_array *column = columns.items;

		add_slice(column++, batch, row->key);
		pg_array_text(column++, target_name(row->rule->target, 0));
		add_slice(column++, batch, row->tenant);
		pg_array_bytes(column++, row->fingerprint, sizeof(row->fingerprint));
		pg_array_bytes(column++, event->hash, sizeof(event->hash));
		pg_array_text(column++, event->id);
		pg_array_text(column++, row->rule->conf->name);
		add_number(column++, event);
	}
	columns_add(&columns, params);
	add_names(batch, rows, count, params);
}

static const enum pg_type conflict_types[] = { PG_TEXT, PG_INT4, PG_INT8, PG_TEXT, PG_TEXT,
					       PG_TEXT, PG_TEXT, PG_INT8, PG_TEXT, PG_BYTEA,
					       PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT, PG_UUID };

static void add_digest(struct pg_array *column, const char *bytes, size_t length)
{
	char hex[SHA256_HEX_SIZE];

	sha256_hex(bytes, length, hex);
	pg_array_text(column, hex);
}

/* The trace comes behind what is compared, and is no part of it. */
static size_t compared_length(const char *headers)
{
	const char *trace = strstr(headers, "\n" WIRE_TRACEPARENT ": ");

	return trace ? (size_t)(trace + 1 - headers) : strlen(headers);
}

/* Only digests: what is erased with a key must not stay here. */
static struct pg_array *add_digests(struct pg_array *column, const struct batch *batch,
				    const struct batch_row *row)
{
	const struct event_source *source = &message_of(batch, row)->event.source;
	const char *headers = batch_text(batch, row->headers);

	if (row->dead) {
		for (int i = 0; i < 4; i++)
			pg_array_null(column++);
		return column;
	}
	pg_array_text(column++, rule_method(row->rule));
	add_digest(column++, batch_text(batch, row->url), row->url.length);
	add_digest(column++, headers, compared_length(headers));
	if (row->body_is_value)
		add_digest(column++, source->value, source->value_length);
	else
		add_digest(column++, batch_text(batch, row->body), row->body.length);
	return column;
}

void rows_conflicts(const struct batch *batch, const struct clash *clashes, size_t count,
		    struct pg_params *params)
{
	struct columns columns COLUMNS_AUTO;

	columns_of(&columns, conflict_types);
	for (size_t i = 0; i < count; i++) {
		const struct batch_row *row = &batch->rows[clashes[i].row];
		const struct event *event = &message_of(batch, row)->event;
		struct pg_array *column = columns.items;
		uint8_t letter[UUID_SIZE];

		pg_array_text(column++, event->source.topic);
		pg_array_int4(column++, event->source.partition);
		pg_array_int8(column++, event->source.offset);
		pg_array_text(column++, row->rule->conf->name);
		add_slice(column++, batch, row->key);
		pg_array_text(column++, target_name(row->rule->target, 0));
		add_slice(column++, batch, row->tenant);
		pg_array_int8(column++, clashes[i].holder);
		pg_array_text(column++, event->id);
		pg_array_bytes(column++, row->fingerprint, sizeof(row->fingerprint));
		column = add_digests(column, batch, row);
		dead_letter_intake_id(event->source.topic, event->source.partition,
				      event->source.offset, row->rule->conf->name, event->id,
				      letter);
		pg_array_bytes(column++, letter, sizeof(letter));
	}
	columns_add(&columns, params);
}

/* --- dead letters --- */

static const enum pg_type letter_types[] = { PG_UUID,  PG_TEXT,  PG_TEXT, PG_TEXT,
					     PG_BYTEA, PG_BYTEA, PG_JSONB };

static void add_letter(struct pg_array *column, const struct batch_row *row,
		       const struct event *event)
{
	const struct event_source *source = &event->source;
	struct buf kept BUF_AUTO = { 0 }, topic BUF_AUTO = { 0 }, headers BUF_AUTO = { 0 };
	uint8_t uuid[UUID_SIZE];

	headers_keep(source, &kept);
	const struct death death = {
		.effect = row->rule->conf->name,
		.reason = row->dead ? "unrendered" : "conflict",
		.topic = source->topic,
		.partition = source->partition,
		.offset = source->offset,
		.event_id = event->id,
		.kept = kept.data,
		.kept_length = kept.length,
		.key_length = source->key_length,
		.value_length = source->value_length,
	};
	const bool whole = dead_letter_headers(&death, &headers);
	dead_letter_intake_id(source->topic, source->partition, source->offset,
			      row->rule->conf->name, event->id, uuid);
	dead_letter_topic(row->rule->conf, source->topic, &topic);
	pg_array_bytes(column++, uuid, sizeof(uuid));
	pg_array_bytes(column++, topic.data, topic.length);
	pg_array_text(column++, dead_letter_type(event->type));
	pg_array_bytes(column++, event->subject, event->subject_length);
	pg_array_bytes(column++, dead_letter_keeps_key(&death) ? source->key : NULL,
		       source->key_length);
	pg_array_bytes(column++, whole ? source->value : NULL, source->value_length);
	pg_array_bytes(column++, headers.data, headers.length);
}

void rows_letters(const struct batch *batch, const size_t *rows, size_t count,
		  struct pg_params *params)
{
	struct columns columns COLUMNS_AUTO;

	columns_of(&columns, letter_types);
	for (size_t i = 0; i < count; i++) {
		const struct batch_row *row = &batch->rows[rows[i]];

		add_letter(columns.items, row, &message_of(batch, row)->event);
	}
	columns_add(&columns, params);
}

/* --- poison --- */

static const enum pg_type poison_types[] = { PG_TEXT, PG_INT4,  PG_INT8,  PG_BYTEA,
					     PG_INT8, PG_BYTEA, PG_BYTEA, PG_BYTEA,
					     PG_TIME, PG_TEXT,  PG_TEXT };

static void add_poison(struct pg_array *column, const struct batch *batch,
		       const struct batch_message *message, size_t value_max)
{
	const struct event_source *source = &message->event.source;
	size_t kept = source->value_length < value_max ? source->value_length : value_max;
	struct buf headers BUF_AUTO = { 0 };

	pg_array_text(column++, source->topic);
	pg_array_int4(column++, source->partition);
	pg_array_int8(column++, source->offset);
	pg_array_bytes(column++, message->event.hash, sizeof(message->event.hash));
	pg_array_int8(column++, (int64_t)source->value_length);
	pg_array_bytes(column++, source->key, source->key_length);
	pg_array_bytes(column++, source->value, kept);
	headers_all(source, &headers);
	pg_array_bytes(column++, headers.data, headers.length);
	pg_array_usec(column++, source->sent_at);
	pg_array_text(column++, poison_reason_name(message->poison));
	add_slice(column++, batch, message->error);
}

int64_t rows_poison(const struct batch *batch, size_t from, size_t to, size_t value_max,
		    struct pg_params *params)
{
	struct columns columns COLUMNS_AUTO;
	int64_t count = 0;

	columns_of(&columns, poison_types);
	for (size_t m = from; m < to; m++) {
		if (batch->messages[m].poison == POISON_NONE)
			continue;
		add_poison(columns.items, batch, &batch->messages[m], value_max);
		count++;
	}
	columns_add(&columns, params);
	return count;
}

/* --- unmatched --- */

static const enum pg_type unmatched_types[] = { PG_TEXT, PG_TEXT, PG_INT8 };

static int compare_messages(const struct batch_message *a, const struct batch_message *b)
{
	int order = strcmp(a->event.source.topic, b->event.source.topic);

	return order != 0 ? order : strcmp(a->unmatched, b->unmatched);
}

static int compare_unmatched(const void *a, const void *b, void *arg)
{
	const struct batch_message *messages = arg;

	return compare_messages(&messages[*(const size_t *)a], &messages[*(const size_t *)b]);
}

/* One line for each run of equal topic and type. */
static void count_unmatched(struct columns *columns, const struct batch_message *messages,
			    const size_t *indexes, size_t count)
{
	size_t first = 0;

	for (size_t i = 1; i <= count; i++) {
		const struct batch_message *message = &messages[indexes[first]];

		if (i < count && compare_messages(message, &messages[indexes[i]]) == 0)
			continue;
		pg_array_text(&columns->items[0], message->event.source.topic);
		pg_array_text(&columns->items[1], message->unmatched);
		pg_array_int8(&columns->items[2], (int64_t)(i - first));
		first = i;
	}
}

int64_t rows_unmatched(const struct batch *batch, size_t from, size_t to, int64_t instance,
		       struct pg_params *params)
{
	struct columns columns COLUMNS_AUTO;
	size_t *indexes = mem_zero((to - from + 1) * sizeof(*indexes));
	size_t count = 0;

	columns_of(&columns, unmatched_types);
	for (size_t m = from; m < to; m++)
		if (batch->messages[m].unmatched)
			indexes[count++] = m;
	qsort_r(indexes, count, sizeof(*indexes), compare_unmatched, batch->messages);
	if (count > 0)
		count_unmatched(&columns, batch->messages, indexes, count);
	columns_add(&columns, params);
	pg_add_int8(params, instance);
	free(indexes);
	return (int64_t)count;
}
