/* The search for a row that crashes the relay: what each answer leads to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dead/suspects.h"

#define MS USEC_MS

/* --- one owner, step by step --- */

struct owner {
	struct suspects *suspects;
	struct suspects_view view;
};

static struct owner take(bool unclean)
{
	struct owner owner = { .suspects = suspects_new(),
			       .view = { .now = USEC_MIN, .connected = true, .may_poll = true } };
	suspects_begin(owner.suspects, unclean, owner.view.now);
	return owner;
}

static struct suspects_next expect(struct owner *owner, enum suspects_action action)
{
	struct suspects_next next = suspects_next(owner->suspects, &owner->view);
	assert_int_equal(next.action, action);
	return next;
}

static void expect_wait(struct owner *owner, usec_t wait)
{
	struct suspects_next next = expect(owner, SUSPECTS_NONE);
	assert_int_equal(next.wait, wait);
}

static void pass(struct owner *owner, usec_t time)
{
	owner->view.now += time;
}

static void read_record(struct owner *owner, const struct suspects_record *record)
{
	struct suspects_next next = expect(owner, SUSPECTS_READ);
	suspects_read(owner->suspects, next.number, record);
}

static void look(struct owner *owner, int64_t first, int64_t last,
		 const struct suspects_found *found)
{
	struct suspects_next next = expect(owner, SUSPECTS_LOOK);
	assert_int_equal(next.first, first);
	assert_int_equal(next.last, last);
	suspects_looked(owner->suspects, next.number, found, owner->view.now);
}

static void find_nothing(struct owner *owner, int64_t first, int64_t last)
{
	look(owner, first, last, &(struct suspects_found){ 0 });
}

static void expect_write(struct owner *owner, struct suspects_record record)
{
	struct suspects_next next = expect(owner, SUSPECTS_WRITE);
	assert_int_equal(next.record.first, record.first);
	assert_int_equal(next.record.last, record.last);
	assert_int_equal(next.record.crashes, record.crashes);
	assert_int_equal(next.record.alone, record.alone);
	assert_int_equal(next.record.alone_now, record.alone_now);
	suspects_done(owner->suspects, next.number, owner->view.now);
}

static void poll(struct owner *owner, int64_t first, int64_t last, int64_t upto)
{
	struct suspects_next next = expect(owner, SUSPECTS_POLL);
	assert_int_equal(next.first, first);
	assert_int_equal(next.last, last);
	suspects_page(owner->suspects, next.number, upto, owner->view.now);
}

static void done(struct owner *owner, enum suspects_action action)
{
	struct suspects_next next = expect(owner, action);
	suspects_done(owner->suspects, next.number, owner->view.now);
}

static void expect_off(struct owner *owner)
{
	expect_wait(owner, USEC_NEVER);
	assert_true(suspects_flow(owner->suspects));
	suspects_free(owner->suspects);
}

static void after_a_clean_stop_the_rows_flow(void **state)
{
	(void)state;
	struct owner owner = take(false);
	assert_false(suspects_flow(owner.suspects));
	read_record(&owner, NULL);
	expect_off(&owner);
}

static void with_nothing_waiting_there_is_no_record(void **state)
{
	(void)state;
	struct owner owner = take(true);
	read_record(&owner, NULL);
	find_nothing(&owner, INT64_MIN, INT64_MAX);
	expect_off(&owner);
}

/* The rows flow, and the record goes when they have passed. */
static void a_first_crash_slows_nothing_down(void **state)
{
	(void)state;
	struct owner owner = take(true);
	read_record(&owner, NULL);
	look(&owner, INT64_MIN, INT64_MAX, &(struct suspects_found){ 5, 90, 400, 11 });
	assert_false(suspects_flow(owner.suspects));
	expect_write(&owner, (struct suspects_record){ 5, 400, 1, 0, false });
	assert_true(suspects_flow(owner.suspects));
	expect_wait(&owner, USEC_SEC);
	pass(&owner, USEC_SEC);
	look(&owner, 5, 400, &(struct suspects_found){ 300, 300, 400, 1 });
	expect_wait(&owner, USEC_SEC);
	pass(&owner, USEC_SEC);
	find_nothing(&owner, 5, 400);
	done(&owner, SUSPECTS_ERASE);
	expect_off(&owner);
}

