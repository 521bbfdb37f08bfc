/* Templates: what is refused when they are compiled, and that no value leaves the place where it
 * lands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rules/escape.h"
#include "rules/template.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define HEADER(name_, value_)                                                                      \
	{                                                                                          \
		(name_), (value_), sizeof(value_) - 1                                              \
	}

/* One document with everything that is bad in it. */
static const char document[] =
	"{\"id\":42,\"big\":9223372036854775807123,\"huge\":"
	"1234567890123456789012345678901234567890,"
	"\"price\":1.10,\"neg\":-0,\"yes\":true,\"no\":false,\"null\":null,\"empty\":\"\","
	"\"name\":\"a:b\",\"a\":\"a\",\"bc\":\"b:c\",\"percent\":\"%3A\",\"slash\":\"x/../"
	"%2F?y#z\","
	"\"dots\":\"..\",\"space\":\"a b\",\"crlf\":\"a\\r\\nX-Evil: 1\",\"tab\":\"a\\tb\","
	"\"quote\":\"\\\"},{\\\"\",\"back\":\"\\\\\",\"utf8\":\"\\u00e9\\u202e\",\"amp\":\"a&b=c+"
	"d\","
	"\"tilde\":\"k~r1\",\"esc\":\"\\u001b[2J\","
	"\"list\":[1, \"2\" ],\"map\":{ \"k\":null },\"deep\":{\"a/b\":{\"m~n\":[0,\"found\"]}}}";

static const struct event_header headers[] = {
	HEADER("tenant", "acme"),   HEADER("raw", "a\0b"),    HEADER("bytes", "\xff\xfe"),
	HEADER("split", "a\nb: c"), HEADER("twice", "first"), HEADER("twice", "last"),
	{ "valueless", NULL, 0 },   HEADER("blank", ""),      HEADER("tabbed", "a\tb"),
};

static struct event test_event(void)
{
	struct event_source source = {
		.topic = "orders",
		.partition = 1,
		.offset = 7,
		.key = "customer 9",
		.key_length = 10,
		.value = document,
		.value_length = sizeof(document) - 1,
		.headers = headers,
		.header_count = LENGTH(headers),
		.sent_at = USEC_NEVER,
	};
	struct event event;

	assert_true(event_decode(&source, NULL, &event));
	return event;
}

/* Compiles, reads the document, renders. */
static bool render(const char *text, enum template_context context, const struct event *event,
		   struct err *err, struct buf *out)
{
	struct json_paths *paths = json_paths_new();
	struct json_value values[16] = { 0 };
	struct buf storage BUF_AUTO = { 0 };
	struct template_code *template = NULL;

	if (!template_compile(text, context, paths, err, &template))
		fail_msg("%s: %s", text, err->text);
	assert_true(json_paths_count(paths) <= LENGTH(values));
	assert_true(json_read(paths, event->source.value, event->source.value_length, err, &storage,
			      values));
	struct template_input input = { .event = event, .values = values, .secret = "s3cret" };
	bool ok = template_render(template, &input, err, out);
	template_free(template);
	json_paths_free(paths);
	return ok;
}

struct render_case {
	enum template_context context;
	const char *text;
	const char *expected;
};

