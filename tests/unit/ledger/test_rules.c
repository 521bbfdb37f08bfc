/* The configured effects applied to events: what one event becomes. */
#include "ledger/rules_world.h"
#include "rules/profile.h"

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

/* --- routing --- */

static const char routed[] =
	EFFECT("one", "topic = \"orders\"; type = \"placed\";", "") ", " EFFECT(
		"two", "topic = \"orders\"; type = (\"placed\", \"paid\");",
		"") ", " EFFECT("any", "topic = \"orders\";",
				"") ", " EFFECT("gone", "topic = \"orders\"; type = \"gone\";",
						"tombstone = true;") ", " EFFECT("other",
										 "topic = "
										 "\"users\"; type "
										 "= \"placed\";",
										 "");

static void events_find_their_effects(void **state)
{
	(void)state;
	static const struct {
		const char *topic, *type, *value;
		const char *effects;
	} cases[] = {
		{ "orders", "placed", "x", "one two any " },
		{ "orders", "paid", "x", "two any " },
		{ "orders", "gone", "x", "any gone " },
		{ "orders", "gone", NULL, "gone " },
		{ "orders", "placed", NULL, "" },
		{ "orders", "Placed", "x", "any " },
		{ "orders", "", "x", "any " },
		{ "users", "placed", "x", "other " },
		{ "users", "paid", "x", "" },
		{ "users", "", "x", "" },
		{ "elsewhere", "placed", "x", "" },
	};
	struct world world;
	static struct applied applied;

	if (!load(&world, PAYMENTS, "", routed))
		fail_msg("%s", world.faults.data);
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct event_header header = { "ce_type", cases[i].type, strlen(cases[i].type) };
		struct event_source source = placed(cases[i].value);
		char names[64] = "";
		source.topic = cases[i].topic;
		source.headers = &header;
		source.header_count = 1;
		enum rules_verdict verdict = apply(&world, &source, &applied);
		for (size_t k = 0; k < applied.count; k++)
			(void)snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s ",
				       applied.drafts[k].effect);
		assert_string_equal(names, cases[i].effects);
		assert_int_equal(verdict, *cases[i].effects ? RULES_MATCHED : RULES_UNMATCHED);
	}
	assert_int_equal(rules_topic_count(world.rules), 2);
	assert_string_equal(rules_topic(world.rules, 0), "orders");
	assert_string_equal(rules_topic(world.rules, 1), "users");
	assert_int_equal(rules_target_count(world.rules), 1);
	assert_string_equal(rules_target(world.rules, 0)->base, "https://pay.test/api");
	assert_string_equal(rules_find(world.rules, "two!", 3)->conf->name, "two");
	assert_null(rules_find(world.rules, "tw", 2));
	assert_null(rules_find(world.rules, "twoo", 4));
	assert_null(rules_find(world.rules, "", 0));
	unload(&world);
}

/* A value that cannot be read is poison for those who read it, and no one else. (L17) */
static void poison_for_one_is_not_poison_for_all(void **state)
{
	(void)state;
	static const char effects[] =
		EFFECT("blind", "topic = \"orders\"; type = \"placed\";",
		       "") ", "
			   "{ name = \"reads\"; " ON
			   "target = \"payments\"; key = \"r:${/id}\"; }, "
			   "{ name = \"too\"; " ON
			   "target = \"payments\"; key = \"t:${event_id}\"; "
			   "request = { path = \"/${/id}\"; }; }, " EFFECT(
				   "elsewhere", "topic = \"orders\"; type = \"paid\";",
				   "request = { path = \"/${/dup}\"; };");
	struct world world;
	static struct applied applied;
	struct event_source broken = placed("{"), whole = placed("{\"id\":1,\"dup\":1,\"dup\":2}");
	struct event_source lacking = placed("{}");

	if (!load(&world, PAYMENTS, "", effects))
		fail_msg("%s", world.faults.data);
	assert_int_equal(apply(&world, &broken, &applied), RULES_POISON);
	assert_int_equal(applied.count, 1);
	assert_string_equal(applied.drafts[0].effect, "blind");
	assert_non_null(strstr(applied.why.text, "effect \"reads\": the value cannot be read"));
	assert_non_null(strstr(applied.why.text, "; effect \"too\": the value cannot be read"));
	/* A member that only the effect of another type reads is not looked at. */
	assert_int_equal(apply(&world, &whole, &applied), RULES_MATCHED);
	assert_int_equal(applied.count, 3);
	/* The key's pointer is missing: poison for one; the path's: dead. */
	assert_int_equal(apply(&world, &lacking, &applied), RULES_POISON);
	assert_int_equal(applied.count, 2);
	assert_string_equal(applied.why.text, "effect \"reads\": key: ${/id} finds nothing");
	assert_true(applied.drafts[1].dead);
	assert_string_equal(applied.drafts[1].why, "request.path: ${/id} finds nothing");
	unload(&world);
}

