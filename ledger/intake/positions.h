/* Where the partitions given to us go on. The table intake_position is the truth: it is read at
 * every assignment and after every failure, and moved by compare-and-set with what was read. */
#ifndef LEDGER_POSITIONS_H
#define LEDGER_POSITIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "consumer.h"
#include "err.h"

#define POSITION_BEGINNING (-2) /* not begun, from the beginning; librdkafka's number as well */

struct position {
	char *topic;
	int32_t partition;
	bool known;   /* the database has it */
	bool full;    /* so much poison of its topic is open that it is not read */
	int64_t next; /* as the database holds it */
	int64_t seen; /* the next offset that the consumer is to deliver; -2: whichever is first */
	bool moves;   /* the slice in hand moves it, to `moved` */
	int64_t moved;
	bool unshown; /* the group's offset, which is for displays, may be another */
};

struct positions { /* sorted by topic and partition */
	struct position *items;
	size_t count;
};

void positions_set(struct positions *positions, const struct partition *partitions, size_t count);
void positions_clear(struct positions *positions);
/* NULL: not one of ours. */
struct position *positions_find(const struct positions *positions, const char *topic,
				int32_t partition);
size_t positions_known(const struct positions *positions);

/* Reads from all that are known, and whose topic is not full. */
MUST_USE bool positions_fetch(const struct positions *positions, struct consumer *consumer,
			      struct err *err);
/* Commits to Kafka, for its displays, those that are not shown there as they are. */
void positions_show(struct positions *positions, struct consumer *consumer);
/* Whatever is shown of them, by us or by the member before us: all are to be shown. */
void positions_unshown(struct positions *positions);
/* The slice in hand is recorded. */
void positions_moved(struct positions *positions);

enum position_step {
	POSITION_NEXT,  /* or after a gap, as compaction and transactions leave them */
	POSITION_BELOW, /* the topic was made anew, or has lost its end */
	POSITION_GONE,  /* messages were deleted before they were read */
};

/* How a message's offset stands to the one that was to come; takes it as seen. */
enum position_step position_step(struct position *position, int64_t offset,
				 const struct consumer *consumer);

#endif
