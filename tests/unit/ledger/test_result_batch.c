/* Batches of results: their order, their halves, and the way of a bad row. */
#include "execution/result_batch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* A list of results with these ids, each of an epoch after the one before. */
static struct result *list_of(const int64_t *ids, size_t count)
{
	struct result *first = NULL, **end = &first;
	for (size_t i = 0; i < count; i++) {
		struct result *result = result_new();
		result->key.id = ids[i];
		result->key.epoch = (int32_t)(count - i);
		*end = result;
		end = &result->next;
	}
	return first;
}

static struct result_batch *batch_of(size_t count)
{
	int64_t *ids = calloc(count, sizeof(*ids));
	for (size_t i = 0; i < count; i++)
		ids[i] = (int64_t)i + 1;
	struct result *list = list_of(ids, count);
	free(ids);
	return batch_take(&list, count);
}

static void a_batch_is_sorted_and_bounded(void **state)
{
	(void)state;
	static const int64_t ids[] = { 7, 3, 9, 3, 1, 8 };
	struct result *list = list_of(ids, 6);
	struct result_batch *batch = batch_take(&list, 5);
	static const int64_t sorted[] = { 1, 3, 3, 7, 9 };
	assert_int_equal(batch->count, 5);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(batch->items[i]->key.id, sorted[i]);
	assert_true(batch->items[1]->key.epoch < batch->items[2]->key.epoch);
	assert_non_null(list);
	batch_free(batch);

	batch = batch_take(&list, 5);
	assert_int_equal(batch->count, 1);
	assert_int_equal(batch->items[0]->key.id, 8);
	assert_null(list);
	batch_free(batch);
}

static void halves_are_the_whole(void **state)
{
	(void)state;
	for (size_t count = 2; count <= 9; count++) {
		struct result_batch *first = batch_of(count);
		first->doubtful = true;
		struct result_batch *second = batch_split(first);
		assert_int_equal(first->count + second->count, count);
		assert_true(first->count > 0 && second->count > 0);
		assert_int_equal(first->items[0]->key.id, 1);
		assert_int_equal(second->items[0]->key.id, (int64_t)first->count + 1);
		assert_true(second->doubtful);
		batch_free(first);
		batch_free(second);
	}
}

static void what_a_refusal_leads_to(void **state)
{
	(void)state;
	static const struct {
		size_t count;
		enum batch_form form;
		bool letter;
		const char *sqlstate;
		enum batch_next next;
	} rows[] = {
		/* not about the data: as it is, again */
		{ 100, BATCH_WHOLE, true, "40P01", BATCH_AGAIN },
		{ 100, BATCH_WHOLE, false, "57014", BATCH_AGAIN },
		{ 100, BATCH_WITHOUT_EVENTS, true, "57014", BATCH_AGAIN },
		{ 1, BATCH_WHOLE, true, "53100", BATCH_AGAIN },
		{ 1, BATCH_BARE, false, "25006", BATCH_AGAIN },
		{ 1, BATCH_BARE, false, "58030", BATCH_AGAIN },
		/* perhaps about the outbox: what follows is put off first */
		{ 100, BATCH_WHOLE, true, "57014", BATCH_PUT_OFF },
		{ 100, BATCH_WHOLE, true, "55P03", BATCH_PUT_OFF },
		{ 100, BATCH_WHOLE, true, "22021", BATCH_PUT_OFF },
		{ 100, BATCH_WHOLE, true, "42501", BATCH_PUT_OFF },
		{ 1, BATCH_WHOLE, true, "22P05", BATCH_PUT_OFF },
		/* about the data: halved until the bad one is alone */
		{ 100, BATCH_WITHOUT_EVENTS, true, "22021", BATCH_SPLIT },
		{ 2, BATCH_WHOLE, false, "23514", BATCH_SPLIT },
		{ 1, BATCH_WITHOUT_EVENTS, true, "22021", BATCH_STRIP },
		{ 1, BATCH_WHOLE, false, "22021", BATCH_STRIP },
		{ 1, BATCH_BARE, true, "23514", BATCH_GIVE_UP },
		{ 1, BATCH_BARE, true, "54000", BATCH_GIVE_UP },
		/* and what no row can be at fault for is kept until somebody has mended it */
		{ 1, BATCH_BARE, false, "42P01", BATCH_AGAIN },
		{ 1, BATCH_BARE, false, "XX001", BATCH_AGAIN },
		{ 1, BATCH_BARE, false, "", BATCH_AGAIN },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct result_batch *batch = batch_of(rows[i].count);
		batch->form = rows[i].form;
		batch->items[0]->has_letter = rows[i].letter;
		assert_int_equal(batch_refused(batch, rows[i].sqlstate), rows[i].next);
		batch_free(batch);
	}
}

