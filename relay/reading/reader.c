/* Positions, gaps, jobs, pace. */
#include "reader.h"

#include <stdlib.h>

#include "gaps.h"
#include "mem.h"

#define LIST_EVERY   (50 * USEC_MS)
#define BUSY_FOR     (100 * USEC_MS) /* after the last row */
#define COSTLY       (20 * USEC_MS)
#define COST_MAX     USEC_SEC /* of one poll; behind a lock it waits, and costs nothing */
#define STUCK_AFTER  USEC_SEC /* of pages that are full of known rows */
#define SWEEP_SHARE  20       /* a sweep may take 1/20 of the time */
#define SWEEP_RARELY (10 * USEC_MIN)

/* Gaps that were merged may hold rows which are known. When pages are full of them for a while,
 * every other poll of that cursor goes past the gaps, whatever its job is. */
struct jam {
	usec_t since;     /* 0: none */
	uint64_t learned; /* by the reader, up to the last page of this cursor */
	bool skip;        /* the next poll goes past the gaps */
	bool skipped;     /* the last one did */
};

/* The second cursor. */
struct second {
	enum reader_cursor job; /* READER_HEAD: none */
	int64_t after;
	bool turn;    /* the next poll is its own */
	usec_t cost;  /* of a sweep: time that the server took for it */
	usec_t sweep; /* when the next one is due; 0: set by the next poll */
	struct jam jam;
};

struct reader {
	struct reader_settings settings;
	bool sequential;
	int64_t after; /* the head's position */
	bool at_end;   /* there was nothing behind it */
	uint64_t generation;
	uint64_t number; /* of the last poll */
	struct second second;

	usec_t pace;       /* between two polls of the head */
	usec_t busy_until; /* rows have come lately, so that others will */
	usec_t next;       /* earliest time of the next one */
	usec_t paused;     /* both are, until then */
	struct jam jam;    /* of the head */
	struct gaps *gaps;
	uint64_t learned; /* rows that were found in them, and are no longer */
	int64_t saw;      /* the head's last row */

	bool listing;
	usec_t list_at;
	uint64_t list_poll; /* number of the last poll before the listing */
};

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* --- positions --- */

static void set_back(struct reader *reader, int64_t after)
{
	after = most(after, reader->settings.start_after);
	if (after < reader->after)
		reader->after = after;
	if (reader->second.job != READER_HEAD && reader->second.after > reader->after)
		reader_end(reader);
	reader->at_end = false;
	reader->second.turn = false; /* before jobs go on where the head has been before */
	reader->generation++;
	reader->next = 0;
	reader->paused = 0;
}

void reader_set_sequential(struct reader *reader, bool sequential)
{
	reader->sequential = sequential;
}

void reader_restart(struct reader *reader)
{
	gaps_forget(reader->gaps);
	reader_end(reader);
	reader->second.sweep = 0;
	reader->pace = reader->settings.poll_busy;
	set_back(reader, READER_ALL);
}

void reader_rewind(struct reader *reader, int64_t id)
{
	set_back(reader, id == READER_ALL ? id : id - 1);
}

int64_t reader_head(const struct reader *reader)
{
	return reader->at_end ? INT64_MAX : reader->after;
}

/* --- the second cursor --- */

bool reader_idle(const struct reader *reader)
{
	return reader->second.job == READER_HEAD;
}

void reader_begin(struct reader *reader, enum reader_cursor job, int64_t from)
{
	int64_t after = from == READER_ALL ? from : from - 1;
	reader->second.job = job;
	reader->second.after = most(after, reader->settings.start_after);
	reader->second.cost = 0;
}

void reader_end(struct reader *reader)
{
	if (reader->second.job == READER_SWEEP && !reader->sequential)
		gaps_unlisted(reader->gaps);
	reader->second.job = READER_HEAD;
}

