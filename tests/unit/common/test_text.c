/* Errors, buffers, memory, names of states and modes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "buf.h"
#include "effect.h"
#include "err.h"
#include "mem.h"

static void err_is_false_and_holds_the_text(void **state)
{
	(void)state;
	struct err err;
	assert_false(err_set(&err, "claim: %d rows", 3));
	assert_string_equal(err.text, "claim: 3 rows");
	assert_false(err_prefix(&err, "target %s", "payments"));
	assert_string_equal(err.text, "target payments: claim: 3 rows");
	assert_false(err_set(NULL, "nobody asked"));
	assert_false(err_prefix(NULL, "nobody asked"));
}

static void err_is_cut_and_never_overrun(void **state)
{
	(void)state;
	struct err err;
	char text[2000];
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	err_set(&err, "%s", text);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
	for (int i = 0; i < 100; i++)
		err_prefix(&err, "prefix %d of a text that is too long already", i);
	assert_true(strlen(err.text) < sizeof(err.text));
	assert_memory_equal(err.text, "prefix 99 of", 12);
	err_prefix(&err, "%s", text);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
}

static void buf_grows_and_stays_terminated(void **state)
{
	(void)state;
	BUF_AUTO struct buf buf = { 0 };
	assert_string_equal(buf_text(&buf), "");
	for (int i = 0; i < 1000; i++)
		buf_addf(&buf, "%d,", i);
	assert_int_equal(buf.length, 10 * 2 + 90 * 3 + 900 * 4);
	assert_int_equal(strlen(buf.data), buf.length);
	buf_clear(&buf);
	assert_string_equal(buf_text(&buf), "");
	buf_add(&buf, "a\0b", 3);
	buf_add_char(&buf, 'c');
	assert_int_equal(buf.length, 4);
	assert_memory_equal(buf.data, "a\0bc", 5);
	char *taken = buf_take(&buf);
	assert_memory_equal(taken, "a\0bc", 5);
	free(taken);
	assert_int_equal(buf.length, 0);
	taken = buf_take(&buf);
	assert_string_equal(taken, "");
	free(taken);
}

static void mem_copies(void **state)
{
	(void)state;
	assert_null(mem_text(NULL));
	char *copy = mem_text_n("ab\0cd", 5);
	assert_memory_equal(copy, "ab\0cd", 6);
	free(copy);
	uint64_t *zero = mem_zero(4 * sizeof(*zero));
	assert_int_equal(zero[3], 0);
	zero = mem_grow(zero, 400, sizeof(*zero));
	assert_int_equal(zero[0], 0);
	free(zero);
}

static void state_and_mode_names_go_both_ways(void **unused)
{
	(void)unused;
	for (int i = 0; i < EFFECT_STATE_COUNT; i++) {
		const char *name = effect_state_name((enum effect_state)i);
		enum effect_state state;
		assert_true(effect_state_parse(name, strlen(name), &state));
		assert_int_equal(state, i);
	}
	for (int i = 0; i < EFFECT_MODE_COUNT; i++) {
		const char *name = effect_mode_name((enum effect_mode)i);
		enum effect_mode mode;
		assert_true(effect_mode_parse(name, strlen(name), &mode));
		assert_int_equal(mode, i);
	}
	enum effect_state state = EFFECT_DEAD;
	assert_false(effect_state_parse("deadly", 6, &state));
	assert_false(effect_state_parse("dea", 3, &state));
	assert_false(effect_state_parse("", 0, &state));
	assert_int_equal(state, EFFECT_DEAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(err_is_false_and_holds_the_text),
		cmocka_unit_test(err_is_cut_and_never_overrun),
		cmocka_unit_test(buf_grows_and_stays_terminated),
		cmocka_unit_test(mem_copies),
		cmocka_unit_test(state_and_mode_names_go_both_ways),
	};
	return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
