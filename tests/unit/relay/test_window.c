/* The rows between fetch and deletion: their states, their counts, their index; room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "publishing/window.h"

#define NOW (1000 * USEC_SEC)

static struct window_row *put(struct window *window, int64_t id, uint64_t lane, uint32_t bytes)
{
	unsigned char event_id[WINDOW_UUID] = { 0 };
	memcpy(event_id, &id, sizeof(id));
	const struct window_claim claim = {
		.id = id, .event_id = event_id, .hash = 7, .lane = lane, .bytes = bytes
	};
	return window_add(window, &claim, NOW);
}

static size_t room(struct window *window)
{
	size_t bytes;
	return window_room(window, NOW, &bytes);
}

static void a_row_goes_its_way(void **state)
{
	(void)state;
	struct window *window = window_new(80, 8000);
	struct window_row *row = put(window, 42, 1, 100);
	assert_ptr_equal(window_find(window, 42), row);
	assert_int_equal(row->state, WINDOW_IN_FLIGHT);
	assert_int_equal(window_in_flight(window), 1);

	window_ack(window, row, NOW);
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
	window_ack(window, put(window, 1, 1, 1), NOW);
	window_ack(window, put(window, 2, 1, 1), NOW);
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
	assert_int_equal(window_room(window, NOW, &bytes), 10);
	assert_int_equal(bytes, 1000);
	for (int64_t id = 1; id <= 9; id++)
		put(window, id, 5, 50);
	assert_int_equal(window_room(window, NOW, &bytes), 1);
	assert_int_equal(bytes, 550);
	struct window_row *last = put(window, 10, 5, 700);
	assert_int_equal(window_room(window, NOW, &bytes), 0);
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
		window_ack(window, put(window, id, 0, 10), NOW);
	}
	assert_int_equal(room(window), 0);
	struct window_row *rows[16];
	assert_int_equal(window_take(window, rows, 16), 16);
	assert_int_equal(room(window), 0);
	window_deleted(window, rows[3]);
	assert_int_equal(room(window), 1);
	window_free(window);
}

static void drop(void *arg, struct window_row *row)
{
	window_drop(arg, row);
}

static void what_is_in_flight_can_be_dropped_while_it_is_gone_through(void **state)
{
	(void)state;
	struct window *window = window_new(80, 8000);
	struct window_row *rows[4];
	put(window, 1, 1, 1);
	window_ack(window, put(window, 2, 1, 1), NOW);
	window_ack(window, put(window, 3, 1, 1), NOW);
	put(window, 4, 2, 1);
	assert_int_equal(window_take(window, rows, 1), 1);
	window_each(window, drop, window);
	assert_int_equal(window_in_flight(window), 0);
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

/* A lane that stands still is not reckoned with when rows are fetched; whether it has room for one
 * of them is asked then. One that moves, or has only just begun, has. */
static void lanes_that_stand_still_hold_up_nobody(void **state)
{
	(void)state;
	static const struct {
		size_t rows;
		uint32_t bytes; /* of each */
		usec_t still;   /* since its last report */
		size_t room;    /* of 10 and 1000, for all lanes */
		size_t room_bytes;
		bool fits;
		bool eased;
	} lanes[] = {
		{ 0, 0, 0, 10, 1000, true, true },
		{ 5, 100, 0, 5, 500, true, true },
		{ 6, 10, WINDOW_STILL, 4, 940, true, false },
		{ 2, 300, 0, 8, 400, true, false },
		{ 10, 10, WINDOW_STILL, 0, 900, true, false },
		{ 10, 10, WINDOW_STILL + 1, 10, 1000, false, false },
		{ 2, 500, WINDOW_STILL + 1, 10, 1000, false, false },
		{ 9, 10, 5 * USEC_SEC, 10, 1000, true, false },
		{ 3, 10, 5 * USEC_SEC, 10, 1000, true, true },
	};
	for (size_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++) {
		struct window *window = window_new(80, 8000);
		usec_t now = NOW + lanes[i].still;
		size_t bytes;
		for (size_t row = 0; row < lanes[i].rows; row++)
			put(window, (int64_t)row + 1, 5, lanes[i].bytes);
		assert_int_equal(window_room(window, now, &bytes), lanes[i].room);
		assert_int_equal(bytes, lanes[i].room_bytes);
		assert_int_equal(window_fits(window, 5, NULL, now), lanes[i].fits);
		assert_int_equal(window_eased(window, 5, NULL, NOW), lanes[i].eased);
		assert_true(window_fits(window, 6, NULL, now));
		window_free(window);
	}
}

/* With no time told, none stands still. */
static void a_report_moves_a_lane(void **state)
{
	(void)state;
	struct window *window = window_new(80, 8000);
	size_t bytes;
	for (int64_t id = 1; id <= 10; id++)
		put(window, id, 5, 1);
	usec_t later = NOW + 2 * WINDOW_STILL;
	assert_int_equal(window_room(window, 0, &bytes), 0);
	assert_int_equal(window_room(window, later, &bytes), 10);
	window_ack(window, window_find(window, 3), later);
	assert_int_equal(window_room(window, later, &bytes), 1);
	assert_true(window_fits(window, 5, NULL, later));
	window_free(window);
}

static struct window_row *put_of(struct window *window, int64_t id, uint64_t lane,
				 struct topic *topic, usec_t now)
{
	unsigned char event_id[WINDOW_UUID] = { 0 };
	const struct window_claim claim = {
		.id = id, .event_id = event_id, .lane = lane, .bytes = 1, .topic = topic
	};
	struct window_row *row = window_add(window, &claim, now);
	row->fetched = now;
	return row;
}

static void report(struct window *window, int64_t id, usec_t now)
{
	struct window_row *row;
	window_ack(window, window_find(window, id), now);
	(void)window_take(window, &row, 1);
	window_deleted(window, row);
}

