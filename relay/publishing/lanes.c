/* A dense array of lanes, and an index by key: open addressing, at most half full. */
#include "lanes.h"

#include <stdlib.h>

#include "mem.h"

struct lanes {
	size_t count;
	struct lane *all;
	size_t mask;
	uint32_t *index; /* number of the lane, plus one; 0: none */
};

static size_t home_of(const struct lanes *lanes, uint64_t key)
{
	return (size_t)(key * 0x9e3779b97f4a7c15ULL >> 32) & lanes->mask;
}

static size_t slot_of(const struct lanes *lanes, uint64_t key)
{
	size_t slot = home_of(lanes, key);
	while (lanes->index[slot] && lanes->all[lanes->index[slot] - 1].key != key)
		slot = (slot + 1) & lanes->mask;
	return slot;
}

/* Moves back what was pushed past the hole, so that no search ends there too early. */
static void unindex(struct lanes *lanes, uint64_t key)
{
	size_t hole = slot_of(lanes, key);
	for (size_t slot = hole;;) {
		slot = (slot + 1) & lanes->mask;
		if (!lanes->index[slot])
			break;
		size_t home = home_of(lanes, lanes->all[lanes->index[slot] - 1].key);
		if (((slot - home) & lanes->mask) < ((slot - hole) & lanes->mask))
			continue;
		lanes->index[hole] = lanes->index[slot];
		hole = slot;
	}
	lanes->index[hole] = 0;
}

static uint32_t number_of(const struct lanes *lanes, uint64_t key)
{
	return lanes->index[slot_of(lanes, key)];
}

static struct lane *lane_of(const struct lanes *lanes, uint64_t key)
{
	uint32_t number = number_of(lanes, key);
	return number ? &lanes->all[number - 1] : NULL;
}

static struct lane *add(struct lanes *lanes, uint64_t key, const struct topic *topic, usec_t now)
{
	struct lane *lane = &lanes->all[lanes->count];
	*lane = (struct lane){ .key = key, .moved = now, .topic = topic };
	lanes->index[slot_of(lanes, key)] = (uint32_t)++lanes->count;
	return lane;
}

/* The last lane takes the place of the one that is empty. */
static void take_out(struct lanes *lanes, struct lane *lane)
{
	struct lane *last = &lanes->all[lanes->count - 1];
	unindex(lanes, lane->key);
	if (lane != last) {
		lanes->index[slot_of(lanes, last->key)] = (uint32_t)(lane - lanes->all) + 1;
		*lane = *last;
	}
	lanes->count--;
}

void lanes_in(struct lanes *lanes, uint64_t key, const struct topic *topic, uint32_t bytes,
	      usec_t now)
{
	uint32_t number = number_of(lanes, key);
	struct lane *lane = number ? &lanes->all[number - 1] : add(lanes, key, topic, now);
	lane->rows++;
	lane->bytes += bytes;
}

void lanes_out(struct lanes *lanes, uint64_t key, uint32_t bytes)
{
	struct lane *lane = lane_of(lanes, key);
	if (!lane)
		return;
	lane->rows--;
	lane->bytes -= bytes;
	if (lane->rows == 0)
		take_out(lanes, lane);
}

void lanes_moved(struct lanes *lanes, uint64_t key, usec_t now)
{
	struct lane *lane = lane_of(lanes, key);
	if (lane)
		lane->moved = now;
}

const struct lane *lanes_find(const struct lanes *lanes, uint64_t key)
{
	return lane_of(lanes, key);
}

const struct lane *lanes_all(const struct lanes *lanes, size_t *count_r)
{
	*count_r = lanes->count;
	return lanes->all;
}

struct lanes *lanes_new(size_t rows)
{
	struct lanes *lanes = mem_zero(sizeof(*lanes));
	lanes->all = mem_zero((rows + 1) * sizeof(*lanes->all));
	lanes->mask = 1;
	while (lanes->mask < rows * 2)
		lanes->mask = lanes->mask << 1 | 1;
	lanes->index = mem_zero((lanes->mask + 1) * sizeof(*lanes->index));
	return lanes;
}

void lanes_free(struct lanes *lanes)
{
	if (!lanes)
		return;
	free(lanes->all);
	free(lanes->index);
	free(lanes);
}
