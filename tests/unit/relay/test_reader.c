/* The reader: the head's position and pace, the jobs of the second cursor, gaps, and what makes it
 * go back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reading/reader.h"

#define NOW (1000 * USEC_SEC)

static const struct reader_settings settings = {
	.batch = 10,
	.batch_bytes = 1000,
	.poll_busy = 2 * USEC_MS,
	.poll_idle = 25 * USEC_MS,
	.sweep = 5 * USEC_SEC,
	.gaps_max = 100,
	.start_after = READER_ALL,
};

static struct reader_poll next(struct reader *reader, usec_t now)
{
	struct reader_poll poll;
	reader_next(reader, now, 1000, 1000000, &poll);
	return poll;
}

/* A poll is answered at once with so many rows from `first` on; beyond its limit they are not its
 * business. */
static bool answer(struct reader *reader, const struct reader_poll *poll, usec_t now, int64_t first,
		   size_t rows)
{
	struct reader_page page = { .rows = rows, .bytes = rows, .last = poll->after };
	for (size_t i = 0; i < rows; i++) {
		int64_t id = first + (int64_t)i;
		if (id > reader_limit(reader, poll)) {
			page.beyond++;
			continue;
		}
		if (id > poll->after) {
			page.last = id;
			page.above++;
		}
		reader_saw(reader, poll, id);
	}
	return reader_answered(reader, poll, &page, now);
}

static bool read_page(struct reader *reader, usec_t now, int64_t first, size_t rows)
{
	const struct reader_poll poll = next(reader, now);
	return answer(reader, &poll, now, first, rows);
}

/* The head has read this many rows from 1 on, and there are no more. */
static struct reader *reader_at(int64_t head)
{
	struct reader *reader = reader_new(&settings);
	for (int64_t id = 1; id <= head; id += 10)
		(void)read_page(reader, NOW, id, head - id < 10 ? (size_t)(head - id + 1) : 10);
	if (head % 10 == 0)
		(void)read_page(reader, NOW, 0, 0);
	return reader;
}

/* The next poll of this cursor; one of the other may come before. */
static struct reader_poll next_of(struct reader *reader, enum reader_cursor cursor, usec_t now)
{
	struct reader_poll poll = next(reader, now);
	if (poll.cursor != cursor)
		poll = next(reader, now);
	assert_int_equal(poll.cursor, cursor);
	return poll;
}

static int64_t position(struct reader *reader, usec_t now)
{
	return next(reader, now).after;
}

/* --- the head --- */

static void it_goes_upward(void **state)
{
	(void)state;
	struct reader *reader = reader_new(&settings);
	struct reader_poll poll;
	assert_int_equal(reader_wait(reader, NOW), 0);
	reader_next(reader, NOW, 1000, 500, &poll);
	assert_int_equal(poll.cursor, READER_HEAD);
	assert_true(poll.after == READER_ALL);
	assert_int_equal(poll.rows, 10);
	assert_int_equal(poll.bytes, 500);
	assert_false(answer(reader, &poll, NOW, 1, 10));
	assert_int_equal(position(reader, NOW), 10);
	assert_true(read_page(reader, NOW, 11, 3));
	assert_int_equal(position(reader, NOW), 13);
	assert_true(read_page(reader, NOW, 0, 0));
	assert_int_equal(position(reader, NOW), 13);
	reader_free(reader);
}

static void it_knows_how_far_all_was_met(void **state)
{
	(void)state;
	struct reader *reader = reader_new(&settings);
	assert_true(reader_head(reader) == READER_ALL);
	(void)read_page(reader, NOW, 1, 10);
	assert_int_equal(reader_head(reader), 10);
	(void)read_page(reader, NOW, 11, 2);
	assert_true(reader_head(reader) == INT64_MAX);
	reader_rewind(reader, 6);
	assert_int_equal(reader_head(reader), 5);
	reader_free(reader);
}