/* A topic whose rows are overtaken by far younger ones is no longer reckoned with when rows are
 * fetched, though it moves; all that is slow has a part of the window. */
static void slow_topics_hold_up_nobody(void **state)
{
	(void)state;
	struct window *window = window_new(80, 8000);
	static struct topic quick, slow;
	size_t bytes;
	for (int64_t id = 1; id <= 10; id++)
		(void)put_of(window, id, 5, &slow, NOW);
	usec_t now = NOW + WINDOW_SLOW + 1;
	(void)put_of(window, 11, 6, &quick, now);
	report(window, 11, now);
	report(window, 1, now);
	assert_int_equal(window_room(window, now, &bytes), 10);
	assert_true(window_fits(window, 5, &slow, now)); /* the tenth */
	(void)put_of(window, 12, 5, &slow, now);
	assert_false(window_fits(window, 5, &slow, now));
	assert_true(window_fits(window, 7, &slow, now));
	for (int64_t id = 20; id < 40; id++)
		(void)put_of(window, id, id < 30 ? 7 : 8, &slow, now);
	assert_false(window_fits(window, 9, &slow, now)); /* 3/8 of all */
	assert_true(window_fits(window, 9, &quick, now));
	assert_false(window_eased(window, 9, &slow, now));
	for (int64_t id = 2; id <= 10; id++)
		report(window, id, now + 1);
	assert_true(window_fits(window, 9, &slow, now));
	assert_false(window_eased(window, 9, &slow, now));
	report(window, 20, now + 1);
	assert_true(window_eased(window, 9, &slow, now)); /* 1/4 */
	now += 3 * USEC_SEC;
	assert_int_equal(window_room(window, now, &bytes), 10); /* those stand still */
	(void)put_of(window, 40, 9, &slow, now);
	assert_int_equal(window_room(window, now, &bytes), 9);
	window_free(window);
}

/* When all take long nobody is passed over: the machine is slow, or the window is full. */
static void nobody_is_slow_where_all_are(void **state)
{
	(void)state;
	struct window *window = window_new(80, 8000);
	static struct topic topics[2];
	size_t bytes;
	for (int64_t id = 1; id <= 10; id++)
		(void)put_of(window, id, (uint64_t)id % 2, &topics[id % 2], NOW);
	for (int64_t id = 1; id <= 8; id++)
		report(window, id, NOW + USEC_SEC + id * 100 * USEC_MS);
	assert_int_equal(topics[0].slow_until + topics[1].slow_until, 0);
	assert_int_equal(window_room(window, NOW + 2 * USEC_SEC, &bytes), 9);
	window_free(window);
}

/* Nor is one that is overtaken by its own rows alone: there is nobody else to go on. */
static void nobody_is_slow_beside_himself(void **state)
{
	(void)state;
	struct window *window = window_new(80, 8000);
	static struct topic only, other;
	for (int64_t id = 1; id <= 10; id++)
		(void)put_of(window, id, (uint64_t)id % 2, id == 1 ? &other : &only,
			     NOW + id * USEC_SEC);
	report(window, 1, NOW + 11 * USEC_SEC);
	for (int64_t id = 10; id > 1; id--)
		report(window, id, NOW + 12 * USEC_SEC);
	assert_int_equal(only.slow_until, 0);
	(void)put_of(window, 11, 1, &other, NOW);
	report(window, 11, NOW + 12 * USEC_SEC);
	assert_true(other.slow_until > NOW + 12 * USEC_SEC);
	window_free(window);
}

static void condemned_rows_take_room(void **state)
{
	(void)state;
	struct window *window = window_new(8, 100000);
	static const uint8_t event_id[WINDOW_UUID] = { 1, 2, 3 };
	struct window_row *rows[16];
	for (int64_t id = 1; id <= 16; id++) {
		const struct window_claim claim = { .id = id, .event_id = event_id, .order = 9 };
		assert_int_equal(room(window), 1);
		rows[id - 1] = window_condemn(window, &claim);
		assert_int_equal(rows[id - 1]->state, WINDOW_CONDEMNED);
		assert_int_equal(rows[id - 1]->order, 9);
		assert_memory_equal(rows[id - 1]->event_id, event_id, WINDOW_UUID);
	}
	assert_int_equal(room(window), 0);
	assert_int_equal(window_in_flight(window), 0);
	assert_int_equal(window_undeleted(window), 0);
	assert_ptr_equal(window_find(window, 7), rows[6]);
	window_bury(window, rows[6]);
	assert_null(window_find(window, 7));
	assert_int_equal(room(window), 1);
	window_free(window);
}

static void an_unknown_partition_and_the_first_are_apart(void **state)
{
	(void)state;
	assert_int_not_equal(window_lane(99, -1), window_lane(99, 0));
	assert_int_not_equal(window_lane(99, 0), window_lane(99, 1));
	assert_int_not_equal(window_lane(98, 1), window_lane(99, 0));
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
		cmocka_unit_test(what_is_in_flight_can_be_dropped_while_it_is_gone_through),
		cmocka_unit_test(lanes_that_stand_still_hold_up_nobody),
		cmocka_unit_test(a_report_moves_a_lane),
		cmocka_unit_test(slow_topics_hold_up_nobody),
		cmocka_unit_test(nobody_is_slow_where_all_are),
		cmocka_unit_test(nobody_is_slow_beside_himself),
		cmocka_unit_test(condemned_rows_take_room),
		cmocka_unit_test(an_unknown_partition_and_the_first_are_apart),
		cmocka_unit_test(the_index_survives_much_coming_and_going),
	};
	return cmocka_run_group_tests_name("window", tests, NULL, NULL);
}
