/* What to read next: the position in the table, the gaps below it, the sweeps, and the pace.
 *
 * There is one position, and reading only ever goes upward from it; a sweep, a refused row or a new
 * producer set it back, and what is in flight is passed over. So the rows of a key are always met
 * in the order of their ids. Pure: the caller tells the time and sends the polls. */
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
};

/* One poll, from its sending to its answer. */
struct reader_poll {
	uint64_t number;
	uint64_t generation; /* an answer of an older one is thrown away */
	int64_t after;
	size_t rows;
	size_t bytes;
	size_t gaps;   /* how many it asks for; up to `after` */
	bool all_gaps; /* that is all there are */
	usec_t sent;
};

/* Its answer: all rows and their weight in bytes, how many of them lie above `after`, and the
 * highest id. */
struct reader_page {
	size_t rows;
	size_t bytes;
	size_t above;
	int64_t last;
};

struct reader;

struct reader *reader_new(const struct reader_settings *settings);
void reader_free(struct reader *reader);

/* A new owner, or a server whose ids mean other rows: everything from the beginning. */
void reader_restart(struct reader *reader);
/* Back to this row, so that it and all behind it are read again; READER_ALL: the whole table. A
 * poll that is on its way is void. */
#define READER_ALL INT64_MIN
void reader_rewind(struct reader *reader, int64_t id);

/* How long to wait before the next poll; 0: none. */
usec_t reader_wait(const struct reader *reader, usec_t now);
void reader_pause(struct reader *reader, usec_t until);

/* Makes the next poll, of at most that many rows and bytes. True: a sweep begins with it. */
bool reader_next(struct reader *reader, usec_t now, size_t rows, size_t bytes,
		 struct reader_poll *poll_r);
bool reader_accepts(const struct reader *reader, const struct reader_poll *poll);
/* Each id of the answer, in ascending order; then the answer as a whole. True: a sweep ends. */
void reader_saw(struct reader *reader, int64_t id);
bool reader_answered(struct reader *reader, const struct reader_poll *poll,
		     const struct reader_page *page, usec_t now);

/* The gaps that a poll asks for are the first poll->gaps of these, none beyond poll->after. */
const struct gap *reader_gaps(const struct reader *reader);
size_t reader_gap_count(const struct reader *reader); /* all of them */

/* Should the holders of the outbox's lock be listed now? True: begun. */
bool reader_list(struct reader *reader, usec_t now);
void reader_listed(struct reader *reader, const uint64_t *holders, size_t count);
void reader_unlisted(struct reader *reader);

#endif