static void it_is_fast_when_busy_and_slow_when_idle(void **state)
{
	(void)state;
	static const struct {
		size_t rows;
		usec_t later; /* than the page before, in milliseconds */
		usec_t wait;
	} pages[] = {
		{ 10, 0, 0 }, /* a full page: there is more */
		{ 1, 0, 2 },  { 0, 50, 2 },  { 0, 50, 2 },  { 0, 1, 4 },   { 0, 4, 8 },
		{ 0, 8, 16 }, { 0, 16, 25 }, { 0, 25, 25 }, { 10, 25, 0 }, { 1, 0, 2 },
	};
	usec_t now = NOW;
	struct reader *reader = reader_new(&settings);
	int64_t id = 1;
	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		now += pages[i].later * USEC_MS;
		(void)read_page(reader, now, id, pages[i].rows);
		id += (int64_t)pages[i].rows;
		assert_int_equal(reader_wait(reader, now), pages[i].wait * USEC_MS);
	}
	reader_free(reader);
}

/* A poll that takes the server long is not repeated at once; one that stood behind a lock for ten
 * seconds cost nothing beyond the first one. */
static void it_leaves_the_server_half_of_the_time(void **state)
{
	(void)state;
	static const struct {
		usec_t took;
		usec_t wait;
	} polls[] = { { 80 * USEC_MS, 80 * USEC_MS }, { 10 * USEC_SEC, USEC_SEC } };
	for (size_t i = 0; i < sizeof(polls) / sizeof(polls[0]); i++) {
		struct reader *reader = reader_new(&settings);
		const struct reader_poll poll = next(reader, NOW);
		usec_t now = NOW + polls[i].took;
		(void)answer(reader, &poll, now, 1, 1);
		assert_int_equal(reader_wait(reader, now), polls[i].wait);
		reader_free(reader);
	}
}

static void going_back_makes_a_poll_on_its_way_void(void **state)
{
	(void)state;
	struct reader *reader = reader_at(10);
	const struct reader_poll poll = next(reader, NOW);
	assert_true(reader_accepts(reader, &poll));
	reader_back(reader, READER_HEAD, 4);
	assert_false(reader_accepts(reader, &poll));
	assert_int_equal(position(reader, NOW), 3);
	reader_rewind(reader, 9); /* never forward */
	assert_int_equal(position(reader, NOW), 3);
	reader_rewind(reader, READER_ALL);
	assert_true(position(reader, NOW) == READER_ALL);
	reader_free(reader);
}

static void rows_before_the_start_are_nobody_s_business(void **state)
{
	(void)state;
	struct reader_settings mapped = settings;
	mapped.start_after = 500;
	struct reader *reader = reader_new(&mapped);
	assert_int_equal(position(reader, NOW), 500);
	(void)read_page(reader, NOW, 501, 3);
	reader_rewind(reader, READER_ALL);
	assert_int_equal(position(reader, NOW), 500);
	(void)read_page(reader, NOW, 501, 3);
	reader_begin(reader, READER_CATCH_UP, 7);
	reader_pause(reader, 0);
	(void)next(reader, NOW);
	const struct reader_poll poll = next(reader, NOW);
	assert_int_equal(poll.cursor, READER_CATCH_UP);
	assert_int_equal(poll.after, 500);
	reader_free(reader);
}

static void a_pause_is_kept_by_both(void **state)
{
	(void)state;
	struct reader *reader = reader_at(5);
	reader_pause(reader, NOW + USEC_SEC);
	assert_int_equal(reader_wait(reader, NOW), USEC_SEC);
	reader_begin(reader, READER_PROBE, 3);
	assert_int_equal(reader_wait(reader, NOW), USEC_SEC);
	reader_free(reader);
}

/* --- jobs --- */