static const struct render_case render_cases[] = {
	/* Every source. */
	{ TEMPLATE_TEXT, "", "" },
	{ TEMPLATE_TEXT, "plain", "plain" },
	{ TEMPLATE_TEXT, "${/id}", "42" },
	{ TEMPLATE_TEXT, "${type|none}", "none" },
	{ TEMPLATE_TEXT, "${topic} ${event_id} ${subject}", "orders orders/1/7 customer 9" },
	{ TEMPLATE_TEXT, "${header:tenant}", "acme" },
	{ TEMPLATE_TEXT, "${header:twice}", "last" },
	{ TEMPLATE_TEXT, "[${header:blank}]", "[]" },
	{ TEMPLATE_TEXT, "${header:none|x}${header:valueless|y}", "xy" },
	{ TEMPLATE_TEXT, "${/deep/a~1b/m~0n/1}", "found" },
	{ TEMPLATE_TEXT, "${/list/1}", "2" },
	{ TEMPLATE_TEXT, "$$ $$${/id}$$", "$ $42$" },
	{ TEMPLATE_TEXT, "$${/id}", "${/id}" },
	{ TEMPLATE_TEXT, "}{|${/id}}", "}{|42}" },
	{ TEMPLATE_TEXT, "${/none|}", "" },
	{ TEMPLATE_TEXT, "${/none|a|b}", "a|b" },
	{ TEMPLATE_TEXT, "${/null|was null}", "was null" },
	{ TEMPLATE_TEXT, "[${/empty|unused}]", "[]" },
	{ TEMPLATE_TEXT, "${/crlf}", "a\r\nX-Evil: 1" },
	/* What is emitted: the provider's id is known later. */
	{ TEMPLATE_EMIT, "{\"c\":${provider_id},\"o\":${/id}}", "{\"c\":\x02,\"o\":42}" },
	{ TEMPLATE_EMIT, "[\"x ${provider_id}\", \"${/quote}\"]", "[\"x \x01\", \"\\\"},{\\\"\"]" },
	{ TEMPLATE_EMIT, "${/map}", "{ \"k\":null }" },
	{ TEMPLATE_EMIT, "{\"a\":${/none|null}}", "{\"a\":null}" },
	/* Numbers as they were written. */
	{ TEMPLATE_TEXT, "${/big} ${/price} ${/neg}", "9223372036854775807123 1.10 -0" },
	{ TEMPLATE_PATH, "/v1/${/big}", "/v1/9223372036854775807123" },
	{ TEMPLATE_QUERY, "${/huge}", "1234567890123456789012345678901234567890" },
	{ TEMPLATE_JSON, "{\"n\":${/big},\"s\":\"${/big}\"}",
	  "{\"n\":9223372036854775807123,\"s\":\"9223372036854775807123\"}" },
	{ TEMPLATE_KEY, "o:${/huge}", "o:1234567890123456789012345678901234567890" },
	/* Keys: two different pairs never give one key. */
	{ TEMPLATE_KEY, "${/name}:${/a}", "a%3Ab:a" },
	{ TEMPLATE_KEY, "${/a}:${/bc}", "a:b%3Ac" },
	{ TEMPLATE_KEY, "${/percent}", "%253A" },
	{ TEMPLATE_KEY, "${/space}", "a%20b" },
	{ TEMPLATE_KEY, "${/tilde}", "k%7Er1" },
	{ TEMPLATE_KEY, "${/utf8}", "%C3%A9%E2%80%AE" },
	{ TEMPLATE_KEY, "${/crlf}", "a%0D%0AX-Evil%3A%201" },
	{ TEMPLATE_KEY, "${header:raw}", "a%00b" },
	{ TEMPLATE_KEY, "${header:bytes}", "%FF%FE" },
	{ TEMPLATE_KEY, "${/slash}", "x/../%252F?y#z" },
	{ TEMPLATE_KEY, "k:${/empty}", "k:" },
	{ TEMPLATE_KEY, "k:${/none|a:b}", "k:a%3Ab" },
	{ TEMPLATE_KEY, "${/yes}${/no}", "truefalse" },
	{ TEMPLATE_TENANT, "eu.${/name}", "eu.a%3Ab" },
	/* URLs. */
	{ TEMPLATE_PATH, "/c/${/slash}/x", "/c/x%2F..%2F%252F%3Fy%23z/x" },
	{ TEMPLATE_PATH, "/c/${/utf8}", "/c/%C3%A9%E2%80%AE" },
	{ TEMPLATE_PATH, "/c/${/percent}%20${/space}", "/c/%253A%20a%20b" },
	{ TEMPLATE_PATH, "/c/${/dots}", "/c/.." }, /* refused where the whole path is known */
	{ TEMPLATE_PATH, "/c${/none|}", "/c" },
	{ TEMPLATE_QUERY, "${/amp}", "a%26b%3Dc%2Bd" },
	{ TEMPLATE_QUERY, "a b&${/id}", "a%20b%2642" },
	{ TEMPLATE_QUERY, "${/crlf}", "a%0D%0AX-Evil%3A%201" },
	{ TEMPLATE_FORM, "a=${/amp}&b[c]=${/space}", "a=a%26b%3Dc%2Bd&b[c]=a+b" },
	{ TEMPLATE_FORM, "a=${/crlf}", "a=a%0D%0AX-Evil%3A+1" },
	{ TEMPLATE_FORM, "a=${/tilde}", "a=k%7Er1" },
	{ TEMPLATE_FORM, "a=${header:raw}", "a=a%00b" },
	/* JSON. */
	{ TEMPLATE_JSON, "{\"a\":\"${/quote}\"}", "{\"a\":\"\\\"},{\\\"\"}" },
	{ TEMPLATE_JSON, "{\"a\":${/quote}}", "{\"a\":\"\\\"},{\\\"\"}" },
	{ TEMPLATE_JSON, "{\"a\":\"${/back}\"}", "{\"a\":\"\\\\\"}" },
	{ TEMPLATE_JSON, "{\"a\":\"x${/crlf}y\"}", "{\"a\":\"xa\\r\\nX-Evil: 1y\"}" },
	{ TEMPLATE_JSON, "{\"a\":\"\\\"${/id}\\\\\",\"b\":${/id}}",
	  "{\"a\":\"\\\"42\\\\\",\"b\":42}" },
	{ TEMPLATE_JSON, "[${/yes},${/no},${/price}]", "[true,false,1.10]" },
	{ TEMPLATE_JSON, "[${/list},${/map}]", "[[1, \"2\" ],{ \"k\":null }]" },
	{ TEMPLATE_JSON, "{\"a\":\"${/list}\"}", "{\"a\":\"[1, \\\"2\\\" ]\"}" },
	{ TEMPLATE_JSON, "${/map}", "{ \"k\":null }" },
	{ TEMPLATE_JSON, "[${/none|null},${/none|0},${/none|\"x\"},\"${/none|x}\"]",
	  "[null,0,\"x\",\"x\"]" },
	{ TEMPLATE_JSON, "{\"${/name}\":1}", "{\"a:b\":1}" },
	{ TEMPLATE_JSON, "[${topic},\"${topic}\"]", "[\"orders\",\"orders\"]" },
	{ TEMPLATE_JSON, "[\"${header:raw}\"]", "[\"a\\u0000b\"]" },
	{ TEMPLATE_JSON, "[\"${/esc}\"]", "[\"\\u001b[2J\"]" },
	{ TEMPLATE_JSON, "[\"$$\"]", "[\"$\"]" },
	/* Headers. */
	{ TEMPLATE_HEADER, "v ${/utf8}", "v \xc3\xa9\xe2\x80\xae" },
	{ TEMPLATE_HEADER, "${/tab}", "a\tb" },
	{ TEMPLATE_HEADER, "${header:bytes}", "\xff\xfe" },
	{ TEMPLATE_SECRET, "Bearer ${secret}", "Bearer s3cret" },
	/* Digests: golden, over 8-byte lengths and texts. */
	{ TEMPLATE_KEY, "${sha256:/a}",
	  "3b196fd4907bedf51c3090e9835f2f7cb61e7ee1b2299ea3b8fed9b4183a822a" },
	{ TEMPLATE_KEY, "x:${sha256:/a,/id}",
	  "x:e589ccd9904452fcd05b6279f18bcc72e8136671a6918c10994c239010623304" },
};

