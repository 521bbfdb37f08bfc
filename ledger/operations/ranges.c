/* Which offsets of a topic are read again. */
#include "ranges.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cursor.h"
#include "mem.h"

void ranges_done(struct ranges *ranges)
{
	free(ranges->items);
	*ranges = (struct ranges){ 0 };
}

void ranges_add(struct ranges *ranges, int32_t partition, int64_t at, int64_t end)
{
	ranges->items = mem_grow(ranges->items, ranges->count + 1, sizeof(*ranges->items));
	ranges->items[ranges->count++] =
		(struct range){ .partition = partition, .at = at < end ? at : end, .end = end };
}

struct ranges ranges_copy(const struct ranges *ranges)
{
	struct ranges copy = *ranges;

	copy.items = NULL;
	copy.count = 0;
	for (size_t i = 0; i < ranges->count; i++) {
		copy.items = mem_grow(copy.items, copy.count + 1, sizeof(*copy.items));
		copy.items[copy.count++] = ranges->items[i];
	}
	return copy;
}

struct range *ranges_find(const struct ranges *ranges, int32_t partition)
{
	for (size_t i = 0; i < ranges->count; i++)
		if (ranges->items[i].partition == partition)
			return &ranges->items[i];
	return NULL;
}

void ranges_last(struct ranges *ranges, int64_t count)
{
	int64_t parts = (int64_t)ranges->count;

	for (int64_t i = 0; i < parts; i++) {
		struct range *range = &ranges->items[i];
		int64_t share = count / parts + (i < count % parts);

		if (range->end - range->at > share)
			range->at = range->end - share;
	}
}

void ranges_known(struct ranges *ranges, int32_t partition, int64_t since)
{
	struct range *range = ranges_find(ranges, partition);
	int64_t at;

	if (!range || since <= range->at)
		return;
	at = since < range->end ? since : range->end;
	ranges->forgotten += at - range->at;
	range->at = at;
}

int64_t ranges_left(const struct ranges *ranges)
{
	int64_t left = 0;

	for (size_t i = 0; i < ranges->count; i++)
		left += ranges->items[i].end - ranges->items[i].at;
	return left;
}

void ranges_first(struct ranges *ranges, const char *key)
{
	if (*ranges->first == '\0')
		(void)snprintf(ranges->first, sizeof(ranges->first), "%s", key);
}

/* read duplicates fresh conflicts poison unmatched forgotten|partition:at:end ...|first */
void ranges_write(const struct ranges *ranges, struct buf *cursor)
{
	const int64_t numbers[] = { ranges->read,      ranges->duplicates, ranges->fresh,
				    ranges->conflicts, ranges->poison,     ranges->unmatched,
				    ranges->forgotten };
	const size_t count = sizeof(numbers) / sizeof(numbers[0]);

	for (size_t i = 0; i < count; i++)
		buf_addf(cursor, "%" PRId64 "%s", numbers[i], i + 1 < count ? " " : "|");
	for (size_t i = 0; i < ranges->count; i++)
		buf_addf(cursor, "%s%" PRId32 ":%" PRId64 ":%" PRId64, i > 0 ? " " : "",
			 ranges->items[i].partition, ranges->items[i].at, ranges->items[i].end);
	buf_addf(cursor, "|%s", ranges->first);
}

static bool read_counts(const char *text, const char *end, struct ranges *ranges)
{
	return cursor_number(&text, &ranges->read) && cursor_number(&text, &ranges->duplicates) &&
	       cursor_number(&text, &ranges->fresh) && cursor_number(&text, &ranges->conflicts) &&
	       cursor_number(&text, &ranges->poison) && cursor_number(&text, &ranges->unmatched) &&
	       cursor_number(&text, &ranges->forgotten) && text == end;
}

static bool read_ranges(const char *text, const char *end, struct ranges *ranges)
{
	int64_t partition, at, stop;

	while (text < end) {
		if (!cursor_number(&text, &partition) || !cursor_number(&text, &at) ||
		    !cursor_number(&text, &stop) || partition < 0 || partition > INT32_MAX)
			return false;
		ranges_add(ranges, (int32_t)partition, at, stop);
	}
	return true;
}

bool ranges_read(const char *cursor, struct ranges *ranges_r)
{
	struct ranges ranges = { 0 };
	const char *list = strchr(cursor, '|');
	const char *first = list ? strchr(list + 1, '|') : NULL;

	if (!first || !read_counts(cursor, list + 1, &ranges) ||
	    !read_ranges(list + 1, first, &ranges)) {
		ranges_done(&ranges);
		return false;
	}
	ranges_first(&ranges, first + 1);
	*ranges_r = ranges;
	return true;
}

static void say(struct buf *out, int64_t count, const char *one, const char *more)
{
	if (count > 0)
		buf_addf(out, ", %" PRId64 " %s", count, count == 1 ? one : more);
}

void ranges_say(const struct ranges *ranges, bool apply, struct buf *out)
{
	buf_addf(out, "%" PRId64 " %s read again: %" PRId64 " %s, %" PRId64 " new%s", ranges->read,
		 ranges->read == 1 ? "event" : "events", ranges->duplicates,
		 ranges->duplicates == 1 ? "duplicate" : "duplicates", ranges->fresh,
		 apply && ranges->fresh > 0 ? " and recorded" : "");
	say(out, ranges->conflicts, "conflict", "conflicts");
	say(out, ranges->poison, "poison", "poison");
	say(out, ranges->unmatched, "that no effect matches", "that no effect matches");
	if (ranges->fresh > 0)
		buf_addf(out, "; the first new key: %s", ranges->first);
	if (ranges->forgotten > 0)
		buf_addf(out,
			 "; %" PRId64 " %s left out: keys of that time were forgotten meanwhile",
			 ranges->forgotten, ranges->forgotten == 1 ? "offset was" : "offsets were");
}