static void the_cursors_take_turns(void **state)
{
	(void)state;
	struct reader *reader = reader_at(100);
	reader_rewind(reader, 51); /* it has much to read, and so has the job */
	reader_begin(reader, READER_CATCH_UP, 11);
	int64_t head = 51, second = 11;
	for (int i = 0; i < 6; i++) {
		const struct reader_poll poll = next(reader, NOW);
		bool its = i % 2 == 1;
		int64_t *id = its ? &second : &head;
		assert_int_equal(poll.cursor, its ? READER_CATCH_UP : READER_HEAD);
		assert_int_equal(poll.after, *id - 1);
		assert_false(answer(reader, &poll, NOW, *id, 10));
		*id += 10;
	}
	reader_free(reader);
}

/* One job after the other, each of one page: the head has its turns all the same. */
static void short_jobs_leave_the_head_its_turns(void **state)
{
	(void)state;
	struct reader *reader = reader_at(100);
	int heads = 0;
	reader_rewind(reader, 1);
	for (int i = 0; i < 10; i++) {
		if (reader_idle(reader))
			reader_begin(reader, READER_PROBE, 1);
		const struct reader_poll poll = next(reader, NOW);
		(void)answer(reader, &poll, NOW, poll.cursor == READER_HEAD ? heads * 10 + 1 : 1,
			     10);
		heads += poll.cursor == READER_HEAD;
		if (poll.cursor == READER_PROBE)
			reader_end(reader);
	}
	assert_int_equal(heads, 5);
	reader_free(reader);
}

static void a_job_does_not_wait_for_an_idle_head(void **state)
{
	(void)state;
	struct reader *reader = reader_at(55);
	assert_true(reader_wait(reader, NOW) > 0);
	reader_begin(reader, READER_CATCH_UP, 1);
	assert_int_equal(reader_wait(reader, NOW), 0);
	for (int i = 0; i < 5; i++) {
		const struct reader_poll poll = next(reader, NOW);
		assert_int_equal(poll.cursor, READER_CATCH_UP);
		assert_int_equal(poll.gaps, 0);
		assert_false(answer(reader, &poll, NOW, i * 10 + 1, 10));
	}
	assert_true(read_page(reader, NOW, 51, 5));
	reader_end(reader);
	assert_true(reader_idle(reader));
	reader_free(reader);
}

/* Of a page of the second cursor only what the head has met counts; it ends there. */
static void no_job_passes_the_head(void **state)
{
	(void)state;
	static const enum reader_cursor jobs[] = { READER_SWEEP, READER_CATCH_UP, READER_PROBE };
	static const struct {
		int64_t from;
		int64_t first;
		size_t rows;
		bool end;
	} pages[] = {
		{ 1, 1, 10, false },  /* full, and all below the head */
		{ 1, 1, 9, true },    /* there are no more */
		{ 1, 11, 10, true },  /* comes to it exactly */
		{ 1, 15, 10, true },  /* passes it */
		{ 1, 21, 10, true },  /* all beyond it: those below are gone */
		{ 21, 21, 10, true }, /* begins there */
		{ 500, 0, 0, true },  /* begins beyond it */
		{ 500, 500, 1, true },
	};
	for (size_t job = 0; job < sizeof(jobs) / sizeof(jobs[0]); job++) {
		for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
			struct reader *reader = reader_at(20);
			reader_begin(reader, jobs[job], pages[i].from);
			const struct reader_poll poll = next(reader, NOW);
			assert_int_equal(poll.cursor, jobs[job]);
			assert_int_equal(reader_limit(reader, &poll), 20);
			assert_int_equal(answer(reader, &poll, NOW, pages[i].first, pages[i].rows),
					 pages[i].end);
			assert_int_equal(reader_idle(reader),
					 jobs[job] == READER_SWEEP && pages[i].end);
			reader_free(reader);
		}
	}
}

