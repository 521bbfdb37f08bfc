/* --try: how an event is read from a file, and what is shown of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "try/try_event.h"
#include "try/try_show.h"

#define NOW (1700000000 * USEC_SEC)

/* --- reading ------------------------------------------------------------------------------------
 */

/* "topic|key|name=value,...|value", "-" for what is absent. */
static void describe(const struct event_source *source, struct buf *out)
{
	buf_addf(out, "%s|", source->topic);
	buf_add(out, source->key ? source->key : "-", source->key ? source->key_length : 1);
	for (size_t i = 0; i < source->header_count; i++) {
		const struct event_header *header = &source->headers[i];
		buf_addf(out, "%c%s=", i ? ',' : '|', header->name);
		buf_add(out, header->value ? header->value : "-",
			header->value ? header->length : 1);
	}
	buf_addf(out, "|");
	buf_add(out, source->value ? source->value : "-", source->value ? source->value_length : 1);
}

static void events_are_read(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		struct try_form form;
		const char *event;
	} cases[] = {
		{ "{\"topic\":\"t\",\"payload\":{\"a\": 1.10}}", { 0 }, "t|-|{\"a\": 1.10}" },
		{ " { \"payload\" : [ 1 ] ,\n\"topic\" : \"t\" } ", { 0 }, "t|-|[ 1 ]" },
		{ "{\"topic\":\"t\",\"type\":\"x\",\"id\":\"e\",\"key\":\"k\",\"payload\":7}",
		  { 0 },
		  "t|k|ce_id=e,ce_type=x|7" },
		{ "{\"topic\":\"t\",\"type\":null,\"id\":null,\"key\":null,\"payload\":null}",
		  { 0 },
		  "t|-|-" },
		{ "{\"topic\":\"t\",\"key\":\"\",\"payload\":\"\"}", { 0 }, "t||" },
		{ "{\"topic\":\"t\",\"payload\":\"a\\n\\u00e4\"}", { 0 }, "t|-|a\n\xc3\xa4" },
		{ "{\"topic\":\"t\",\"type\":\"x\",\"payload\":true,\n"
		  "\"headers\":{\"ce_type\":\"y\",\"a\":\"\",\"n\":null,\"a\":\"\\u0041\"}}",
		  { 0 },
		  "t|-|ce_type=y,a=,n=-,a=A,ce_type=x|true" },
		{ "{\"topic\":\"t\",\"payload_base64\":\"\"}", { 0 }, "t|-|" },
		{ "{\"topic\":\"t\",\"payload_base64\":\"YQ==\"}", { 0 }, "t|-|a" },
		{ "{\"topic\":\"t\",\"payload_base64\":\"YWI=\"}", { 0 }, "t|-|ab" },
		{ "{\"topic\":\"t\",\"payload_base64\":\"/+Fi\"}",
		  { 0 },
		  "t|-|\xff\xe1"
		  "b" },
		{ "{\"topic\":\"t\",\"payload\":1}",
		  { "o", NULL },
		  "o|-|{\"topic\":\"t\",\"payload\":1}" },
		{ "\x80 any", { "o", "x" }, "o|-|ce_type=x|\x80 any" },
		{ "", { "o", "x" }, "o|-|ce_type=x|" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf out BUF_AUTO = { 0 };
		struct try_event event;
		struct err err;
		if (!try_event_read(cases[i].text, strlen(cases[i].text), &cases[i].form, &err,
				    &event))
			fail_msg("%s: %s", cases[i].text, err.text);
		describe(&event.source, &out);
		assert_string_equal(out.data, cases[i].event);
		try_event_done(&event);
	}
}

