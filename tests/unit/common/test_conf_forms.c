/* Rates, JSON pointers, predicates and lookups: what is taken, and what is said of the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "conf/conf_forms.h"

static void rates(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int64_t events;
		usec_t period;
	} cases[] = {
		{ "1/s", 1, USEC_SEC },
		{ "25/s", 25, USEC_SEC },
		{ "600/m", 600, USEC_MIN },
		{ "100/h", 100, USEC_HOUR },
		{ "1000000/s", 1000000, USEC_SEC },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		BUF_AUTO struct buf text = { 0 };
		struct conf_rate rate;
		assert_true(conf_rate_parse(cases[i].text, NULL, &rate));
		assert_int_equal(rate.events, cases[i].events);
		assert_int_equal(rate.period, cases[i].period);
		conf_rate_format(&rate, &text);
		assert_string_equal(text.data, cases[i].text);
	}
}

static void what_is_no_rate(void **state)
{
	(void)state;
	static const char form[] = " is not a rate; write for example \"25/s\", \"600/m\" or "
				   "\"100/h\"";
	static const char range[] = ": the number is outside of 1 to 1000000";
	static const struct {
		const char *text;
		const char *shown;
		const char *why;
	} cases[] = {
		{ "", "\"\"", form },
		{ "25", "\"25\"", form },
		{ "/s", "\"/s\"", form },
		{ "25/", "\"25/\"", form },
		{ "25 /s", "\"25 /s\"", form },
		{ " 25/s", "\" 25/s\"", form },
		{ "-1/s", "\"-1/s\"", form },
		{ "+1/s", "\"+1/s\"", form },
		{ "2.5/s", "\"2.5/s\"", form },
		{ "25/S", "\"25/S\"", form },
		{ "25/d", "\"25/d\"", form },
		{ "25/ms", "\"25/ms\"", form },
		{ "25/s\n", "\"25/s\\n\"", form },
		{ "0/s", "\"0/s\"", range },
		{ "1000001/s", "\"1000001/s\"", range },
		{ "18446744073709551617/s", "\"18446744073709551617/s\"", range },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		BUF_AUTO struct buf expected = { 0 };
		struct conf_rate rate = { 7, 7 };
		struct err err;
		assert_false(conf_rate_parse(cases[i].text, &err, &rate));
		buf_addf(&expected, "%s%s", cases[i].shown, cases[i].why);
		assert_string_equal(err.text, expected.data);
		assert_true(rate.events == 7 && rate.period == 7);
	}
}

static void pointers(void **state)
{
	(void)state;
	static const char *const good[] = { "", "/", "/a", "/a/0/b", "/a~0b~1c", "/a b", "//" };
	static const char *const bad[] = { "a", "a/b", "/a~", "/a~2", "#/a", " /a" };
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(conf_pointer_check(good[i], NULL));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(conf_pointer_check(bad[i], NULL));
}

static void predicates(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		const char *pointer;
		bool equal;
		const char *value;
	} cases[] = {
		{ "", "", true, "" },
		{ "/status = ok", "/status", true, "ok" },
		{ "/error != none", "/error", false, "none" },
		{ "/a b=c = x y", "/a b=c", true, "x y" },
		{ "/a = b != c", "/a", true, "b != c" },
		{ "/a != b = c", "/a", false, "b = c" },
		{ "/a = =", "/a", true, "=" },
		{ "/a~1b/0 = 1.10", "/a~1b/0", true, "1.10" },
		{ "/ = \"", "/", true, "\"" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		BUF_AUTO struct buf text = { 0 };
		struct conf_predicate predicate;
		assert_true(conf_predicate_parse(cases[i].text, NULL, &predicate));
		assert_string_equal(predicate.pointer, cases[i].pointer);
		assert_int_equal(predicate.equal, cases[i].equal);
		assert_string_equal(predicate.text, cases[i].value);
		conf_predicate_format(&predicate, &text);
		assert_string_equal(buf_text(&text), cases[i].text);
		conf_predicate_done(&predicate);
	}
}

static void what_is_no_predicate(void **state)
{
	(void)state;
	static const char none[] =
		"holds no \" = \" and no \" != \"; write JSON pointer, operator and text, with a "
		"blank on both sides of the operator, as in \"/status = ok\"";
	static const char blanks[] = "there is more than one blank around the text";
	static const struct {
		const char *text;
		const char *why;
	} cases[] = {
		{ "/status", none },
		{ "/status=ok", none },
		{ "/status == ok", none },
		{ "/status =ok", none },
		{ "/status < 3", none },
		{ " = ok", "begins with no JSON pointer; write for example \"/status = ok\"" },
		{ "status = ok",
		  "what stands before the operator: is not a JSON pointer; write for example "
		  "\"/id\", with ~1 for a \"/\" and ~0 for a \"~\" in a name" },
		{ "/status = ",
		  "ends behind the operator; the text is missing, as in \"/status = ok\"" },
		{ "/status =  ok", blanks },
		{ "/status = ok ", blanks },
		{ "/status = o\nk", "the text holds a control character" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct conf_predicate predicate;
		struct err err;
		assert_false(conf_predicate_parse(cases[i].text, &err, &predicate));
		assert_string_equal(err.text, cases[i].why);
	}
}

static void lookups(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		const char *why; /* NULL: fine */
	} cases[] = {
		{ "https://dashboard.stripe.com/search?query=${key}", NULL },
		{ "HTTP://h/${key}/a?b=${key}#c", NULL },
		{ "${key}", "must begin with https:// or http://" },
		{ "javascript:${key}", "must begin with https:// or http://" },
		{ "https://h/", "has no place for the key; write ${key} where it belongs" },
		{ "https://h/$key", "has no place for the key; write ${key} where it belongs" },
		{ "https://h/${key}${tenant}", "the only place in it is ${key}" },
		{ "https://h/${/id}", "the only place in it is ${key}" },
		{ "https://h/ ${key}",
		  "character 11 cannot stand in an address; write it percent-encoded" },
		{ "https://h/\x1b${key}",
		  "character 11 cannot stand in an address; write it percent-encoded" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct err err;
		bool ok = conf_lookup_check(cases[i].text, &err);
		assert_int_equal(ok, cases[i].why == NULL);
		if (!ok)
			assert_string_equal(err.text, cases[i].why);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rates),
		cmocka_unit_test(what_is_no_rate),
		cmocka_unit_test(pointers),
		cmocka_unit_test(predicates),
		cmocka_unit_test(what_is_no_predicate),
		cmocka_unit_test(lookups),
	};
	return cmocka_run_group_tests_name("conf_forms", tests, NULL, NULL);
}