static void going_back_ends_a_job_that_would_be_ahead(void **state)
{
	(void)state;
	static const struct {
		int64_t to;
		bool ends;
	} backs[] = { { 60, false }, { 31, false }, { 30, true }, { READER_ALL, true } };
	for (size_t i = 0; i < sizeof(backs) / sizeof(backs[0]); i++) {
		struct reader *reader = reader_at(100);
		reader_begin(reader, READER_CATCH_UP, 31); /* behind 30 */
		const struct reader_poll poll = next(reader, NOW);
		reader_rewind(reader, backs[i].to);
		assert_false(reader_accepts(reader, &poll));
		assert_int_equal(reader_idle(reader), backs[i].ends);
		assert_int_equal(next(reader, NOW).cursor, READER_HEAD); /* it has the first turn */
		reader_free(reader);
	}
}

static void what_a_job_did_not_take_is_read_again(void **state)
{
	(void)state;
	static const enum reader_cursor jobs[] = { READER_SWEEP, READER_CATCH_UP, READER_PROBE };
	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		struct reader *reader = reader_at(25);
		reader_begin(reader, jobs[i], 1);
		(void)read_page(reader, NOW, 1, 10);
		const struct reader_poll poll = next(reader, NOW);
		assert_int_equal(poll.after, 10);
		assert_true(answer(reader, &poll, NOW, 11, 9)); /* the last page of a sweep, too */
		reader_back(reader, jobs[i], 14);
		assert_false(reader_accepts(reader, &poll));
		const struct reader_poll again = next(reader, NOW);
		assert_int_equal(again.cursor, jobs[i]);
		assert_int_equal(again.after, 13);
		assert_true(answer(reader, &again, NOW, 14, 6));
		reader_free(reader);
	}
}

/* --- sweeps --- */

static void sweeps_come_and_end(void **state)
{
	(void)state;
	struct reader *reader = reader_at(25);
	usec_t now = NOW + 5 * USEC_SEC;
	assert_false(reader_sweep_due(reader, now - 1));
	assert_true(reader_sweep_due(reader, now));
	struct reader_poll poll = next_of(reader, READER_SWEEP, now);
	assert_true(poll.after == READER_ALL);
	assert_false(answer(reader, &poll, now, 10, 10));
	poll = next_of(reader, READER_SWEEP, now);
	assert_int_equal(poll.after, 19);
	assert_true(answer(reader, &poll, now, 20, 6));
	assert_true(reader_idle(reader));
	assert_false(reader_sweep_due(reader, now + 5 * USEC_SEC - 1));
	assert_true(reader_sweep_due(reader, now + 5 * USEC_SEC));
	reader_free(reader);
}

/* The rows below the head are gone and a page of others stands behind it: the sweep has ended. */
static void a_sweep_that_finds_only_newer_rows_is_over(void **state)
{
	(void)state;
	struct reader *reader = reader_at(20);
	usec_t now = NOW + 5 * USEC_SEC;
	int sweeps = 0;
	for (int i = 0; i < 10; i++) {
		const struct reader_poll poll = next(reader, now);
		sweeps += poll.cursor == READER_SWEEP;
		if (poll.cursor == READER_SWEEP)
			assert_true(answer(reader, &poll, now, 21, 10));
		else
			reader_back(reader, READER_HEAD, 21); /* they are not taken */
	}
	assert_int_equal(sweeps, 1);
	reader_free(reader);
}

static void a_long_sweep_is_seldom(void **state)
{
	(void)state;
	static const struct {
		usec_t took;
		usec_t pause;
	} sweeps[] = {
		{ 100 * USEC_MS, 5 * USEC_SEC },
		{ USEC_SEC, 20 * USEC_SEC },
		{ 60 * USEC_SEC, 20 * USEC_SEC }, /* behind a lock */
	};
	for (size_t i = 0; i < sizeof(sweeps) / sizeof(sweeps[0]); i++) {
		struct reader *reader = reader_at(5);
		reader_begin(reader, READER_SWEEP, READER_ALL);
		const struct reader_poll poll = next(reader, NOW);
		usec_t now = NOW + sweeps[i].took;
		assert_int_equal(poll.cursor, READER_SWEEP);
		assert_true(answer(reader, &poll, now, 1, 1));
		assert_false(reader_sweep_due(reader, now + sweeps[i].pause - 1));
		assert_true(reader_sweep_due(reader, now + sweeps[i].pause));
		reader_free(reader);
	}
}

