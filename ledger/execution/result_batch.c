/* Batches of results. */
#include "result_batch.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"

struct result *result_new(void)
{
	return mem_zero(sizeof(struct result));
}

void result_free(struct result *result)
{
	key_done(&result->key);
	free(result->error);
	free(result->provider_key);
	free(result->provider_id);
	buf_done(&result->head);
	buf_done(&result->body);
	buf_done(&result->letter.topic);
	free(result->emit_fault);
	free(result);
}

static int by_id(const void *a, const void *b)
{
	const struct key *x = &(*(struct result *const *)a)->key;
	const struct key *y = &(*(struct result *const *)b)->key;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (x->epoch > y->epoch) - (x->epoch < y->epoch);
}

static struct result_batch *batch_new(size_t count)
{
	struct result_batch *batch = mem_zero(sizeof(*batch));
	batch->count = count;
	batch->items = mem_grow(NULL, count, sizeof(struct result *));
	return batch;
}

static size_t bytes_of(const struct result *result)
{
	return result->head.length + result->body.length;
}

struct result_batch *batch_take(struct result **list, size_t max)
{
	size_t count = 0, bytes = 0;
	for (const struct result *r = *list; r && count < max; r = r->next) {
		bytes += bytes_of(r);
		if (count > 0 && bytes > BATCH_BYTES_MAX)
			break;
		count++;
	}
	struct result_batch *batch = batch_new(count);
	for (size_t i = 0; i < count; i++) {
		batch->items[i] = *list;
		*list = (*list)->next;
	}
	qsort(batch->items, count, sizeof(struct result *), by_id);
	return batch;
}

void batch_free(struct result_batch *batch)
{
	for (size_t i = 0; i < batch->count; i++)
		result_free(batch->items[i]);
	free(batch->items);
	free(batch);
}

size_t batch_events(const struct result_batch *batch)
{
	size_t events = 0;
	for (size_t i = 0; i < batch->count; i++)
		events += batch->items[i]->has_letter || batch->items[i]->has_emit;
	return events;
}

struct result_batch *batch_split(struct result_batch *batch)
{
	const size_t kept = batch->count / 2;
	struct result_batch *second = batch_new(batch->count - kept);
	memcpy(second->items, batch->items + kept, second->count * sizeof(struct result *));
	second->form = batch->form;
	second->doubtful = batch->doubtful;
	batch->count = kept;
	return second;
}

/* The first two characters of a SQLSTATE are its class. */
static bool in_classes(const char *sqlstate, const char *const *classes)
{
	for (; *classes; classes++) {
		if (!strncmp(sqlstate, *classes, 2))
			return true;
	}
	return false;
}

/* Connection, read-only server, rollback, resources, object in use, operator, system. */
bool refusal_passes(const char *sqlstate)
{
	static const char *const classes[] = { "08", "25", "40", "53", "55", "57", "58", NULL };
	return in_classes(sqlstate, classes);
}

/* Data exception, constraint, limit: the row will be refused for ever. */
static bool is_data(const char *sqlstate)
{
	static const char *const classes[] = { "22", "23", "54", NULL };
	return in_classes(sqlstate, classes);
}

/* A statement that took too long may have waited for the outbox. */
static bool may_be_outbox(const char *sqlstate)
{
	return !refusal_passes(sqlstate) || !strcmp(sqlstate, "57014") ||
	       !strcmp(sqlstate, "55P03");
}

enum batch_next batch_refused(const struct result_batch *batch, const char *sqlstate)
{
	if (batch->form == BATCH_WHOLE && batch_events(batch) > 0 && may_be_outbox(sqlstate))
		return BATCH_PUT_OFF;
	if (refusal_passes(sqlstate))
		return BATCH_AGAIN;
	if (batch->count > 1)
		return BATCH_SPLIT;
	switch (batch->form) {
	case BATCH_WHOLE:
	case BATCH_WITHOUT_EVENTS:
		return BATCH_STRIP;
	case BATCH_BARE:
		break;
	}
	return is_data(sqlstate) ? BATCH_GIVE_UP : BATCH_AGAIN;
}
