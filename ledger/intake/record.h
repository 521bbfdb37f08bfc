/* Writes a slice of a batch in one transaction: positions, effects, conflicts, dead letters, poison
 * and counts of the unmatched: all or nothing. */
#ifndef LEDGER_RECORD_H
#define LEDGER_RECORD_H

#include "batch.h"
#include "pg.h"
#include "positions.h"

struct record;

enum record_end {
	RECORD_DONE,    /* committed */
	RECORD_MOVED,   /* a position was not where we left it; nothing was written */
	RECORD_CONTENT, /* refused for what the slice holds; nothing was written */
	RECORD_FAILED,  /* nothing was written, or it is unknown: only the positions can tell */
};

struct record_counts {
	int64_t effects;
	int64_t dead; /* of these effects, born dead */
	int64_t duplicates;
	int64_t conflicts;
	int64_t poison;
	int64_t unmatched;
	const size_t *duplicate_rows; /* of the batch; for the call */
};

/* error is "" when it is done. */
typedef void record_done_fn(void *arg, enum record_end end, const struct record_counts *counts,
			    const char *error);

struct record *record_new(struct pg *pg, int64_t poison_max_bytes, record_done_fn *done, void *arg);
void record_free(struct record *record); /* after its pg */

/* Messages [from, to) of the batch, whose `position` is an index of positions. Batch and positions
 * must stay as they are until done, which runs from the loop. */
void record_start(struct record *record, struct batch *batch, size_t from, size_t to,
		  struct positions *positions, int64_t instance);

#endif
