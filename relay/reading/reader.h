/* What to read next: two cursors over the table, the gaps below each, and the pace.
 *
 * The head reads what is new, upward from its position; a new producer or rows that were put back
 * set it back, and what is in flight is passed over. The second cursor never reads past the head,
 * and does one job at a time:
 *
 *   sweep      everything below the head, again: the truth that all else only accelerates
 *   catch up   rows of topics that were blocked, until it has come to the head
 *   probe      the first row of one such topic
 *
 * A transaction that commits late has rows on both sides of a cursor. So every poll asks for the
 * gaps below its position in the same snapshot as for the rows above it, whichever cursor's it is:
 * the rows of a key are met in the order of their ids. The exception is a jam: gaps that had to be
 * merged and hold rows which are known (reader.c).
 *
 * The two take turns, so that a long job delays nobody. Pure: the caller tells the time and sends
 * the polls. */
#ifndef COUNTERFOIL_RELAY_READER_H
#define COUNTERFOIL_RELAY_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gaps.h"
#include "usec.h"

struct reader_settings {
	size_t batch; /* rows and bytes of a poll, at most */
	size_t batch_bytes;
	usec_t poll_busy;
	usec_t poll_idle;
	usec_t sweep;
	size_t gaps_max;
	int64_t start_after; /* rows up to this id are nobody's business; READER_ALL: none */
};

enum reader_cursor { READER_HEAD, READER_SWEEP, READER_CATCH_UP, READER_PROBE };

/* One poll, from its sending to its answer. */
struct reader_poll {
	enum reader_cursor cursor;
	uint64_t number;
	uint64_t generation; /* an answer of an older one is thrown away */
	int64_t after;
	size_t rows;
	size_t bytes;
	size_t gaps;   /* how many it asks for; up to `after` */
	bool all_gaps; /* that is all there are */
	usec_t sent;
};

/* Its answer: all rows; how many of them lie beyond the cursor's limit; of the others the weight in
 * bytes and how many lie above `after`; and how far it came, which is `after` at least. */
struct reader_page {
	size_t rows;
	size_t beyond;
	size_t bytes;
	size_t above;
	int64_t last;
};

struct reader;

struct reader *reader_new(const struct reader_settings *settings);
void reader_free(struct reader *reader);

/* Are ids drawn inside the INSERT, so that the holders of the table's lock tell who may still fill
 * a gap? If not, a gap is asked for until a whole sweep has begun and ended. */
void reader_set_sequential(struct reader *reader, bool sequential);
/* A new owner, or a server whose ids mean other rows: everything from the beginning. */
void reader_restart(struct reader *reader);
/* The head back to this row, so that it and all behind it are read again; READER_ALL: the whole
 * table. A poll that is on its way is void, and a job whose cursor would be ahead ends. */
#define READER_ALL INT64_MIN
void reader_rewind(struct reader *reader, int64_t id);

/* Every row up to this id was met, but for gaps; INT64_MAX: every row that there was. */
int64_t reader_head(const struct reader *reader);

/* --- the second cursor's job --- */

bool reader_idle(const struct reader *reader); /* it has none */
bool reader_sweep_due(const struct reader *reader, usec_t now);
/* Begins one, at this id; it must be idle. */
void reader_begin(struct reader *reader, enum reader_cursor job, int64_t from);
void reader_end(struct reader *reader);
/* Rows from this id on were not taken: they are read again. */
void reader_back(struct reader *reader, enum reader_cursor cursor, int64_t id);

/* --- polls --- */

/* How long to wait before the next poll; 0: none. */
usec_t reader_wait(const struct reader *reader, usec_t now);
void reader_pause(struct reader *reader, usec_t until);

/* Makes the next poll, of at most that many rows and bytes. */
void reader_next(struct reader *reader, usec_t now, size_t rows, size_t bytes,
		 struct reader_poll *poll_r);
bool reader_accepts(const struct reader *reader, const struct reader_poll *poll);
/* Rows of its answer beyond this id are none of its business. */
int64_t reader_limit(const struct reader *reader, const struct reader_poll *poll);
/* Each id of the answer that is the cursor's business, in ascending order; the head's before the
 * answer as a whole, the second cursor's behind it and only as far as they were taken: what is met
 * again must stay in its gap. */
void reader_saw(struct reader *reader, const struct reader_poll *poll, int64_t id);
/* The answer as a whole. True: there was nothing more to read for this cursor, and a sweep has
 * ended. */
bool reader_answered(struct reader *reader, const struct reader_poll *poll,
		     const struct reader_page *page, usec_t now);

/* --- gaps --- */

/* The gaps that a poll asks for are the first poll->gaps of these, none beyond poll->after. */
const struct gap *reader_gaps(const struct reader *reader);
size_t reader_gap_count(const struct reader *reader); /* all of them */

/* Should the holders of the outbox's lock be listed now? True: begun. */
bool reader_list(struct reader *reader, usec_t now);
void reader_listed(struct reader *reader, const uint64_t *holders, size_t count);
void reader_unlisted(struct reader *reader);

#endif
