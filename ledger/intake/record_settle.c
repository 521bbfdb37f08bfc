/* The parameters of the statements that settle poison. */
#include "record_settle.h"

static void add_text(struct pg_array *array, const struct batch *batch, bool there,
		     struct slice slice)
{
	if (there)
		pg_array_bytes(array, batch_text(batch, slice), slice.length);
	else
		pg_array_null(array);
}

void settle_rows(const struct batch *batch, size_t from, size_t to, const int64_t *ids,
		 struct pg_params *params)
{
	struct pg_array id PG_ARRAY_AUTO, reason PG_ARRAY_AUTO, error PG_ARRAY_AUTO;

	pg_array_init(&id, PG_INT8);
	pg_array_init(&reason, PG_TEXT);
	pg_array_init(&error, PG_TEXT);
	for (size_t m = from; m < to; m++) {
		const struct batch_message *message = &batch->messages[m];
		bool poison = message->poison != POISON_NONE;

		pg_array_int8(&id, ids[m]);
		pg_array_text(&reason, poison ? poison_reason_name(message->poison) : NULL);
		add_text(&error, batch, poison, message->error);
	}
	pg_add_array(params, &id);
	pg_add_array(params, &reason);
	pg_add_array(params, &error);
}

size_t settle_places(const struct batch *batch, size_t from, size_t to, struct pg_params *params)
{
	struct pg_array topic PG_ARRAY_AUTO, partition PG_ARRAY_AUTO, offset PG_ARRAY_AUTO;
	struct pg_array hash PG_ARRAY_AUTO;
	size_t count = 0;

	pg_array_init(&topic, PG_TEXT);
	pg_array_init(&partition, PG_INT4);
	pg_array_init(&offset, PG_INT8);
	pg_array_init(&hash, PG_BYTEA);
	for (size_t m = from; m < to; m++) {
		const struct event *event = &batch->messages[m].event;

		if (batch->messages[m].poison != POISON_NONE)
			continue;
		pg_array_text(&topic, event->source.topic);
		pg_array_int4(&partition, event->source.partition);
		pg_array_int8(&offset, event->source.offset);
		pg_array_bytes(&hash, event->hash, sizeof(event->hash));
		count++;
	}
	pg_add_array(params, &topic);
	pg_add_array(params, &partition);
	pg_add_array(params, &offset);
	pg_add_array(params, &hash);
	return count;
}