struct taking {
	const char *what;
	bool unclean;
	struct suspects_record before;
	struct suspects_found found; /* of the recorded range */
	struct suspects_record after;
	bool flow;
	enum suspects_action then;
	int64_t rows;
};

static const struct taking takings[] = {
	{ "one more crash",
	  true,
	  { 5, 400, 1, 0, false },
	  { 7, 90, 300, 65 },
	  { 7, 300, 2, 0, false },
	  false,
	  SUSPECTS_LOOK,
	  64 },
	{ "many rows",
	  true,
	  { 5, 4000, 1, 0, false },
	  { 7, 90, 3000, 1001 },
	  { 7, 3000, 2, 0, false },
	  false,
	  SUSPECTS_LOOK,
	  1000 },
	{ "many rows, often",
	  true,
	  { 5, 4000, 8, 0, false },
	  { 7, 90, 3000, 1001 },
	  { 7, 3000, 9, 0, false },
	  false,
	  SUSPECTS_LOOK,
	  1000 },
	{ "few rows at two crashes",
	  true,
	  { 5, 400, 1, 0, false },
	  { 5, 400, 400, 3 },
	  { 5, 400, 2, 0, false },
	  false,
	  SUSPECTS_LOOK,
	  64 },
	{ "few rows at three",
	  true,
	  { 5, 400, 2, 0, false },
	  { 5, 400, 400, 64 },
	  { 5, 400, 3, 0, false },
	  false,
	  SUSPECTS_LOOK,
	  1 },
	{ "65 rows at three",
	  true,
	  { 5, 400, 2, 0, false },
	  { 5, 400, 400, 65 },
	  { 5, 400, 3, 0, false },
	  false,
	  SUSPECTS_LOOK,
	  64 },
	{ "a clean stop is no crash",
	  false,
	  { 5, 400, 2, 0, false },
	  { 5, 400, 400, 3 },
	  { 5, 400, 2, 0, false },
	  false,
	  SUSPECTS_LOOK,
	  64 },
	{ "a clean stop after one crash",
	  false,
	  { 5, 400, 1, 0, false },
	  { 5, 400, 400, 3 },
	  { 5, 400, 1, 0, false },
	  true,
	  SUSPECTS_NONE,
	  0 },
	{ "a clean stop while it was alone",
	  false,
	  { 5, 5, 4, 1, true },
	  { 5, 5, 5, 1 },
	  { 5, 5, 4, 1, false },
	  false,
	  SUSPECTS_LOOK,
	  1 },
	{ "a crash while it was alone",
	  true,
	  { 5, 5, 4, 1, true },
	  { 5, 5, 5, 1 },
	  { 5, 5, 5, 2, false },
	  false,
	  SUSPECTS_LOOK,
	  1 },
	{ "a crash after it was alone for a while",
	  true,
	  { 5, 5, 4, 1, false },
	  { 5, 5, 5, 1 },
	  { 5, 5, 5, 1, false },
	  false,
	  SUSPECTS_LOOK,
	  1 },
	{ "alone at a third crash",
	  true,
	  { 5, 5, 6, 2, true },
	  { 5, 5, 5, 1 },
	  { 5, 5, 7, 3, false },
	  false,
	  SUSPECTS_BURY,
	  0 },
	{ "it was to be moved, and was not",
	  false,
	  { 5, 5, 7, 3, false },
	  { 5, 5, 5, 1 },
	  { 5, 5, 7, 3, false },
	  false,
	  SUSPECTS_BURY,
	  0 },
};

static void what_is_left_of_the_range_goes_on(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(takings) / sizeof(takings[0]); i++) {
		const struct taking *taking = &takings[i];
		print_message("%s\n", taking->what);
		struct owner owner = take(taking->unclean);
		read_record(&owner, &taking->before);
		look(&owner, taking->before.first, taking->before.last, &taking->found);
		expect_write(&owner, taking->after);
		assert_int_equal(suspects_flow(owner.suspects), taking->flow);
		if (taking->then == SUSPECTS_LOOK)
			find_nothing(&owner, INT64_MIN, taking->after.first - 1);
		struct suspects_next next = expect(&owner, taking->then);
		assert_int_equal(next.rows, taking->rows);
		suspects_free(owner.suspects);
	}
}

