/* Where the partitions given to us go on. */
#include "positions.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"

static int compare(const char *topic, int32_t partition, const struct position *position)
{
	int order = strcmp(topic, position->topic);

	return order != 0 ? order
			  : (partition > position->partition) - (partition < position->partition);
}

static int compare_items(const void *a, const void *b)
{
	const struct position *left = a;

	return compare(left->topic, left->partition, b);
}

void positions_set(struct positions *positions, const struct partition *partitions, size_t count)
{
	positions_clear(positions);
	if (count == 0)
		return;
	positions->items = mem_zero(count * sizeof(*positions->items));
	positions->count = count;
	for (size_t i = 0; i < count; i++) {
		positions->items[i].topic = mem_text(partitions[i].topic);
		positions->items[i].partition = partitions[i].partition;
	}
	qsort(positions->items, count, sizeof(*positions->items), compare_items);
}

void positions_clear(struct positions *positions)
{
	for (size_t i = 0; i < positions->count; i++)
		free(positions->items[i].topic);
	free(positions->items);
	positions->items = NULL;
	positions->count = 0;
}

struct position *positions_find(const struct positions *positions, const char *topic,
				int32_t partition)
{
	size_t low = 0, high = positions->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = compare(topic, partition, &positions->items[middle]);

		if (order == 0)
			return &positions->items[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

size_t positions_known(const struct positions *positions)
{
	size_t known = 0;

	for (size_t i = 0; i < positions->count; i++)
		known += positions->items[i].known;
	return known;
}

/* Those that `want` picks, for the consumer; the caller frees. */
static struct partition *pick(const struct positions *positions,
			      bool (*want)(const struct position *), size_t *count_r)
{
	struct partition *list = mem_zero((positions->count + 1) * sizeof(*list));
	size_t count = 0;

	for (size_t i = 0; i < positions->count; i++) {
		const struct position *position = &positions->items[i];

		if (want(position))
			list[count++] = (struct partition){ .topic = position->topic,
							    .partition = position->partition,
							    .offset = position->next };
	}
	*count_r = count;
	return list;
}

static bool is_read(const struct position *position)
{
	return position->known && !position->full;
}

static bool is_unshown(const struct position *position)
{
	return position->unshown;
}

bool positions_fetch(const struct positions *positions, struct consumer *consumer, struct err *err)
{
	size_t count;
	struct partition *list = pick(positions, is_read, &count);
	bool good = consumer_fetch(consumer, list, count, err);

	free(list);
	return good;
}

void positions_show(struct positions *positions, struct consumer *consumer)
{
	size_t count;
	struct partition *list = pick(positions, is_unshown, &count);

	if (count > 0)
		consumer_commit(consumer, list, count);
	for (size_t i = 0; i < positions->count; i++)
		positions->items[i].unshown = false;
	free(list);
}

void positions_unshown(struct positions *positions)
{
	for (size_t i = 0; i < positions->count; i++)
		positions->items[i].unshown =
			positions->items[i].known && positions->items[i].next >= 0;
}

void positions_moved(struct positions *positions)
{
	for (size_t i = 0; i < positions->count; i++) {
		struct position *position = &positions->items[i];

		if (!position->moves)
			continue;
		position->next = position->moved;
		position->moves = false;
		position->unshown = true;
	}
}

enum position_step position_step(struct position *position, int64_t offset,
				 const struct consumer *consumer)
{
	const struct partition partition = { .topic = position->topic,
					     .partition = position->partition };
	int64_t expected = position->seen;

	position->seen = offset + 1;
	if (offset < expected)
		return POSITION_BELOW;
	if (offset > expected && expected >= 0 && consumer_oldest(consumer, &partition) > expected)
		return POSITION_GONE;
	return POSITION_NEXT;
}