static void tombstones_hold_nothing(void **state)
{
	(void)state;
	static const char effects[] =
		"{ name = \"gone\"; " ON "target = \"payments\"; key = \"${subject}:${/v|none}\"; "
		"tombstone = true; request = { method = \"DELETE\"; path = \"/c/${subject}\"; "
		"body = \"\"; }; }, "
		"{ name = \"strict\"; " ON "target = \"payments\"; key = \"${/id}\"; "
		"tombstone = true; }";
	struct world world;
	static struct applied applied;
	struct event_source source = placed(NULL);

	source.key = "c 1";
	source.key_length = 3;
	if (!load(&world, PAYMENTS, "", effects))
		fail_msg("%s", world.faults.data);
	assert_int_equal(apply(&world, &source, &applied), RULES_POISON);
	assert_int_equal(applied.count, 1);
	assert_string_equal(applied.drafts[0].key, "c%201:none");
	assert_string_equal(applied.drafts[0].url, "https://pay.test/api/c/c%201");
	assert_string_equal(applied.drafts[0].headers, "Stripe-Version: 2023\nX-Own: target\n");
	assert_string_equal(applied.why.text, "effect \"strict\": key: ${/id} finds nothing");
	unload(&world);
}

static void not_after_counts_from_the_event(void **state)
{
	(void)state;
	static const char effects[] = "{ name = \"e\"; " ON "target = \"payments\"; "
				      "key = \"${event_id}\"; not_after = \"100y\"; }";
	static const struct {
		const char *time;
		usec_t sent_at;
		usec_t not_after;
	} cases[] = {
		{ "1970-01-01T00:00:01Z", 5, USEC_SEC + 36500 * USEC_DAY },
		{ "junk", 5, 5 + 36500 * USEC_DAY },
		{ "junk", USEC_NEVER, NOW + 36500 * USEC_DAY },
		{ "junk", USEC_NEVER - 1, USEC_NEVER },
	};
	struct world world;
	static struct applied applied;

	if (!load(&world, PAYMENTS, "", effects))
		fail_msg("%s", world.faults.data);
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct event_header headers[] = {
			HEADER("ce_type", "placed"),
			{ "ce_time", cases[i].time, strlen(cases[i].time) },
		};
		struct event_source source = placed("x");
		source.headers = headers;
		source.header_count = 2;
		source.sent_at = cases[i].sent_at;
		assert_int_equal(apply(&world, &source, &applied), RULES_MATCHED);
		assert_true(applied.drafts[0].not_after == cases[i].not_after);
	}
	unload(&world);
}

/* --- the key at the provider --- */

#define STRICT                                                                                     \
	"{ name = \"strict\"; header = \"X-Key\"; quoting = \"string\"; max_length = 60; "         \
	"characters = \"a-zA-Z0-9:_-\"; window = \"24h\"; }"

