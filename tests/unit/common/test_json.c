/* JSON pointers over hostile texts: what is read arrives as it was written, and what two readers
 * could read differently is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "json.h"
#include "mem.h"
#include "utf8.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Reads one pointer; a failing read leaves the value as it was. */
static bool read_one(const char *pointer, const char *data, size_t length, struct err *err,
		     struct buf *storage, struct json_value *value)
{
	struct json_paths *paths = json_paths_new();
	size_t index;

	assert_true(json_paths_add(paths, pointer, err, &index));
	assert_int_equal(index, 0);
	bool ok = json_read(paths, data, length, err, storage, value);
	json_paths_free(paths);
	return ok;
}

/* An exact copy on the heap, so that the sanitizers see a read behind its end. */
static char *exact(const char *data, size_t length)
{
	char *copy = malloc(length ? length : 1);
	assert_non_null(copy);
	memcpy(copy, data, length);
	return copy;
}

#define TEXT(literal) literal, sizeof(literal) - 1

struct found_case {
	const char *pointer;
	const char *data;
	size_t data_length;
	enum json_type type;
	const char *text;
	size_t length;
};

static const struct found_case found_cases[] = {
	{ "/a", TEXT("{\"a\":\"x\"}"), JSON_STRING, TEXT("x") },
	{ "/a", TEXT(" { \"b\" : 1 , \"a\" : \"\" } "), JSON_STRING, TEXT("") },
	{ "/b", TEXT("{\"a\":\"x\"}"), JSON_MISSING, TEXT("") },
	{ "/a", TEXT("{\"a\":null}"), JSON_NULL, TEXT("null") },
	{ "/a", TEXT("{\"a\":true,\"b\":[]}"), JSON_BOOL, TEXT("true") },
	{ "/a", TEXT("{\"a\" : false}"), JSON_BOOL, TEXT("false") },
	{ "/a", TEXT("{\"a\":9223372036854775807}"), JSON_NUMBER, TEXT("9223372036854775807") },
	{ "/a", TEXT("{\"a\":9223372036854775807123}"), JSON_NUMBER,
	  TEXT("9223372036854775807123") },
	{ "/a", TEXT("{\"a\":1234567890123456789012345678901234567890}"), JSON_NUMBER,
	  TEXT("1234567890123456789012345678901234567890") },
	{ "/a", TEXT("[1]"), JSON_MISSING, TEXT("") },
	{ "/a", TEXT("{\"a\":1.10}"), JSON_NUMBER, TEXT("1.10") },
	{ "/a", TEXT("{\"a\":-0}"), JSON_NUMBER, TEXT("-0") },
	{ "/a", TEXT("{\"a\":1e999}"), JSON_NUMBER, TEXT("1e999") },
	{ "/a", TEXT("{\"a\": 1.0E+2 }"), JSON_NUMBER, TEXT("1.0E+2") },
	{ "/a", TEXT("{\"a\": {\"b\": [1, 2]} }"), JSON_CONTAINER, TEXT("{\"b\": [1, 2]}") },
	{ "/a", TEXT("{\"a\":[ ]}"), JSON_CONTAINER, TEXT("[ ]") },
	{ "/a/b", TEXT("{\"a\":{\"b\":7}}"), JSON_NUMBER, TEXT("7") },
	{ "/a/b", TEXT("{\"a\":\"b\"}"), JSON_MISSING, TEXT("") },
	{ "/a/b", TEXT("{\"x\":{\"b\":1},\"a\":{\"x\":{\"b\":2},\"b\":3}}"), JSON_NUMBER,
	  TEXT("3") },
	{ "", TEXT(" {\"a\":1} "), JSON_CONTAINER, TEXT("{\"a\":1}") },
	{ "", TEXT("12"), JSON_NUMBER, TEXT("12") },
	{ "", TEXT(" \n12 "), JSON_NUMBER, TEXT("12") },
	{ "", TEXT("true"), JSON_BOOL, TEXT("true") },
	{ "", TEXT("null"), JSON_NULL, TEXT("null") },
	{ "", TEXT("\"x\""), JSON_STRING, TEXT("x") },
	{ "/", TEXT("{\"\":1}"), JSON_NUMBER, TEXT("1") },
	{ "//", TEXT("{\"\":{\"\":1}}"), JSON_NUMBER, TEXT("1") },
	/* RFC 6901: ~1 before ~0, so that "~01" is "~1". */
	{ "/a~1b", TEXT("{\"a/b\":1}"), JSON_NUMBER, TEXT("1") },
	{ "/m~0n", TEXT("{\"m~n\":8}"), JSON_NUMBER, TEXT("8") },
	{ "/~01", TEXT("{\"~1\":8,\"/\":9}"), JSON_NUMBER, TEXT("8") },
	{ "/c%d", TEXT("{\"c%d\":2}"), JSON_NUMBER, TEXT("2") },
	/* Arrays. */
	{ "/a/0", TEXT("{\"a\":[5,6]}"), JSON_NUMBER, TEXT("5") },
	{ "/a/1", TEXT("{\"a\":[[5],6]}"), JSON_NUMBER, TEXT("6") },
	{ "/a/2", TEXT("{\"a\":[5,6]}"), JSON_MISSING, TEXT("") },
	{ "/a/01", TEXT("{\"a\":[5,6]}"), JSON_MISSING, TEXT("") },
	{ "/a/-", TEXT("{\"a\":[5,6]}"), JSON_MISSING, TEXT("") },
	{ "/a/00", TEXT("{\"a\":[5,6]}"), JSON_MISSING, TEXT("") },
	{ "/a/99999999999999999999999", TEXT("{\"a\":[5,6]}"), JSON_MISSING, TEXT("") },
	{ "/a/1/b", TEXT("{\"a\":[{\"b\":1},{\"b\":2},{\"b\":3}]}"), JSON_NUMBER, TEXT("2") },
	{ "/0", TEXT("{\"0\":\"name\"}"), JSON_STRING, TEXT("name") },
	{ "/1/0", TEXT("[[1],[2],[3]]"), JSON_NUMBER, TEXT("2") },
	/* Escapes. */
	{ "/a", TEXT("{\"a\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}"), JSON_STRING,
	  TEXT("\"\\/\b\f\n\r\t") },
	{ "/a", TEXT("{\"a\":\"\\u00e9\\u20ac\\ud83d\\ude00\"}"), JSON_STRING,
	  TEXT("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80") },
	{ "/a", TEXT("{\"a\":\"\\\\u0000\"}"), JSON_STRING, TEXT("\\u0000") },
	{ "/a", TEXT("{\"a\":\"\\\\ud800\"}"), JSON_STRING, TEXT("\\ud800") },
	{ "/a", TEXT("{\"a\":\"\xf0\x9f\x98\x80\"}"), JSON_STRING, TEXT("\xf0\x9f\x98\x80") },
	{ "/a", TEXT("{\"\\u0061\":1}"), JSON_NUMBER, TEXT("1") },
	{ "/\xc3\xa9", TEXT("{\"\\u00e9\":1}"), JSON_NUMBER, TEXT("1") },
	{ "/a", TEXT("{\"a\":\"a:b,c\"}"), JSON_STRING, TEXT("a:b,c") },
	{ "/a", TEXT("{\"x\":\",:\",\"a\":\" ,\"}"), JSON_STRING, TEXT(" ,") },
	{ "/a", TEXT("{\"a\":\"\\u202e\"}"), JSON_STRING, TEXT("\xe2\x80\xae") },
	{ "/a", TEXT("{\"a\":\"\x7f\"}"), JSON_STRING, TEXT("\x7f") },
	/* What is wrong off every wanted path passes. */
	{ "/a", TEXT("{\"b\":1,\"b\":2,\"a\":3}"), JSON_NUMBER, TEXT("3") },
	{ "/a", TEXT("{\"a\":{\"b\":1,\"b\":2}}"), JSON_CONTAINER, TEXT("{\"b\":1,\"b\":2}") },
	{ "/a", TEXT("{\"b\":\"x\\u0000\",\"a\":3}"), JSON_NUMBER, TEXT("3") },
	{ "/a", TEXT("{\"b\":\"\\ud800\",\"\\udc00\":1,\"a\":3}"), JSON_NUMBER, TEXT("3") },
	{ "/a/b", TEXT("{\"a\":\"\\u0000\\ud800\"}"), JSON_MISSING, TEXT("") },
	{ "/a", TEXT("{\"b\":{\"a\":1,\"a\":1},\"a\":3}"), JSON_NUMBER, TEXT("3") },
	{ "/a", TEXT("[{\"a\":1,\"a\":2}]"), JSON_MISSING, TEXT("") },
	{ "/a", TEXT("{\"b\\u0000\":1,\"a\":3}"), JSON_NUMBER, TEXT("3") },
};

