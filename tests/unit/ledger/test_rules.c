/* The configured effects applied to events: what one event becomes. */
#include "ledger/rules_world.h"

static const char charge[] =
	"{ name = \"charge\"; " ON "target = \"payments\"; key = \"order:${/order_id}:charge\";\n"
	"  request = { path = \"/v1/charges\"; content_type = \"" FORM "\";\n"
	"    headers = ( (\"x-own\", \"${/customer}\"), (\"X-None\", \"${/none|}\") );\n"
	"    query = ( (\"expand[]\", \"a b\"), (\"id\", \"${/order_id}\") );\n"
	"    body = \"amount=${/cents}&customer=${/customer}\"; };\n"
	"  not_after = \"7d\"; delay = \"5s\"; }";

static void an_order_becomes_a_charge(void **state)
{
	(void)state;
	struct world world;
	static struct applied first, again;
	struct event_source source = placed(
		"{\"order_id\":9223372036854775807123,\"cents\":1999,\"customer\":\"c & d\"}");

	if (!load(&world, PAYMENTS, "", charge))
		fail_msg("%s", world.faults.data);
	assert_int_equal(world.warnings.length, 0);
	assert_int_equal(apply(&world, &source, &first), RULES_MATCHED);
	assert_int_equal(first.count, 1);
	assert_false(first.drafts[0].dead);
	assert_string_equal(first.drafts[0].key, "order:9223372036854775807123:charge");
	assert_string_equal(first.drafts[0].provider_key, "order:9223372036854775807123:charge");
	assert_string_equal(first.drafts[0].tenant, "");
	assert_string_equal(first.drafts[0].url,
			    "https://pay.test/api/v1/charges?expand%5B%5D=a%20b"
			    "&id=9223372036854775807123");
	assert_string_equal(first.drafts[0].headers, "Content-Type: " FORM "\n"
						     "Stripe-Version: 2023\n"
						     "x-own: c & d\n");
	assert_string_equal(first.drafts[0].body, "amount=1999&customer=c+%26+d");
	assert_false(first.drafts[0].body_is_value);
	assert_true(first.drafts[0].not_after == NOW + 7 * USEC_DAY);
	assert_true(first.drafts[0].delay == 5 * USEC_SEC);
	/* Once more, after another event, it is the same to the byte. */
	struct event_source other = placed("{\"order_id\":1,\"cents\":1,\"customer\":\"x\"}");
	assert_int_equal(apply(&world, &other, &again), RULES_MATCHED);
	assert_memory_not_equal(first.drafts[0].fingerprint, again.drafts[0].fingerprint, 16);
	assert_int_equal(apply(&world, &source, &again), RULES_MATCHED);
	assert_memory_equal(&first, &again, sizeof(first));
	unload(&world);
}

/* A draft is frozen: what the rules become afterwards moves neither its bytes nor its key. (L40) */
static void a_changed_template_makes_another_request_under_the_same_key(void **state)
{
	(void)state;
	static const char before[] =
		"{ name = \"charge\"; " ON "target = \"payments\";"
		" key = \"order:${/id}\"; request = { body = \"[${/a}]\"; }; }";
	static const char after[] =
		"{ name = \"charge\"; " ON "target = \"payments\";"
		" key = \"order:${/id}\"; request = { body = \"[ ${/a} ]\"; }; }";
	struct world world;
	static struct applied first, second;
	struct event_source source = placed("{\"id\":1,\"a\":2}");

	assert_true(load(&world, PAYMENTS, "", before));
	assert_int_equal(apply(&world, &source, &first), RULES_MATCHED);
	unload(&world);
	assert_string_equal(first.drafts[0].body, "[2]");
	assert_true(load(&world, PAYMENTS, "", after));
	assert_int_equal(apply(&world, &source, &second), RULES_MATCHED);
	unload(&world);
	assert_string_equal(second.drafts[0].body, "[ 2 ]");
	assert_string_equal(first.drafts[0].key, second.drafts[0].key);
	assert_string_equal(first.drafts[0].provider_key, second.drafts[0].provider_key);
	assert_memory_not_equal(first.drafts[0].fingerprint, second.drafts[0].fingerprint, 16);
}

