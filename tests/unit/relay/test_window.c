/* The rows in flight: their states, their counts, their index. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "window.h"

static struct window_row *put(struct window *window, int64_t id, uint32_t lane, uint32_t bytes)
{
	unsigned char event_id[WINDOW_UUID] = { 0 };
	memcpy(event_id, &id, sizeof(id));
	const struct window_claim claim = {
		.id = id, .event_id = event_id, .hash = 7, .lane = lane, .bytes = bytes
	};
	return window_add(window, &claim);
}

static size_t room(const struct window *window)
{
	size_t bytes;
	return window_room(window, &bytes);
}

static void a_row_goes_its_way(void **state)
{
	(void)state;
	struct window *window = window_new(80, 8000);
	struct window_row *row = put(window, 42, 1, 100);
	assert_ptr_equal(window_find(window, 42), row);
	assert_int_equal(row->state, WINDOW_IN_FLIGHT);
	assert_int_equal(window_in_flight(window), 1);

	window_ack(window, row);
	assert_int_equal(row->state, WINDOW_ACKED);
	assert_int_equal(window_in_flight(window), 0);
	assert_int_equal(window_acked(window), 1);
	assert_ptr_equal(window_find(window, 42), row);

	struct window_row *rows[4];
	assert_int_equal(window_take(window, rows, 4), 1);
	assert_int_equal(row->state, WINDOW_DELETING);
	assert_int_equal(window_acked(window), 0);
	assert_int_equal(window_undeleted(window), 1);
	assert_int_equal(window_take(window, rows, 4), 0);

	window_deleted(window, row);
	assert_null(window_find(window, 42));
	assert_int_equal(window_undeleted(window), 0);
	window_free(window);
}

static void a_lost_deletion_is_repeated(void **state)
{
	(void)state;
	struct window *window = window_new(80, 8000);
	struct window_row *rows[4];
	window_ack(window, put(window, 1, 1, 1));
	window_ack(window, put(window, 2, 1, 1));
	assert_int_equal(window_take(window, rows, 1), 1);
	assert_int_equal(rows[0]->id, 1);
	window_keep(window, rows[0], true);
	assert_int_equal(window_take(window, rows, 4), 2);
	assert_int_equal(rows[0]->id, 2);
	assert_false(rows[0]->again);
	assert_int_equal(rows[1]->id, 1);
	assert_true(rows[1]->again);
	window_keep(window, rows[1], false);
	assert_true(rows[1]->again); /* once in doubt, always in doubt */
	window_free(window);
}

static void a_partition_has_an_eighth(void **state)
{
	(void)state;
	struct window *window = window_new(80, 8000);
	size_t bytes;
	assert_int_equal(window_room(window, &bytes), 10);
	assert_int_equal(bytes, 1000);
	for (int64_t id = 1; id <= 9; id++)
		put(window, id, 5, 50);
	assert_int_equal(window_room(window, &bytes), 1);
	assert_int_equal(bytes, 550);
	struct window_row *last = put(window, 10, 5, 700);
	assert_int_equal(window_room(window, &bytes), 0);
	assert_int_equal(bytes, 0);
	window_drop(window, last);
	assert_int_equal(room(window), 1);
	window_free(window);
}

static void the_whole_is_bounded_too(void **state)
{
	(void)state;
	struct window *window = window_new(16, 100000);
	for (int64_t id = 1; id <= 16; id++)
		put(window, id, (uint32_t)id % 15, 10);
	assert_int_equal(room(window), 0);
	window_free(window);
}

/* What waits for its deletion takes room as well, or a slow DELETE would let it grow. */
static void undeleted_rows_are_bounded(void **state)
{
	(void)state;
	struct window *window = window_new(8, 100000);
	for (int64_t id = 1; id <= 16; id++) {
		assert_int_equal(room(window), 1);
		window_ack(window, put(window, id, 0, 10));
	}
	assert_int_equal(room(window), 0);
	struct window_row *rows[16];
	assert_int_equal(window_take(window, rows, 16), 16);
	assert_int_equal(room(window), 0);
	window_deleted(window, rows[3]);
	assert_int_equal(room(window), 1);
	window_free(window);
}

static void forgetting_takes_what_is_in_flight_only(void **state)
{
	(void)state;
	struct window *window = window_new(80, 8000);
	struct window_row *rows[4];
	put(window, 1, 1, 1);
	window_ack(window, put(window, 2, 1, 1));
	window_ack(window, put(window, 3, 1, 1));
	put(window, 4, 2, 1);
	assert_int_equal(window_take(window, rows, 1), 1);
	assert_int_equal(window_forget(window), 2);
	assert_null(window_find(window, 1));
	assert_non_null(window_find(window, 2));
	assert_non_null(window_find(window, 3));
	assert_null(window_find(window, 4));
	window_doubt(window);
	assert_true(window_find(window, 3)->again);
	assert_int_equal(window_forget_acked(window), 1);
	assert_null(window_find(window, 3));
	assert_int_equal(window_undeleted(window), 1);
	window_deleted(window, rows[0]);
	assert_int_equal(room(window), 10);
	window_free(window);
}

static void an_unknown_partition_and_the_first_are_apart(void **state)
{
	(void)state;
	assert_int_not_equal(window_lane(99, -1), window_lane(99, 0));
	assert_int_not_equal(window_lane(99, 0), window_lane(99, 1));
	assert_true(window_lane(UINT32_MAX, 7) < 1024);
}

/* Removal moves entries back in the open addressing: every id must stay findable. */
static void the_index_survives_much_coming_and_going(void **state)
{
	(void)state;
	enum { ROWS = 512, ROUNDS = 20000 };
	struct window *window = window_new(ROWS, 1000000000);
	struct window_row *held[64] = { NULL };
	uint64_t chance = 1;
	int64_t id = 1;
	for (int round = 0; round < ROUNDS; round++) {
		chance = chance * 6364136223846793005ULL + 1442695040888963407ULL;
		size_t at = chance >> 58;
		if (held[at]) {
			int64_t gone = held[at]->id;
			window_drop(window, held[at]);
			held[at] = NULL;
			assert_null(window_find(window, gone));
		} else {
			id += (int64_t)(chance >> 40 & 0xffff) + 1;
			held[at] = put(window, id, (uint32_t)at, 1);
		}
		for (size_t i = 0; i < 64; i++)
			if (held[i])
				assert_ptr_equal(window_find(window, held[i]->id), held[i]);
	}
	window_free(window);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_row_goes_its_way),
		cmocka_unit_test(a_lost_deletion_is_repeated),
		cmocka_unit_test(a_partition_has_an_eighth),
		cmocka_unit_test(the_whole_is_bounded_too),
		cmocka_unit_test(undeleted_rows_are_bounded),
		cmocka_unit_test(forgetting_takes_what_is_in_flight_only),
		cmocka_unit_test(an_unknown_partition_and_the_first_are_apart),
		cmocka_unit_test(the_index_survives_much_coming_and_going),
	};
	return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}