/* --- gaps --- */

static void gaps_are_asked_for_below_the_position_only(void **state)
{
	(void)state;
	struct reader *reader = reader_new(&settings);
	(void)read_page(reader, NOW, 1, 2);
	(void)read_page(reader, NOW, 5, 1); /* 3 and 4 are missing */
	(void)read_page(reader, NOW, 8, 1); /* 6 and 7 too */
	struct reader_poll poll = next(reader, NOW);
	assert_int_equal(poll.gaps, 2);
	assert_true(poll.all_gaps);
	assert_int_equal(reader_gaps(reader)[0].first, 3);
	assert_int_equal(reader_gaps(reader)[0].last, 4);
	reader_rewind(reader, 4);
	poll = next(reader, NOW);
	assert_int_equal(poll.after, 3);
	assert_int_equal(poll.gaps, 1); /* up to 3 */
	assert_false(poll.all_gaps);
	reader_free(reader);
}

/* A page that is cut within the gaps has not asked for those behind the cut. */
static void a_cut_page_drops_no_gap(void **state)
{
	(void)state;
	struct reader *reader = reader_new(&settings);
	(void)read_page(reader, NOW, 1, 1);
	(void)read_page(reader, NOW, 100, 1); /* 2 to 99 are missing */
	assert_true(reader_list(reader, NOW));
	assert_false(reader_list(reader, NOW)); /* one at a time */
	reader_listed(reader, NULL, 0);
	assert_false(reader_list(reader, NOW)); /* and not at once again */
	(void)read_page(reader, NOW, 2, 10);
	assert_int_equal(reader_wait(reader, NOW), 0);
	struct reader_poll poll = next(reader, NOW);
	assert_int_equal(poll.gaps, 1);
	assert_int_equal(reader_gaps(reader)[0].first, 12);
	(void)answer(reader, &poll, NOW, 12, 9);
	poll = next(reader, NOW);
	assert_int_equal(poll.gaps, 0); /* 21 to 99 were asked for and are not there */
	reader_free(reader);
}

/* A transaction that commits late has rows on both sides of a cursor: those below come first. */
static void the_second_cursor_asks_for_the_gaps_below_it(void **state)
{
	(void)state;
	static const enum reader_cursor jobs[] = { READER_SWEEP, READER_CATCH_UP, READER_PROBE };
	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		struct reader *reader = reader_new(&settings);
		(void)read_page(reader, NOW, 1, 2);
		(void)read_page(reader, NOW, 4, 10); /* 3 is missing */
		(void)read_page(reader, NOW, 15, 9); /* 14 too */
		reader_begin(reader, jobs[i], 1);
		struct reader_poll poll = next(reader, NOW);
		assert_int_equal(poll.gaps, 0);
		assert_false(answer(reader, &poll, NOW, 1, 10));
		poll = next_of(reader, jobs[i], NOW);
		assert_int_equal(poll.after, 10);
		assert_int_equal(poll.gaps, jobs[i] == READER_SWEEP ? 0 : 1); /* it saw 3 */
		reader_free(reader);
	}
}

/* A page of rows in the gaps alone moves no cursor back; when such pages go on and on, for rows in
 * merged gaps are known, one poll goes past them. */