/* Values of one effect that has everything: key, tenant, path, query, header and a JSON body. */
static const char everything[] =
	"{ name = \"all\"; " ON "target = \"payments\"; key = \"${/a}:${/b}\";\n"
	"  tenant = \"${/t|}\";\n"
	"  request = { method = \"PUT\"; path = \"/c/${/p|p}/x\"; query = ( (\"q\", \"${/q|q}\") "
	");\n"
	"    headers = ( (\"X-H\", \"${/h|}\") ); body = \"{\\\"v\\\":${/v|null}}\"; }; }";

struct value_case {
	const char *value;
	const char *key; /* NULL: poison */
	const char *url; /* NULL: dead */
	const char *why;
};

static const struct value_case value_cases[] = {
	{ "{\"a\":1,\"b\":2}", "1:2", "https://pay.test/api/c/p/x?q=q", "" },
	/* Keys do not meet. */
	{ "{\"a\":\"a:b\",\"b\":\"c\"}", "a%3Ab:c", "https://pay.test/api/c/p/x?q=q", "" },
	{ "{\"a\":\"a\",\"b\":\"b:c\"}", "a:b%3Ac", "https://pay.test/api/c/p/x?q=q", "" },
	{ "{\"a\":\"Key\",\"b\":\"%3A\"}", "Key:%253A", "https://pay.test/api/c/p/x?q=q", "" },
	{ "{\"a\":\"key\",\"b\":\"\\u202e\"}", "key:%E2%80%AE", "https://pay.test/api/c/p/x?q=q",
	  "" },
	/* Nothing leaves its place. */
	{ "{\"a\":1,\"b\":2,\"p\":\"../%2F?x#y\",\"q\":\"&r=1\"}", "1:2",
	  "https://pay.test/api/c/..%2F%252F%3Fx%23y/x?q=%26r%3D1", "" },
	{ "{\"a\":1,\"b\":2,\"p\":1234567890123456789012345678901234567890}", "1:2",
	  "https://pay.test/api/c/1234567890123456789012345678901234567890/x?q=q", "" },
	/* Dead: there is a key, and no request. (L25) */
	{ "{\"a\":1,\"b\":2,\"p\":\"..\"}", "1:2", NULL, "request.path: a segment is \".\" or" },
	{ "{\"a\":1,\"b\":2,\"p\":\".\"}", "1:2", NULL, "request.path: a segment is \".\" or" },
	{ "{\"a\":1,\"b\":2,\"p\":\"\"}", "1:2", NULL, "request.path: ${/p|p} is empty" },
	{ "{\"a\":1,\"b\":2,\"p\":\"x\\ny\"}", "1:2", NULL,
	  "request.path: ${/p|p} holds a control" },
	{ "{\"a\":1,\"b\":2,\"p\":{}}", "1:2", NULL,
	  "request.path: ${/p|p} is an object or array" },
	{ "{\"a\":1,\"b\":2,\"q\":[1]}", "1:2", NULL, "request.query[0]: ${/q|q} is an object" },
	{ "{\"a\":1,\"b\":2,\"h\":\"x\\r\\nX-Evil: 1\"}", "1:2", NULL,
	  "request.headers[0]: ${/h|} holds CR, LF or NUL" },
	{ "{\"a\":\"x\\ny\",\"b\":2}", "x%0Ay:2", NULL, "key: ${/a} holds CR, LF or NUL" },
	{ "{\"a\":1,\"b\":\"\\r\"}", "1:%0D", NULL, "key: ${/b} holds CR, LF or NUL" },
	{ "{\"a\":1,\"b\":2,\"t\":\"x\\n\"}", "1:2", NULL, "tenant: ${/t|} holds CR, LF or NUL" },
	/* Poison: there is no key. */
	{ "{\"a\":1}", NULL, NULL, "effect \"all\": key: ${/b} finds nothing" },
	{ "{\"a\":1,\"b\":null}", NULL, NULL, "key: ${/b} is null" },
	{ "{\"a\":1,\"b\":{}}", NULL, NULL, "key: ${/b} is an object or array" },
	{ "{\"a\":1,\"b\":2,\"t\":[]}", NULL, NULL, "tenant: ${/t|} is an object or array" },
	{ "{\"a\":1,\"a\":1,\"b\":2}", NULL, NULL, "a second member of this name at /a" },
	{ "{\"a\":1,\"b\":\"x\\u0000y\"}", NULL, NULL, "\\u0000 is not allowed" },
	{ "{\"a\":1,\"b\":2,\"h\":\"\\ud800\"}", NULL, NULL, "half of a surrogate pair at /h" },
	{ "{\"a\":1,\"b\":\"\xff\"}", NULL, NULL, "cannot be read as JSON: byte 12: not UTF-8" },
	{ "", NULL, NULL, "effect \"all\": the value cannot be read as JSON: byte 0" },
	{ "not json", NULL, NULL, "the value cannot be read as JSON" },
	{ "{\"a\":1,\"b\":2} x", NULL, NULL, "trailing garbage" },
	/* What nobody uses is nobody's concern. */
	{ "{\"z\":1,\"z\":\"\\u0000\\ud800\",\"a\":1,\"b\":2}", "1:2",
	  "https://pay.test/api/c/p/x?q=q", "" },
};