static void a_range_that_has_passed_is_forgotten(void **state)
{
	(void)state;
	const struct suspects_record record = { 5, 400, 9, 0, false };
	struct owner owner = take(false);
	read_record(&owner, &record);
	find_nothing(&owner, 5, 400);
	done(&owner, SUSPECTS_ERASE);
	expect_off(&owner);

	owner = take(true);
	read_record(&owner, &record);
	find_nothing(&owner, 5, 400);
	find_nothing(&owner, INT64_MIN, INT64_MAX);
	done(&owner, SUSPECTS_ERASE);
	expect_off(&owner);

	owner = take(true);
	read_record(&owner, &record);
	find_nothing(&owner, 5, 400);
	look(&owner, INT64_MIN, INT64_MAX, &(struct suspects_found){ 401, 402, 402, 2 });
	expect_write(&owner, (struct suspects_record){ 401, 402, 1, 0, false });
	assert_true(suspects_flow(owner.suspects));
	suspects_free(owner.suspects);
}

static struct owner take_over(struct suspects_record record, struct suspects_found found)
{
	struct owner owner = take(true);
	read_record(&owner, &record);
	look(&owner, record.first, record.last, &found);
	done(&owner, SUSPECTS_WRITE);
	find_nothing(&owner, INT64_MIN, found.first - 1);
	return owner;
}

static void groups_follow_one_another(void **state)
{
	(void)state;
	struct owner owner = take_over((struct suspects_record){ 1, 200, 1, 0, false },
				       (struct suspects_found){ 1, 200, 200, 100 });
	look(&owner, 1, 200, &(struct suspects_found){ 1, 128, 200, 64 });
	expect_write(&owner, (struct suspects_record){ 1, 128, 2, 0, false });
	owner.view.may_poll = false;
	expect_wait(&owner, USEC_NEVER);
	owner.view.may_poll = true;
	poll(&owner, 1, 128, 60);
	poll(&owner, 61, 128, 128);
	owner.view.busy = 64;
	expect_wait(&owner, 2 * USEC_SEC);
	owner.view.busy = 0;
	look(&owner, 129, 200, &(struct suspects_found){ 130, 200, 200, 36 });
	expect_write(&owner, (struct suspects_record){ 130, 200, 2, 0, false });
	poll(&owner, 130, 200, 200);
	done(&owner, SUSPECTS_ERASE);
	expect_off(&owner);
}

static void the_rest_may_be_gone(void **state)
{
	(void)state;
	struct owner owner = take_over((struct suspects_record){ 1, 200, 1, 0, false },
				       (struct suspects_found){ 1, 200, 200, 100 });
	look(&owner, 1, 200, &(struct suspects_found){ 1, 128, 200, 64 });
	done(&owner, SUSPECTS_WRITE);
	poll(&owner, 1, 128, 128);
	find_nothing(&owner, 129, 200);
	done(&owner, SUSPECTS_ERASE);
	expect_off(&owner);
}

/* Alone: not at once, not without a broker, and soon it no longer counts. */
static void a_row_alone(void **state)
{
	(void)state;
	struct owner owner = take_over((struct suspects_record){ 8, 8, 4, 0, true },
				       (struct suspects_found){ 8, 8, 8, 1 });
	look(&owner, 8, 8, &(struct suspects_found){ 8, 8, 8, 1 });
	expect_wait(&owner, 8 * USEC_SEC); /* for it was alone once */
	pass(&owner, 7 * USEC_SEC);
	owner.view.connected = false;
	expect_wait(&owner, 100 * MS);
	pass(&owner, USEC_MIN);
	expect_wait(&owner, 100 * MS);
	owner.view.connected = true;
	expect_wait(&owner, 8 * USEC_SEC);
	pass(&owner, 8 * USEC_SEC);
	expect_write(&owner, (struct suspects_record){ 8, 8, 5, 1, true });
	poll(&owner, 8, 8, 8);
	owner.view.busy = 1;
	expect_wait(&owner, 500 * MS);
	pass(&owner, 500 * MS);
	expect_write(&owner, (struct suspects_record){ 8, 8, 5, 1, false });
	expect_wait(&owner, 1500 * MS);
	owner.view.busy = 0;
	done(&owner, SUSPECTS_ERASE);
	expect_off(&owner);
}