static void finds_what_was_written(void **state)
{
	(void)state;
	for (size_t i = 0; i < LENGTH(found_cases); i++) {
		const struct found_case *c = &found_cases[i];
		char *data = exact(c->data, c->data_length);
		struct buf storage BUF_AUTO = { 0 };
		struct json_value value = { 0 };
		struct err err = { "" };
		if (!read_one(c->pointer, data, c->data_length, &err, &storage, &value))
			fail_msg("%s in %s: %s", c->pointer, c->data, err.text);
		if (value.type != c->type || value.length != c->length ||
		    memcmp(value.text, c->text, c->length) != 0)
			fail_msg("%s in %s: type %d, \"%.*s\"", c->pointer, c->data,
				 (int)value.type, (int)value.length, value.text);
		free(data);
	}
}

struct refused_case {
	const char *pointer;
	const char *data;
	size_t length;
	const char *why;
};

static const struct refused_case refused_cases[] = {
	{ "/a", TEXT(""), "byte 0: parse error: premature EOF" },
	{ "/a", TEXT(" \n"), "byte 2: parse error: premature EOF" },
	{ "/a", TEXT("{\"a\":1"), "byte 6: parse error: premature EOF" },
	{ "/a", TEXT("{\"a\":1}x"), "trailing garbage" },
	{ "/a", TEXT("{\"a\":1}{}"), "trailing garbage" },
	{ "/a", TEXT("1 2"), "trailing garbage" },
	{ "/a", TEXT("{\"a\":1} // note"), "trailing garbage" },
	{ "/a", TEXT("{/* note */\"a\":1}"), "byte " },
	{ "/a", TEXT("{\"a\":1,}"), "byte " },
	{ "/a", TEXT("[1,]"), "byte " },
	{ "/a", TEXT("{'a':1}"), "byte " },
	{ "/a", TEXT("{a:1}"), "byte " },
	{ "/a", TEXT("{\"a\":01}"), "byte " },
	{ "/a", TEXT("{\"a\":+1}"), "byte " },
	{ "/a", TEXT("{\"a\":.5}"), "byte " },
	{ "/a", TEXT("{\"a\":NaN}"), "byte " },
	{ "/a", TEXT("{\"a\":0x10}"), "byte " },
	{ "/a", TEXT("-"), "malformed number" },
	{ "/a", TEXT("nul"), "byte " },
	{ "/a", TEXT("truex"), "trailing garbage" },
	{ "/a", TEXT("{\"a\":\"x\ny\"}"), "byte " },
	{ "/a", TEXT("{\"a\":\"x\0y\"}"), "byte " },
	{ "/a", TEXT("{\"a\":\"\\x\"}"), "byte " },
	{ "/a", TEXT("{\"a\":\"\\u12g4\"}"), "byte " },
	{ "/a", TEXT("\xef\xbb\xbf{\"a\":1}"), "byte " },
	{ "/a", TEXT("\0"), "byte 1: lexical error" },
	{ "/a", TEXT("not json"), "byte " },
	/* UTF-8, also where nobody looks. */
	{ "/a", TEXT("{\"b\":\"\xff\"}"), "byte 6: not UTF-8" },
	{ "/a", TEXT("{\"b\":\"\xc0\x80\"}"), "byte 6: not UTF-8" },
	{ "/a", TEXT("{\"b\":\"\xed\xa0\x80\"}"), "byte 6: not UTF-8" },
	{ "/a", TEXT("{\"b\":\"\xf4\x90\x80\x80\"}"), "byte 6: not UTF-8" },
	{ "/a", TEXT("{\"b\":\"\xe2\x82"), "byte 6: not UTF-8" },
	/* Two readers could see two values. */
	{ "/a", TEXT("{\"a\":1,\"a\":1}"), "byte 7: a second member of this name at /a" },
	{ "/a", TEXT("{\"a\":1,\"\\u0061\":2}"), "byte 7: a second member" },
	{ "/a/b", TEXT("{\"a\":{\"b\":1},\"a\":2}"), "a second member of this name at /a" },
	{ "/a/b", TEXT("{\"a\":{\"b\":1,\"b\":2}}"),
	  "byte 12: a second member of this name at /a/b" },
	{ "/0/b", TEXT("[{\"b\":1,\"b\":2}]"), "a second member of this name at /0/b" },
	{ "/a", TEXT("{\"a\":\"x\\u0000y\"}"), "byte 5: \\u0000" },
	{ "/a", TEXT("{\"a\":\"\\ud800\"}"), "half of a surrogate pair at /a" },
	{ "/a", TEXT("{\"a\":\"\\udc00\"}"), "half of a surrogate pair at /a" },
	{ "/a", TEXT("{\"a\":\"\\ud800\\u0041\"}"), "half of a surrogate pair at /a" },
	{ "/a", TEXT("{\"a\":\"\\ud800\\ud800\\udc00\"}"), "half of a surrogate pair at /a" },
	{ "/a", TEXT("{\"a\":\"\\ude00\\ud83d\"}"), "half of a surrogate pair at /a" },
	{ "/a", TEXT("{\"a\":\"\\ud83d\\\\ude00\"}"), "half of a surrogate pair at /a" },
	{ "/a", TEXT("{\"a\":\"\\uDBFF\"}"), "half of a surrogate pair at /a" },
	/* yajl decodes a lone surrogate to "?", which is somebody's name too. */
	{ "/?", TEXT("{\"\\ud800\":1}"), "half of a surrogate pair at /?" },
	{ "/a", TEXT("{\"a\":1,\"a\\u0000b\":2}"), "a member's name with \\u0000" },
};

