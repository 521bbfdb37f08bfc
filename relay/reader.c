/* Position, gaps, sweeps, pace. */
#include "reader.h"

#include <stdlib.h>

#include "gaps.h"
#include "mem.h"

#define LIST_EVERY   (50 * USEC_MS)
#define COST_MAX     USEC_SEC /* of one poll; behind a lock it waits, and costs nothing */
#define STUCK_AFTER  USEC_SEC /* of pages that are full of known rows */
#define SWEEP_SHARE  20       /* a sweep may take 1/20 of the time */
#define SWEEP_RARELY (10 * USEC_MIN)

struct reader {
	struct reader_settings settings;
	int64_t after;
	uint64_t generation;
	uint64_t number; /* of the last poll */

	usec_t pace;        /* between two polls */
	usec_t next;        /* earliest time of the next poll */
	usec_t stuck_since; /* 0: not stuck; see note_stuck() */
	bool skip_gaps;
	bool learned; /* the page being read changed the gaps */
	struct gaps *gaps;

	bool listing;
	usec_t list_at;
	uint64_t list_poll; /* number of the last poll before the listing */

	bool sweeping;
	int64_t sweep_end; /* the highest id when it began */
	usec_t sweep_cost; /* time that the server took for it */
	usec_t sweep_at;   /* when the next one is due */
};

static void set_back(struct reader *reader, int64_t after)
{
	if (after < reader->after)
		reader->after = after;
	reader->generation++;
	reader->next = 0;
}

void reader_restart(struct reader *reader)
{
	gaps_forget(reader->gaps);
	reader->sweeping = false;
	reader->sweep_at = 0;
	reader->pace = reader->settings.poll_busy;
	set_back(reader, READER_ALL);
}

void reader_rewind(struct reader *reader, int64_t id)
{
	set_back(reader, id == READER_ALL ? id : id - 1);
}

usec_t reader_wait(const struct reader *reader, usec_t now)
{
	return reader->next > now ? reader->next - now : 0;
}

void reader_pause(struct reader *reader, usec_t until)
{
	reader->next = until;
}

/* --- sweeps --- */

static bool begin_sweep(struct reader *reader, usec_t now)
{
	if (reader->sweeping || now < reader->sweep_at)
		return false;
	reader->sweeping = true;
	reader->sweep_end = gaps_highest(reader->gaps);
	reader->sweep_cost = 0;
	reader->after = READER_ALL;
	return true;
}

static usec_t cost_of(const struct reader_poll *poll, usec_t now)
{
	usec_t took = now - poll->sent;
	return took < COST_MAX ? took : COST_MAX;
}

/* Counted in time of the server, not by the clock: a sweep may wait long for room. */
static bool end_sweep(struct reader *reader, const struct reader_poll *poll, bool full, usec_t now)
{
	if (!reader->sweeping)
		return false;
	reader->sweep_cost += cost_of(poll, now);
	if (full && reader->after < reader->sweep_end)
		return false;
	usec_t pause = reader->sweep_cost * SWEEP_SHARE;
	if (pause < reader->settings.sweep)
		pause = reader->settings.sweep;
	reader->sweep_at = now + (pause < SWEEP_RARELY ? pause : SWEEP_RARELY);
	reader->sweeping = false;
	return true;
}

/* --- polls --- */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The gaps below the position. Those above it are read again anyway. */
static size_t gaps_below(const struct reader *reader, bool *all_r)
{
	size_t count, below = 0;
	const struct gap *gaps = gaps_all(reader->gaps, &count);
	while (below < count && gaps[below].first <= reader->after)
		below++;
	*all_r = below == count && (count == 0 || gaps[count - 1].last <= reader->after);
	return below;
}

