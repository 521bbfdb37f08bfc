/* Ranges of ids below the reading position that were never seen: drawn by a writer that has not
 * committed yet, or rolled back.
 *
 * A writer holds its lock on the outbox before it draws an id. So the transactions that may still
 * commit into a gap are among those that hold the lock when they are listed *after* the gap was
 * noticed (the "holders"). Once none of them is left, one more poll that asks for the gap sees the
 * rows, or there are none. Pure: the caller lists, polls and says in which order.
 *
 *   NOTICED -> LISTING -> HELD -> CLEAR -> gone
 *
 * Every poll asks for every gap, in the same snapshot as for new rows: a writer that waited for
 * another one's commit is never met before it. So no gap is ever left out: beyond `max` ranges the
 * newest ones are merged, and the rows between them, which are known, are met again. */
#ifndef COUNTERFOIL_RELAY_GAPS_H
#define COUNTERFOIL_RELAY_GAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gap {
	int64_t first;
	int64_t last;   /* included */
	uint32_t group; /* private */
};

struct gaps;

struct gaps *gaps_new(size_t max);
void gaps_free(struct gaps *gaps);
void gaps_forget(struct gaps *gaps); /* everything, the highest id included */

/* A row was read, in ascending order within a poll: what lies between it and the highest id so far
 * is a gap; if it lay in one itself, it no longer does. False: nothing has changed. */
bool gaps_saw(struct gaps *gaps, int64_t id);

/* Ascending, apart from each other; until the next call that changes them. */
const struct gap *gaps_all(const struct gaps *gaps, size_t *count_r);
int64_t gaps_highest(const struct gaps *gaps); /* 0: none seen yet */

/* Holders are about to be listed; all that is noticed later waits for the next listing. */
void gaps_list(struct gaps *gaps);
/* The answer. `poll`: the number of the last poll sent before this listing was. */
void gaps_listed(struct gaps *gaps, const uint64_t *holders, size_t count, uint64_t poll);
void gaps_unlisted(struct gaps *gaps); /* there will be no answer */

/* A poll of this number, which asked for the gaps up to this id and was not cut short before it,
 * has been answered and its rows were shown to gaps_saw(). */
void gaps_polled(struct gaps *gaps, uint64_t poll, int64_t upto);

#endif
