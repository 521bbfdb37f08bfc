/* A batch: what becomes of each message, folding the doubles of a slice, spoiling, and its size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "intake/batch.h"
#include "utf8.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* --- making one --- */

static char payments[] = "payments", mails[] = "mails", charge[] = "charge";
static struct conf_target conf_payments = { .name = payments }, conf_mails = { .name = mails };
static struct conf_effect conf_charge = { .name = charge };
static const struct target target_payments = { .conf = &conf_payments },
			   target_mails = { .conf = &conf_mails };
static const struct rule pay = { .conf = &conf_charge, .target = &target_payments };
static const struct rule mail = { .conf = &conf_charge, .target = &target_mails };

static struct event_source source_at(int64_t offset, const char *value)
{
	return (struct event_source){
		.topic = "orders",
		.partition = 1,
		.offset = offset,
		.value = value,
		.value_length = value ? strlen(value) : 0,
		.sent_at = USEC_NEVER,
	};
}

static void add_message(struct batch *batch, int64_t offset, const char *value)
{
	struct event_source source = source_at(offset, value);

	batch_add(batch, &source, NULL);
}

static void add_row(struct batch *batch, const struct rule *rule, const char *key,
		    const char *tenant)
{
	struct draft draft = { .rule = rule, .not_after = USEC_NEVER };

	buf_add_text(&draft.key, key);
	buf_add_text(&draft.tenant, tenant);
	batch_add_draft(batch, &draft);
	buf_done(&draft.key);
	buf_done(&draft.tenant);
}

/* --- folding --- */

struct fold_row {
	const struct rule *rule;
	const char *key;
	const char *tenant;
	bool folded;
};

/* Each row is of a message of its own. */
static const struct fold_case {
	struct fold_row rows[6];
	size_t from, to;
} fold_cases[] = {
	{ .rows = { { &pay, "a", "", false } }, .to = 1 },
	/* The first by offset wins, and every later one is folded. */
	{ .rows = { { &pay, "a", "", false },
		    { &pay, "b", "", false },
		    { &pay, "a", "", true },
		    { &pay, "a", "", true } },
	  .to = 4 },
	/* Another target, another tenant, another case: other keys. */
	{ .rows = { { &pay, "a", "", false },
		    { &mail, "a", "", false },
		    { &pay, "a", "t", false },
		    { &pay, "A", "", false },
		    { &mail, "a", "", true } },
	  .to = 5 },
	/* Key and tenant do not run into one another. */
	{ .rows = { { &pay, "ab", "c", false }, { &pay, "a", "bc", false } }, .to = 2 },
	/* Only the slice counts. */
	{ .rows = { { &pay, "a", "", false },
		    { &pay, "a", "", false },
		    { &pay, "a", "", true },
		    { &pay, "a", "", false } },
	  .from = 1,
	  .to = 3 },
};

static void doubles_fold_onto_the_first(void **state)
{
	(void)state;
	for (size_t i = 0; i < LENGTH(fold_cases); i++) {
		const struct fold_case *row = &fold_cases[i];
		struct batch batch;

		batch_init(&batch, CONF_UNMATCHED_PASS, NULL);
		for (size_t r = 0; r < 6 && row->rows[r].key; r++) {
			add_message(&batch, (int64_t)r, "{}");
			add_row(&batch, row->rows[r].rule, row->rows[r].key, row->rows[r].tenant);
		}
		batch_fold(&batch, row->from, row->to);
		for (size_t r = 0; r < batch.row_count; r++)
			assert_int_equal(batch.rows[r].folded, row->rows[r].folded);
		batch_done(&batch);
	}
}

static void folding_again_after_spoiling_finds_the_next_first(void **state)
{
	struct batch batch;

	(void)state;
	batch_init(&batch, CONF_UNMATCHED_PASS, NULL);
	for (int i = 0; i < 3; i++) {
		add_message(&batch, i, "{}");
		add_row(&batch, &pay, "a", "");
	}
	batch_fold(&batch, 0, 3);
	assert_true(batch.rows[1].folded);
	batch_spoil(&batch, 0, POISON_DATABASE, "too long");
	assert_int_equal(batch.messages[0].row_count, 0);
	assert_string_equal(batch_text(&batch, batch.messages[0].error), "too long");
	batch_fold(&batch, 0, 3);
	assert_false(batch.rows[1].folded);
	assert_true(batch.rows[2].folded);
	batch_done(&batch);
}

/* Many rows, by a small sum of their own: of each key the first stays. */
static void large_slices_fold(void **state)
{
	struct batch batch;
	bool seen[37] = { false };

	(void)state;
	batch_init(&batch, CONF_UNMATCHED_PASS, NULL);
	for (unsigned i = 0; i < 1000; i++) {
		char key[16];

		snprintf(key, sizeof(key), "key-%u", i * 7919 % 37);
		add_message(&batch, i, "{}");
		add_row(&batch, &pay, key, "");
	}
	batch_fold(&batch, 0, 1000);
	for (unsigned i = 0; i < 1000; i++) {
		assert_int_equal(batch.rows[i].folded, seen[i * 7919 % 37]);
		seen[i * 7919 % 37] = true;
	}
	batch_done(&batch);
}

