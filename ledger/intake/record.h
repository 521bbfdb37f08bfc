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
	size_t first; /* of these effects: its row of the batch */
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

/* The last statement of the transaction: see record_task. NULL: all is to be undone. */
typedef const char *record_last_fn(void *arg, const struct record_counts *counts,
				   struct pg_params *params);

struct record *record_new(struct pg *pg, int64_t poison_max_bytes, record_done_fn *done, void *arg);
void record_free(struct record *record); /* after its pg */

/* What is recorded, and as what: messages [from, to) of the batch. */
struct record_task {
	struct batch *batch;
	size_t from, to;
	/* That move with them: each message's `position` is an index of them. NULL: none, for the
	 * messages were consumed before. */
	struct positions *positions;
	/* By message: which row of poison it was. It is settled in the same transaction, or gets
	 * its new reason; when one of them is settled by then, RECORD_MOVED. NULL: it was none. */
	const int64_t *poison;
	int64_t instance;
	/* Gives the statement that goes before the COMMIT: it must touch one row, or else nothing
	 * is recorded, and RECORD_FAILED. NULL: there is none. */
	record_last_fn *last;
};

/* All must stay as it is until done, which runs from the loop. */
void record_start(struct record *record, const struct record_task *task);

#endif