static void pages_of_gaps_alone_do_not_hold_up_a_job(void **state)
{
	(void)state;
	struct reader *reader = reader_new(&settings);
	(void)read_page(reader, NOW, 1, 1);
	(void)read_page(reader, NOW, 20, 10); /* 2 to 19 are missing */
	(void)read_page(reader, NOW, 30, 9);
	reader_begin(reader, READER_CATCH_UP, 25);
	usec_t now = NOW;
	for (; now <= NOW + USEC_SEC + 50 * USEC_MS; now += 50 * USEC_MS) {
		const struct reader_poll poll = next_of(reader, READER_CATCH_UP, now);
		assert_int_equal(poll.after, 24);
		assert_int_equal(poll.gaps, 1);
		assert_false(answer(reader, &poll, now, 2, 10));
	}
	const struct reader_poll poll = next_of(reader, READER_CATCH_UP, now);
	assert_int_equal(poll.gaps, 0);
	assert_false(answer(reader, &poll, now, 25, 10));
	const struct reader_poll again = next_of(reader, READER_CATCH_UP, now);
	assert_int_equal(again.after, 34);
	assert_int_equal(again.gaps, 1);
	reader_free(reader);
}

/* Nor the next job: a probe is a single page, and each may be full of them. */
static void jobs_of_one_page_are_not_held_up_either(void **state)
{
	(void)state;
	struct reader *reader = reader_new(&settings);
	(void)read_page(reader, NOW, 1, 1);
	(void)read_page(reader, NOW, 20, 10);
	(void)read_page(reader, NOW, 30, 9);
	size_t past = 0;
	for (usec_t now = NOW; now <= NOW + 2 * USEC_SEC; now += 50 * USEC_MS) {
		reader_begin(reader, READER_PROBE, 25);
		const struct reader_poll poll = next_of(reader, READER_PROBE, now);
		(void)answer(reader, &poll, now, poll.gaps > 0 ? 2 : 25, 10);
		reader_end(reader);
		past += poll.gaps == 0;
	}
	assert_int_equal(past, 10); /* every other one, after a second */
	reader_free(reader);
}

/* Pages that are full of what was committed late are no jam: whatever it is, it must come first. */
static void a_page_of_news_in_the_gaps_is_no_jam(void **state)
{
	(void)state;
	struct reader *reader = reader_new(&settings);
	(void)read_page(reader, NOW, 1, 1);
	(void)read_page(reader, NOW, 5000, 10); /* 2 to 4999 are missing */
	reader_begin(reader, READER_SWEEP, 5005);
	for (int64_t id = 2; id < 1000; id += 10) {
		usec_t now = NOW + id * 10 * USEC_MS;
		const struct reader_poll poll = next_of(reader, READER_SWEEP, now);
		assert_int_equal(poll.gaps, 1);
		assert_false(answer(reader, &poll, now, id, 10));
	}
	reader_free(reader);
}

/* Whoever takes rows of some topics only leaves the others to the head: it must go on asking. */
static void only_who_takes_all_rows_fills_gaps(void **state)
{
	(void)state;
	static const struct {
		enum reader_cursor job;
		size_t left;
	} jobs[] = { { READER_SWEEP, 0 }, { READER_CATCH_UP, 1 }, { READER_PROBE, 1 } };
	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		struct reader *reader = reader_new(&settings);
		(void)read_page(reader, NOW, 1, 2);
		(void)read_page(reader, NOW, 4, 2); /* 3 is missing */
		reader_begin(reader, jobs[i].job, 1);
		struct reader_poll poll = next(reader, NOW);
		assert_int_equal(poll.cursor, jobs[i].job);
		(void)answer(reader, &poll, NOW, 1, 5);
		assert_int_equal(reader_gap_count(reader), jobs[i].left);
		reader_free(reader);
	}
}

/* Ids that are not drawn inside the insert: the holders of the lock tell nothing, and a gap is kept
 * until a sweep has begun after it was noticed and come to its end. */