void reader_back(struct reader *reader, enum reader_cursor cursor, int64_t id)
{
	if (cursor == READER_HEAD) {
		reader_rewind(reader, id);
		return;
	}
	if (cursor == READER_SWEEP)
		reader->second.job = cursor; /* it has ended with this page, perhaps */
	if (reader->second.job == cursor && id - 1 < reader->second.after)
		reader->second.after = id - 1;
	reader->generation++;
}

/* The head's first way up is a sweep by itself. */
bool reader_sweep_due(const struct reader *reader, usec_t now)
{
	return reader->second.sweep > 0 && now >= reader->second.sweep &&
	       reader->after > reader->settings.start_after;
}

static void sweep_if_due(struct reader *reader, usec_t now)
{
	if (reader->second.sweep == 0)
		reader->second.sweep = now + reader->settings.sweep;
	if (!reader_idle(reader) || !reader_sweep_due(reader, now))
		return;
	reader_begin(reader, READER_SWEEP, READER_ALL);
	if (!reader->sequential)
		gaps_list(reader->gaps);
}

static usec_t cost_of(const struct reader_poll *poll, usec_t now)
{
	usec_t took = now - poll->sent;
	return took < COST_MAX ? took : COST_MAX;
}

/* Counted in time of the server, not by the clock: a sweep may wait long for room. */
static void end_sweep(struct reader *reader, usec_t now)
{
	usec_t pause = reader->second.cost * SWEEP_SHARE;
	if (pause < reader->settings.sweep)
		pause = reader->settings.sweep;
	reader->second.sweep = now + (pause < SWEEP_RARELY ? pause : SWEEP_RARELY);
	if (!reader->sequential)
		gaps_listed(reader->gaps, NULL, 0, reader->number);
	reader->second.job = READER_HEAD;
}

/* --- polls --- */

usec_t reader_wait(const struct reader *reader, usec_t now)
{
	usec_t until = reader_idle(reader) ? reader->next : 0;
	if (until < reader->paused)
		until = reader->paused;
	return until > now ? until - now : 0;
}

void reader_pause(struct reader *reader, usec_t until)
{
	reader->paused = until;
}

/* The gaps below a position. Those above it are read anyway. */
static size_t gaps_below(const struct reader *reader, int64_t after, bool *all_r)
{
	size_t count, below = 0;
	const struct gap *gaps = gaps_all(reader->gaps, &count);
	while (below < count && gaps[below].first <= after)
		below++;
	*all_r = below == count && (count == 0 || gaps[count - 1].last <= after);
	return below;
}

static void ask_for_gaps(struct reader *reader, struct jam *jam, struct reader_poll *poll)
{
	if (!jam->skip)
		poll->gaps = gaps_below(reader, poll->after, &poll->all_gaps);
	jam->skipped = jam->skip;
	jam->skip = false;
}

static bool second_next(struct reader *reader, usec_t now)
{
	struct second *second = &reader->second;
	bool next = second->job != READER_HEAD && (second->turn || reader->next > now);
	second->turn = !next;
	return next;
}

void reader_next(struct reader *reader, usec_t now, size_t rows, size_t bytes,
		 struct reader_poll *poll_r)
{
	sweep_if_due(reader, now);
	bool second = second_next(reader, now);
	*poll_r = (struct reader_poll){
		.cursor = second ? reader->second.job : READER_HEAD,
		.number = ++reader->number,
		.generation = reader->generation,
		.after = second ? reader->second.after : reader->after,
		.rows = least(rows, reader->settings.batch),
		.bytes = least(bytes, reader->settings.batch_bytes),
		.sent = now,
	};
	ask_for_gaps(reader, second ? &reader->second.jam : &reader->jam, poll_r);
}

bool reader_accepts(const struct reader *reader, const struct reader_poll *poll)
{
	return poll->generation == reader->generation;
}

int64_t reader_limit(const struct reader *reader, const struct reader_poll *poll)
{
	return poll->cursor == READER_HEAD ? INT64_MAX : reader->after;
}