static void the_next_row_has_a_count_of_its_own(void **state)
{
	(void)state;
	struct owner owner = take_over((struct suspects_record){ 8, 9, 4, 0, false },
				       (struct suspects_found){ 8, 9, 9, 2 });
	look(&owner, 8, 9, &(struct suspects_found){ 8, 8, 9, 1 });
	pass(&owner, 2 * USEC_SEC);
	expect_write(&owner, (struct suspects_record){ 8, 8, 5, 0, true });
	poll(&owner, 8, 8, 8);
	look(&owner, 9, 9, &(struct suspects_found){ 9, 9, 9, 1 });
	expect_write(&owner, (struct suspects_record){ 9, 9, 5, 0, true });
	suspects_free(owner.suspects);
}

/* Of its topic or key there may be rows that wait since long: they come first. */
static void what_waits_below_the_range_goes_first(void **state)
{
	(void)state;
	struct owner owner = take(true);
	read_record(&owner, &(struct suspects_record){ 8, 8, 4, 0, true });
	look(&owner, 8, 8, &(struct suspects_found){ 8, 8, 8, 1 });
	expect_write(&owner, (struct suspects_record){ 8, 8, 5, 1, false });
	look(&owner, INT64_MIN, 7, &(struct suspects_found){ 2, 5, 7, 1000 });
	expect_write(&owner, (struct suspects_record){ 2, 5, 5, 0, false });
	poll(&owner, 2, 5, 5);
	look(&owner, 6, 7, &(struct suspects_found){ 7, 7, 7, 1 });
	pass(&owner, 2 * USEC_SEC);
	expect_write(&owner, (struct suspects_record){ 7, 7, 5, 0, true });
	poll(&owner, 7, 7, 7);
	look(&owner, 8, 8, &(struct suspects_found){ 8, 8, 8, 1 });
	pass(&owner, 6 * USEC_SEC);
	expect_write(&owner, (struct suspects_record){ 8, 8, 5, 1, true });
	suspects_free(owner.suspects);
}

static void a_row_that_kills_is_moved_unsent(void **state)
{
	(void)state;
	struct owner owner = take(true);
	read_record(&owner, &(struct suspects_record){ 8, 8, 6, 2, true });
	look(&owner, 8, 8, &(struct suspects_found){ 8, 8, 8, 1 });
	expect_write(&owner, (struct suspects_record){ 8, 8, 7, 3, false });
	struct suspects_next next = expect(&owner, SUSPECTS_BURY);
	suspects_page(owner.suspects, next.number, 8, owner.view.now);
	owner.view.busy = 1;
	expect_wait(&owner, USEC_NEVER);
	owner.view.busy = 0;
	done(&owner, SUSPECTS_ERASE);
	expect_off(&owner);
}

/* A partition without a leader: the others shall not wait for it, unless there is no broker. */
static void a_group_that_does_not_come_home(void **state)
{
	(void)state;
	struct owner owner = take_over((struct suspects_record){ 1, 200, 1, 0, false },
				       (struct suspects_found){ 1, 200, 200, 100 });
	look(&owner, 1, 200, &(struct suspects_found){ 1, 128, 200, 64 });
	done(&owner, SUSPECTS_WRITE);
	poll(&owner, 1, 128, 128);
	owner.view.busy = 3;
	owner.view.connected = false;
	pass(&owner, USEC_MIN);
	expect_wait(&owner, 100 * MS);
	owner.view.connected = true;
	expect_wait(&owner, 2 * USEC_SEC);
	pass(&owner, 2 * USEC_SEC);
	look(&owner, 129, 200, &(struct suspects_found){ 130, 200, 200, 36 });
	suspects_free(owner.suspects);
}