static void values_stay_where_they_land(void **state)
{
	(void)state;
	struct world world;
	static struct applied applied, again;

	if (!load(&world, PAYMENTS, "", everything))
		fail_msg("%s", world.faults.data);
	for (size_t i = 0; i < LENGTH(value_cases); i++) {
		const struct value_case *c = &value_cases[i];
		struct event_source source = placed(c->value);
		enum rules_verdict verdict = apply(&world, &source, &applied);
		const char *why = applied.count ? applied.drafts[0].why : applied.why.text;
		assert_int_equal(verdict, c->key ? RULES_MATCHED : RULES_POISON);
		assert_int_equal(applied.count, c->key ? 1 : 0);
		if (*c->why && !strstr(why, c->why))
			fail_msg("%s: \"%s\" instead of \"%s\"", c->value, why, c->why);
		if (!c->key)
			continue;
		assert_string_equal(applied.drafts[0].key, c->key);
		assert_string_equal(applied.drafts[0].url, c->url ? c->url : "");
		assert_int_equal(applied.drafts[0].dead, !c->url);
		assert_null(strchr(applied.drafts[0].provider_key, '\n'));
		assert_int_equal(apply(&world, &source, &again), verdict);
		assert_memory_equal(&applied.drafts, &again.drafts, sizeof(again.drafts));
	}
	unload(&world);
}

static void dead_drafts_still_tell_events_apart(void **state)
{
	(void)state;
	struct world world;
	static struct applied one, two, same;
	struct event_source first = placed("{\"a\":1,\"b\":2,\"p\":\"..\"}");
	struct event_source second = placed("{\"a\":1,\"b\":2,\"p\":\"..\",\"x\":1}");

	assert_true(load(&world, PAYMENTS, "", everything));
	assert_int_equal(apply(&world, &first, &one), RULES_MATCHED);
	assert_int_equal(apply(&world, &second, &two), RULES_MATCHED);
	assert_int_equal(apply(&world, &first, &same), RULES_MATCHED);
	assert_true(one.drafts[0].dead && two.drafts[0].dead);
	assert_memory_equal(one.drafts[0].fingerprint, same.drafts[0].fingerprint, 16);
	assert_memory_not_equal(one.drafts[0].fingerprint, two.drafts[0].fingerprint, 16);
	assert_string_equal(one.drafts[0].headers, "");
	assert_string_equal(one.drafts[0].body, "");
	unload(&world);
}

static char *large_value(const char *begin, size_t count, const char *end)
{
	struct buf text = { 0 };

	buf_add_text(&text, begin);
	for (size_t i = 0; i < count; i++)
		buf_add_char(&text, 'x');
	buf_add_text(&text, end);
	return buf_take(&text);
}