/* --- messages --- */

static void a_message_that_is_no_event_is_poison(void **state)
{
	static const struct event_header bad = { "ce_id", "\xff", 1 };
	struct event_source source = source_at(7, "{}");
	struct batch batch;

	(void)state;
	source.headers = &bad;
	source.header_count = 1;
	batch_init(&batch, CONF_UNMATCHED_PASS, NULL);
	batch_add(&batch, &source, NULL);
	assert_int_equal(batch.messages[0].poison, POISON_EVENT);
	assert_int_equal(batch.messages[0].event.source.offset, 7);
	assert_true(batch.messages[0].error.length > 0);
	assert_string_equal(poison_reason_name(batch.messages[0].poison), "event");
	batch_done(&batch);
}

/* A sentence may quote the message and be cut inside a character; its column takes only UTF-8. */
static void the_text_of_an_error_is_utf8(void **state)
{
	struct batch batch;
	const char *text;

	(void)state;
	batch_init(&batch, CONF_UNMATCHED_PASS, NULL);
	add_message(&batch, 0, "{}");
	batch_spoil(&batch, 0, POISON_KEY, "pointer /caf\xc3");
	text = batch_text(&batch, batch.messages[0].error);
	assert_true(utf8_valid(text, strlen(text)));
	assert_string_equal(text, "pointer /caf?");
	batch_done(&batch);
}

static int given_back;

static void give_back(void *handle)
{
	given_back += *(int *)handle;
}

static void handles_are_given_back_once(void **state)
{
	struct event_source source = source_at(0, "{}");
	int one = 1, ten = 10;
	struct batch batch;

	(void)state;
	given_back = 0;
	batch_init(&batch, CONF_UNMATCHED_PASS, give_back);
	batch_add(&batch, &source, &one);
	batch_add(&batch, &source, &ten);
	batch_clear(&batch);
	assert_int_equal(given_back, 11);
	assert_int_equal(batch.count, 0);
	batch_done(&batch);
	assert_int_equal(given_back, 11);
}

static void a_batch_is_full_by_count_and_by_bytes(void **state)
{
	struct event_source source = source_at(0, "{}");
	struct batch batch;

	(void)state;
	batch_init(&batch, CONF_UNMATCHED_PASS, NULL);
	assert_false(batch_is_full(&batch, 2));
	batch_add(&batch, &source, NULL);
	assert_false(batch_is_full(&batch, 2));
	batch_add(&batch, &source, NULL);
	assert_true(batch_is_full(&batch, 2));
	assert_false(batch_is_full(&batch, 3));
	source.value = calloc(1, BATCH_BYTES_MAX);
	source.value_length = BATCH_BYTES_MAX;
	batch_add(&batch, &source, NULL);
	assert_true(batch_is_full(&batch, 500));
	batch_done(&batch);
	free((void *)(uintptr_t)source.value);
}

/* --- the value as the body --- */

static const struct body_case {
	const char *value;
	const char *body;
	bool body_is_value;
	bool dead;
	bool same;
} body_cases[] = {
	{ "{\"a\":1}", "", true, false, true },
	{ "{\"a\":1}", "{\"a\":1}", false, false, true },
	{ "{\"a\":1}", "{\"a\":2}", false, false, false },
	{ "", "", false, false, true },
	{ NULL, "", false, false, false },
	{ "{\"a\":1}", "{\"a\":1}", false, true, false },
};

static void an_equal_body_is_the_value(void **state)
{
	(void)state;
	for (size_t i = 0; i < LENGTH(body_cases); i++) {
		const struct body_case *row = &body_cases[i];
		struct draft draft = { .rule = &pay,
				       .body_is_value = row->body_is_value,
				       .dead = row->dead };
		struct batch batch;

		batch_init(&batch, CONF_UNMATCHED_PASS, NULL);
		add_message(&batch, 0, row->value);
		buf_add_text(&draft.body, row->body);
		batch_add_draft(&batch, &draft);
		assert_int_equal(batch_row_body_is_value(&batch, &batch.rows[0]), row->same);
		buf_done(&draft.body);
		batch_done(&batch);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(doubles_fold_onto_the_first),
		cmocka_unit_test(folding_again_after_spoiling_finds_the_next_first),
		cmocka_unit_test(large_slices_fold),
		cmocka_unit_test(a_message_that_is_no_event_is_poison),
		cmocka_unit_test(the_text_of_an_error_is_utf8),
		cmocka_unit_test(handles_are_given_back_once),
		cmocka_unit_test(a_batch_is_full_by_count_and_by_bytes),
		cmocka_unit_test(an_equal_body_is_the_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
