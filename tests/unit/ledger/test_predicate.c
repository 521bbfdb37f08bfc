/* What a predicate finds in a body: yes, no, or that it cannot tell. */
#include "outcome/predicate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static enum body_says ask(const char *pointer, bool equal, const char *text, const char *body,
			  size_t length, bool whole)
{
	char pointer_copy[64], text_copy[64];
	struct conf_predicate conf = { .pointer = pointer_copy, .equal = equal, .text = text_copy };

	(void)snprintf(pointer_copy, sizeof(pointer_copy), "%s", pointer);
	(void)snprintf(text_copy, sizeof(text_copy), "%s", text);
	struct predicate *predicate = predicate_new(&conf);
	const enum body_says says = predicate_ask(predicate, body, length, whole);
	predicate_free(predicate);
	return says;
}

static void bodies_say(void **state)
{
	(void)state;
	static const struct {
		const char *pointer;
		bool equal;
		const char *text, *body;
		enum body_says says;
	} rows[] = {
		{ "/status", true, "ok", "{\"status\":\"ok\"}", BODY_YES },
		{ "/status", true, "ok", "{\"status\":\"o\\u006b\"}", BODY_YES },
		{ "/status", true, "ok", " {\"a\":[1,{}], \"status\" : \"ok\"}\n", BODY_YES },
		{ "/status", true, "ok", "{\"status\":\"OK\"}", BODY_NO },
		{ "/status", true, "ok", "{\"status\":\"ok \"}", BODY_NO },
		{ "/status", true, "ok", "{\"status\":\"failed\"}", BODY_NO },
		{ "/status", true, "ok", "{\"status\":\"\"}", BODY_NO },
		{ "/status", true, "ok", "{\"status\":null}", BODY_NO },
		{ "/status", true, "ok", "{\"status\":[\"ok\"]}", BODY_NO },
		{ "/error", false, "null", "{\"error\":null}", BODY_NO },
		{ "/error", true, "null", "{\"error\":null}", BODY_YES },
		{ "/error", true, "null", "{\"error\":{\"code\":3}}", BODY_NO },
		{ "/status", false, "failed", "{\"status\":\"ok\"}", BODY_YES },
		{ "/status", false, "failed", "{\"status\":\"failed\"}", BODY_NO },
		{ "/done", true, "true", "{\"done\":true}", BODY_YES },
		{ "/done", true, "true", "{\"done\":false}", BODY_NO },
		{ "/code", true, "0", "{\"code\":0}", BODY_YES },
		{ "/code", true, "0", "{\"code\":0.0}", BODY_NO }, /* as it stands there */
		{ "/code", true, "0", "{\"code\":\"0\"}", BODY_YES },
		{ "/a/0/b", true, "x", "{\"a\":[{\"b\":\"x\"}]}", BODY_YES },
		/* what is not there says neither */
		{ "/status", true, "ok", "{}", BODY_UNREADABLE },
		{ "/status", false, "failed", "{}", BODY_UNREADABLE },
		{ "/status", true, "ok", "{\"Status\":\"ok\"}", BODY_UNREADABLE },
		{ "/status", true, "ok", "[]", BODY_UNREADABLE },
		{ "/status", true, "ok", "\"ok\"", BODY_UNREADABLE },
		/* nor does what is no JSON, or not whole */
		{ "/status", true, "ok", "", BODY_UNREADABLE },
		{ "/status", true, "ok", "ok", BODY_UNREADABLE },
		{ "/status", true, "ok", "<html>status ok</html>", BODY_UNREADABLE },
		{ "/status", true, "ok", "{\"status\":\"ok\"", BODY_UNREADABLE },
		{ "/status", false, "failed", "{\"status\":\"ok\"", BODY_UNREADABLE },
		{ "/status", true, "ok", "{\"status\":\"ok\"}}", BODY_UNREADABLE },
		{ "/status", true, "ok", "{\"status\":\"ok\"} {}", BODY_UNREADABLE },
		{ "/status", true, "ok", "{\"status\":\"ok\",\"x\":\"\xff\"}", BODY_UNREADABLE },
		/* two readers could see two answers */
		{ "/status", true, "ok", "{\"status\":\"ok\",\"status\":\"failed\"}",
		  BODY_UNREADABLE },
		{ "/status", true, "ok", "{\"status\":\"ok\\u0000\"}", BODY_UNREADABLE },
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		const size_t length = strlen(rows[i].body);
		const enum body_says says = ask(rows[i].pointer, rows[i].equal, rows[i].text,
						rows[i].body, length, true);
		if (says != rows[i].says)
			fail_msg("%s of %s: %d", rows[i].pointer, rows[i].body, says);
		/* cut somewhere else it might have said the same, and is not believed */
		assert_int_equal(ask(rows[i].pointer, rows[i].equal, rows[i].text, rows[i].body,
				     length, false),
				 BODY_UNREADABLE);
	}
}

/* Of no part of a body is it thought that it were the whole. */
static void no_beginning_of_a_body_says_anything(void **state)
{
	(void)state;
	static const char body[] = "{\"a\":{\"status\":\"no\"},\"status\":\"ok\",\"z\":[1,2]}";
	for (size_t length = 0; length < sizeof(body) - 1; length++)
		assert_int_equal(ask("/status", true, "ok", body, length, true), BODY_UNREADABLE);
	assert_int_equal(ask("/status", true, "ok", body, sizeof(body) - 1, true), BODY_YES);
}

static void without_a_predicate_nobody_asks(void **state)
{
	(void)state;
	char none[] = "";
	const struct conf_predicate conf = { .pointer = none, .equal = true, .text = none };

	assert_null(predicate_new(&conf));
	assert_int_equal(predicate_ask(NULL, "", 0, false), BODY_UNASKED);
	predicate_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bodies_say),
		cmocka_unit_test(no_beginning_of_a_body_says_anything),
		cmocka_unit_test(without_a_predicate_nobody_asks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
