/* The configured effects applied to events: what is refused when they are read, and what one event
 * becomes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "rules/profile.h"
#include "rules/rules.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define HEADER(name_, value_)                                                                      \
	{                                                                                          \
		(name_), (value_), sizeof(value_) - 1                                              \
	}
#define NOW (1700000000 * USEC_SEC)

#define DRAFTS_MAX 4

struct world {
	struct conf *conf;
	struct rules *rules;
	struct buf faults;
	struct buf warnings;
};

/* What rules_apply() handed out, copied. */
struct applied {
	size_t count;
	struct {
		char effect[48], key[600], tenant[200], provider_key[600], serial_key[600];
		char url[9000], headers[2000];
		char body[4000], why[512], emit[4000];
		bool dead, body_is_value;
		uint8_t fingerprint[EFFECT_FINGERPRINT_SIZE];
		usec_t not_after, delay, not_before;
	} drafts[DRAFTS_MAX];
	struct err why;
};

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* Loads a configuration of these targets and effects, and compiles it. */
static bool load(struct world *world, const char *targets, const char *profiles,
		 const char *effects)
{
	char path[] = "/tmp/counterfoil-rules-XXXXXX";
	struct buf text BUF_AUTO = { 0 };
	int fd = mkstemp(path);

	*world = (struct world){ 0 };
	assert_true(fd >= 0);
	close(fd);
	buf_addf(&text,
		 "kafka = { properties = ( (\"bootstrap.servers\", \"localhost:1\") ); };\n"
		 "ledger = { start = \"earliest\"; };\n"
		 "profiles = ( %s );\ntargets = ( %s );\neffects = ( %s );\n",
		 profiles, targets, effects);
	write_file(path, text.data);
	bool loaded = conf_load(path, CONF_LEDGER, &world->faults, &world->conf);
	unlink(path);
	if (!loaded)
		fail_msg("%s", world->faults.data);
	return rules_new(world->conf, &world->faults, &world->warnings, &world->rules);
}

static void unload(struct world *world)
{
	rules_free(world->rules);
	conf_free(world->conf);
	buf_done(&world->faults);
	buf_done(&world->warnings);
}

static void copy_text(char *to, size_t size, const struct buf *from)
{
	assert_true(from->length < size);
	memcpy(to, buf_text(from), from->length + 1);
}

static void take(void *arg, const struct draft *draft)
{
	struct applied *applied = arg;
	size_t i = applied->count++;

	assert_true(i < DRAFTS_MAX);
	(void)snprintf(applied->drafts[i].effect, sizeof(applied->drafts[i].effect), "%s",
		       draft->rule->conf->name);
	copy_text(applied->drafts[i].key, sizeof(applied->drafts[i].key), &draft->key);
	copy_text(applied->drafts[i].tenant, sizeof(applied->drafts[i].tenant), &draft->tenant);
	copy_text(applied->drafts[i].provider_key, sizeof(applied->drafts[i].provider_key),
		  &draft->provider_key);
	copy_text(applied->drafts[i].serial_key, sizeof(applied->drafts[i].serial_key),
		  &draft->serial_key);
	copy_text(applied->drafts[i].url, sizeof(applied->drafts[i].url), &draft->url);
	copy_text(applied->drafts[i].headers, sizeof(applied->drafts[i].headers), &draft->headers);
	copy_text(applied->drafts[i].body, sizeof(applied->drafts[i].body), &draft->body);
	copy_text(applied->drafts[i].emit, sizeof(applied->drafts[i].emit), &draft->emit);
	memcpy(applied->drafts[i].why, draft->why, sizeof(draft->why));
	memcpy(applied->drafts[i].fingerprint, draft->fingerprint, EFFECT_FINGERPRINT_SIZE);
	applied->drafts[i].dead = draft->dead;
	applied->drafts[i].body_is_value = draft->body_is_value;
	applied->drafts[i].not_after = draft->not_after;
	applied->drafts[i].not_before = draft->not_before;
	applied->drafts[i].delay = draft->delay;
}

static enum rules_verdict apply(struct world *world, const struct event_source *source,
				struct applied *applied)
{
	struct event event;

	memset(applied, 0, sizeof(*applied));
	assert_true(event_decode(source, NULL, &event));
	return rules_apply(world->rules, &event, NOW, &applied->why, take, applied);
}