static void refuses_what_is_no_json_or_ambiguous(void **state)
{
	(void)state;
	for (size_t i = 0; i < LENGTH(refused_cases); i++) {
		const struct refused_case *c = &refused_cases[i];
		char *data = exact(c->data, c->length);
		struct buf storage BUF_AUTO = { 0 };
		struct json_value value = { .type = JSON_BOOL, .text = "untouched", .length = 9 };
		struct err err = { "" };
		if (read_one(c->pointer, data, c->length, &err, &storage, &value))
			fail_msg("%s in %s was read", c->pointer, c->data);
		if (!strstr(err.text, c->why) || strncmp(err.text, "byte ", 5) != 0)
			fail_msg("%s: \"%s\" instead of \"%s\"", c->data, err.text, c->why);
		assert_string_equal(value.text, "untouched");
		free(data);
	}
}

static char *repeated(const char *begin, char c, size_t count, const char *end, size_t *length_r)
{
	size_t head = strlen(begin), tail = strlen(end);
	char *text = mem_grow(NULL, head + count + tail + 1, 1);

	memcpy(text, begin, head);
	memset(text + head, c, count);
	memcpy(text + head + count, end, tail + 1);
	*length_r = head + count + tail;
	return text;
}

static void depth_is_bounded(void **state)
{
	(void)state;
	struct buf storage BUF_AUTO = { 0 }, text BUF_AUTO = { 0 };
	struct json_value value;
	struct err err;
	size_t length;
	char *deep = repeated("", '[', 1000000, "", &length);

	assert_false(read_one("/a", deep, length, &err, &storage, &value));
	assert_string_equal(err.text, "byte 64: nested deeper than 64");
	free(deep);

	for (int depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
		buf_clear(&text);
		for (int i = 0; i < depth; i++)
			buf_add_text(&text, i % 2 ? "{\"a\":" : "[");
		buf_add_text(&text, "1");
		for (int i = depth; i-- > 0;)
			buf_add_text(&text, i % 2 ? "}" : "]");
		bool ok = read_one("/0/a/0/a", text.data, text.length, &err, &storage, &value);
		assert_int_equal(ok, depth == JSON_DEPTH_MAX);
		if (ok)
			assert_int_equal(value.type, JSON_CONTAINER);
	}
}