static void what_is_no_event_is_refused(void **state)
{
	(void)state;
	static const char *const cases[][2] = {
		{ "", "a file holds one event, a JSON object" },
		{ "hello", "name its --topic" },
		{ "{\"order_id\":1}", "names no topic; a file holds one event" },
		{ "[1]", "names no topic" },
		{ "{\"topic\":1,\"payload\":1}", "names no topic" },
		{ "{\"topic\":\"\",\"payload\":1}", "names no topic" },
		{ "{\"topic\":\"t\"}", "the payload is missing; write \"payload\": null" },
		{ "{\"topic\":\"t\",\"payload\":1,\"payload_base64\":\"\"}", "both there" },
		{ "{\"topic\":\"t\",\"payload_base64\":7}", "payload_base64 is no text" },
		{ "{\"topic\":\"t\",\"payload_base64\":\"YQ=\"}", "is not base64" },
		{ "{\"topic\":\"t\",\"payload_base64\":\"Y!==\"}", "is not base64" },
		{ "{\"topic\":\"t\",\"tpye\":\"x\",\"payload\":1}",
		  "\"tpye\" is not known; topic," },
		{ "{\"topic\":\"t\",\"payload\":1,\"payload\":2}", "a second member" },
		{ "{\"topic\":\"t\",\"key\":7,\"payload\":1}",
		  "key is no text; write it in quotes" },
		{ "{\"topic\":\"t\",\"payload\":1,\"headers\":[]}",
		  "headers: is not a JSON object" },
		{ "{\"topic\":\"t\",\"payload\":1,\"headers\":{\"a\":1}}",
		  "headers: a is no text" },
		{ "{\"topic\":\"t\",\"payload\":1} {}", "byte " },
		{ "{\"topic\":\"t\\u0000\",\"payload\":1}", "\\u0000" },
	};
	const struct try_form form = { 0 };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct try_event event;
		struct err err = { "" };
		bool ok = try_event_read(cases[i][0], strlen(cases[i][0]), &form, &err, &event);
		if (ok || !strstr(err.text, cases[i][1]))
			fail_msg("%s: \"%s\"", cases[i][0], err.text);
	}
}

/* --- showing ------------------------------------------------------------------------------------
 */

static const char configuration[] =
	"kafka = { properties = ( (\"bootstrap.servers\", \"localhost:1\") ); };\n"
	"profiles = ( { name = \"quoted\"; quoting = \"string\"; window = \"7d\"; } );\n"
	"targets = (\n"
	"  { name = \"pay\"; url = \"https://pay.test/\"; profile = \"stripe-v1\";\n"
	"    auth = \"Bearer ${secret}\"; secret_file = \"/nonexistent/secret\";\n"
	"    headers = ( (\"X-Api-Key\", \"hush\"), (\"X-Plain\", \"shown\") ); },\n"
	"  { name = \"other\"; url = \"http://other.test\"; profile = \"quoted\"; },\n"
	"  { name = \"hook\"; url = \"http://hook.test\"; profile = \"standard-webhooks\";\n"
	"    secret_file = \"/nonexistent/secret\"; },\n"
	"  { name = \"mail\"; url = \"smtps://mail.test\"; profile = \"smtp\";\n"
	"    auth = \"me:${secret}\"; secret_file = \"/nonexistent/secret\";\n"
	"    from = \"Shop <shop@x.test>\"; to = \"${/email}\"; subject = \"No. ${/a}\"; } );\n"
	"effects = (\n"
	"  { name = \"charge\"; on = { topic = \"orders\"; type = (\"placed\", \"paid\"); };\n"
	"    target = \"pay\"; key = \"o:${/id}\"; tenant = \"${header:tenant|}\";\n"
	"    retention = \"forever\"; request = { path = \"/c/${/id}\";\n"
	"      content_type = \"application/json\"; body = \"{\\\"amount\\\": ${/cents}}\";\n"
	"      headers = ( (\"X-Token\", \"${/id}\") ); }; },\n"
	"  { name = \"copy\"; on = { topic = \"orders\"; type = \"placed\"; }; target = "
	"\"other\";\n"
	"    key = \"c:${/id}\"; retention = \"7d\"; dead_letter_topic = \"lost\";\n"
	"    request = { method = \"PUT\"; path = \"/${/name}\"; }; },\n"
	"  { name = \"gone\"; on = { topic = \"raw\"; }; target = \"other\"; tombstone = true;\n"
	"    key = \"${subject}\"; retention = \"7d\"; },\n"
	"  { name = \"tell\"; on = { topic = \"told\"; }; target = \"hook\"; key = "
	"\"t:${/a}.${/b}\";\n"
	"    retention = \"7d\"; },\n"
	"  { name = \"write\"; on = { topic = \"mailed\"; }; target = \"mail\"; key = "
	"\"m:${/a}\";\n"
	"    mode = \"at_most_once\"; retention = \"7d\"; request = { body = \"Hi ${/a}\"; }; },\n"
	"  { name = \"after\"; on = { topic = \"chained\"; }; target = \"pay\"; key = "
	"\"a:${/a}\";\n"
	"    retention = \"7d\"; emit = { topic = \"next\"; type = \"done\"; ordering_key = "
	"\"${/a}\";\n"
	"      payload = \"{\\\"a\\\": ${/a},\\n \\\"id\\\": ${provider_id}, \\\"text\\\": \\\"id "
	"${provider_id}\\\", \\\"b\\\": ${/b}}\"; }; },\n"
	"  { name = \"dark\"; on = { topic = \"shadowed\"; }; target = \"pay\"; key = "
	"\"d:${/a}\";\n"
	"    retention = \"7d\"; shadow = true; } );\n";

