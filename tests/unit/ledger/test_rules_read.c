/* What is refused when effects are read, and what is kept of secrets. */
#include "ledger/rules_world.h"
#include "rules/profile.h"

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
		cmocka_unit_test(secrets_are_read_and_kept_apart),
		cmocka_unit_test(signing_keys_are_read_and_kept_apart),
		cmocka_unit_test(faults_have_a_place_and_a_remedy),
		cmocka_unit_test(all_faults_come_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