static void long_values_arrive_whole(void **state)
{
	(void)state;
	struct buf storage BUF_AUTO = { 0 };
	struct json_value value;
	struct err err;
	size_t length;
	char *plain = repeated("{\"a\":\"", 'x', 1 << 20, "\"}", &length);
	char *escaped = repeated("{\"a\":\"\\n", 'x', 1 << 20, "\"}", &length);
	char *digits = repeated("{\"a\":1", '0', 1 << 20, "}", &length);

	assert_true(read_one("/a", plain, strlen(plain), &err, &storage, &value));
	assert_int_equal(value.length, 1 << 20);
	assert_int_equal(storage.length, 0);
	assert_true(read_one("/a", escaped, strlen(escaped), &err, &storage, &value));
	assert_int_equal(value.length, (1 << 20) + 1);
	assert_int_equal(value.text[0], '\n');
	assert_true(read_one("/a", digits, strlen(digits), &err, &storage, &value));
	assert_int_equal(value.length, (1 << 20) + 1);
	/* Off the path nothing of it is kept. */
	assert_true(read_one("/b", escaped, strlen(escaped), &err, &storage, &value));
	assert_int_equal(storage.length, 0);
	free(plain);
	free(escaped);
	free(digits);
}

static void pointers_overlap_and_are_shared(void **state)
{
	(void)state;
	static const char *const pointers[] = { "/a", "/a/b", "", "/a/b/0", "/c", "/a" };
	static const size_t expected[] = { 0, 1, 2, 3, 4, 0 };
	static const char *const texts[] = { "{\"b\":[\"\\t\"]}", "[\"\\t\"]",
					     "{\"a\":{\"b\":[\"\\t\"]},\"c\":\"\\n\"}", "\t",
					     "\n" };
	struct json_paths *paths = json_paths_new();
	struct buf storage BUF_AUTO = { 0 };
	struct json_value values[LENGTH(texts)];
	struct err err;

	for (size_t i = 0; i < LENGTH(pointers); i++) {
		size_t index;
		assert_true(json_paths_add(paths, pointers[i], &err, &index));
		assert_int_equal(index, expected[i]);
	}
	assert_int_equal(json_paths_count(paths), LENGTH(texts));
	for (int again = 0; again < 2; again++) {
		assert_true(json_read(paths, texts[2], strlen(texts[2]), &err, &storage, values));
		for (size_t i = 0; i < LENGTH(texts); i++) {
			assert_int_equal(values[i].length, strlen(texts[i]));
			assert_memory_equal(values[i].text, texts[i], values[i].length);
		}
	}
	json_paths_free(paths);
}