struct world {
	struct conf *conf;
	struct rules *rules;
};

static int begin(void **state)
{
	static struct world world;
	char path[] = "/tmp/counterfoil-try-XXXXXX";
	const struct conf_source source = { .path = path, .program = CONF_LEDGER, .closed = true };
	struct buf faults BUF_AUTO = { 0 }, warnings BUF_AUTO = { 0 };
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, configuration, sizeof(configuration) - 1),
			 sizeof(configuration) - 1);
	close(fd);
	bool ok = conf_load_from(&source, &faults, &world.conf) &&
		  rules_new_redacted(world.conf, &faults, &warnings, &world.rules);
	unlink(path);
	if (!ok)
		fail_msg("%s", buf_text(&faults));
	*state = &world;
	return 0;
}

static int end(void **state)
{
	struct world *world = *state;
	rules_free(world->rules);
	conf_free(world->conf);
	return 0;
}

static bool show(const struct world *world, const char *text, struct buf *out)
{
	const struct try_form form = { 0 };
	struct try_event event;
	struct err err;
	if (!try_event_read(text, strlen(text), &form, &err, &event))
		fail_msg("%s", err.text);
	bool good = try_show(world->rules, world->conf, &event.source, NOW, out);
	try_event_done(&event);
	assert_null(strstr(out->data, "hush"));
	return good;
}

/* The fingerprints are those of the bytes: they change when what is sent does. */
static void requests_are_shown(void **state)
{
	struct buf out BUF_AUTO = { 0 };
	assert_true(show(*state,
			 "{\"topic\":\"orders\",\"type\":\"placed\",\"id\":\"e1\","
			 "\"headers\":{\"tenant\":\"acme\",\"content-type\":\"text/plain\"},"
			 "\"payload\":{\"id\":7,\n  \"cents\":1999,\"name\":\"a b\"}}",
			 &out));
	assert_string_equal(out.data, "  topic orders, type placed, event id e1\n"
				      "  effect charge, target pay\n"
				      "    key           o:7\n"
				      "    tenant        acme\n"
				      "    provider key  acme~:o:7\n"
				      "    mode          idempotent\n"
				      "    fingerprint   9333e7627a4b459b7758f86afabfc9f7\n"
				      "    request\n"
				      "        POST https://pay.test/c/7\n"
				      "        Content-Type: application/json\n"
				      "        X-Api-Key: [redacted]\n"
				      "        X-Plain: shown\n"
				      "        X-Token: [redacted]\n"
				      "        Idempotency-Key: acme~:o:7\n"
				      "        Authorization: Bearer [redacted]\n"
				      "    body          16 bytes\n"
				      "        {\"amount\": 1999}\n"
				      "  effect copy, target other\n"
				      "    key           c:7\n"
				      "    provider key  c:7\n"
				      "    mode          idempotent\n"
				      "    fingerprint   4d147efab464534ec024a2b3f1b9d45e\n"
				      "    request\n"
				      "        PUT http://other.test/a%20b\n"
				      "        Content-Type: text/plain\n"
				      "        Idempotency-Key: \"c:7\"\n"
				      "    body          37 bytes\n"
				      "        {\"id\":7,\n"
				      "          \"cents\":1999,\"name\":\"a b\"}\n");
}