static void provider_keys_fit_the_profile(void **state)
{
	(void)state;
	static const struct {
		const char *tenant, *key;
		const char *expected; /* NULL: hashed */
	} cases[] = {
		{ "", "order:42", "order:42" },
		{ "acme", "order:42", "acme~:order:42" },
		{ "acme", "Order:42", "acme~:Order:42" },
		{ "", "1234567890123456789012345678901234567890123456789012",
		  "1234567890123456789012345678901234567890123456789012" },
		{ "", "12345678901234567890123456789012345678901234567890123", NULL },
		{ "t", "123456789012345678901234567890123456789012345678901", NULL },
		{ "", "order 42", NULL },
		{ "", "order%2042", NULL },
		{ "", "order:\xc3\xa9", NULL },
		{ "", "cf-0123456789012345678901234567890123456789", NULL },
	};
	struct world world;
	struct conf_profile profile = { .max_length = 60, .characters = NULL };
	char set[] = "a-zA-Z0-9:~_-", none[] = "";
	struct buf out BUF_AUTO = { 0 }, header BUF_AUTO = { 0 }, line BUF_AUTO = { 0 };
	struct buf hashed[LENGTH(cases)] = { 0 };

	profile.characters = set;
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct buf tenant BUF_AUTO = { 0 }, key BUF_AUTO = { 0 };
		buf_add_text(&tenant, cases[i].tenant);
		buf_add_text(&key, cases[i].key);
		provider_key(&profile, &tenant, &key, &out);
		if (cases[i].expected) {
			assert_string_equal(out.data, cases[i].expected);
		} else {
			assert_int_equal(out.length, 43);
			assert_memory_equal(out.data, "cf-", 3);
			assert_int_equal(strspn(out.data + 3, "0123456789abcdef"), 40);
			assert_string_not_equal(out.data, cases[i].key);
		}
		buf_add(&hashed[i], out.data, out.length);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(hashed[k].data, hashed[i].data);
	}
	for (size_t i = 0; i < LENGTH(cases); i++)
		buf_done(&hashed[i]);

	/* Golden: SHA-256 of "order 42". */
	struct buf tenant BUF_AUTO = { 0 }, key BUF_AUTO = { 0 };
	profile.characters = none;
	buf_add_text(&key, "order 42");
	provider_key(&profile, &tenant, &key, &out);
	assert_string_equal(out.data, "cf-59096d5ad4f7817da522986575e827c4ce75eee9");

	if (!load(&world, "{ name = \"payments\"; url = \"http://h\"; profile = \"strict\"; }",
		  STRICT, EFFECT("e", "topic = \"orders\";", "")))
		fail_msg("%s", world.faults.data);
	const struct target *target = rules_target(world.rules, 0);
	key_header(target->profile, &header);
	assert_string_equal(header.data, "X-Key: \"");
	assert_true(key_line(header.data, "a\"b\\c", &line));
	assert_string_equal(line.data, "X-Key: \"a\\\"b\\\\c\"");
	assert_false(key_line("", "k", &line));
	buf_clear(&line);
	assert_false(target_authorization(target, &line));
	assert_int_equal(line.length, 0);
	unload(&world);
}

/* The same key for two targets or tenants, or in another case, is another effect. (L41) */
static void tenants_do_not_meet_at_the_provider(void **state)
{
	(void)state;
	static const char effects[] = "{ name = \"e\"; " ON "target = \"payments\"; "
				      "key = \"${/k}\"; tenant = \"${/t|}\"; }";
	static const char *const values[] = {
		"{\"k\":\"b:c\",\"t\":\"a\"}", "{\"k\":\"c\",\"t\":\"a:b\"}",  "{\"k\":\"a:b:c\"}",
		"{\"k\":\"c\",\"t\":\"b\"}",   "{\"k\":\"C\",\"t\":\"b\"}",    "{\"k\":\"c\"}",
		"{\"k\":\"c%\",\"t\":\"b\"}",  "{\"k\":\"c\",\"t\":\"b%3A\"}",
	};
	static char keys[LENGTH(values)][600];
	struct world world;
	static struct applied applied;

	if (!load(&world, PAYMENTS, "", effects))
		fail_msg("%s", world.faults.data);
	for (size_t i = 0; i < LENGTH(values); i++) {
		struct event_source source = placed(values[i]);
		assert_int_equal(apply(&world, &source, &applied), RULES_MATCHED);
		memcpy(keys[i], applied.drafts[0].provider_key, sizeof(keys[i]));
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(keys[k], keys[i]);
	}
	assert_string_equal(keys[0], "a~:b%3Ac");
	unload(&world);
}