static void an_empty_set_only_checks(void **state)
{
	(void)state;
	struct json_paths *paths = json_paths_new();
	struct buf storage BUF_AUTO = { 0 };
	struct err err;

	assert_true(json_read(paths, "{\"a\":1,\"a\":2}", 13, &err, &storage, NULL));
	assert_false(json_read(paths, "{", 1, &err, &storage, NULL));
	assert_false(json_read(paths, NULL, 0, NULL, &storage, NULL));
	json_paths_free(paths);
	json_paths_free(NULL);
}

/* Writes "name=type:text;"; refuses the name "stop". */
static bool take_member(void *arg, const char *name, size_t length, const struct json_value *value,
			struct err *err)
{
	struct buf *out = arg;

	if (length == 4 && !memcmp(name, "stop", length))
		return err_set(err, "stopped");
	buf_add(out, name, length);
	buf_addf(out, "=%d:%.*s;", (int)value->type, (int)value->length, value->text);
	return true;
}

static void members_are_handed_out_in_order(void **state)
{
	(void)state;
	static const struct {
		const char *data;
		size_t length;
		const char *members;
		const char *fault; /* NULL: none */
	} cases[] = {
		{ TEXT("{}"), "", NULL },
		{ TEXT(" { \"b\" : \"x\" , \"a\" : 1.10 } "), "b=4:x;a=3:1.10;", NULL },
		{ TEXT("{\"a\":null,\"a\":true,\"\":\"\"}"), "a=1:null;a=2:true;=4:;", NULL },
		{ TEXT("{\"a\":{\"b\":[{\"c\":\"\\u0000\"}]},\"d\":[ {} ]}"),
		  "a=5:{\"b\":[{\"c\":\"\\u0000\"}]};d=5:[ {} ];", NULL },
		{ TEXT("{\"\\u0061\\n\":\"x\\ty\",\"b\":\"plain\",\"c\":\"\\\"\"}"),
		  "a\n=4:x\ty;b=4:plain;c=4:\";", NULL },
		{ TEXT("{\"a\":1,\"stop\":2,\"b\":3}"), "a=3:1;", "stopped" },
		{ TEXT("{\"a\":1,\"b\":}"), "a=3:1;", "byte 12: " },
		{ TEXT("{\"a\":1} x"), "a=3:1;", "byte 9: " },
		{ TEXT("{\"a\":\"\\u0000\"}"), "", "byte 5: \\u0000 is not allowed" },
		{ TEXT("{\"\\ud800\":1}"), "", "byte 1: half of a surrogate pair at a member" },
		{ TEXT("[{\"a\":1}]"), "", "is not a JSON object" },
		{ TEXT("\"a\""), "", "is not a JSON object" },
		{ TEXT("7"), "", "is not a JSON object" },
		{ TEXT(""), "", "byte 0: " },
		{ TEXT("{\"a\":\"\xff\"}"), "", "byte 6: not UTF-8" },
	};

	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct buf out = { 0 };
		struct err err = { "" };
		char *data = exact(cases[i].data, cases[i].length);
		bool ok = json_members(data, cases[i].length, &err, take_member, &out);
		assert_string_equal(buf_text(&out), cases[i].members);
		assert_int_equal(ok, !cases[i].fault);
		if (cases[i].fault &&
		    strncmp(err.text, cases[i].fault, strlen(cases[i].fault)) != 0)
			fail_msg("%s: \"%s\"", cases[i].data, err.text);
		buf_done(&out);
		free(data);
	}
}