static void an_empty_key_is_poison(void **state)
{
	(void)state;
	struct world world;
	static struct applied applied;
	struct event_source source = placed("{\"a\":\"\"}");

	assert_true(load(&world, PAYMENTS, "",
			 "{ name = \"e\"; " ON "target = \"payments\"; key = \"${/a}\"; }"));
	assert_int_equal(apply(&world, &source, &applied), RULES_POISON);
	assert_string_equal(applied.why.text, "effect \"e\": key: is empty");
	assert_int_equal(applied.count, 0);
	unload(&world);
}

static void sizes_are_capped(void **state)
{
	(void)state;
	static const struct {
		const char *begin;
		size_t count;
		const char *end;
		bool poison, dead;
		const char *why;
	} cases[] = {
		{ "{\"b\":1,\"a\":\"", EFFECT_KEY_MAX - 2, "\"}", false, false, "" },
		{ "{\"b\":1,\"a\":\"", EFFECT_KEY_MAX - 1, "\"}", true, false,
		  "key: 513 bytes long; at most 512" },
		{ "{\"b\":1,\"a\":\"", 1 << 20, "\"}", true, false, "key: 1048578 bytes long" },
		{ "{\"a\":1,\"b\":1,\"t\":\"", EFFECT_TENANT_MAX, "\"}", false, false, "" },
		{ "{\"a\":1,\"b\":1,\"t\":\"", EFFECT_TENANT_MAX + 1, "\"}", true, false,
		  "tenant: 129 bytes long; at most 128" },
		{ "{\"a\":1,\"b\":1,\"p\":\"", 1 << 20, "\"}", false, true,
		  "the URL is 1048605 bytes long; at most 8192" },
		{ "{\"a\":1,\"b\":1,\"h\":\"", 8193, "\"}", false, true,
		  "request.headers[0]: 8193 bytes long; at most 8192" },
		{ "{\"a\":1,\"b\":1,\"v\":\"", 17 << 20, "\"}", false, true,
		  "the body is 17825800 bytes long; at most 16777216" },
	};
	struct world world;
	static struct applied applied;

	assert_true(load(&world, PAYMENTS, "", everything));
	for (size_t i = 0; i < LENGTH(cases); i++) {
		char *value = large_value(cases[i].begin, cases[i].count, cases[i].end);
		struct event_source source = placed(value);
		assert_int_equal(apply(&world, &source, &applied),
				 cases[i].poison ? RULES_POISON : RULES_MATCHED);
		const char *why = cases[i].poison ? applied.why.text : applied.drafts[0].why;
		if (!strstr(why, cases[i].why))
			fail_msg("\"%s\" instead of \"%s\"", why, cases[i].why);
		assert_int_equal(applied.drafts[0].dead, cases[i].dead);
		free(value);
	}
	unload(&world);
}

