/* The text that libconfig gets to see: includes, places of lines, numbers, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "conf/conf_near.h"
#include "conf/conf_text.h"
#include "conf/conf_time.h"
#include "conf_fixture.h"
#include "usec.h"

static void what_libconfig_gets_to_see(void **state)
{
	(void)state;
	static const struct {
		const char *source;
		const char *text;
	} cases[] = {
		{ "", "\n" },
		{ "a = 1;", "a = 1L;\n" },
		{ "a = -12, b=+3; c=0xFf;", "a = -12L, b=+3L; c=0xFfL;\n" },
		{ "a = 1L; b = 2LL;", "a = 1L; b = 2LL;\n" },
		{ "a = 1.5; b = 1e3; c = 2.5e-3;", "a = 1.5; b = 1e3; c = 2.5e-3;\n" },
		{ "a1-2 = [1,2];", "a1-2 = [1L,2L];\n" },
		{ "a = \"1 \\\" 2\" \"3\";", "a = \"1 \\\" 2\" \"3\";\n" },
		{ "# 1 \"\na = 2;", "# 1 \"\na = 2L;\n" },
		{ "// 1 \"\na = 2;", "// 1 \"\na = 2L;\n" },
		{ "/* 1 \" */ a = 2;", "/* 1 \" */ a = 2L;\n" },
		{ "/*/ 1 */ a = 2;", "/*/ 1 */ a = 2L;\n" },
		{ "\xef\xbb\xbf"
		  "a = 2;",
		  "a = 2L;\n" },
		{ "a = \"\\\\x00\";", "a = \"\\\\x00\";\n" },
		{ "a = \"x\\", NULL },
		{ "a = \"@include\";", "a = \"@include\";\n" },
		{ "a = \"\n@include\n\";", "a = \"\n@include\n\";\n" },
		{ "# @include \"none\"\n", "# @include \"none\"\n\n" },
		{ "/*\n@include \"none\"\n*/", "/*\n@include \"none\"\n*/\n" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct conf_text text = { 0 };
		struct err err = { "" };
		fixture_write("t.conf", cases[i].source);
		bool ok = conf_text_read(&text, "t.conf", &err);
		assert_int_equal(ok, cases[i].text != NULL);
		if (ok)
			assert_string_equal(text.text.data, cases[i].text);
		conf_text_done(&text);
	}
}

static void lines_keep_their_places(void **state)
{
	(void)state;
	struct conf_text text = { 0 };
	struct err err;
	fixture_write("a.conf",
		      "one\n  @include \"b.conf\"  two\nthree\n@include \"c.conf\"\nfour");
	fixture_write("b.conf", "b-one\n\n@include \"c.conf\"");
	fixture_write("c.conf", "c-one\n\nc-two\n");
	assert_true(conf_text_read(&text, "a.conf", &err));
	static const struct {
		const char *word;
		const char *file;
		unsigned line;
	} cases[] = {
		{ "one", "a.conf", 1 },   { "b-one", "b.conf", 1 }, { "c-one", "c.conf", 1 },
		{ "c-two", "c.conf", 3 }, { "two", "a.conf", 2 },   { "three", "a.conf", 3 },
		{ "c-one", "c.conf", 1 }, { "c-two", "c.conf", 3 }, { "four", "a.conf", 5 },
	};
	const char *at = text.text.data;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned line = 1, line_in_file;
		at = strstr(at, cases[i].word);
		assert_non_null(at);
		for (const char *c = text.text.data; c < at; c++)
			line += *c == '\n';
		assert_string_equal(conf_text_place(&text, line, &line_in_file), cases[i].file);
		assert_int_equal(line_in_file, cases[i].line);
		at += strlen(cases[i].word);
	}
	conf_text_done(&text);
}

static void includes_are_found_beside_the_file(void **state)
{
	(void)state;
	char absolute[300];
	struct conf_text text = { 0 };
	struct err err;
	(void)snprintf(absolute, sizeof(absolute), "@include \"%s/b.conf\"\n", fixture_scratch);
	fixture_write("a.conf", absolute);
	fixture_write("b.conf", "@include \"c.conf\"\n");
	fixture_write("c.conf", "here");
	assert_int_equal(chdir("/"), 0);
	char path[300];
	(void)snprintf(path, sizeof(path), "%s/a.conf", fixture_scratch);
	assert_true(conf_text_read(&text, path, &err));
	assert_int_equal(chdir(fixture_scratch), 0);
	assert_non_null(strstr(text.text.data, "here"));
	conf_text_done(&text);
}