static void what_was_not_sent_is_read_again(void **state)
{
	(void)state;
	struct owner owner = take_over((struct suspects_record){ 1, 200, 1, 0, false },
				       (struct suspects_found){ 1, 200, 200, 100 });
	look(&owner, 1, 200, &(struct suspects_found){ 1, 128, 200, 64 });
	done(&owner, SUSPECTS_WRITE);
	poll(&owner, 1, 128, 0); /* none of them could be sent */
	expect_wait(&owner, 20 * MS);
	pass(&owner, 20 * MS);
	struct suspects_next next = expect(&owner, SUSPECTS_POLL);
	suspects_rewind(owner.suspects, INT64_MIN); /* the producer is gone meanwhile */
	assert_false(suspects_awaits(owner.suspects, next.number));
	suspects_page(owner.suspects, next.number, 128, owner.view.now);
	find_nothing(&owner, INT64_MIN, 0);
	look(&owner, 1, 200, &(struct suspects_found){ 1, 128, 200, 64 });
	done(&owner, SUSPECTS_WRITE);
	poll(&owner, 1, 128, 128);
	suspects_rewind(owner.suspects, 100);
	poll(&owner, 100, 128, 128);
	look(&owner, 129, 200, &(struct suspects_found){ 130, 190, 200, 20 });
	done(&owner, SUSPECTS_WRITE);
	suspects_rewind(owner.suspects, 40); /* of a group before: it must not be overtaken */
	next = expect(&owner, SUSPECTS_LOOK);
	assert_int_equal(next.first, 40);
	suspects_rewind(owner.suspects, INT64_MIN);
	assert_false(suspects_awaits(owner.suspects, next.number));
	find_nothing(&owner, INT64_MIN, 0);
	find_nothing(&owner, 1, 200);
	done(&owner, SUSPECTS_ERASE);
	expect_off(&owner);
}

static void what_failed_is_tried_again(void **state)
{
	(void)state;
	struct owner owner = take(true);
	for (int i = 0; i < 3; i++) {
		struct suspects_next next = expect(&owner, SUSPECTS_READ);
		expect_wait(&owner, USEC_NEVER);
		suspects_failed(owner.suspects, next.number, owner.view.now);
		suspects_read(owner.suspects, next.number, NULL); /* nobody waits for it */
		expect_wait(&owner, USEC_SEC);
		pass(&owner, USEC_SEC);
	}
	suspects_stop(owner.suspects);
	assert_true(suspects_flow(owner.suspects));
	suspects_begin(owner.suspects, false, owner.view.now);
	read_record(&owner, NULL);
	look(&owner, INT64_MIN, INT64_MAX,
	     &(struct suspects_found){ 1, 2, 2, 2 }); /* not forgotten */
	suspects_free(owner.suspects);
}

/* The lease was lost and is ours again: nobody has died. */
static void a_crash_is_counted_once(void **state)
{
	(void)state;
	struct owner owner = take_over((struct suspects_record){ 8, 8, 4, 0, true },
				       (struct suspects_found){ 8, 8, 8, 1 });
	suspects_stop(owner.suspects);
	suspects_begin(owner.suspects, false, owner.view.now);
	read_record(&owner, &(struct suspects_record){ 8, 8, 5, 1, false });
	look(&owner, 8, 8, &(struct suspects_found){ 8, 8, 8, 1 });
	expect_write(&owner, (struct suspects_record){ 8, 8, 5, 1, false });
	suspects_free(owner.suspects);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_a_clean_stop_the_rows_flow),
		cmocka_unit_test(with_nothing_waiting_there_is_no_record),
		cmocka_unit_test(a_first_crash_slows_nothing_down),
		cmocka_unit_test(what_is_left_of_the_range_goes_on),
		cmocka_unit_test(a_range_that_has_passed_is_forgotten),
		cmocka_unit_test(groups_follow_one_another),
		cmocka_unit_test(the_rest_may_be_gone),
		cmocka_unit_test(a_row_alone),
		cmocka_unit_test(the_next_row_has_a_count_of_its_own),
		cmocka_unit_test(what_waits_below_the_range_goes_first),
		cmocka_unit_test(a_row_that_kills_is_moved_unsent),
		cmocka_unit_test(a_group_that_does_not_come_home),
		cmocka_unit_test(what_was_not_sent_is_read_again),
		cmocka_unit_test(what_failed_is_tried_again),
		cmocka_unit_test(a_crash_is_counted_once),
	};
	return cmocka_run_group_tests_name("suspects", tests, NULL, NULL);
}