/* A cursor that takes the rows of some topics only leaves all in the gap, for the others. */
void reader_saw(struct reader *reader, const struct reader_poll *poll, int64_t id)
{
	bool below = id <= gaps_highest(reader->gaps);
	if (poll->cursor == READER_HEAD)
		reader->saw = id;
	else if (poll->cursor != READER_SWEEP)
		return;
	if (gaps_saw(reader->gaps, id) && below)
		reader->learned++;
}

/* At once while there is more, else soon, and ever later once nothing has come for a while; after
 * one that cost the server much, at least as long as it took. */
static void keep_pace(struct reader *reader, const struct reader_poll *poll, bool more, bool any,
		      usec_t now)
{
	usec_t slower = reader->pace * 2;
	usec_t idle = reader->settings.poll_idle;
	usec_t took = cost_of(poll, now);
	if (any)
		reader->busy_until = now + BUSY_FOR;
	if (now <= reader->busy_until)
		reader->pace = reader->settings.poll_busy;
	else
		reader->pace = slower < idle ? slower : idle;
	usec_t next = poll->sent + reader->pace;
	if (took > COSTLY)
		next = now + took;
	reader->next = more ? now : next;
}

/* Is a page full of rows in the gaps, most of which are known? What others learned meanwhile
 * counts: it is about the same rows. */
static bool note_jam(struct reader *reader, struct jam *jam, const struct reader_page *page,
		     bool full, usec_t now)
{
	uint64_t learned = reader->learned - jam->learned;
	bool among_gaps = full && page->above == 0 && page->beyond == 0;
	bool stuck = among_gaps && learned * 2 < page->rows;
	jam->learned = reader->learned;
	if (jam->skipped)
		return false;
	if (!stuck)
		jam->since = 0;
	else if (jam->since == 0)
		jam->since = now;
	else
		jam->skip = now - jam->since > STUCK_AFTER;
	return stuck;
}

/* How far the poll told of all that there is in the gaps. */
static int64_t told_upto(const struct reader *reader, const struct reader_poll *poll,
			 const struct reader_page *page, bool full)
{
	if (full && page->above == 0)
		return reader->saw;
	return poll->all_gaps ? INT64_MAX : poll->after;
}

static bool head_answered(struct reader *reader, const struct reader_poll *poll,
			  const struct reader_page *page, bool full, usec_t now)
{
	bool stuck = note_jam(reader, &reader->jam, page, full, now);
	if (poll->gaps > 0)
		gaps_polled(reader->gaps, poll->number, told_upto(reader, poll, page, full));
	if (page->above > 0)
		reader->after = page->last;
	reader->at_end = !full;
	keep_pace(reader, poll, full && !stuck, page->rows > 0, now);
	return !full;
}

static bool second_answered(struct reader *reader, const struct reader_poll *poll,
			    const struct reader_page *page, bool full, usec_t now)
{
	struct second *second = &reader->second;
	if (second->job != poll->cursor)
		return true;
	second->cost += cost_of(poll, now);
	if (page->above > 0)
		second->after = page->last;
	bool end = !full || page->beyond > 0 || second->after >= reader->after;
	(void)note_jam(reader, &second->jam, page, full, now);
	if (end && poll->cursor == READER_SWEEP)
		end_sweep(reader, now);
	return end;
}

bool reader_answered(struct reader *reader, const struct reader_poll *poll,
		     const struct reader_page *page, usec_t now)
{
	bool full = page->rows >= poll->rows || page->bytes >= poll->bytes;
	if (poll->cursor == READER_HEAD)
		return head_answered(reader, poll, page, full, now);
	return second_answered(reader, poll, page, full, now);
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
	if (!reader->sequential || reader->listing || now < reader->list_at ||
	    reader_gap_count(reader) == 0)
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
	reader->sequential = true;
	reader->gaps = gaps_new(settings->gaps_max);
	reader->after = settings->start_after;
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