static void other_sources_keep_gaps_for_a_whole_sweep(void **state)
{
	(void)state;
	struct reader *reader = reader_new(&settings);
	reader_set_sequential(reader, false);
	(void)read_page(reader, NOW, 1, 2);
	(void)read_page(reader, NOW, 4, 2); /* 3 is missing */
	assert_false(reader_list(reader, NOW));
	usec_t now = NOW + 5 * USEC_SEC;
	struct reader_poll poll = next_of(reader, READER_SWEEP, now);
	poll.rows = 2;
	assert_false(answer(reader, &poll, now, 1, 2));
	reader_rewind(reader, READER_ALL);
	assert_true(reader_idle(reader)); /* it has begun and not come to its end */
	poll = next_of(reader, READER_HEAD, now + 100 * USEC_MS);
	(void)answer(reader, &poll, now, 4, 2);
	assert_int_equal(reader_gap_count(reader), 1);
	poll = next_of(reader, READER_SWEEP, now);
	const struct reader_poll head = next_of(reader, READER_HEAD, now + 200 * USEC_MS);
	(void)answer(reader, &head, now, 8, 1); /* 6 and 7 are missing, too late for this one */
	assert_true(answer(reader, &poll, now, 4, 2));
	assert_int_equal(reader_gap_count(reader), 2);
	poll = next_of(reader, READER_HEAD, now + 300 * USEC_MS);
	(void)answer(reader, &poll, now, 0, 0); /* one more poll has asked for it */
	assert_int_equal(reader_gap_count(reader), 1);
	assert_int_equal(reader_gaps(reader)[0].first, 6);
	reader_free(reader);
}

static void a_restart_forgets_gaps_and_jobs(void **state)
{
	(void)state;
	struct reader *reader = reader_new(&settings);
	(void)read_page(reader, NOW, 1, 2);
	(void)read_page(reader, NOW, 9, 1);
	reader_begin(reader, READER_CATCH_UP, 1);
	reader_restart(reader);
	assert_true(reader_idle(reader));
	assert_int_equal(reader_gap_count(reader), 0);
	assert_true(position(reader, NOW) == READER_ALL);
	assert_false(reader_sweep_due(reader, NOW + 100 * USEC_SEC)); /* it is one by itself */
	reader_free(reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_goes_upward),
		cmocka_unit_test(it_knows_how_far_all_was_met),
		cmocka_unit_test(it_is_fast_when_busy_and_slow_when_idle),
		cmocka_unit_test(it_leaves_the_server_half_of_the_time),
		cmocka_unit_test(going_back_makes_a_poll_on_its_way_void),
		cmocka_unit_test(rows_before_the_start_are_nobody_s_business),
		cmocka_unit_test(a_pause_is_kept_by_both),
		cmocka_unit_test(the_cursors_take_turns),
		cmocka_unit_test(short_jobs_leave_the_head_its_turns),
		cmocka_unit_test(a_job_does_not_wait_for_an_idle_head),
		cmocka_unit_test(no_job_passes_the_head),
		cmocka_unit_test(going_back_ends_a_job_that_would_be_ahead),
		cmocka_unit_test(what_a_job_did_not_take_is_read_again),
		cmocka_unit_test(sweeps_come_and_end),
		cmocka_unit_test(a_sweep_that_finds_only_newer_rows_is_over),
		cmocka_unit_test(a_long_sweep_is_seldom),
		cmocka_unit_test(gaps_are_asked_for_below_the_position_only),
		cmocka_unit_test(a_cut_page_drops_no_gap),
		cmocka_unit_test(the_second_cursor_asks_for_the_gaps_below_it),
		cmocka_unit_test(pages_of_gaps_alone_do_not_hold_up_a_job),
		cmocka_unit_test(jobs_of_one_page_are_not_held_up_either),
		cmocka_unit_test(a_page_of_news_in_the_gaps_is_no_jam),
		cmocka_unit_test(only_who_takes_all_rows_fills_gaps),
		cmocka_unit_test(other_sources_keep_gaps_for_a_whole_sweep),
		cmocka_unit_test(a_restart_forgets_gaps_and_jobs),
	};
	return cmocka_run_group_tests_name("reader", tests, NULL, NULL);
}