/* Sends a batch to a server that refuses every batch with the bad row in it, whatever is left out.
 */
static size_t send_all(struct result_batch *batch, int64_t bad, size_t *recorded)
{
	size_t statements = 1;
	bool refused = false;
	for (size_t i = 0; i < batch->count; i++)
		refused = refused || batch->items[i]->key.id == bad;
	if (!refused) {
		*recorded += batch->count;
		batch_free(batch);
		return statements;
	}
	switch (batch_refused(batch, "22021")) {
	case BATCH_SPLIT: {
		struct result_batch *second = batch_split(batch);
		return statements + send_all(batch, bad, recorded) +
		       send_all(second, bad, recorded);
	}
	case BATCH_PUT_OFF:
		batch->form = BATCH_WITHOUT_EVENTS;
		return statements + send_all(batch, bad, recorded);
	case BATCH_STRIP:
		batch->form = BATCH_BARE;
		return statements + send_all(batch, bad, recorded);
	case BATCH_GIVE_UP:
		batch_free(batch);
		break;
	case BATCH_AGAIN:
		fail();
	}
	return statements;
}

static void one_bad_row_stops_no_other(void **state)
{
	(void)state;
	for (int64_t bad = 1; bad <= 100; bad++) {
		struct result_batch *batch = batch_of(100);
		batch->items[bad - 1]->has_letter = true;
		size_t recorded = 0;
		const size_t statements = send_all(batch, bad, &recorded);
		assert_int_equal(recorded, 99);
		assert_true(statements <= 2 * 7 + 3);
	}
}

static void what_is_to_follow_is_counted(void **state)
{
	(void)state;
	struct result_batch *batch = batch_of(3);
	assert_int_equal(batch_events(batch), 0);
	batch->items[0]->has_letter = true;
	batch->items[2]->has_emit = true;
	assert_int_equal(batch_events(batch), 2);
	batch_free(batch);
}

/* A batch of the largest answers that are kept is no statement that the server would refuse. */
static void a_batch_is_bounded_in_bytes(void **state)
{
	(void)state;
	static char body[BATCH_BYTES_MAX];
	static const int64_t ids[] = { 1, 2, 3, 4, 5 };
	struct result *list = list_of(ids, 5);
	for (struct result *r = list; r; r = r->next)
		buf_add(&r->body, body, r->key.id == 5 ? sizeof(body) : BATCH_BYTES_MAX / 2);
	static const size_t taken[] = { 2, 2, 1 };
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
		struct result_batch *batch = batch_take(&list, 100);
		assert_int_equal(batch->count, taken[i]);
		batch_free(batch);
	}
	assert_null(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_batch_is_sorted_and_bounded),
		cmocka_unit_test(halves_are_the_whole),
		cmocka_unit_test(what_a_refusal_leads_to),
		cmocka_unit_test(one_bad_row_stops_no_other),
		cmocka_unit_test(what_is_to_follow_is_counted),
		cmocka_unit_test(a_batch_is_bounded_in_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
