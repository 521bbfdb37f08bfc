/* Refused rows, found by id and by ordering key: two chained tables over one array. */
#include "refused.h"

#include <stdlib.h>

#include "mem.h"

#define BUCKETS 4096

struct entry {
	int64_t id; /* 0: free */
	uint64_t order;
	usec_t next_try;
	usec_t wait;
	bool alone;
	bool seen;           /* since the sweep began */
	uint32_t next_of_id; /* index + 1; of a free entry: the next free one */
	uint32_t next_of_order;
};

struct refused {
	size_t max;
	size_t count;
	size_t used;
	size_t room;
	uint32_t free;
	struct entry *entries;
	uint32_t by_id[BUCKETS];
	uint32_t by_order[BUCKETS];
};

static size_t bucket(uint64_t value)
{
	return (size_t)(value * 0x9e3779b97f4a7c15ULL >> 52);
}

static struct entry *at(const struct refused *refused, uint32_t number)
{
	return &refused->entries[number - 1];
}

static struct entry *find(const struct refused *refused, int64_t id)
{
	uint32_t number = refused->by_id[bucket((uint64_t)id)];
	while (number && at(refused, number)->id != id)
		number = at(refused, number)->next_of_id;
	return number ? at(refused, number) : NULL;
}

static bool held(const struct refused *refused, int64_t id, uint64_t order)
{
	if (order == 0)
		return false;
	uint32_t number = refused->by_order[bucket(order)];
	while (number && (at(refused, number)->order != order || at(refused, number)->id >= id))
		number = at(refused, number)->next_of_order;
	return number != 0;
}

enum refused_verdict refused_check(struct refused *refused, int64_t id, uint64_t order, usec_t now)
{
	if (refused->count == 0)
		return REFUSED_SEND;
	struct entry *entry = find(refused, id);
	if (entry)
		entry->seen = true;
	if (held(refused, id, order))
		return REFUSED_WAIT;
	if (!entry)
		return REFUSED_SEND;
	if (now < entry->next_try)
		return REFUSED_WAIT;
	return entry->alone ? REFUSED_ALONE : REFUSED_SEND;
}

static uint32_t take_free(struct refused *refused)
{
	uint32_t number = refused->free;
	if (number) {
		refused->free = at(refused, number)->next_of_id;
		return number;
	}
	if (refused->used == refused->room) {
		refused->room = refused->room ? refused->room * 2 : 64;
		refused->entries =
			mem_grow(refused->entries, refused->room, sizeof(*refused->entries));
	}
	return (uint32_t)++refused->used;
}

static struct entry *insert(struct refused *refused, int64_t id, uint64_t order)
{
	uint32_t number = take_free(refused);
	uint32_t *of_id = &refused->by_id[bucket((uint64_t)id)];
	uint32_t *of_order = &refused->by_order[bucket(order)];
	struct entry *entry = at(refused, number);
	*entry = (struct entry){ .id = id,
				 .order = order,
				 .seen = true,
				 .next_of_id = *of_id,
				 .next_of_order = *of_order };
	*of_id = number;
	*of_order = number;
	refused->count++;
	return entry;
}

bool refused_add(struct refused *refused, int64_t id, uint64_t order, enum refused_cause cause,
		 usec_t now)
{
	struct entry *entry = find(refused, id);
	if (!entry && refused_full(refused))
		return false;
	if (!entry)
		entry = insert(refused, id, order);
	entry->alone = cause == REFUSED_IN_COMPANY || entry->alone;
	if (cause == REFUSED_IN_COMPANY) {
		entry->next_try = now;
		return true;
	}
	entry->wait = entry->wait ? entry->wait * 2 : REFUSED_FIRST;
	if (entry->wait > REFUSED_LAST)
		entry->wait = REFUSED_LAST;
	entry->next_try = now + entry->wait;
	return true;
}

static void unlink_id(struct refused *refused, const struct entry *entry, uint32_t number)
{
	uint32_t *link = &refused->by_id[bucket((uint64_t)entry->id)];
	while (*link != number)
		link = &at(refused, *link)->next_of_id;
	*link = entry->next_of_id;
}

static void unlink_order(struct refused *refused, const struct entry *entry, uint32_t number)
{
	uint32_t *link = &refused->by_order[bucket(entry->order)];
	while (*link != number)
		link = &at(refused, *link)->next_of_order;
	*link = entry->next_of_order;
}

bool refused_settle(struct refused *refused, int64_t id)
{
	struct entry *entry = refused->count ? find(refused, id) : NULL;
	if (!entry)
		return false;
	uint32_t number = (uint32_t)(entry - refused->entries) + 1;
	unlink_id(refused, entry, number);
	unlink_order(refused, entry, number);
	*entry = (struct entry){ .next_of_id = refused->free };
	refused->free = number;
	refused->count--;
	return true;
}

void refused_sweep_begin(struct refused *refused)
{
	for (size_t i = 0; i < refused->used; i++)
		refused->entries[i].seen = false;
}

void refused_seen(struct refused *refused, int64_t id)
{
	struct entry *entry = refused->count ? find(refused, id) : NULL;
	if (entry)
		entry->seen = true;
}

bool refused_sweep_end(struct refused *refused, int64_t *lowest_r)
{
	int64_t lowest = INT64_MAX;
	for (size_t i = 0; i < refused->used; i++) {
		const struct entry *entry = &refused->entries[i];
		int64_t id = entry->id;
		if (id == 0 || entry->seen)
			continue;
		lowest = id < lowest ? id : lowest;
		(void)refused_settle(refused, id);
	}
	if (lowest == INT64_MAX)
		return false;
	*lowest_r = lowest;
	return true;
}

size_t refused_count(const struct refused *refused)
{
	return refused->count;
}

bool refused_full(const struct refused *refused)
{
	return refused->count == refused->max;
}

void refused_forget(struct refused *refused)
{
	struct refused empty = { .max = refused->max,
				 .room = refused->room,
				 .entries = refused->entries };
	*refused = empty;
}

struct refused *refused_new(size_t max)
{
	struct refused *refused = mem_zero(sizeof(*refused));
	refused->max = max;
	return refused;
}

void refused_free(struct refused *refused)
{
	if (!refused)
		return;
	free(refused->entries);
	free(refused);
}
