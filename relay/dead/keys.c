/* The lowest dead row by key: open addressing, at most half full. */
#include "keys.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"

#define ROOM_FIRST 64

struct slot {
	uint64_t order; /* 0: free */
	int64_t id;
};

struct keys {
	size_t max;
	size_t count;
	size_t room; /* a power of two, or 0 */
	struct slot *slots;
};

static size_t slot_of(const struct keys *keys, uint64_t order)
{
	size_t slot = (size_t)order & (keys->room - 1);
	while (keys->slots[slot].order && keys->slots[slot].order != order)
		slot = (slot + 1) & (keys->room - 1);
	return slot;
}

static void grow(struct keys *keys)
{
	struct keys larger = { .room = keys->room ? keys->room * 2 : ROOM_FIRST };
	larger.slots = mem_zero(larger.room * sizeof(*larger.slots));
	for (size_t i = 0; i < keys->room; i++)
		if (keys->slots[i].order)
			larger.slots[slot_of(&larger, keys->slots[i].order)] = keys->slots[i];
	free(keys->slots);
	keys->slots = larger.slots;
	keys->room = larger.room;
}

static struct slot *find(const struct keys *keys, uint64_t order)
{
	struct slot *slot = keys->count > 0 ? &keys->slots[slot_of(keys, order)] : NULL;
	return slot && slot->order ? slot : NULL;
}

bool keys_add(struct keys *keys, uint64_t order, int64_t id)
{
	struct slot *known = find(keys, order);
	if (known) {
		known->id = id < known->id ? id : known->id;
		return true;
	}
	if (keys->count == keys->max)
		return false;
	if ((keys->count + 1) * 2 > keys->room)
		grow(keys);
	keys->slots[slot_of(keys, order)] = (struct slot){ .order = order, .id = id };
	keys->count++;
	return true;
}

bool keys_has(const struct keys *keys, uint64_t order)
{
	return find(keys, order) != NULL;
}

bool keys_behind(const struct keys *keys, uint64_t order, int64_t id)
{
	const struct slot *slot = find(keys, order);
	return slot && id > slot->id;
}

size_t keys_count(const struct keys *keys)
{
	return keys->count;
}

void keys_forget(struct keys *keys)
{
	free(keys->slots);
	*keys = (struct keys){ .max = keys->max };
}

struct keys *keys_new(size_t max)
{
	struct keys *keys = mem_zero(sizeof(*keys));
	keys->max = max;
	return keys;
}

void keys_free(struct keys *keys)
{
	if (!keys)
		return;
	free(keys->slots);
	free(keys);
}
