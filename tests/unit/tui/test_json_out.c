/* JSON for people and JSON for programs. */
#include "words/pretty.h"
#include "words/writer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void layout(void **state)
{
	(void)state;
	static const struct {
		const char *text, *shown;
	} rows[] = {
		{ "{}", "{}" },
		{ " [ ] ", "[]" },
		{ "{\"a\":1}", "{\n  \"a\": 1\n}" },
		{ "{\"a\":{},\"b\":[1.10,true,null]}",
		  "{\n  \"a\": {},\n  \"b\": [\n    1.10,\n    true,\n    null\n  ]\n}" },
		{ "{\"a\":\"x\\\"{,\\u001b\"}", "{\n  \"a\": \"x\\\"{,\\u001b\"\n}" },
		{ "[9223372036854775807123]", "[\n  9223372036854775807123\n]" },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		BUF_AUTO struct buf out = { 0 };
		assert_true(pretty_json(&out, rows[i].text, strlen(rows[i].text), false));
		assert_string_equal(buf_text(&out), rows[i].shown);
	}
}

static void what_is_no_json_is_left_alone(void **state)
{
	(void)state;
	static const char *const rows[] = { "",  " ",        "amount=1", "\"text\"",        "12",
					    "{", "{\"a\":}", "[1,]",     "{\"a\":\"\377\"}" };
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		BUF_AUTO struct buf out = { 0 };
		assert_false(pretty_json(&out, rows[i], strlen(rows[i]), false));
		assert_int_equal(out.length, 0);
	}
}

static void the_beginning_of_a_long_one(void **state)
{
	(void)state;
	static const char *const cuts[] = { "{\"a\":[1,2", "{\"a\":\"b\\", "{\"a\"", "[[[", "{" };
	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		BUF_AUTO struct buf out = { 0 };
		assert_true(pretty_json(&out, cuts[i], strlen(cuts[i]), true));
		assert_true(out.length >= strlen(cuts[i]));
	}
}

/* Indentation must not make a bomb of 64 KiB of brackets. */
static void it_has_an_end(void **state)
{
	(void)state;
	BUF_AUTO struct buf text = { 0 };
	BUF_AUTO struct buf out = { 0 };
	for (size_t i = 0; i < PRETTY_MAX; i++)
		buf_add_char(&text, '[');
	assert_true(pretty_json(&out, text.data, text.length, true));
	assert_int_equal(out.length, PRETTY_MAX);
}

static void objects_and_arrays(void **state)
{
	(void)state;
	BUF_AUTO struct buf out = { 0 };
	struct writer writer = { .out = &out };
	writer_open(&writer, NULL, '{');
	writer_text(&writer, "a", "x\"\n");
	writer_text(&writer, "none", NULL);
	writer_open(&writer, "list", '[');
	writer_int(&writer, NULL, -7);
	writer_open(&writer, NULL, '{');
	writer_close(&writer, '}');
	writer_bool(&writer, NULL, true);
	writer_close(&writer, ']');
	writer_time(&writer, "at", 0);
	writer_time(&writer, "never", USEC_NEVER);
	writer_close(&writer, '}');
	assert_string_equal(buf_text(&out),
			    "{\"a\":\"x\\\"\\n\",\"none\":null,\"list\":[-7,{},true],"
			    "\"at\":\"1970-01-01T00:00:00.000000Z\",\"never\":null}");
}

static void bytes_that_are_no_text(void **state)
{
	(void)state;
	static const struct {
		const char *bytes;
		size_t length;
		const char *shown;
	} rows[] = {
		{ "abc", 3, "{\"body\":\"abc\"}" },
		{ "", 0, "{\"body\":\"\"}" },
		{ NULL, 0, "{\"body\":null}" },
		{ "a\0b", 3, "{\"body\":\"a\\u0000b\"}" },
		{ "\377", 1, "{\"body_base64\":\"/w==\"}" },
		{ "\377\376", 2, "{\"body_base64\":\"//4=\"}" },
		{ "\377\376\375", 3, "{\"body_base64\":\"//79\"}" },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		BUF_AUTO struct buf out = { 0 };
		struct writer writer = { .out = &out };
		writer_open(&writer, NULL, '{');
		writer_bytes(&writer, "body", rows[i].bytes, rows[i].length);
		writer_close(&writer, '}');
		assert_string_equal(buf_text(&out), rows[i].shown);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layout),
		cmocka_unit_test(what_is_no_json_is_left_alone),
		cmocka_unit_test(the_beginning_of_a_long_one),
		cmocka_unit_test(it_has_an_end),
		cmocka_unit_test(objects_and_arrays),
		cmocka_unit_test(bytes_that_are_no_text),
	};
	return cmocka_run_group_tests_name("json_out", tests, NULL, NULL);
}