/* The id is signed with dots around it, so it holds none. */
static void what_signs_is_not_shown(void **state)
{
	struct buf out BUF_AUTO = { 0 };
	assert_true(show(*state, "{\"topic\":\"told\",\"payload\":{\"a\":1,\"b\":2}}", &out));
	assert_non_null(strstr(out.data, "\n        webhook-id: cf-"));
	assert_non_null(strstr(out.data, "\n        webhook-timestamp: [when it is sent]\n"
					 "        webhook-signature: [redacted]\n    body "));
}

static void mail_is_shown(void **state)
{
	struct buf out BUF_AUTO = { 0 }, no BUF_AUTO = { 0 };
	assert_true(show(*state,
			 "{\"topic\":\"mailed\",\"payload\":{\"a\":1,\"email\":\"a@b.test\"}}",
			 &out));
	assert_non_null(strstr(out.data, "    request\n"
					 "        MAIL smtps://mail.test\n"
					 "        From: Shop <shop@x.test>\n"
					 "        To: a@b.test\n"
					 "        Subject: No. 1\n"
					 "        Message-ID: <m=3A1@x.test>\n"
					 "    body          4 bytes\n"
					 "        Hi 1\n"));
	assert_null(strstr(out.data, "secret"));
	assert_false(show(*state,
			  "{\"topic\":\"mailed\",\"payload\":{\"a\":1,\"email\":\"a@b.test, "
			  "c@d.test\"}}",
			  &no));
	assert_non_null(strstr(no.data, "    dead          To: is not one address"));
}

/* With the place of what is not known yet; and why there will be none. */
static void what_is_emitted_is_shown(void **state)
{
	struct buf out BUF_AUTO = { 0 }, none BUF_AUTO = { 0 };
	assert_true(show(*state, "{\"topic\":\"chained\",\"payload\":{\"a\":1,\"b\":[2]}}", &out));
	assert_non_null(strstr(out.data, "    emits         topic next, type done, ordering key 1\n"
					 "        {\"a\": 1,\n"
					 "         \"id\": ${provider_id}, \"text\": \"id "
					 "${provider_id}\", \"b\": [2]}\n"));
	assert_true(show(*state, "{\"topic\":\"chained\",\"payload\":{\"a\":1}}", &none));
	assert_non_null(strstr(none.data, "    emits nothing emit.payload: ${/b} finds nothing\n"));
}

static void a_shadow_is_shown(void **state)
{
	struct buf out BUF_AUTO = { 0 };
	assert_true(show(*state, "{\"topic\":\"shadowed\",\"payload\":{\"a\":1}}", &out));
	assert_non_null(
		strstr(out.data, "    shadow        recorded as completed, and never sent\n"));
	assert_non_null(strstr(out.data, "    request\n        POST https://pay.test/\n"));
}