bool reader_next(struct reader *reader, usec_t now, size_t rows, size_t bytes,
		 struct reader_poll *poll_r)
{
	bool begun = begin_sweep(reader, now);
	bool all = false;
	size_t gaps = reader->skip_gaps ? 0 : gaps_below(reader, &all);
	reader->skip_gaps = false;
	reader->learned = false;
	*poll_r = (struct reader_poll){
		.number = ++reader->number,
		.generation = reader->generation,
		.after = reader->after,
		.rows = least(rows, reader->settings.batch),
		.bytes = least(bytes, reader->settings.batch_bytes),
		.gaps = gaps,
		.all_gaps = all,
		.sent = now,
	};
	return begun;
}

bool reader_accepts(const struct reader *reader, const struct reader_poll *poll)
{
	return poll->generation == reader->generation;
}

void reader_saw(struct reader *reader, int64_t id)
{
	reader->learned = gaps_saw(reader->gaps, id) || reader->learned;
}

/* At once while there is more, else soon, and ever later while nothing comes; but at least as long
 * after the answer as it took. */
static void keep_pace(struct reader *reader, const struct reader_poll *poll, bool more, bool any,
		      usec_t now)
{
	usec_t slower = reader->pace * 2;
	usec_t idle = reader->settings.poll_idle;
	usec_t took = cost_of(poll, now);
	if (any)
		reader->pace = reader->settings.poll_busy;
	else
		reader->pace = slower < idle ? slower : idle;
	reader->next = more ? now : now + (took > reader->pace ? took : reader->pace);
}

/* Gaps that were merged may hold rows which are known. When such rows alone fill page after page,
 * one poll goes past the gaps. */
static void note_stuck(struct reader *reader, bool stuck, usec_t now)
{
	if (!stuck) {
		reader->stuck_since = 0;
	} else if (reader->stuck_since == 0) {
		reader->stuck_since = now;
	} else if (now - reader->stuck_since > STUCK_AFTER) {
		reader->stuck_since = 0;
		reader->skip_gaps = true;
	}
}

bool reader_answered(struct reader *reader, const struct reader_poll *poll,
		     const struct reader_page *page, usec_t now)
{
	bool full = page->rows >= poll->rows || page->bytes >= poll->bytes;
	bool among_gaps = full && page->above == 0;
	bool stuck = among_gaps && !reader->learned;
	if (page->above > 0)
		reader->after = page->last;
	if (poll->all_gaps && !among_gaps)
		gaps_polled(reader->gaps, poll->number);
	note_stuck(reader, stuck, now);
	keep_pace(reader, poll, full && !stuck, page->rows > 0, now);
	return end_sweep(reader, poll, full, now);
}

/* --- gaps --- */

const struct gap *reader_gaps(const struct reader *reader)
{
	size_t count;
	return gaps_all(reader->gaps, &count);
}

size_t reader_gap_count(const struct reader *reader)
{
	size_t count;
	(void)gaps_all(reader->gaps, &count);
	return count;
}

bool reader_list(struct reader *reader, usec_t now)
{
	size_t count;
	(void)gaps_all(reader->gaps, &count);
	if (reader->listing || now < reader->list_at || count == 0)
		return false;
	reader->listing = true;
	reader->list_at = now + LIST_EVERY;
	reader->list_poll = reader->number;
	gaps_list(reader->gaps);
	return true;
}

void reader_listed(struct reader *reader, const uint64_t *holders, size_t count)
{
	reader->listing = false;
	gaps_listed(reader->gaps, holders, count, reader->list_poll);
}

void reader_unlisted(struct reader *reader)
{
	reader->listing = false;
	gaps_unlisted(reader->gaps);
}

struct reader *reader_new(const struct reader_settings *settings)
{
	struct reader *reader = mem_zero(sizeof(*reader));
	reader->settings = *settings;
	reader->gaps = gaps_new(settings->gaps_max);
	reader_restart(reader);
	return reader;
}

void reader_free(struct reader *reader)
{
	if (!reader)
		return;
	gaps_free(reader->gaps);
	free(reader);
}
