/* The reader: position, pace, sweeps, and what makes it go back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reader.h"

#define NOW (1000 * USEC_SEC)

static const struct reader_settings settings = {
	.batch = 10,
	.batch_bytes = 1000,
	.poll_busy = 2 * USEC_MS,
	.poll_idle = 25 * USEC_MS,
	.sweep = 5 * USEC_SEC,
	.gaps_max = 100,
};

/* One poll that takes no time and is answered with so many rows from `first` on. */
static bool read_page(struct reader *reader, usec_t now, int64_t first, size_t rows)
{
	struct reader_poll poll;
	struct reader_page page = { .rows = rows, .bytes = rows };
	(void)reader_next(reader, now, 1000, 1000000, &poll);
	for (size_t i = 0; i < rows; i++) {
		page.last = first + (int64_t)i;
		page.above += page.last > poll.after;
		reader_saw(reader, page.last);
	}
	return reader_answered(reader, &poll, &page, now);
}

static int64_t position(struct reader *reader, usec_t now)
{
	struct reader_poll poll;
	(void)reader_next(reader, now, 1, 1, &poll);
	return poll.after;
}

static void it_goes_upward(void **state)
{
	(void)state;
	struct reader *reader = reader_new(&settings);
	struct reader_poll poll;
	assert_int_equal(reader_wait(reader, NOW), 0);
	assert_true(reader_next(reader, NOW, 1000, 500, &poll)); /* the first sweep */
	assert_true(poll.after == READER_ALL);
	assert_int_equal(poll.rows, 10);
	assert_int_equal(poll.bytes, 500);
	(void)read_page(reader, NOW, 1, 10);
	assert_int_equal(position(reader, NOW), 10);
	(void)read_page(reader, NOW, 11, 3);
	assert_int_equal(position(reader, NOW), 13);
	(void)read_page(reader, NOW, 0, 0);
	assert_int_equal(position(reader, NOW), 13);
	reader_free(reader);
}

static void it_is_fast_when_busy_and_slow_when_idle(void **state)
{
	(void)state;
	struct reader *reader = reader_new(&settings);
	(void)read_page(reader, NOW, 1, 10);
	assert_int_equal(reader_wait(reader, NOW), 0); /* a full page: there is more */
	(void)read_page(reader, NOW, 11, 1);
	assert_int_equal(reader_wait(reader, NOW), 2 * USEC_MS);
	static const usec_t waits[] = { 4 * USEC_MS, 8 * USEC_MS, 16 * USEC_MS, 25 * USEC_MS,
					25 * USEC_MS };
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		(void)read_page(reader, NOW, 0, 0);
		assert_int_equal(reader_wait(reader, NOW), waits[i]);
	}
	(void)read_page(reader, NOW, 12, 1);
	assert_int_equal(reader_wait(reader, NOW), 2 * USEC_MS);
	reader_free(reader);
}

/* A poll that takes the server long is not repeated at once. */
static void it_leaves_the_server_half_of_the_time(void **state)
{
	(void)state;
	struct reader *reader = reader_new(&settings);
	const struct reader_page page = { .rows = 1, .bytes = 1, .above = 1, .last = 1 };
	struct reader_poll poll;
	(void)reader_next(reader, NOW, 10, 1000, &poll);
	(void)reader_answered(reader, &poll, &page, NOW + 80 * USEC_MS);
	assert_int_equal(reader_wait(reader, NOW + 80 * USEC_MS), 80 * USEC_MS);
	reader_free(reader);
}

/* A poll that stood behind a lock for ten seconds: neither it nor the sweep rests as long. */
static void a_blocked_poll_is_not_a_costly_one(void **state)
{
	(void)state;
	struct reader *reader = reader_new(&settings);
	const struct reader_page page = { .rows = 1, .bytes = 1, .above = 1, .last = 1 };
	usec_t unlocked = NOW + 10 * USEC_SEC;
	struct reader_poll poll;
	assert_true(reader_next(reader, NOW, 10, 1000, &poll));
	assert_true(reader_answered(reader, &poll, &page, unlocked));
	assert_int_equal(reader_wait(reader, unlocked), USEC_SEC);
	assert_false(reader_next(reader, unlocked + 19 * USEC_SEC, 10, 1000, &poll));
	assert_true(reader_next(reader, unlocked + 20 * USEC_SEC, 10, 1000, &poll));
	reader_free(reader);
}

static void going_back_makes_a_poll_on_its_way_void(void **state)
{
	(void)state;
	struct reader *reader = reader_new(&settings);
	struct reader_poll poll;
	(void)read_page(reader, NOW, 1, 10);
	(void)reader_next(reader, NOW, 10, 1000, &poll);
	assert_true(reader_accepts(reader, &poll));
	reader_rewind(reader, 4);
	assert_false(reader_accepts(reader, &poll));
	assert_int_equal(position(reader, NOW), 3);
	reader_rewind(reader, 9); /* never forward */
	assert_int_equal(position(reader, NOW), 3);
	reader_rewind(reader, READER_ALL);
	assert_true(position(reader, NOW) == READER_ALL);
	reader_free(reader);
}