/* An event of the topic "orders" and the type "placed". */
static struct event_source placed(const char *value)
{
	static const struct event_header headers[] = { HEADER("ce_id", "e1"),
						       HEADER("ce_type", "placed") };
	return (struct event_source){
		.topic = "orders",
		.partition = 0,
		.offset = 1,
		.value = value,
		.value_length = value ? strlen(value) : 0,
		.headers = headers,
		.header_count = LENGTH(headers),
		.sent_at = USEC_NEVER,
	};
}

#define PAYMENTS                                                                                   \
	"{ name = \"payments\"; url = \"https://pay.test/api/\"; profile = \"stripe-v1\";\n"       \
	"  headers = ( (\"Stripe-Version\", \"2023\"), (\"X-Own\", \"target\") ); }"
#define ON   "on = { topic = \"orders\"; type = \"placed\"; }; retention = \"forever\"; "
#define FORM "application/x-www-form-urlencoded"

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

#define EFFECT(name, on, rest)                                                                     \
	"{ name = \"" name "\"; on = { " on " }; retention = \"forever\"; target = \"payments\"; " \
	"key = \"" name ":${event_id}\"; " rest " }"

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

/* --- what follows --- */

#define EMIT(more)                                                                                 \
	"{ name = \"e\"; " ON                                                                      \
	"target = \"payments\"; key = \"${/id}\"; emit = { topic = \"done\"; "                     \
	"type = \"paid\"; " more " }; }"
#define EMITTED(key, hops, trace, payload)                                                         \
	"{\"topic\":\"done\",\"type\":\"paid\"," key                                               \
	"\"headers\":{\"content-type\":\"application/json\",\"cf-hops\":\"" hops "\"" trace        \
	"},\"payload\":\"" payload "\"}"

