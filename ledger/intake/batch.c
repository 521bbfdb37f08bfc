/* What one turn of intake holds: messages, and what the rules made of them. */
#include "batch.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "utf8.h"

/* Memory that a batch of unusual size took is given back above this. */
#define TEXT_KEEP ((size_t)1024 * 1024)

#define MESSAGE_OVERHEAD (sizeof(struct batch_message) + 256)
#define ROW_OVERHEAD     (sizeof(struct batch_row) + 256)

const char *poison_reason_name(enum poison_reason reason)
{
	static const char *const names[] = {
#define X(symbol, name, meaning) name,
		POISON_REASONS(X)
#undef X
	};

	return names[reason];
}

void batch_init(struct batch *batch, enum conf_unmatched unmatched, batch_free_fn *free_handle)
{
	*batch = (struct batch){ .unmatched = unmatched, .free_handle = free_handle };
}

void batch_clear(struct batch *batch)
{
	for (size_t i = 0; batch->free_handle && i < batch->count; i++)
		batch->free_handle(batch->messages[i].handle);
	batch->count = 0;
	batch->row_count = 0;
	batch->bytes = 0;
	if (batch->text.capacity > TEXT_KEEP)
		buf_done(&batch->text);
	else
		buf_clear(&batch->text);
}

void batch_done(struct batch *batch)
{
	batch_clear(batch);
	for (size_t i = 0; i < batch->type_count; i++)
		free(batch->types[i]);
	free(batch->types);
	buf_done(&batch->text);
	free(batch->messages);
	free(batch->rows);
	batch_init(batch, batch->unmatched, batch->free_handle);
}

static struct slice keep(struct batch *batch, const char *data, size_t length)
{
	struct slice slice = { .at = batch->text.length, .length = length };

	if (length > 0)
		buf_add(&batch->text, data, length);
	buf_add_char(&batch->text, '\0');
	batch->bytes += length + 1;
	return slice;
}

/* For a sentence that was cut to a size, perhaps inside a character, and goes into a text column.
 */
static struct slice keep_text(struct batch *batch, const char *text)
{
	size_t length = strlen(text);
	struct slice slice = keep(batch, text, length);
	char *copy = batch->text.data + slice.at;

	if (utf8_valid(text, length))
		return slice;
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)copy[i] >= 0x80)
			copy[i] = '?';
	return slice;
}

static struct slice keep_buf(struct batch *batch, const struct buf *buf)
{
	return keep(batch, buf->data, buf->length);
}

const char *batch_text(const struct batch *batch, struct slice slice)
{
	return batch->text.data + slice.at;
}

static size_t source_bytes(const struct event_source *source)
{
	size_t bytes = source->key_length + source->value_length;

	for (size_t i = 0; i < source->header_count; i++)
		bytes += source->headers[i].length + strlen(source->headers[i].name);
	return bytes;
}

static struct batch_message *last_message(struct batch *batch)
{
	return &batch->messages[batch->count - 1];
}

struct batch_message *batch_add(struct batch *batch, const struct event_source *source,
				void *handle)
{
	struct batch_message *message;
	struct err err;

	if (batch->count == batch->capacity) {
		batch->capacity = batch->capacity > 0 ? 2 * batch->capacity : 64;
		batch->messages =
			mem_grow(batch->messages, batch->capacity, sizeof(*batch->messages));
	}
	message = &batch->messages[batch->count++];
	memset(message, 0, sizeof(*message));
	message->handle = handle;
	message->first_row = batch->row_count;
	batch->bytes += MESSAGE_OVERHEAD + source_bytes(source);
	if (!event_decode(source, &err, &message->event)) {
		message->event.source = *source;
		event_hash(source, message->event.hash);
		batch_spoil(batch, batch->count - 1, POISON_EVENT, err.text);
	}
	return message;
}

void batch_add_draft(struct batch *batch, const struct draft *draft)
{
	struct batch_row *row;

	if (batch->row_count == batch->row_capacity) {
		batch->row_capacity = batch->row_capacity > 0 ? 2 * batch->row_capacity : 64;
		batch->rows = mem_grow(batch->rows, batch->row_capacity, sizeof(*batch->rows));
	}
	row = &batch->rows[batch->row_count++];
	*row = (struct batch_row){
		.message = batch->count - 1,
		.rule = draft->rule,
		.key = keep_buf(batch, &draft->key),
		.tenant = keep_buf(batch, &draft->tenant),
		.provider_key = keep_buf(batch, &draft->provider_key),
		.serial_key = keep_buf(batch, &draft->serial_key),
		.url = keep_buf(batch, &draft->url),
		.headers = keep_buf(batch, &draft->headers),
		.body = keep_buf(batch, &draft->body),
		.emit = keep_buf(batch, &draft->emit),
		.why = keep_text(batch, draft->dead ? draft->why : ""),
		.body_is_value = draft->body_is_value,
		.dead = draft->dead,
		.not_after = draft->not_after,
		.delay = draft->delay,
		.not_before = draft->not_before,
	};
	memcpy(row->fingerprint, draft->fingerprint, sizeof(row->fingerprint));
	last_message(batch)->row_count++;
	/* The event's value goes out once more with each row, as its body or beside it. */
	batch->bytes += ROW_OVERHEAD + last_message(batch)->event.source.value_length;
}