static void renders_for_where_it_lands(void **state)
{
	(void)state;
	struct event event = test_event();

	for (size_t i = 0; i < LENGTH(render_cases); i++) {
		const struct render_case *c = &render_cases[i];
		struct buf out BUF_AUTO = { 0 };
		struct err err = { "" };
		for (int again = 0; again < 2; again++) {
			buf_clear(&out);
			buf_add_text(&out, "before ");
			if (!render(c->text, c->context, &event, &err, &out))
				fail_msg("%s: %s", c->text, err.text);
			if (strcmp(out.data + 7, c->expected) != 0)
				fail_msg("%s gave\n%s instead of\n%s", c->text, out.data + 7,
					 c->expected);
		}
	}
}

static const struct render_case failing_cases[] = {
	{ TEMPLATE_KEY, "o:${/none}", "${/none} finds nothing" },
	{ TEMPLATE_KEY, "o:${/null}", "${/null} is null" },
	{ TEMPLATE_KEY, "${/deep/x/y}", "${/deep/x/y} finds nothing" },
	{ TEMPLATE_KEY, "${/list}", "${/list} is an object or array" },
	{ TEMPLATE_KEY, "${/map|x}", "${/map|x} is an object or array" },
	{ TEMPLATE_KEY, "${type}", "${type} finds nothing" },
	{ TEMPLATE_KEY, "${header:valueless}", "${header:valueless} finds nothing" },
	{ TEMPLATE_KEY, "${sha256:/id,/none}", "${sha256:/id,/none}: /none finds nothing" },
	{ TEMPLATE_KEY, "${sha256:/null}", "${sha256:/null}: /null is null" },
	{ TEMPLATE_KEY, "${sha256:/map}", "takes no object or array" },
	{ TEMPLATE_TEXT, "x${/map}", "${/map} is an object or array, which only a JSON body" },
	{ TEMPLATE_FORM, "x=${/list}", "${/list} is an object or array" },
	{ TEMPLATE_PATH, "/c/${/list}", "${/list} is an object or array" },
	{ TEMPLATE_PATH, "/c/${/empty}", "${/empty} is empty" },
	{ TEMPLATE_PATH, "/c/${header:blank}/x", "${header:blank} is empty" },
	{ TEMPLATE_PATH, "/c/${/crlf}", "${/crlf} holds a control character" },
	{ TEMPLATE_PATH, "/c/${header:raw}", "${header:raw} holds a control character" },
	{ TEMPLATE_HEADER, "${/crlf}", "${/crlf} holds CR, LF or NUL" },
	{ TEMPLATE_HEADER, "${header:raw}", "${header:raw} holds CR, LF or NUL" },
	{ TEMPLATE_HEADER, "${header:split}", "${header:split} holds CR, LF or NUL" },
	{ TEMPLATE_HEADER, "${/esc}", "${/esc} holds a control character" },
	{ TEMPLATE_HEADER, "${/map}", "${/map} is an object or array" },
	{ TEMPLATE_JSON, "{\"a\":${/null}}", "${/null} is null" },
	{ TEMPLATE_JSON, "{\"a\":\"${/none}\"}", "${/none} finds nothing" },
	{ TEMPLATE_JSON, "[\"${header:bytes}\"]", "${header:bytes} is not UTF-8" },
};