/* Of one customer, of one URL; nothing where nothing was asked for. */
static void what_is_sent_one_at_a_time(void **state)
{
	(void)state;
	static const struct {
		const char *effect, *serial_key;
		size_t length; /* instead: 0: that of the text */
	} cases[] = {
		{ "", "", 0 },
		{ "serialize_by = \"${/c}\";", "a%20b", 0 },
		{ "serialize_by = \"c:${/c}:${type}\";", "c:a%20b:placed", 0 },
		{ "serialize_by = \"${/none|}\";", "", 0 },
		{ "serialize_by = \"${/long}\";", "cf-", 43 },
		{ "mode = \"natural\"; request = { method = \"PUT\"; path = \"/c/${/c}\"; };",
		  "https://pay.test/api/c/a%20b", 0 },
		{ "mode = \"natural\"; request = { method = \"DELETE\"; path = \"/c\"; body = \"\";"
		  " query = ( (\"c\", \"${/c}\") ); };",
		  "https://pay.test/api/c?c=a%20b", 0 },
		{ "mode = \"natural\"; request = { method = \"PUT\"; path = \"/c/${/long}\"; };",
		  "cf-", 43 },
	};
	struct buf value BUF_AUTO = { 0 };
	buf_add_text(&value, "{\"id\":1,\"c\":\"a b\",\"long\":\"");
	for (int i = 0; i <= EFFECT_SERIAL_MAX; i++)
		buf_add_char(&value, 'x');
	buf_add_text(&value, "\"}");
	for (size_t i = 0; i < LENGTH(cases); i++) {
		static struct applied applied;
		struct event_source source = placed(value.data);
		struct buf effect BUF_AUTO = { 0 };
		struct world world;
		buf_addf(&effect,
			 "{ name = \"e\"; " ON "target = \"payments\"; key = \"${/id}\"; %s }",
			 cases[i].effect);
		if (!load(&world, PAYMENTS, "", effect.data))
			fail_msg("%s", world.faults.data);
		assert_int_equal(apply(&world, &source, &applied), RULES_MATCHED);
		assert_false(applied.drafts[0].dead);
		const char *serial = applied.drafts[0].serial_key;
		if (cases[i].length == 0)
			assert_string_equal(serial, cases[i].serial_key);
		else
			assert_true(!strncmp(serial, cases[i].serial_key, 3) &&
				    strlen(serial) == cases[i].length);
		unload(&world);
	}
}

/* What has no place in an order must not be sent out of it. */
static void without_its_place_in_the_order_nothing_is_sent(void **state)
{
	(void)state;
	struct world world;
	static struct applied applied;
	struct event_source source = placed("{\"id\":1}");
	if (!load(&world, PAYMENTS, "",
		  "{ name = \"e\"; " ON "target = \"payments\"; key = \"${/id}\";"
		  " serialize_by = \"a:${/c}\"; }"))
		fail_msg("%s", world.faults.data);
	assert_int_equal(apply(&world, &source, &applied), RULES_MATCHED);
	assert_true(applied.drafts[0].dead);
	assert_string_equal(applied.drafts[0].serial_key, "");
	if (strncmp(applied.drafts[0].why, "serialize_by: ", 14) != 0)
		fail_msg("%s", applied.drafts[0].why);
	unload(&world);
}