static void sweeps_come_and_end(void **state)
{
	(void)state;
	struct reader *reader = reader_new(&settings);
	struct reader_poll poll;
	usec_t now = NOW;
	assert_true(read_page(reader, now, 1, 10)); /* with nothing known it ends with one page */
	assert_false(read_page(reader, now, 11, 10));
	assert_false(read_page(reader, now, 21, 5));
	now += 5 * USEC_SEC;
	assert_true(reader_next(reader, now, 10, 1000, &poll));
	assert_true(poll.after == READER_ALL);
	const struct reader_page first = { .rows = 10, .bytes = 10, .above = 10, .last = 19 };
	assert_false(reader_answered(reader, &poll, &first, now));
	assert_false(reader_next(reader, now, 10, 1000, &poll));
	assert_int_equal(poll.after, 19);
	const struct reader_page last = { .rows = 10, .bytes = 10, .above = 10, .last = 40 };
	assert_true(reader_answered(reader, &poll, &last, now)); /* 25 was the highest */
	assert_false(reader_next(reader, now, 10, 1000, &poll));
	reader_free(reader);
}

static void a_long_sweep_is_seldom(void **state)
{
	(void)state;
	struct reader *reader = reader_new(&settings);
	struct reader_poll poll;
	const struct reader_page page = { .rows = 1, .bytes = 1, .above = 1, .last = 1 };
	(void)reader_next(reader, NOW, 10, 1000, &poll);
	assert_true(reader_answered(reader, &poll, &page, NOW + USEC_SEC));
	assert_false(reader_next(reader, NOW + 20 * USEC_SEC, 10, 1000, &poll));
	assert_true(reader_next(reader, NOW + 21 * USEC_SEC, 10, 1000, &poll));
	reader_free(reader);
}

static void gaps_are_asked_for_below_the_position_only(void **state)
{
	(void)state;
	struct reader *reader = reader_new(&settings);
	struct reader_poll poll;
	(void)read_page(reader, NOW, 1, 2);
	(void)read_page(reader, NOW, 5, 1); /* 3 and 4 are missing */
	(void)read_page(reader, NOW, 8, 1); /* 6 and 7 too */
	(void)reader_next(reader, NOW, 10, 1000, &poll);
	assert_int_equal(poll.gaps, 2);
	assert_true(poll.all_gaps);
	assert_int_equal(reader_gaps(reader)[0].first, 3);
	assert_int_equal(reader_gaps(reader)[0].last, 4);
	reader_rewind(reader, 4);
	(void)reader_next(reader, NOW, 10, 1000, &poll);
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
	struct reader_poll poll;
	(void)read_page(reader, NOW, 1, 1);
	(void)read_page(reader, NOW, 100, 1); /* 2 to 99 are missing */
	assert_true(reader_list(reader, NOW));
	assert_false(reader_list(reader, NOW)); /* one at a time */
	reader_listed(reader, NULL, 0);
	assert_false(reader_list(reader, NOW)); /* and not at once again */
	(void)read_page(reader, NOW, 2, 10);
	assert_int_equal(reader_wait(reader, NOW), 0);
	(void)reader_next(reader, NOW, 10, 1000, &poll);
	assert_int_equal(poll.gaps, 1);
	assert_int_equal(reader_gaps(reader)[0].first, 12);
	(void)read_page(reader, NOW, 12, 9);
	(void)reader_next(reader, NOW, 10, 1000, &poll);
	assert_int_equal(poll.gaps, 0); /* 21 to 99 were asked for and are not there */
	reader_free(reader);
}

static void a_pause_is_kept(void **state)
{
	(void)state;
	struct reader *reader = reader_new(&settings);
	reader_pause(reader, NOW + USEC_SEC);
	assert_int_equal(reader_wait(reader, NOW), USEC_SEC);
	reader_free(reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_goes_upward),
		cmocka_unit_test(it_is_fast_when_busy_and_slow_when_idle),
		cmocka_unit_test(it_leaves_the_server_half_of_the_time),
		cmocka_unit_test(a_blocked_poll_is_not_a_costly_one),
		cmocka_unit_test(going_back_makes_a_poll_on_its_way_void),
		cmocka_unit_test(sweeps_come_and_end),
		cmocka_unit_test(a_long_sweep_is_seldom),
		cmocka_unit_test(gaps_are_asked_for_below_the_position_only),
		cmocka_unit_test(a_cut_page_drops_no_gap),
		cmocka_unit_test(a_pause_is_kept),
	};
	return cmocka_run_group_tests_name("reader", tests, NULL, NULL);
}
