/* Which offsets of a topic are read again, how far that is, and what came of it: the cursor of an
 * order as text. Pure. */
#ifndef LEDGER_RANGES_H
#define LEDGER_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "err.h"

struct range {
	int32_t partition;
	int64_t at;  /* the next to read */
	int64_t end; /* the first that is not read: where intake stands */
	bool ended;  /* nothing below `end` is left in Kafka, whatever `at` says */
};

struct ranges {
	struct range *items;
	size_t count;
	/* messages, and rows that came of them */
	int64_t read, duplicates, fresh, conflicts, poison, unmatched;
	int64_t forgotten; /* offsets that were left out: their keys are not known any more */
	char first[160];   /* key of the first row that was new; "": there was none */
};

void ranges_done(struct ranges *ranges);
void ranges_add(struct ranges *ranges, int32_t partition, int64_t at, int64_t end);
struct ranges ranges_copy(const struct ranges *ranges);
struct range *ranges_find(const struct ranges *ranges, int32_t partition); /* NULL: none */
/* Only the last `count`, shared evenly; what a partition does not have, no other one gives. */
void ranges_last(struct ranges *ranges, int64_t count);
/* What is below `since` is left out. */
void ranges_known(struct ranges *ranges, int32_t partition, int64_t since);
int64_t ranges_left(const struct ranges *ranges);          /* offsets that are still to be read */
void ranges_first(struct ranges *ranges, const char *key); /* of a new row; the first one counts */

void ranges_write(const struct ranges *ranges, struct buf *cursor);
MUST_USE bool ranges_read(const char *cursor, struct ranges *ranges_r);
/* "1000 events read again: 998 duplicates, 2 new ..." */
void ranges_say(const struct ranges *ranges, bool apply, struct buf *out);

#endif
