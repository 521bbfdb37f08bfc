/* Condemned rows on their way: taken in batches, moved or not, and the places that they hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "dead/burial.h"

struct fixture {
	struct window *window;
	struct burial *burial;
	struct burial_row *taken[BURIAL_ROWS];
};

static void begin(struct fixture *fixture)
{
	fixture->window = window_new(4000, 1000000);
	fixture->burial = burial_new(fixture->window);
}

static void end(struct fixture *fixture)
{
	burial_free(fixture->burial);
	window_free(fixture->window);
}

static void condemn(struct fixture *fixture, int64_t id)
{
	static const uint8_t event_id[WINDOW_UUID] = { 7 };
	char reason[32];
	const struct window_claim claim = { .id = id, .event_id = event_id, .order = 3 };
	const struct burial_row row = { .row = window_condemn(fixture->window, &claim),
					.size = id * 10,
					.parked = id % 2 };
	(void)snprintf(reason, sizeof(reason), "reason %d", (int)id);
	burial_add(fixture->burial, &row, reason);
}

static size_t take(struct fixture *fixture)
{
	return burial_take(fixture->burial, fixture->taken);
}

static void rows_come_in_their_order_with_what_is_said_of_them(void **state)
{
	(void)state;
	struct fixture fixture;
	char reason[32];
	begin(&fixture);
	assert_int_equal(take(&fixture), 0);
	for (int64_t id = 5; id >= 1; id--)
		condemn(&fixture, id);
	assert_int_equal(take(&fixture), 5);
	for (int i = 0; i < 5; i++) {
		const struct burial_row *row = fixture.taken[i];
		assert_int_equal(row->row->id, 5 - i);
		assert_int_equal(row->size, (5 - i) * 10);
		assert_int_equal(row->parked, (5 - i) % 2);
		(void)snprintf(reason, sizeof(reason), "reason %d", 5 - i);
		assert_string_equal(row->reason, reason);
	}
	assert_int_equal(take(&fixture), 0); /* one batch at a time */
	end(&fixture);
}

/* What was said to have been moved is gone, the rest comes again, behind what came meanwhile. */
static void what_was_not_moved_comes_again(void **state)
{
	(void)state;
	static const struct {
		int64_t moved[4];
		size_t moved_count;
		int64_t again[6];
		size_t again_count;
	} rows[] = {
		{ { 1, 2, 3, 4 }, 4, { 5 }, 1 },     { { 1, 4 }, 2, { 5, 2, 3 }, 3 },
		{ { 2, 3 }, 2, { 5, 1, 4 }, 3 },     { { 0 }, 0, { 5, 1, 2, 3, 4 }, 5 },
		{ { 77 }, 1, { 5, 1, 2, 3, 4 }, 5 },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fixture fixture;
		bool vanished = false;
		begin(&fixture);
		for (int64_t id = 1; id <= 4; id++)
			condemn(&fixture, id);
		assert_int_equal(take(&fixture), 4);
		condemn(&fixture, 5);
		assert_int_equal(
			burial_moved(fixture.burial, rows[i].moved, rows[i].moved_count, &vanished),
			rows[i].again_count - 1);
		assert_int_equal(burial_count(fixture.burial), rows[i].again_count);
		assert_int_equal(take(&fixture), rows[i].again_count);
		for (size_t j = 0; j < rows[i].again_count; j++) {
			assert_int_equal(fixture.taken[j]->row->id, rows[i].again[j]);
			assert_non_null(window_find(fixture.window, rows[i].again[j]));
		}
		for (size_t j = 0; j < rows[i].moved_count; j++)
			assert_null(window_find(fixture.window, rows[i].moved[j]));
		assert_false(vanished);
		end(&fixture);
	}
}

/* A dead one with the key that it held back. */
static void a_row_that_is_not_there_is_let_go(void **state)
{
	(void)state;
	for (int64_t id = 1; id <= 2; id++) { /* parked, and dead */
		struct fixture fixture;
		bool vanished = false;
		begin(&fixture);
		condemn(&fixture, id);
		for (int i = 1; i < BURIAL_TRIES; i++) {
			assert_int_equal(take(&fixture), 1);
			assert_int_equal(burial_moved(fixture.burial, NULL, 0, &vanished), 1);
			assert_int_equal(take(&fixture), 1);
			burial_kept(fixture.burial); /* was no attempt */
		}
		assert_int_equal(take(&fixture), 1);
		assert_false(vanished);
		assert_int_equal(burial_moved(fixture.burial, NULL, 0, &vanished), 0);
		assert_int_equal(vanished, id == 2);
		assert_int_equal(burial_count(fixture.burial), 0);
		assert_null(window_find(fixture.window, id));
		end(&fixture);
	}
}

static void a_statement_has_so_many_and_no_more(void **state)
{
	(void)state;
	struct fixture fixture;
	int64_t ids[BURIAL_ROWS];
	bool vanished = false;
	begin(&fixture);
	for (int64_t id = 1; id <= BURIAL_MAX; id++) {
		assert_false(burial_full(fixture.burial));
		condemn(&fixture, id);
	}
	assert_true(burial_full(fixture.burial));
	for (int64_t first = 1; first <= BURIAL_MAX; first += BURIAL_ROWS) {
		assert_int_equal(take(&fixture), BURIAL_ROWS);
		for (int i = 0; i < BURIAL_ROWS; i++)
			ids[i] = first + i;
		assert_int_equal(burial_moved(fixture.burial, ids, BURIAL_ROWS, &vanished), 0);
	}
	assert_int_equal(take(&fixture), 0);
	end(&fixture);
}

static void forgotten_rows_give_their_places_back(void **state)
{
	(void)state;
	for (int under_way = 0; under_way < 2; under_way++) {
		struct fixture fixture;
		size_t bytes, room;
		bool vanished = false;
		begin(&fixture);
		room = window_room(fixture.window, 0, &bytes);
		condemn(&fixture, 1);
		condemn(&fixture, 2);
		if (under_way)
			assert_int_equal(take(&fixture), 2);
		burial_forget(fixture.burial);
		assert_int_equal(burial_moved(fixture.burial, NULL, 0, &vanished), 0);
		assert_null(window_find(fixture.window, 1));
		assert_int_equal(window_room(fixture.window, 0, &bytes), room);
		condemn(&fixture, 2);
		assert_int_equal(take(&fixture), 1);
		end(&fixture);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_come_in_their_order_with_what_is_said_of_them),
		cmocka_unit_test(what_was_not_moved_comes_again),
		cmocka_unit_test(a_row_that_is_not_there_is_let_go),
		cmocka_unit_test(a_statement_has_so_many_and_no_more),
		cmocka_unit_test(forgotten_rows_give_their_places_back),
	};
	return cmocka_run_group_tests_name("burial", tests, NULL, NULL);
}