/* The event says when it may be sent; what is no time is no request. */
static void not_before_the_time_that_the_event_says(void **state)
{
	(void)state;
	static const struct {
		const char *not_before, *at; /* of the event, as JSON */
		usec_t time;
		const char *why;
	} cases[] = {
		{ "", "\"junk\"", USEC_NEVER, NULL },
		{ "${/at|}", "\"2026-01-01T00:00:00Z\"", 1767225600 * USEC_SEC, NULL },
		{ "${/at|}", "1767225600", 1767225600 * USEC_SEC, NULL },
		{ "${/at|}", "1767225600000", 1767225600 * USEC_SEC, NULL },
		{ "${/at|}", "1", USEC_SEC, NULL }, /* past */
		{ "${/at|}", "\"\"", USEC_NEVER, NULL },
		{ "${/none|}", "\"\"", USEC_NEVER, NULL },
		{ "${/none}", "\"\"", USEC_NEVER, "not_before: " },
		{ "${/at}", "\"tomorrow\"", USEC_NEVER, "not_before: \"tomorrow\" is no time: " },
		{ "${/at}", "1.5", USEC_NEVER, "not_before: \"1.5\" is no time: " },
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		static struct applied applied;
		struct buf effect BUF_AUTO = { 0 }, value BUF_AUTO = { 0 };
		struct world world;
		buf_addf(&value, "{\"id\":1,\"at\":%s}", cases[i].at);
		buf_addf(&effect,
			 "{ name = \"e\"; " ON "target = \"payments\"; key = \"${/id}\";"
			 " not_before = \"%s\"; }",
			 cases[i].not_before);
		struct event_source source = placed(value.data);
		if (!load(&world, PAYMENTS, "", effect.data))
			fail_msg("%s", world.faults.data);
		assert_int_equal(apply(&world, &source, &applied), RULES_MATCHED);
		assert_int_equal(applied.drafts[0].dead, cases[i].why != NULL);
		assert_true(applied.drafts[0].not_before == cases[i].time);
		if (cases[i].why &&
		    strncmp(applied.drafts[0].why, cases[i].why, strlen(cases[i].why)) != 0)
			fail_msg("%s", applied.drafts[0].why);
		unload(&world);
	}
}

/* --- the names of a target --- */

static void a_target_is_known_by_its_former_names(void **state)
{
	(void)state;
	struct world world;
	if (!load(&world,
		  "{ name = \"payments\"; url = \"https://pay.test\"; "
		  "profile = \"stripe-v1\"; alias = (\"stripe\", \"money\"); }",
		  "", "{ name = \"e\"; " ON "target = \"payments\"; key = \"${/id}\"; }"))
		fail_msg("%s", world.faults.data);
	const struct target *target = rules_target(world.rules, 0);
	assert_string_equal(target_name(target, 0), "stripe"); /* as new keys are recorded */
	assert_string_equal(target_name(target, 1), "money");
	assert_string_equal(target_name(target, 2), "payments");
	assert_null(target_name(target, 3));
	assert_ptr_equal(rules_target_called(world.rules, "money"), target);
	assert_ptr_equal(rules_target_called(world.rules, "payments"), target);
	assert_null(rules_target_called(world.rules, "another"));
	unload(&world);
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
		cmocka_unit_test(events_find_their_effects),
		cmocka_unit_test(poison_for_one_is_not_poison_for_all),
		cmocka_unit_test(tombstones_hold_nothing),
		cmocka_unit_test(not_after_counts_from_the_event),
		cmocka_unit_test(provider_keys_fit_the_profile),
		cmocka_unit_test(tenants_do_not_meet_at_the_provider),
		cmocka_unit_test(what_is_sent_one_at_a_time),
		cmocka_unit_test(without_its_place_in_the_order_nothing_is_sent),
		cmocka_unit_test(not_before_the_time_that_the_event_says),
		cmocka_unit_test(a_target_is_known_by_its_former_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