static void failing_leaves_what_was_there(void **state)
{
	(void)state;
	struct event event = test_event();

	for (size_t i = 0; i < LENGTH(failing_cases); i++) {
		const struct render_case *c = &failing_cases[i];
		struct buf out BUF_AUTO = { 0 };
		struct err err = { "" };
		buf_add_text(&out, "before");
		if (render(c->text, c->context, &event, &err, &out))
			fail_msg("%s gave %s", c->text, out.data);
		if (!strstr(err.text, c->expected))
			fail_msg("%s: \"%s\" instead of \"%s\"", c->text, err.text, c->expected);
		assert_string_equal(out.data, "before");
		/* The reason names the place and never shows what stands there. */
		assert_null(strstr(err.text, "Evil"));
	}
}

static const struct render_case refused_cases[] = {
	{ TEMPLATE_TEXT, "a $ b", "at character 3: a single '$'; write $$" },
	{ TEMPLATE_TEXT, "cost$", "at character 5: a single '$'" },
	{ TEMPLATE_TEXT, "abc${/a", "at character 4: \"${\" is never closed; add a '}'" },
	{ TEMPLATE_TEXT, "${}", "at character 1: ${} names nothing" },
	{ TEMPLATE_TEXT, "${|x}", "${} names nothing" },
	{ TEMPLATE_TEXT, "${order_id}", "${order_id} is not known; known are ${/json/pointer}" },
	{ TEMPLATE_TEXT, "${Type}", "${Type} is not known" },
	{ TEMPLATE_TEXT, "${ /a}", "is not known" },
	{ TEMPLATE_TEXT, "${header:}", "a header needs its name" },
	{ TEMPLATE_TEXT, "${header:a\nb}", "a header needs its name" },
	{ TEMPLATE_TEXT, "${sha256:}", "sha256 takes JSON pointers" },
	{ TEMPLATE_TEXT, "${sha256:/a,}", "sha256 takes JSON pointers" },
	{ TEMPLATE_TEXT, "${sha256:/a,/~}", "'~' is written '~0'" },
	{ TEMPLATE_TEXT, "${sha256:/a,b}", "sha256 takes JSON pointers" },
	{ TEMPLATE_TEXT, "${sha256:/a|x}", "this place takes no default" },
	{ TEMPLATE_TEXT, "x${/a~2}", "at character 2: in the pointer, '~' is written '~0'" },
	{ TEMPLATE_TEXT, "ok\xff", "at character 3: not UTF-8" },
	{ TEMPLATE_TEXT, "${secret}", "${secret} exists only in a target's auth" },
	{ TEMPLATE_KEY, "o:${offset}", "${offset} does not exist: offsets, the clock and chance" },
	{ TEMPLATE_KEY, "o:${partition}", "does not exist" },
	{ TEMPLATE_KEY, "o:${now}", "does not exist" },
	{ TEMPLATE_KEY, "o:${timestamp}", "does not exist" },
	{ TEMPLATE_KEY, "o:${header:ce_time}", "a key made of the clock" },
	{ TEMPLATE_KEY, "o\n${/a}", "at character 2: a control character cannot stand in a key" },
	{ TEMPLATE_KEY, "o~r1${/a}", "'~' is kept for the keys of replays" },
	{ TEMPLATE_KEY, "${/a|x\ny}", "the default holds a control character" },
	{ TEMPLATE_TENANT, "eu:${/a}", "':' divides the tenant from the key" },
	{ TEMPLATE_PATH, "/a b", "must be percent-encoded in a path" },
	{ TEMPLATE_PATH, "/\xc3\xa9", "must be percent-encoded in a path" },
	{ TEMPLATE_PATH, "/a?b=c", "parameters belong in query" },
	{ TEMPLATE_PATH, "/a#b", "parameters belong in query" },
	{ TEMPLATE_PATH, "/a%2", "'%' must be followed by two hexadecimal digits" },
	{ TEMPLATE_PATH, "/a%", "'%' must be followed by two hexadecimal digits" },
	{ TEMPLATE_PATH, "/a%${/b}", "'%' must be followed by two hexadecimal digits" },
	{ TEMPLATE_PATH, "/a\\b", "must be percent-encoded in a path" },
	{ TEMPLATE_FORM, "a=b c", "must be percent-encoded in a form" },
	{ TEMPLATE_FORM, "a=b\n", "must be percent-encoded in a form" },
	{ TEMPLATE_HEADER, "a\r\nb", "a control character cannot stand in a header" },
	{ TEMPLATE_HEADER, "${/a|x\ny}", "the default holds a control character" },
	{ TEMPLATE_JSON, "{\"a\":${/a}", "with its places filled this is no JSON: byte " },
	{ TEMPLATE_JSON, "{\"a\":x${/a}}", "this is no JSON" },
	{ TEMPLATE_JSON, "{${/a}:1}", "this is no JSON" },
	{ TEMPLATE_JSON, "[${/a}${/b}]", "this is no JSON" },
	{ TEMPLATE_JSON, "[1${/a}]", "this is no JSON" },
	{ TEMPLATE_JSON, "[\"\\${/a}\"]", "this is no JSON" },
	{ TEMPLATE_JSON, "[\"\\u00${/a}\"]", "this is no JSON" },
	{ TEMPLATE_JSON, "", "this is no JSON" },
	{ TEMPLATE_JSON, "[${/a|none}]", "outside of quotes a default is JSON" },
	{ TEMPLATE_JSON, "[${/a|}]", "outside of quotes a default is JSON" },
	{ TEMPLATE_JSON, "[${/a|1,2}]", "outside of quotes a default is JSON" },
	{ TEMPLATE_EMIT, "{${provider_id}}", "this is no JSON" },
	{ TEMPLATE_EMIT, "id ${provider_id}", "this is no JSON" },
	{ TEMPLATE_EMIT, "", "this is no JSON" },
	{ TEMPLATE_EMIT, "${provider_id|x}", "without an id it is null" },
	{ TEMPLATE_JSON, "{\"a\":${provider_id}}", "${provider_id} exists only in emit.payload" },
	{ TEMPLATE_KEY, "a:${provider_id}", "${provider_id} exists only in emit.payload" },
	{ TEMPLATE_SECRET, "Bearer ${/a}", "auth can use only ${secret}" },
	{ TEMPLATE_SECRET, "Bearer ${secret|x}", "this place takes no default" },
};