static void take_draft(void *arg, const struct draft *draft)
{
	struct batch *batch = arg;

	batch_add_draft(batch, draft);
}

/* The rows of the rules that did make their key stand beside the poison. */
static void poison(struct batch *batch, struct batch_message *message, enum poison_reason reason,
		   const char *error)
{
	message->poison = reason;
	message->error = keep_text(batch, error);
}

void batch_spoil(struct batch *batch, size_t index, enum poison_reason reason, const char *error)
{
	batch->messages[index].row_count = 0;
	poison(batch, &batch->messages[index], reason, error);
}

/* The type as it is counted: itself, or one for all when there are too many. */
static const char *counted_type(struct batch *batch, const char *type)
{
	size_t low = 0, high = batch->type_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(type, batch->types[middle]);

		if (order == 0)
			return batch->types[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	if (batch->type_count == BATCH_TYPES_MAX)
		return BATCH_TYPE_OTHER;
	batch->types = mem_grow(batch->types, batch->type_count + 1, sizeof(*batch->types));
	memmove(&batch->types[low + 1], &batch->types[low],
		(batch->type_count - low) * sizeof(*batch->types));
	batch->type_count++;
	return batch->types[low] = mem_text(type);
}

static void unmatched(struct batch *batch, struct batch_message *message)
{
	switch (batch->unmatched) {
	case CONF_UNMATCHED_PASS:
		message->unmatched = counted_type(batch, message->event.type);
		break;
	case CONF_UNMATCHED_POISON:
		poison(batch, message, POISON_UNMATCHED, "no effect matches this topic and type");
		break;
	}
}

struct batch_message *batch_read(struct batch *batch, struct rules *rules,
				 const struct event_source *source, void *handle, usec_t now)
{
	struct batch_message *message = batch_add(batch, source, handle);
	struct err why;

	if (message->poison != POISON_NONE)
		return message;
	switch (rules_apply(rules, &message->event, now, &why, take_draft, batch)) {
	case RULES_MATCHED:
		break;
	case RULES_UNMATCHED:
		unmatched(batch, message);
		break;
	case RULES_POISON:
		poison(batch, message, POISON_KEY, why.text);
		break;
	}
	return message;
}

bool batch_is_full(const struct batch *batch, size_t messages_max)
{
	return batch->count >= messages_max || batch->bytes >= BATCH_BYTES_MAX;
}

static int compare_rows(const struct batch *batch, const struct batch_row *a,
			const struct batch_row *b)
{
	int order = strcmp(batch_text(batch, a->key), batch_text(batch, b->key));

	if (order == 0)
		order = strcmp(a->rule->target->conf->name, b->rule->target->conf->name);
	if (order == 0)
		order = strcmp(batch_text(batch, a->tenant), batch_text(batch, b->tenant));
	return order;
}

/* Equal keys stay in the order of their rows. */
static int compare_indexes(const void *a, const void *b, void *arg)
{
	const struct batch *batch = arg;
	size_t left = *(const size_t *)a, right = *(const size_t *)b;
	int order = compare_rows(batch, &batch->rows[left], &batch->rows[right]);

	return order != 0 ? order : (left > right) - (left < right);
}

/* The rows of messages [from, to), into indexes; returns their number. */
static size_t slice_rows(const struct batch *batch, size_t from, size_t to, size_t *indexes)
{
	size_t count = 0;

	for (size_t m = from; m < to; m++) {
		const struct batch_message *message = &batch->messages[m];

		for (size_t i = 0; i < message->row_count; i++)
			indexes[count++] = message->first_row + i;
	}
	return count;
}

void batch_fold(struct batch *batch, size_t from, size_t to)
{
	size_t *indexes = mem_zero((batch->row_count + 1) * sizeof(*indexes));
	size_t count = slice_rows(batch, from, to, indexes);

	qsort_r(indexes, count, sizeof(*indexes), compare_indexes, batch);
	for (size_t i = 0; i < count; i++)
		batch->rows[indexes[i]].folded =
			i > 0 && compare_rows(batch, &batch->rows[indexes[i - 1]],
					      &batch->rows[indexes[i]]) == 0;
	free(indexes);
}

bool batch_row_body_is_value(const struct batch *batch, const struct batch_row *row)
{
	const struct event_source *source = &batch->messages[row->message].event.source;

	if (row->dead)
		return false;
	return row->body_is_value ||
	       (source->value && source->value_length == row->body.length &&
		memcmp(source->value, batch_text(batch, row->body), row->body.length) == 0);
}