static void bad_pointers_are_named(void **state)
{
	(void)state;
	char deep[2 * (JSON_DEPTH_MAX + 1) + 1] = "";
	for (size_t i = 0; i <= JSON_DEPTH_MAX; i++)
		memcpy(deep + 2 * i, "/a", 3);
	const struct {
		const char *pointer;
		const char *why;
	} cases[] = {
		{ "a", "must begin with '/'" },   { "#/a", "must begin with '/'" },
		{ "/a~", "'~' is written '~0'" }, { "/~2", "'~' is written '~0'" },
		{ "/\xff", "not UTF-8" },         { deep, "more than 64 steps" },
	};
	struct json_paths *paths = json_paths_new();

	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct err err;
		size_t index = 42;
		assert_false(json_paths_add(paths, cases[i].pointer, &err, &index));
		assert_non_null(strstr(err.text, cases[i].why));
		assert_int_equal(index, 42);
	}
	assert_int_equal(json_paths_count(paths), 0);
	json_paths_free(paths);
}

/* Every prefix, and every single changed byte, is either read or refused, and nothing is read
 * behind the end. */
static void mutations_are_survived(void **state)
{
	(void)state;
	static const char text[] = "{\"a\":[1.5e3,\"\\ud83d\\ude00x\",{\"b\":true}],\"c\\n\":null, "
				   "\"d\":\"\xc3\xa9\"}";
	static const char bytes[] = "\"\\{}[]:,u0\x80\xff x";
	struct buf storage BUF_AUTO = { 0 };
	struct json_value value;
	size_t length = sizeof(text) - 1;

	for (size_t cut = 0; cut <= length; cut++) {
		char *data = exact(text, cut);
		bool ok = read_one("/a/1", data, cut, NULL, &storage, &value);
		assert_int_equal(ok, cut == length);
		free(data);
	}
	for (size_t at = 0; at < length; at++) {
		for (size_t b = 0; b < sizeof(bytes); b++) {
			char *data = exact(text, length);
			data[at] = bytes[b];
			if (read_one("/a/1", data, length, NULL, &storage, &value) &&
			    value.type != JSON_MISSING)
				assert_true(value.length <= length);
			free(data);
		}
	}
}