/* Without a body the event's value is sent, whatever it is; nobody reads it. (L54) */
static void the_value_passes_byte_for_byte(void **state)
{
	(void)state;
	static const char forward[] =
		"{ name = \"forward\"; " ON "target = \"payments\"; key = \"${header:op}\"; }";
	static char long_type[RULES_HEADER_MAX];
	const struct {
		const char *value;
		size_t length;
		struct event_header type;
		const char *headers; /* NULL: dead */
	} cases[] = {
		{ "{\"id\": 9223372036854775807123 }",
		  31,
		  { 0 },
		  "Content-Type: application/json\n" },
		{ "\0\xff not json", 11, HEADER("content-type", "text/x; a=\"b\""),
		  "Content-Type: text/x; a=\"b\"\n" },
		{ "", 0, { 0 }, "Content-Type: application/json\n" },
		{ "x", 1, HEADER("content-type", ""), "Content-Type: application/json\n" },
		{ "x", 1, HEADER("content-type", "a/b\r\nX-Evil: 1"), NULL },
		{ "x", 1, HEADER("content-type", "a/b\0"), NULL },
		{ "x", 1, { "content-type", long_type, sizeof(long_type) }, NULL },
		{ "x", 1, HEADER("content-type", "a/b\x1b[2J"), NULL },
	};
	struct world world;
	static struct applied applied;

	memset(long_type, 'x', sizeof(long_type));
	if (!load(&world, "{ name = \"payments\"; url = \"http://h\"; profile = \"stripe-v1\"; }",
		  "", forward))
		fail_msg("%s", world.faults.data);
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct event_header headers[] = { HEADER("ce_type", "placed"), HEADER("op", "1"),
						  cases[i].type };
		struct event_source source = placed("");
		source.value = cases[i].value;
		source.value_length = cases[i].length;
		source.headers = headers;
		source.header_count = cases[i].type.name ? 3 : 2;
		assert_int_equal(apply(&world, &source, &applied), RULES_MATCHED);
		assert_int_equal(applied.count, 1);
		assert_int_equal(applied.drafts[0].dead, !cases[i].headers);
		assert_int_equal(applied.drafts[0].body_is_value, cases[i].headers != NULL);
		assert_string_equal(applied.drafts[0].body, "");
		if (cases[i].headers) {
			assert_string_equal(applied.drafts[0].headers, cases[i].headers);
			assert_string_equal(applied.drafts[0].url, "http://h/");
		} else {
			bool tall = cases[i].type.length == sizeof(long_type);
			assert_non_null(
				strstr(applied.drafts[0].why, tall ? "content-type is longer than"
								   : "content-type holds CR"));
		}
	}
	unload(&world);
}

static void configured_content_types_choose_the_escaping(void **state)
{
	(void)state;
	static const struct {
		const char *type;
		const char *body;
		const char *expected;
		const char *header;
	} cases[] = {
		{ "", "[\\\"${/a}\\\"]", "[\"x\\\"&y\"]", "Content-Type: application/json\n" },
		{ "application/json; charset=utf-8", "[\\\"${/a}\\\"]", "[\"x\\\"&y\"]",
		  "Content-Type: application/json; charset=utf-8\n" },
		{ "Application/VND.api+JSON", "[${/a}]", "[\"x\\\"&y\"]",
		  "Content-Type: Application/VND.api+JSON\n" },
		{ "application/x-www-form-URLENCODED;x", "a=${/a}", "a=x%22%26y",
		  "Content-Type: application/x-www-form-URLENCODED;x\n" },
		{ "text/plain", "a ${/a}", "a x\"&y", "Content-Type: text/plain\n" },
		{ "application/jsonx", "a ${/a}", "a x\"&y", "Content-Type: application/jsonx\n" },
		{ "", "", "", "" },
		{ "application/json", "", "", "Content-Type: application/json\n" },
	};

	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct buf effect BUF_AUTO = { 0 };
		struct event_source source = placed("{\"a\":\"x\\\"&y\"}");
		struct world world;
		static struct applied applied;
		buf_addf(&effect,
			 "{ name = \"e\"; " ON "target = \"p\"; key = \"${/a}\"; request = "
			 "{ content_type = \"%s\"; body = \"%s\"; }; }",
			 cases[i].type, cases[i].body);
		if (!load(&world, "{ name = \"p\"; url = \"http://h\"; profile = \"stripe-v1\"; }",
			  "", effect.data))
			fail_msg("%s", world.faults.data);
		assert_int_equal(apply(&world, &source, &applied), RULES_MATCHED);
		assert_string_equal(applied.drafts[0].body, cases[i].expected);
		assert_string_equal(applied.drafts[0].headers, cases[i].header);
		assert_false(applied.drafts[0].body_is_value);
		unload(&world);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_order_becomes_a_charge),
		cmocka_unit_test(a_changed_template_makes_another_request_under_the_same_key),
		cmocka_unit_test(values_stay_where_they_land),
		cmocka_unit_test(dead_drafts_still_tell_events_apart),
		cmocka_unit_test(an_empty_key_is_poison),
		cmocka_unit_test(sizes_are_capped),
		cmocka_unit_test(the_value_passes_byte_for_byte),
		cmocka_unit_test(configured_content_types_choose_the_escaping),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