static void what_is_refused(void **state)
{
	(void)state;
	static const struct {
		const char *source;
		size_t length; /* 0: of the text */
		const char *why;
	} cases[] = {
		{ "a = 1;\nb = \"\0\";", 13, "t.conf:2: a configuration cannot hold a NUL byte" },
		{ "\na = \"x\\x00\";", 0, "t.conf:2: a text cannot hold a NUL (\\x00)" },
		{ "a = 1; /* \n\n", 0, "t.conf:1: this comment is never closed; it ends with */" },
		{ "/*", 0, "t.conf:1: this comment is never closed; it ends with */" },
		{ "\n\na = \"\n\n", 0, "t.conf:3: this text is never closed; it ends with \"" },
		{ "a = 1; @include \"b\"", 0,
		  "t.conf:1: an include stands at the beginning of a line: @include \"FILE\"" },
		{ "@include", 0,
		  "t.conf:1: an include stands at the beginning of a line: @include \"FILE\"" },
		{ "\n@include \"\"", 0,
		  "t.conf:2: an include stands at the beginning of a line: @include \"FILE\"" },
		{ "@include \"b\n\"", 0,
		  "t.conf:1: an include stands at the beginning of a line: @include \"FILE\"" },
		{ "@other \"b\"", 0,
		  "t.conf:1: an include stands at the beginning of a line: @include \"FILE\"" },
		{ "\n@include \"none.conf\"", 0,
		  "t.conf:2: include: none.conf: No such file or directory" },
		{ "@include \".\"", 0, "t.conf:1: include: .: is a directory, not a file" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct conf_text text = { 0 };
		struct err err = { "" };
		fixture_write_n("t.conf", cases[i].source,
				cases[i].length ? cases[i].length : strlen(cases[i].source));
		assert_false(conf_text_read(&text, "t.conf", &err));
		assert_string_equal(err.text, cases[i].why);
		conf_text_done(&text);
	}
}

static void a_file_that_includes_itself_ends(void **state)
{
	(void)state;
	struct conf_text text = { 0 };
	struct err err;
	fixture_write("t.conf", "a = 1;\n@include \"t.conf\"\n");
	assert_false(conf_text_read(&text, "t.conf", &err));
	assert_non_null(strstr(err.text, "t.conf:2: includes are nested more than 10 deep"));
	conf_text_done(&text);
}

static void a_text_has_a_cap(void **state)
{
	(void)state;
	struct conf_text text = { 0 };
	struct buf large = { 0 };
	struct err err;
	for (int i = 0; i < 600 * 1024; i++)
		buf_add_char(&large, ' ');
	fixture_write_n("half.conf", large.data, large.length);
	fixture_write("t.conf", "@include \"half.conf\"\n@include \"half.conf\"\n");
	assert_false(conf_text_read(&text, "t.conf", &err));
	assert_string_equal(err.text,
			    "t.conf:2: include: half.conf: with its includes it is larger than 1 "
			    "MiB");
	conf_text_done(&text);
	for (int i = 0; i < 500 * 1024; i++)
		buf_add_char(&large, ' ');
	fixture_write_n("t.conf", large.data, large.length);
	assert_false(conf_text_read(&text, "t.conf", &err));
	assert_string_equal(err.text, "t.conf: is larger than 1048576 bytes");
	conf_text_done(&text);
	buf_done(&large);
}

static void times_are_rfc_3339(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		usec_t wall; /* -1: no time */
	} cases[] = {
		{ "1970-01-01T00:00:00Z", 0 },
		{ "2026-01-31T00:00:00Z", 1769817600 * USEC_SEC },
		{ "2026-01-31t00:00:00z", 1769817600 * USEC_SEC },
		{ "2026-01-31 00:00:00Z", 1769817600 * USEC_SEC },
		{ "2026-01-31T00:00:00.1234567Z", 1769817600 * USEC_SEC + 123456 },
		{ "2026-01-31T01:30:00+01:30", 1769817600 * USEC_SEC },
		{ "2026-01-30T19:00:00-05:00", 1769817600 * USEC_SEC },
		{ "2024-02-29T00:00:00Z", 1709164800 * USEC_SEC },
		{ "2023-02-29T00:00:00Z", -1 },
		{ "2026-01-31", -1 },
		{ "2026-01-31T00:00:00", -1 },
		{ "2026-01-31T00:00Z", -1 },
		{ "2026-01-31T24:00:00Z", -1 },
		{ "2026-01-31T00:60:00Z", -1 },
		{ "2026-01-31T00:00:60Z", -1 },
		{ "2026-13-31T00:00:00Z", -1 },
		{ "2026-00-31T00:00:00Z", -1 },
		{ "2026-01-00T00:00:00Z", -1 },
		{ "2026-01-31T00:00:00.Z", -1 },
		{ "2026-01-31T00:00:00+1:30", -1 },
		{ "2026-01-31T00:00:00Zx", -1 },
		{ "26-01-31T00:00:00Z", -1 },
		{ "1970-01-01T00:00:00+00:01", -1 },
		{ "9999-12-31T23:59:59.999999Z", 253402300800 * USEC_SEC - 1 },
		{ "9999-12-31T23:59:59-00:01", -1 },
		{ "", -1 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		usec_t wall = -1;
		assert_int_equal(conf_time_parse(cases[i].text, &wall), cases[i].wall >= 0);
		assert_true(wall == cases[i].wall);
	}
}

static void the_nearest_word(void **state)
{
	(void)state;
	static const char *const known[] = { "batch", "batch_bytes", "lease", "window_rows",
					     "url" };
	static const struct {
		const char *word;
		const char *best;
	} cases[] = {
		{ "batch", "batch" },
		{ "bacth", "batch" },
		{ "batc", "batch" },
		{ "batch_byte", "batch_bytes" },
		{ "windowrows", "window_rows" },
		{ "lea", NULL },
		{ "ulr", "url" },
		{ "uri", "url" },
		{ "x", NULL },
		{ "", NULL },
		{ "concurrency", NULL },
		{ "a-word-that-is-longer-than-any-key-could-ever-be", NULL },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct conf_near near;
		conf_near_init(&near, cases[i].word);
		for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
			conf_near_try(&near, known[k]);
		const char *best = conf_near_best(&near);
		assert_string_equal(best ? best : "none", cases[i].best ? cases[i].best : "none");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_libconfig_gets_to_see),
		cmocka_unit_test(lines_keep_their_places),
		cmocka_unit_test(includes_are_found_beside_the_file),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(a_file_that_includes_itself_ends),
		cmocka_unit_test(a_text_has_a_cap),
		cmocka_unit_test(times_are_rfc_3339),
		cmocka_unit_test(the_nearest_word),
	};
	return cmocka_run_group_tests_name("conf_text", tests, fixture_enter, fixture_leave);
}