static void escapes_for_a_string(void **state)
{
	(void)state;
	static const char text[] = "a\"\\/\b\f\n\r\t\0\x1f\x7f\xc3\xa9";
	struct buf out BUF_AUTO = { 0 }, storage BUF_AUTO = { 0 };
	struct json_value value;
	struct err err;

	json_escape(&out, text, sizeof(text) - 1);
	assert_string_equal(out.data, "a\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\xc3\xa9");
	buf_clear(&out);
	buf_add_char(&out, '"');
	json_escape(&out, "a\"\\/\b\f\n\r\t\x1f", 10);
	buf_add_char(&out, '"');
	assert_true(read_one("", out.data, out.length, &err, &storage, &value));
	assert_int_equal(value.length, 10);
	assert_memory_equal(value.text, "a\"\\/\b\f\n\r\t\x1f", 10);
	buf_clear(&out);
	json_escape(&out, "", 0);
	assert_int_equal(out.length, 0);
}

static void utf8_is_strict(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		size_t length;
		size_t valid;
		bool printable;
	} cases[] = {
		{ TEXT(""), 0, true },
		{ TEXT("plain text that is longer than a word"), 37, true },
		{ TEXT("12345678\xc3\xa9"), 10, true },
		{ TEXT("\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf\xef\xbf\xbf"), 14, true },
		{ TEXT("a\0b"), 3, false },
		{ TEXT("a\tb"), 3, false },
		{ TEXT("\x7f"), 1, false },
		{ TEXT("\xc2\x85"), 2, false }, /* next line, a C1 control */
		{ TEXT("\xc2\xa0"), 2, true },
		{ TEXT("\xe2\x80\xae"), 3, true },
		{ TEXT("\x80"), 0, false },
		{ TEXT("ab\xc3"), 2, false },
		{ TEXT("\xc0\xaf"), 0, false },
		{ TEXT("\xc1\xbf"), 0, false },
		{ TEXT("\xe0\x9f\xbf"), 0, false },
		{ TEXT("\xed\xbf\xbf"), 0, false },
		{ TEXT("\xf0\x8f\xbf\xbf"), 0, false },
		{ TEXT("\xf4\x90\x80\x80"), 0, false },
		{ TEXT("\xf5\x80\x80\x80"), 0, false },
		{ TEXT("\xe2\x28\xa1"), 0, false },
		{ TEXT("1234567\xff"), 7, false },
	};

	for (size_t i = 0; i < LENGTH(cases); i++) {
		char *data = exact(cases[i].text, cases[i].length);
		assert_int_equal(utf8_span(data, cases[i].length), cases[i].valid);
		assert_int_equal(utf8_valid(data, cases[i].length),
				 cases[i].valid == cases[i].length);
		assert_int_equal(utf8_printable(data, cases[i].length), cases[i].printable);
		free(data);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_what_was_written),
		cmocka_unit_test(refuses_what_is_no_json_or_ambiguous),
		cmocka_unit_test(depth_is_bounded),
		cmocka_unit_test(long_values_arrive_whole),
		cmocka_unit_test(pointers_overlap_and_are_shared),
		cmocka_unit_test(an_empty_set_only_checks),
		cmocka_unit_test(members_are_handed_out_in_order),
		cmocka_unit_test(bad_pointers_are_named),
		cmocka_unit_test(mutations_are_survived),
		cmocka_unit_test(escapes_for_a_string),
		cmocka_unit_test(utf8_is_strict),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
