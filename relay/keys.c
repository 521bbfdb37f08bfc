/* A set of numbers: open addressing, at most half full. */
#include "keys.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"

#define ROOM_FIRST 64

struct keys {
	size_t max;
	size_t count;
	size_t room; /* a power of two, or 0 */
	uint64_t *slots;
};

static size_t slot_of(const struct keys *keys, uint64_t order)
{
	size_t slot = (size_t)order & (keys->room - 1);
	while (keys->slots[slot] && keys->slots[slot] != order)
		slot = (slot + 1) & (keys->room - 1);
	return slot;
}

static void grow(struct keys *keys)
{
	struct keys larger = { .room = keys->room ? keys->room * 2 : ROOM_FIRST };
	larger.slots = mem_zero(larger.room * sizeof(*larger.slots));
	for (size_t i = 0; i < keys->room; i++)
		if (keys->slots[i])
			larger.slots[slot_of(&larger, keys->slots[i])] = keys->slots[i];
	free(keys->slots);
	keys->slots = larger.slots;
	keys->room = larger.room;
}

bool keys_add(struct keys *keys, uint64_t order)
{
	if (keys_has(keys, order))
		return true;
	if (keys->count == keys->max)
		return false;
	if ((keys->count + 1) * 2 > keys->room)
		grow(keys);
	keys->slots[slot_of(keys, order)] = order;
	keys->count++;
	return true;
}

bool keys_has(const struct keys *keys, uint64_t order)
{
	return keys->count > 0 && keys->slots[slot_of(keys, order)] == order;
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