static void deaths_and_poison_have_their_reason(void **state)
{
	static const struct {
		const char *event;
		const char *says[3];
	} cases[] = {
		{ "{\"topic\":\"orders\",\"type\":\"placed\",\"payload\":{\"id\":1,\"name\":\"n\"}"
		  "}",
		  { "  effect charge, target pay\n    key           o:1\n",
		    "\n    dead          request.body: ${/cents} ",
		    "nothing is sent; a dead letter goes to the topic orders.dlq\n" } },
		{ "{\"topic\":\"orders\",\"type\":\"placed\",\"payload\":{\"id\":1,\"cents\":1,"
		  "\"name\":\"..\"}}",
		  { "\n    dead          request.path: ", "goes to the topic lost\n" } },
		{ "{\"topic\":\"orders\",\"type\":\"paid\",\"payload\":{}}",
		  { "  poison: effect \"charge\": key: ${/id} ", "; nothing is performed\n" } },
		{ "{\"topic\":\"orders\",\"type\":\"paid\",\"payload\":\"no JSON\"}",
		  { "  poison: effect \"charge\": the value cannot be read as JSON: byte " } },
		{ "{\"topic\":\"orders\",\"type\":\"a\\u001b[31m\",\"payload\":{}}",
		  { "  poison: header ce_type: holds a NUL or another control character\n" } },
		{ "{\"topic\":\"orders\",\"type\":\"placd\",\"payload\":{}}",
		  { "  unmatched: no effect is for this topic and type; for this topic there are\n"
		    "    effect charge: placed, paid\n    effect copy: placed\n",
		    "  the message is counted, and passed over\n" } },
		{ "{\"topic\":\"raw\\u001b\\u009b\",\"payload\":{}}",
		  { "  topic raw\\x1b\\xc2\\x9b, event id raw",
		    "  unmatched: no effect is for this topic\n" } },
		{ "{\"topic\":\"orders\",\"type\":\"placed\",\"payload\":null}",
		  { ", a tombstone\n", "  unmatched: " } },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf out BUF_AUTO = { 0 };
		assert_false(show(*state, cases[i].event, &out));
		for (size_t k = 0; k < 3 && cases[i].says[k]; k++)
			if (!strstr(out.data, cases[i].says[k]))
				fail_msg("\"%s\" is not in:\n%s", cases[i].says[k], out.data);
	}
}

static void bodies_cannot_play_on_a_terminal(void **state)
{
	static const struct {
		const char *payload;
		const char *body; /* NULL: none */
	} cases[] = {
		{ "\"payload\":\"a\\tb\\r\\nc\"",
		  "    body          6 bytes\n        a\tb\r\n        c\n" },
		{ "\"payload\":\"a\\rb\"", "    body          3 bytes, as base64\n        YQ1i\n" },
		{ "\"payload\":\"\\u001b[2J\"",
		  "    body          4 bytes, as base64\n        G1sySg==\n" },
		{ "\"payload_base64\":\"/w==\"",
		  "    body          1 bytes, as base64\n        /w==\n" },
		{ "\"payload\":\"\"", NULL },
		{ "\"payload\":null", NULL },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf text BUF_AUTO = { 0 }, out BUF_AUTO = { 0 };
		buf_addf(&text, "{\"topic\":\"raw\",\"key\":\"k\",%s}", cases[i].payload);
		assert_true(show(*state, text.data, &out));
		const char *body = strstr(out.data, "    body ");
		if (cases[i].body)
			assert_string_equal(body, cases[i].body);
		else
			assert_null(body);
	}
}

static void a_long_body_is_whole(void **state)
{
	struct buf text BUF_AUTO = { 0 }, out BUF_AUTO = { 0 };
	buf_add_text(&text, "{\"topic\":\"raw\",\"key\":\"k\",\"payload_base64\":\"");
	for (int i = 0; i < 100; i++)
		buf_add_text(&text, "gIGC");
	buf_add_text(&text, "\"}");
	assert_true(show(*state, text.data, &out));
	int found = 0;
	for (const char *at = out.data; (at = strstr(at, "gIGC")); at += 4)
		found++;
	assert_int_equal(found, 100);
	assert_non_null(strstr(out.data, "    body          300 bytes, as base64\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_are_read),
		cmocka_unit_test(what_is_no_event_is_refused),
		cmocka_unit_test(requests_are_shown),
		cmocka_unit_test(what_signs_is_not_shown),
		cmocka_unit_test(mail_is_shown),
		cmocka_unit_test(what_is_emitted_is_shown),
		cmocka_unit_test(a_shadow_is_shown),
		cmocka_unit_test(deaths_and_poison_have_their_reason),
		cmocka_unit_test(bodies_cannot_play_on_a_terminal),
		cmocka_unit_test(a_long_body_is_whole),
	};
	return cmocka_run_group_tests(tests, begin, end);
}