static void refused_when_compiled(void **state)
{
	(void)state;
	for (size_t i = 0; i < LENGTH(refused_cases); i++) {
		const struct render_case *c = &refused_cases[i];
		struct json_paths *paths = json_paths_new();
		struct template_code *template = NULL;
		struct err err = { "" };
		if (template_compile(c->text, c->context, paths, &err, &template))
			fail_msg("%s was compiled", c->text);
		if (!strstr(err.text, c->expected))
			fail_msg("%s: \"%s\" instead of \"%s\"", c->text, err.text, c->expected);
		assert_null(template);
		json_paths_free(paths);
	}
}

static void pointers_are_shared_and_listed(void **state)
{
	(void)state;
	struct json_paths *paths = json_paths_new();
	struct template_code *first = NULL, *second = NULL;
	size_t index = 42;

	assert_true(template_compile("${/a} ${sha256:/b,/a} ${topic}", TEMPLATE_TEXT, paths, NULL,
				     &first));
	assert_true(template_compile("${/b|x}", TEMPLATE_TEXT, paths, NULL, &second));
	assert_int_equal(json_paths_count(paths), 2);
	assert_string_equal(template_pointer(first, 0, &index), "/a");
	assert_int_equal(index, 0);
	assert_string_equal(template_pointer(first, 1, &index), "/b");
	assert_int_equal(index, 1);
	assert_string_equal(template_pointer(first, 2, &index), "/a");
	assert_null(template_pointer(first, 3, &index));
	assert_string_equal(template_pointer(second, 0, &index), "/b");
	assert_int_equal(index, 1);
	assert_true(template_uses(first, SOURCE_SHA256));
	assert_true(template_uses(first, SOURCE_TOPIC));
	assert_false(template_uses(first, SOURCE_HEADER));
	assert_false(template_has_default(first));
	assert_true(template_has_default(second));
	template_free(first);
	template_free(second);
	template_free(NULL);
	json_paths_free(paths);
}