static void what_is_emitted_is_rendered_at_intake(void **state)
{
	(void)state;
	static const char trace[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
	static const struct {
		const char *effect, *value, *hops, *subject;
		const char *emit;
	} cases[] = {
		{ EMIT("payload = \"{\\\"o\\\":${/id}}\";"), "{\"id\":1.10}", NULL, NULL,
		  EMITTED("", "1", "", "{\\\"o\\\":1.10}") },
		{ EMIT("payload = \"{\\\"o\\\":\\\"${/id}\\\"}\";"), "{\"id\":\"a\\u0000\\\"\\n\"}",
		  NULL, "s", NULL },
		{ EMIT("payload = \"{\\\"o\\\":\\\"${/n}\\\"}\";"), "{\"id\":1,\"n\":\"a\\\"\\n\"}",
		  "3", "customer 9",
		  EMITTED("\"key\":\"customer 9\",", "4", "",
			  "{\\\"o\\\":\\\"a\\\\\\\"\\\\n\\\"}") },
		{ EMIT("payload = \"[${provider_id},\\\"${provider_id}\\\"]\"; ordering_key = "
		       "\"o-${/id}\";"),
		  "{\"id\":7}", "15", "s",
		  EMITTED("\"key\":\"o-7\",", "16", "", "[\\u0002,\\\"\\u0001\\\"]") },
		/* and where there can be none, why */
		{ EMIT("payload = \"{}\";"), "{\"id\":7}", "16", "s",
		  "!its event is the end of a chain of 16, each emitted for the one before: the "
		  "longest "
		  "that is let go on" },
		{ EMIT("payload = \"{}\";"), "{\"id\":7}", "999", "s",
		  "!its event is the end of a chain" },
		{ EMIT("payload = \"{}\";"), "{\"id\":7}", "2x", "s",
		  "!its event is the end of a chain" },
		{ EMIT("payload = \"{}\";"), "{\"id\":7}", "", "s",
		  "!its event is the end of a chain" },
		{ EMIT("payload = \"[${/none}]\";"), "{\"id\":7}", NULL, "s",
		  "!emit.payload: ${/none} finds nothing" },
		{ EMIT("payload = \"{}\"; ordering_key = \"${/none}\";"), "{\"id\":7}", NULL, "s",
		  "!emit.ordering_key: ${/none} finds nothing" },
		{ EMIT("payload = \"{}\"; ordering_key = \"${/k}\";"), "{\"id\":7,\"k\":\"a\\nb\"}",
		  NULL, "s", "!emit.ordering_key: ${/k} holds CR, LF or NUL, which no header may" },
		{ EMIT("payload = \"{}\"; ordering_key = \"${/k|}\";"), "{\"id\":7}", NULL, "s",
		  EMITTED("", "1", "", "{}") },
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct event_header headers[4] = { HEADER("ce_type", "placed") };
		struct event_source source = placed(cases[i].value);
		static struct applied applied;
		struct world world;
		size_t count = 1;
		if (cases[i].subject)
			headers[count++] = (struct event_header){ "ce_subject", cases[i].subject,
								  strlen(cases[i].subject) };
		if (cases[i].hops)
			headers[count++] = (struct event_header){ "cf-hops", cases[i].hops,
								  strlen(cases[i].hops) };
		source.headers = headers;
		source.header_count = count;
		if (!load(&world, PAYMENTS, "", cases[i].effect))
			fail_msg("%s", world.faults.data);
		if (!cases[i].emit) { /* poison: a NUL on a path that is used */
			assert_int_equal(apply(&world, &source, &applied), RULES_POISON);
			unload(&world);
			continue;
		}
		assert_int_equal(apply(&world, &source, &applied), RULES_MATCHED);
		assert_false(applied.drafts[0]
				     .dead); /* it never keeps the effect from being performed */
		const char *emit = applied.drafts[0].emit;
		if (*cases[i].emit == '!' ? strncmp(emit, cases[i].emit, strlen(cases[i].emit)) != 0
					  : strcmp(emit, cases[i].emit) != 0)
			fail_msg("case %zu: %s", i, emit);
		unload(&world);
	}

	/* the trace goes on */
	const struct event_header headers[] = { HEADER("ce_type", "placed"),
						{ "traceparent", trace, strlen(trace) } };
	struct event_source source = placed("{\"id\":1}");
	static struct applied applied;
	struct world world;
	source.headers = headers;
	source.header_count = LENGTH(headers);
	assert_true(load(&world, PAYMENTS, "", EMIT("payload = \"{}\";")));
	assert_int_equal(apply(&world, &source, &applied), RULES_MATCHED);
	assert_string_equal(applied.drafts[0].emit,
			    EMITTED("", "1",
				    ",\"traceparent\":\"00-0af7651916cd43dd8448eb211c80319c-"
				    "b7ad6b7169203331-01\"",
				    "{}"));
	unload(&world);
}

/* It goes along with the request, and is no part of it; where it is configured it is as configured.
 */
static void the_trace_goes_on_to_the_request(void **state)
{
	(void)state;
	static const char trace[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
	static const struct {
		const char *trace, *more, *line;
	} cases[] = {
		{ NULL, "", NULL },
		{ trace, "",
		  "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n" },
		{ "a\nb", "", NULL },
		{ "\xc3\xa9", "", NULL },
		{ "", "", NULL },
		{ trace, "request = { headers = ( (\"Traceparent\", \"own\") ); };",
		  "Traceparent: own\n" },
	};
	uint8_t first[EFFECT_FINGERPRINT_SIZE];
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct event_header headers[2] = { HEADER("ce_type", "placed") };
		struct event_source source = placed("{\"id\":1}");
		struct buf effect BUF_AUTO = { 0 };
		static struct applied applied;
		struct world world;
		if (cases[i].trace)
			headers[1] = (struct event_header){ "traceparent", cases[i].trace,
							    strlen(cases[i].trace) };
		source.headers = headers;
		source.header_count = cases[i].trace ? 2 : 1;
		buf_addf(&effect,
			 "{ name = \"e\"; " ON "target = \"payments\"; key = \"${/id}\"; %s }",
			 cases[i].more);
		assert_true(load(&world, PAYMENTS, "", effect.data));
		assert_int_equal(apply(&world, &source, &applied), RULES_MATCHED);
		const char *sent = applied.drafts[0].headers;
		const char *found = strcasestr(sent, "traceparent");
		if (!cases[i].line)
			assert_null(found);
		else
			assert_string_equal(found, cases[i].line);
		if (i == 0)
			memcpy(first, applied.drafts[0].fingerprint, sizeof(first));
		assert_int_equal(memcmp(first, applied.drafts[0].fingerprint, sizeof(first)) == 0,
				 !*cases[i].more);
		unload(&world);
	}
}

/* The request does not tell what follows from it: the same request is the same effect. */
static void what_is_emitted_is_not_part_of_the_request(void **state)
{
	(void)state;
	static const char *const effects[] = {
		EMIT("payload = \"{}\";"),
		EMIT("payload = \"[${/x}]\"; ordering_key = \"k\";"),
	};
	uint8_t prints[LENGTH(effects)][EFFECT_FINGERPRINT_SIZE];
	for (size_t i = 0; i < LENGTH(effects); i++) {
		struct event_source source = placed("{\"id\":1,\"x\":2}");
		static struct applied applied;
		struct world world;
		assert_true(load(&world, PAYMENTS, "", effects[i]));
		assert_int_equal(apply(&world, &source, &applied), RULES_MATCHED);
		memcpy(prints[i], applied.drafts[0].fingerprint, sizeof(prints[i]));
		unload(&world);
	}
	assert_memory_equal(prints[0], prints[1], sizeof(prints[0]));
}

/* A payload that no broker would take, or a key that no header holds, is refused before anything is
 * sent, and says so. */
static void what_is_too_large_is_not_emitted(void **state)
{
	(void)state;
	static const char *const effects[] = {
		EMIT("payload = \"\\\"${/x}\\\"\";"),
		EMIT("payload = \"{}\"; ordering_key = \"${/x}\";"),
	};
	static const char *const faults[] = { "!emit.payload: 971002 bytes long",
					      "!emit.ordering_key: 971000 bytes long" };
	struct buf value BUF_AUTO = { 0 };
	buf_add_text(&value, "{\"id\":1,\"x\":\"");
	for (int i = 0; i < 971000; i++)
		buf_add_char(&value, 'x');
	buf_add_text(&value, "\"}");
	for (size_t i = 0; i < LENGTH(effects); i++) {
		struct event_source source = placed(value.data);
		static struct applied applied;
		struct world world;
		assert_true(load(&world, PAYMENTS, "", effects[i]));
		assert_int_equal(apply(&world, &source, &applied), RULES_MATCHED);
		assert_false(applied.drafts[0].dead);
		if (strncmp(applied.drafts[0].emit, faults[i], strlen(faults[i])) != 0)
			fail_msg("%s", applied.drafts[0].emit);
		unload(&world);
	}
}

static void a_chain_that_bites_its_tail_is_warned_of(void **state)
{
	(void)state;
	static const struct {
		const char *effect;
		bool warns;
	} cases[] = {
		{ "emit = { topic = \"orders\"; type = \"placed\"; payload = \"{}\"; };", true },
		{ "emit = { topic = \"orders\"; type = \"paid\"; payload = \"{}\"; };", false },
		{ "emit = { topic = \"other\"; type = \"placed\"; payload = \"{}\"; };", false },
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct world world;
		struct buf effect BUF_AUTO = { 0 };
		buf_addf(&effect,
			 "{ name = \"e\"; on = { topic = \"orders\"; type = \"placed\"; }; "
			 "target = \"payments\"; retention = \"forever\"; key = \"${/id}\"; %s }",
			 cases[i].effect);
		if (!load(&world, PAYMENTS, "", effect.data))
			fail_msg("%s", world.faults.data);
		assert_int_equal(strstr(buf_text(&world.warnings),
					"leads to this very effect again") != NULL,
				 cases[i].warns);
		unload(&world);
	}
}

static void a_shadow_is_known_from_the_start(void **state)
{
	(void)state;
	struct world world;
	assert_true(load(&world, PAYMENTS, "",
			 "{ name = \"e\"; " ON
			 "target = \"payments\"; key = \"${/id}\"; shadow = true; }, "
			 "{ name = \"f\"; " ON "target = \"payments\"; key = \"${/id}\"; }"));
	assert_true(rules_find(world.rules, "e", 1)->shadow);
	assert_false(rules_find(world.rules, "f", 1)->shadow);
	unload(&world);
}

static void secrets_are_read_and_kept_apart(void **state)
{
	(void)state;
	char path[] = "/tmp/counterfoil-secret-XXXXXX";
	struct buf target BUF_AUTO = { 0 }, header BUF_AUTO = { 0 }, line BUF_AUTO = { 0 };
	struct world world;
	static struct applied applied;
	struct event_source source = placed("{}");
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	write_file(path, "sk_test_1\n");
	buf_addf(&target,
		 "{ name = \"payments\"; url = \"http://h\"; profile = \"stripe-v1\"; "
		 "auth = \"Bearer ${secret}\"; secret_file = \"%s\"; }",
		 path);
	if (!load(&world, target.data, "", EFFECT("e", "topic = \"orders\";", "")))
		fail_msg("%s", world.faults.data);
	assert_true(target_authorization(rules_target(world.rules, 0), &line));
	assert_string_equal(line.data, "Authorization: Bearer sk_test_1");
	buf_clear(&line);
	key_header(rules_target(world.rules, 0)->profile, &header);
	assert_true(key_line(header.data, "k", &line));
	assert_string_equal(line.data, "Idempotency-Key: k");
	assert_int_equal(apply(&world, &source, &applied), RULES_MATCHED);
	assert_null(strstr(applied.drafts[0].headers, "sk_test"));
	unload(&world);

	write_file(path, "sk_\x01secret\n");
	assert_false(load(&world, target.data, "", EFFECT("e", "topic = \"orders\";", "")));
	assert_null(strstr(world.faults.data, "sk_"));
	unload(&world);
	unlink(path);
}

/* What signs is neither shown nor sent, and not part of what is recorded. */
static void signing_keys_are_read_and_kept_apart(void **state)
{
	(void)state;
	char path[] = "/tmp/counterfoil-secret-XXXXXX";
	struct buf target BUF_AUTO = { 0 }, header BUF_AUTO = { 0 }, line BUF_AUTO = { 0 };
	struct world world;
	static struct applied applied;
	struct event_source source = placed("{}");
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	write_file(path, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
	buf_addf(&target,
		 "{ name = \"payments\"; url = \"http://h\"; profile = \"standard-webhooks\"; "
		 "secret_file = \"%s\"; }",
		 path);
	if (!load(&world, target.data, "", EFFECT("e", "topic = \"orders\";", "")))
		fail_msg("%s", world.faults.data);
	assert_null(strstr(buf_text(&world.warnings), "secret_file"));
	assert_non_null(rules_target(world.rules, 0)->signing);
	assert_false(target_authorization(rules_target(world.rules, 0), &line));
	key_header(rules_target(world.rules, 0)->profile, &header);
	assert_true(key_line(header.data, "k", &line));
	assert_string_equal(line.data, "webhook-id: k");
	assert_int_equal(apply(&world, &source, &applied), RULES_MATCHED);
	assert_null(strstr(applied.drafts[0].headers, "webhook"));
	unload(&world);

	write_file(path, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
	assert_false(load(&world, target.data, "", EFFECT("e", "topic = \"orders\";", "")));
	assert_non_null(strstr(world.faults.data, "targets[0].secret_file: secret 1 of the first "
						  "line: does not begin with \"whsec_\""));
	assert_null(strstr(world.faults.data, "MfKQ"));
	unload(&world);
	unlink(path);
	assert_false(load(&world, target.data, "", EFFECT("e", "topic = \"orders\";", "")));
	assert_non_null(strstr(world.faults.data, "targets[0].secret_file: "));
	unload(&world);
}

/* --- what is refused --- */

struct fault_case {
	const char *targets; /* NULL: the usual one */
	const char *effect;
	const char *fault; /* a warning if it begins with '!' */
};

#define KEYED(rest) "{ name = \"e\"; " ON "target = \"payments\"; key = \"${/id}\"; " rest " }"
#define KEY(key)    "{ name = \"e\"; " ON "target = \"payments\"; key = \"" key "\"; }"
#define TARGET(rest)                                                                               \
	"{ name = \"payments\"; url = \"http://h\"; profile = \"stripe-v1\"; " rest " }"

#define MAIL_TO(to)                                                                                \
	"{ name = \"payments\"; url = \"smtp://h\"; profile = \"smtp\"; from = \"a@b\"; to = "     \
	"\"" to "\"; subject = \"s\"; }"
#define MAIL(rest)                                                                                 \
	"{ name = \"payments\"; url = \"smtp://h\"; profile = \"smtp\"; from = \"a@b\"; to = "     \
	"\"${/to}\"; subject = \"s\"; " rest " }"
#define MAILED(rest) KEYED("mode = \"at_most_once\"; " rest)
#define TEXT         "request = { body = \"x\"; };"

static const struct fault_case fault_cases[] = {
	/* Keys. */
	{ NULL, KEY("charge"), "effects[0].key: is the same for every event" },
	{ NULL, KEY("${topic}:${type}"), "effects[0].key: is the same for every event" },
	{ NULL, KEY("${offset}"), "effects[0].key: at character 1: ${offset} does not exist" },
	{ NULL, KEY("o:${partition}"), "effects[0].key: at character 3: ${partition} does not" },
	{ NULL, KEY("${/id}:${now}"), "${now} does not exist: offsets, the clock and chance" },
	{ NULL, KEY("${header:ce_time}"),
	  "effects[0].key: at character 1: a key made of the clock" },
	{ NULL, KEY("${/id"), "effects[0].key: at character 1: \"${\" is never closed" },
	{ NULL, KEY("a~${/id}"), "'~' is kept for the keys of replays" },
	{ NULL, KEY("${event_id}"), "!effects[0].key: ${event_id} alone" },
	{ NULL, KEY("e:${event_id}:${type}"), "!effects[0].key: ${event_id} alone" },
	{ NULL, KEY("${/id|none}"), "!effects[0].key: all events for which a default is used" },
	{ NULL, KEY("${event_id}:${/id}"), "" },
	{ NULL, KEY("${subject}"), "" },
	{ NULL, KEY("${header:cf-idempotency-key}"), "" },
	{ NULL, KEY("${sha256:/a,/b}"), "" },
	{ NULL, KEYED("tenant = \"a:${/t}\";"), "effects[0].tenant: at character 2: ':' divides" },
	/* Modes and windows. */
	{ NULL, KEYED("mode = \"at_most_once\"; retry = { max = \"23h\"; };"), "" },
	{ NULL, KEYED("mode = \"natural\"; request = { method = \"PUT\"; };"), "" },
	{ NULL, KEYED("serialize_by = \"${/a\";"),
	  "effects[0].serialize_by: at character 1: \"${\" is never closed" },
	{ NULL, KEYED("retry = { max = \"23h\"; };"),
	  "effects[0].mode: the window of profile \"stripe-v1\", 1d, leaves no time" },
	{ NULL, KEYED("retry = { strategy = \"none\"; max = \"23h\"; };"), "" },
	{ TARGET("timeout = \"22h\";"), KEYED(""), "effects[0].mode: the window of profile" },
	/* Requests. */
	{ NULL, KEYED("request = { path = \"v1\"; };"),
	  "effects[0].request.path: must begin with" },
	{ NULL, KEYED("request = { path = \"/a/../b\"; };"), "request.path: holds a segment" },
	{ NULL, KEYED("request = { path = \"/a/%2e%2E\"; };"), "request.path: holds a segment" },
	{ NULL, KEYED("request = { path = \"/a/.%2e/${/x}\"; };"),
	  "request.path: holds a segment" },
	{ NULL, KEYED("request = { path = \"/./a\"; };"), "request.path: holds a segment" },
	{ NULL, KEYED("request = { path = \"/a.b/...${/x}/.${/y}\"; };"), "" },
	{ NULL, KEYED("request = { path = \"/a?b\"; };"), "request.path: at character 3" },
	{ NULL, KEYED("request = { query = ( (\"a\", \"$x\") ); };"),
	  "effects[0].request.query[0]: at character 1: a single '$'" },
	{ NULL, KEYED("request = { headers = ( (\"a\", \"b\"), (\"c\", \"${x}\") ); };"),
	  "effects[0].request.headers[1]: at character 1: ${x} is not known" },
	{ NULL, KEYED("request = { headers = ( (\"Host\", \"b\") ); };"),
	  "effects[0].request.headers[0]: the header Host cannot be set" },
	{ NULL, KEYED("request = { content_type = \"${header:x}\"; };"),
	  "effects[0].request.content_type: is sent as it is written" },
	{ NULL, KEYED("request = { body = \"{${/a}\"; };"),
	  "effects[0].request.body: with its places filled this is no JSON" },
	{ NULL, KEYED("request = { body = \"a b\"; content_type = \"" FORM "\"; };"),
	  "effects[0].request.body: at character 2: this character must be percent-encoded" },
	{ NULL, KEYED("request = { body = \"${secret}\"; content_type = \"text/plain\"; };"),
	  "${secret} exists only in a target's auth" },
	{ NULL, KEYED("request = { method = \"DELETE\"; };"),
	  "!effects[0].request.method: without request.body a DELETE carries" },
	{ NULL, KEYED("request = { method = \"GET\"; body = \"\"; };"), "" },
	/* Targets. */
	{ TARGET("auth = \"Bearer ${/id}\";"), KEYED(""),
	  "targets[0].auth: at character 8: auth can use only ${secret}" },
	{ TARGET("auth = \"Bearer ${secret}\";"), KEYED(""),
	  "targets[0].auth: ${secret} is the first" },
	{ TARGET("auth = \"Bearer ${secret}\"; secret_file = \"/nonexistent/x\";"), KEYED(""),
	  "targets[0].secret_file: " },
	{ TARGET("secret_file = \"/nonexistent/x\";"), KEYED(""),
	  "!targets[0].secret_file: is read by nobody" },
	{ TARGET("headers = ( (\"a\", \"${/id}\") );"), KEYED(""),
	  "targets[0].headers[0]: a target's headers are sent as they are written" },
	/* Mail. */
	{ MAIL("auth = \"a:b:${secret}\"; secret_file = \"/nonexistent/x\";"), MAILED(TEXT),
	  "targets[0].auth: a user's name with a \":\"" },
	{ MAIL(""), MAILED(TEXT), "" },
	{ MAIL(""), MAILED(""), "effects[0].request.body: is required for mail" },
	{ MAIL(""), MAILED("request = { body = \"x\"; content_type = \"text/html\"; };"),
	  "effects[0].request.content_type: mail is sent as \"text/plain\"" },
	{ MAIL_TO("${/a"), MAILED(TEXT), "targets[0].to: " },
	{ TARGET("headers = ( (\"hOST\", \"x\") );"), KEYED(""),
	  "targets[0].headers[0]: the header Host cannot be set" },
};

static void faults_have_a_place_and_a_remedy(void **state)
{
	(void)state;
	for (size_t i = 0; i < LENGTH(fault_cases); i++) {
		const struct fault_case *c = &fault_cases[i];
		bool warning = c->fault[0] == '!';
		bool fault = c->fault[0] && !warning;
		struct world world;
		bool ok = load(&world, c->targets ? c->targets : PAYMENTS, "", c->effect);
		const char *text = buf_text(warning ? &world.warnings : &world.faults);
		if (ok == fault || !strstr(text, c->fault + warning))
			fail_msg("%s: \"%s\" instead of \"%s\"", c->effect, text, c->fault);
		if (!warning && !fault && world.warnings.length)
			fail_msg("%s: warns: %s", c->effect, world.warnings.data);
		if (*c->fault)
			assert_memory_equal(text, "/tmp/counterfoil-rules-", 23);
		unload(&world);
	}
}

static void all_faults_come_at_once(void **state)
{
	(void)state;
	struct world world;
	size_t lines = 0;

	assert_false(load(&world, TARGET("auth = \"${\"; headers = ( (\"Host\", \"x\") );"), "",
			  "{ name = \"a\"; " ON "target = \"payments\"; key = \"x\"; "
			  "serialize_by = \"${y}\"; request = { method = \"PUT\"; path = \"x\"; "
			  "query = ( (\"a\", \"$\"), (\"b\", \"${x}\") ); body = \"{\"; }; }, "
			  "{ name = \"b\"; " ON "target = \"payments\"; key = \"${x}\"; }"));
	for (const char *p = world.faults.data; (p = strchr(p, '\n')); p++)
		lines++;
	if (lines != 9)
		fail_msg("%zu lines: %s", lines, world.faults.data);
	assert_null(world.rules);
	unload(&world);
	rules_free(NULL);
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
		cmocka_unit_test(what_is_emitted_is_rendered_at_intake),
		cmocka_unit_test(the_trace_goes_on_to_the_request),
		cmocka_unit_test(what_is_emitted_is_not_part_of_the_request),
		cmocka_unit_test(what_is_too_large_is_not_emitted),
		cmocka_unit_test(a_chain_that_bites_its_tail_is_warned_of),
		cmocka_unit_test(a_shadow_is_known_from_the_start),
		cmocka_unit_test(secrets_are_read_and_kept_apart),
		cmocka_unit_test(signing_keys_are_read_and_kept_apart),
		cmocka_unit_test(faults_have_a_place_and_a_remedy),
		cmocka_unit_test(all_faults_come_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