static void line_breaks_are_found(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		const char *place;
	} cases[] = {
		{ "k:${/crlf}", "${/crlf}" },
		{ "${/id}:${header:raw}", "${header:raw}" },
		{ "${header:split}", "${header:split}" },
		{ "${/tab}${/esc}${/none}${sha256:/crlf}${/percent}", NULL },
	};
	struct event event = test_event();

	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct json_paths *paths = json_paths_new();
		struct json_value values[8] = { 0 };
		struct buf storage BUF_AUTO = { 0 };
		struct template_code *template = NULL;
		assert_true(template_compile(cases[i].text, TEMPLATE_KEY, paths, NULL, &template));
		assert_true(
			json_read(paths, document, sizeof(document) - 1, NULL, &storage, values));
		struct template_input input = { .event = &event, .values = values };
		const char *place = template_line_break(template, &input);
		if (cases[i].place)
			assert_string_equal(place, cases[i].place);
		else
			assert_null(place);
		template_free(template);
		json_paths_free(paths);
	}
}

/* A megabyte in every context, and every byte value in each of them. */
static void any_bytes_are_survived(void **state)
{
	(void)state;
	static const char *const texts[] = { "${header:x}", "/${header:x}", "a=${header:x}",
					     "[\"${header:x}\"]" };
	static char every[256], large[1 << 20];
	for (int i = 0; i < 256; i++)
		every[i] = (char)i;
	memset(large, 'x', sizeof(large));
	struct event_header header = { "x", large, sizeof(large) };
	struct event event = { .source = { .headers = &header, .header_count = 1 } };

	for (int context = TEMPLATE_KEY; context <= TEMPLATE_HEADER; context++) {
		const char *text = texts[context == TEMPLATE_PATH   ? 1
					 : context == TEMPLATE_FORM ? 2
					 : context == TEMPLATE_JSON ? 3
								    : 0];
		struct json_paths *paths = json_paths_new();
		struct template_code *template = NULL;
		struct template_input input = { .event = &event };
		struct buf out BUF_AUTO = { 0 }, storage BUF_AUTO = { 0 };
		assert_true(template_compile(text, (enum template_context)context, paths, NULL,
					     &template));
		header.value = large;
		header.length = sizeof(large);
		assert_true(template_render(template, &input, NULL, &out));
		assert_true(out.length >= sizeof(large));
		header.value = every;
		for (header.length = 0; header.length <= sizeof(every); header.length++) {
			buf_clear(&out);
			if (!template_render(template, &input, NULL, &out))
				continue;
			if (context == TEMPLATE_JSON)
				assert_true(json_read(paths, out.data, out.length, NULL, &storage,
						      NULL));
			else if (context != TEMPLATE_TEXT)
				assert_true(header_value_valid(buf_text(&out), out.length));
		}
		template_free(template);
		json_paths_free(paths);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(renders_for_where_it_lands),
		cmocka_unit_test(failing_leaves_what_was_there),
		cmocka_unit_test(refused_when_compiled),
		cmocka_unit_test(pointers_are_shared_and_listed),
		cmocka_unit_test(line_breaks_are_found),
		cmocka_unit_test(any_bytes_are_survived),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
