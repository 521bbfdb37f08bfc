/* The ledger's keys: the fields that they become, and what must fit each other. Keys that come
 * later are read here as if they did not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "conf.h"
#include "conf/conf_check.h"
#include "conf/conf_later.h"
#include "conf/conf_profiles.h"
#include "conf/conf_read.h"
#include "conf_fixture.h"
#include "mem.h"

#define KAFKA "kafka = { properties = ( (\"bootstrap.servers\", \"b:1\") ); };\n"
#define HTTP  "url = \"https://h\"; profile = \"stripe-v1\";"
#define MAIL  "url = \"smtp://h\"; profile = \"smtp\";"
#define TEXTS "from = \"a@b\"; to = \"${/to}\"; subject = \"Hello\";"
#define HOOK  "url = \"https://h\"; profile = \"standard-webhooks\";"

static bool is_later(const char *text)
{
	size_t length = strlen(text);
	return length >= strlen(CONF_LATER) &&
	       strcmp(text + length - strlen(CONF_LATER), CONF_LATER) == 0;
}

/* As conf_load() for the relay, without the refusal of keys that come later. */
static struct conf *read_conf(const char *text, struct buf *faults)
{
	const struct conf_source source = { .path = "c.conf", .program = CONF_RELAY };
	struct conf *conf = mem_zero(sizeof(*conf));
	struct conf_faults found = { 0 };
	fixture_write("c.conf", text);
	conf->path = mem_text("c.conf");
	conf->places = mem_zero(sizeof(*conf->places));
	conf->places->path = mem_text("c.conf");
	found.places = conf->places;
	assert_true(conf_text_read(&conf->places->text, "c.conf", NULL));
	conf_read_defaults(conf);
	conf_read_file(conf, &found);
	conf_profiles_add(conf);
	conf_check_sections(conf, &source, &found);
	conf_check_rules(conf, &source, &found);
	size_t kept = 0;
	for (size_t i = 0; i < found.count; i++) {
		if (is_later(found.items[i].text))
			free(found.items[i].text);
		else
			found.items[kept++] = found.items[i];
	}
	found.count = kept;
	conf_faults_print(&found, faults);
	conf_faults_done(&found);
	return conf;
}

static struct conf *load(const char *text)
{
	struct buf faults = { 0 };
	struct conf *conf = read_conf(text, &faults);
	assert_string_equal(buf_text(&faults), "");
	buf_done(&faults);
	return conf;
}

/* --- fields --------------------------------------------------------------------------------------
 */

static void defaults(void **state)
{
	(void)state;
	struct conf *conf = load(KAFKA "targets = ( { name = \"t\"; " HTTP " } );\n"
				       "effects = ( { name = \"e\"; target = \"t\"; } );\n");
	const struct conf_ledger *ledger = &conf->ledger;
	const struct conf_target *target = &conf->targets[0];
	const struct conf_effect *effect = &conf->effects[0];
	assert_false(ledger->shadow);
	assert_int_equal(ledger->poison_limit, 100000);
	assert_int_equal(ledger->pruned_keep, 90 * USEC_DAY);
	assert_int_equal(ledger->audit_keep, 730 * USEC_DAY);
	assert_int_equal(ledger->request_keep, 30 * USEC_DAY);
	assert_int_equal(ledger->attempt_keep, 400 * USEC_DAY);
	assert_int_equal(target->rate.events, 0);
	assert_int_equal(target->breaker.failures, 10);
	assert_int_equal(target->breaker.ratio, 50);
	assert_int_equal(target->breaker.open, 30 * USEC_SEC);
	assert_int_equal(target->alias.count, 0);
	assert_string_equal(target->lookup, "");
	assert_string_equal(target->from, "");
	assert_string_equal(target->to, "");
	assert_string_equal(target->subject, "");
	assert_int_equal(conf->tenant_count, 0);
	assert_int_equal(effect->on_uncertain, CONF_UNCERTAIN_HOLD);
	assert_false(effect->shadow);
	assert_string_equal(effect->serialize_by, "");
	assert_string_equal(effect->not_before, "");
	assert_string_equal(effect->success.pointer, "");
	assert_int_equal(effect->redact.count, 0);
	assert_string_equal(effect->emit.topic, "");
	conf_free(conf);
}

static void every_key_has_its_field(void **state)
{
	(void)state;
	struct conf *conf = load(
		KAFKA
		"ledger = { shadow = true; poison_limit = 5; pruned_keep = \"1d\";\n"
		"  audit_keep = \"2d\"; request_keep = \"3d\"; attempt_keep = \"40d\"; };\n"
		"targets = (\n"
		"  { name = \"t\"; " HTTP " rate = \"600/m\"; alias = (\"u\", \"v\");\n"
		"    breaker = { failures = 3; ratio = 100; open = \"5s\"; };\n"
		"    lookup = \"https://h/${key}\"; },\n"
		"  { name = \"m\"; url = \"smtps://h:465/us\"; profile = \"smtp\"; " TEXTS "\n"
		"    auth = \"user:${secret}\"; rate = \"none\"; },\n"
		"  { name = \"w\"; " HOOK " secret_file = \"s\"; } );\n"
		"tenants = ( { name = \"big one\"; weight = 3; cap = 7; }, { name = \"x\"; } );\n"
		"effects = (\n"
		"  { name = \"a\"; target = \"t\"; serialize_by = \"${/c}\"; retention = \"40d\";\n"
		"    not_before = \"${/at|}\"; shadow = true; redact = (\"/card\", \"/a~1b\");\n"
		"    success = \"/status != no\"; emit = { topic = \"o\"; type = \"p\";\n"
		"    ordering_key = \"${/k}\"; payload = \"{}\"; }; },\n"
		"  { name = \"b\"; target = \"m\"; mode = \"at_most_once\";\n"
		"    on_uncertain = \"resend\"; redact = \"/to\";\n"
		"    request = { body = \"Hello\"; content_type = \"text/plain\"; }; },\n"
		"  { name = \"c\"; target = \"t\"; mode = \"natural\";\n"
		"    request = { method = \"PUT\"; }; },\n"
		"  { name = \"d\"; target = \"w\"; } );\n");
	assert_true(conf->ledger.shadow);
	assert_int_equal(conf->ledger.poison_limit, 5);
	assert_int_equal(conf->ledger.pruned_keep, USEC_DAY);
	assert_int_equal(conf->ledger.audit_keep, 2 * USEC_DAY);
	assert_int_equal(conf->ledger.request_keep, 3 * USEC_DAY);
	assert_int_equal(conf->ledger.attempt_keep, 40 * USEC_DAY);
	const struct conf_target *target = &conf->targets[0];
	assert_int_equal(target->rate.events, 600);
	assert_int_equal(target->rate.period, USEC_MIN);
	assert_int_equal(target->alias.count, 2);
	assert_string_equal(target->alias.items[1], "v");
	assert_int_equal(target->breaker.failures, 3);
	assert_int_equal(target->breaker.ratio, 100);
	assert_int_equal(target->breaker.open, 5 * USEC_SEC);
	assert_string_equal(target->lookup, "https://h/${key}");
	assert_string_equal(conf->targets[1].from, "a@b");
	assert_string_equal(conf->targets[1].to, "${/to}");
	assert_string_equal(conf->targets[1].subject, "Hello");
	assert_int_equal(conf->targets[1].rate.events, 0);
	assert_int_equal(conf->tenant_count, 2);
	assert_string_equal(conf->tenants[0].name, "big one");
	assert_int_equal(conf->tenants[0].weight, 3);
	assert_int_equal(conf->tenants[0].cap, 7);
	assert_int_equal(conf->tenants[1].weight, 1);
	assert_int_equal(conf->tenants[1].cap, 0);
	const struct conf_effect *effect = &conf->effects[0];
	assert_string_equal(effect->serialize_by, "${/c}");
	assert_string_equal(effect->not_before, "${/at|}");
	assert_true(effect->shadow);
	assert_int_equal(effect->redact.count, 2);
	assert_string_equal(effect->redact.items[1], "/a~1b");
	assert_string_equal(effect->success.pointer, "/status");
	assert_false(effect->success.equal);
	assert_string_equal(effect->success.text, "no");
	assert_string_equal(effect->emit.topic, "o");
	assert_string_equal(effect->emit.type, "p");
	assert_string_equal(effect->emit.ordering_key, "${/k}");
	assert_string_equal(effect->emit.payload, "{}");
	assert_int_equal(conf->effects[1].on_uncertain, CONF_UNCERTAIN_RESEND);
	assert_int_equal(conf->effects[1].redact.count, 1);
	conf_free(conf);
}

static void profiles(void **state)
{
	(void)state;
	struct conf *conf = load(KAFKA "profiles = ( { name = \"mine\"; } );\n");
	const struct conf_profile *draft = conf_profile_find(conf, "ietf-draft");
	assert_string_equal(draft->header, "Idempotency-Key");
	assert_int_equal(draft->quoting, CONF_QUOTING_STRING);
	assert_true(draft->window == USEC_DAY);
	assert_int_equal(draft->stores, CONF_STORES_ALL);
	assert_string_equal(draft->in_progress.items[0], "409");
	assert_string_equal(draft->mismatch.items[0], "422");
	assert_int_equal(draft->protocol, CONF_PROTOCOL_HTTP);
	const struct conf_profile *hook = conf_profile_find(conf, "standard-webhooks");
	assert_string_equal(hook->header, "webhook-id");
	assert_int_equal(hook->quoting, CONF_QUOTING_RAW);
	assert_true(hook->window == 7 * USEC_DAY);
	assert_int_equal(hook->stores, CONF_STORES_NONE);
	assert_string_equal(hook->characters, "!--/-~"); /* all but the dot */
	assert_int_equal(hook->in_progress.count + hook->mismatch.count, 0);
	assert_int_equal(hook->protocol, CONF_PROTOCOL_WEBHOOK);
	const struct conf_profile *mail = conf_profile_find(conf, "smtp");
	assert_string_equal(mail->header, "Message-ID");
	assert_true(mail->window == 0);
	assert_int_equal(mail->protocol, CONF_PROTOCOL_MAIL);
	assert_int_equal(conf_profile_find(conf, "plain")->protocol, CONF_PROTOCOL_HTTP);
	assert_int_equal(conf_profile_find(conf, "mine")->protocol, CONF_PROTOCOL_HTTP);
	conf_free(conf);
}

/* --- faults --------------------------------------------------------------------------------------
 */

#define TARGET(text_) "targets = ( { name = \"t\"; " text_ " } );"
#define EFFECT(target_, text_)                                                                     \
	TARGET(target_) " effects = ( { name = \"e\"; target = \"t\"; " text_ " } );"

/* Line 1 is KAFKA; the line of the case is the second. */
static const struct {
	const char *line;
	const char *faults;
} cases[] = {
	/* values */
	{ "ledger = { poison_limit = 0; };", "ledger.poison_limit: 0 is outside of 1 to 10000000" },
	{ "ledger = { audit_keep = \"forever\"; };",
	  "ledger.audit_keep: \"forever\" is not a duration; write for example \"30s\"" },
	{ TARGET(HTTP "rate = 25;"),
	  "targets[0].rate: is a number; write a rate in quotes, for example \"25/s\"" },
	{ TARGET(HTTP "rate = \"25\";"),
	  "targets[0].rate: \"25\" is not a rate; write for example \"25/s\", \"600/m\" or "
	  "\"100/h\"" },
	{ TARGET(HTTP "breaker = { ratio = 101; };"),
	  "targets[0].breaker.ratio: 101 is outside of 0 to 100" },
	{ TARGET(HTTP "lookup = \"https://h\";"),
	  "targets[0].lookup: has no place for the key; write ${key} where it belongs" },
	{ "effects = ( { redact = (\"/a\", \"b\"); } );",
	  "effects[0].redact[1]: is not a JSON pointer; write for example \"/id\", with ~1 for a "
	  "\"/\" and ~0 for a \"~\" in a name" },
	{ "effects = ( { redact = { }; } );",
	  "effects[0].redact: is a group; write a JSON pointer, or a list of them, (\"/card\", "
	  "\"/token\")" },
	{ "effects = ( { success = true; } );",
	  "effects[0].success: is true or false; write a condition in quotes, for example "
	  "\"/status = ok\"" },
	{ "effects = ( { success = \"/status = \\xff\"; } );",
	  "effects[0].success: byte 11 of the text is not UTF-8" },
	{ "effects = ( { success = \"/status = \"; } );",
	  "effects[0].success: ends behind the operator; the text is missing, as in "
	  "\"/status = ok\"" },
	/* names */
	{ "targets = ( { name = \"a\"; alias = \"a\"; } );",
	  "targets[0].alias[0]: \"a\" is the name of another one too" },
	{ "targets = ( { name = \"a\"; alias = \"b\"; }, { name = \"b\"; } );",
	  "targets[1].name: \"b\" is the name of another one too" },
	{ "targets = ( { name = \"a\"; alias = \"c\"; }, { name = \"b\"; alias = (\"d\", \"c\"); } "
	  ");",
	  "targets[1].alias[1]: \"c\" is the name of another one too" },
	{ "targets = ( { name = \"a\"; alias = \"A\"; } );",
	  "targets[0].alias[0]: \"A\" is not a name: a-z, 0-9 and \"-\", at most 40 of them" },
	{ "targets = ( { name = \"a\"; alias = \"b\"; } ); effects = ( { target = \"b\"; } );",
	  "effects[0].target: \"b\" is a former name; write \"a\"" },
	{ "tenants = ( { name = \"a\"; }, { name = \"b\"; }, { name = \"a\"; } );",
	  "tenants[2].name: \"a\" is the name of another one too" },
	{ "tenants = ( { name = \"\"; } );", "tenants[0].name: must not be empty" },
	{ "tenants = ( { name = \"a\\nb\"; } );", "tenants[0].name: holds a control character" },
	{ "tenants = ( { name = \"a\"; weight = 0; } );",
	  "tenants[0].weight: 0 is outside of 1 to 1000" },
	/* mail */
	{ TARGET(MAIL), "targets[0].from: is required for mail; write for example \"Shop "
			"<orders@shop.example>\"\n"
			"targets[0].subject: is required for mail; write for example \"Your order "
			"${/order_id}\"\n"
			"targets[0].to: is required for mail; write for example \"${/email}\"" },
	{ TARGET(HTTP TEXTS),
	  "targets[0].from: is for mail, a target whose url begins with smtp:// or smtps://\n"
	  "targets[0].subject: is for mail, a target whose url begins with smtp:// or smtps://\n"
	  "targets[0].to: is for mail, a target whose url begins with smtp:// or smtps://" },
	{ TARGET("url = \"smtp://h\"; profile = \"plain\"; " TEXTS),
	  "targets[0].profile: a mail server has the profile \"smtp\"" },
	{ TARGET("url = \"http://h\"; profile = \"smtp\";"),
	  "targets[0].profile: \"smtp\" is for mail, a target whose url begins with smtp:// or "
	  "smtps://" },
	{ TARGET("url = \"smtp://h\"; profile = \"smtp\"; from = \"a\\nb\"; to = \"x\"; subject = "
		 "\"y\";"),
	  "targets[0].from: the value holds a control character" },
	{ TARGET(MAIL TEXTS "headers = ( (\"X-A\", \"b\") );"),
	  "targets[0].headers: are for http and https, not for mail" },
	{ TARGET(MAIL TEXTS "auth = \"Bearer ${secret}\";"),
	  "targets[0].auth: is for mail the user's name and the password, \"NAME:${secret}\"" },
	{ TARGET(MAIL TEXTS "auth = \":${secret}\";"),
	  "targets[0].auth: is for mail the user's name and the password, \"NAME:${secret}\"" },
	{ EFFECT(MAIL TEXTS, ""),
	  "effects[0].mode: target \"t\" is a mail server, which cannot tell a second copy from "
	  "the first; write \"at_most_once\"" },
	{ EFFECT(MAIL TEXTS, "mode = \"at_most_once\"; success = \"/a = b\"; request = { "
			     "method = \"PUT\"; path = \"/\"; query = ( ); headers = ( ); };"),
	  "effects[0].request.headers: has no use for mail, of which request.body is the text\n"
	  "effects[0].request.method: has no use for mail, of which request.body is the text\n"
	  "effects[0].request.path: has no use for mail, of which request.body is the text\n"
	  "effects[0].request.query: has no use for mail, of which request.body is the text\n"
	  "effects[0].success: has no use for mail, of which request.body is the text" },
	/* webhooks */
	{ TARGET(HOOK), "targets[0].secret_file: is required: profile \"standard-webhooks\" signs "
			"each request with the secret in it" },
	{ TARGET(HOOK "secret_file = \"s\"; auth = \"${secret}\";"),
	  "targets[0].auth: would show the receiver the secret that signs; profile "
	  "\"standard-webhooks\" has no use for it" },
	{ TARGET(HOOK "secret_file = \"s\"; headers = ( (\"Webhook-Id\", \"1\"), "
		      "(\"Webhook-Signature\", \"2\") );"),
	  "targets[0].headers[0]: the header webhook-id carries the idempotency key; the profile "
	  "\"standard-webhooks\" sets it\n"
	  "targets[0].headers[1]: the header webhook-signature is set by the profile "
	  "\"standard-webhooks\"" },
	{ EFFECT(HOOK "secret_file = \"s\";",
		 "request = { headers = ( (\"webhook-timestamp\", \"1\") ); };"),
	  "effects[0].request.headers[0]: the header webhook-timestamp is set by the profile "
	  "\"standard-webhooks\"" },
	/* modes */
	{ EFFECT(HTTP, "mode = \"natural\"; request = { method = \"PATCH\"; };"),
	  "effects[0].mode: \"natural\" needs request.method \"PUT\" or \"DELETE\"" },
	{ EFFECT(HTTP, "mode = \"natural\"; serialize_by = \"x\"; request = { method = "
		       "\"DELETE\"; };"),
	  "effects[0].serialize_by: has no use in mode \"natural\", where the requests to one "
	  "URL are sent one after the other already" },
	{ EFFECT(HTTP, "mode = \"natural\"; request = { method = \"PUT\"; headers = ( "
		       "(\"idempotency-key\", \"1\") ); };"),
	  "effects[0].request.headers[0]: the header Idempotency-Key carries the idempotency key; "
	  "the profile \"stripe-v1\" sets it" },
	{ EFFECT(HTTP, "on_uncertain = \"resend\";"),
	  "effects[0].on_uncertain: \"resend\" is for mode \"at_most_once\"; in mode "
	  "\"idempotent\" a request is sent again for as long as that is safe, and no longer" },
	{ EFFECT(HTTP, "on_uncertain = \"drop\";"),
	  "effects[0].on_uncertain: \"drop\" is not one of \"hold\", \"resend\"" },
	/* the event that follows */
	{ "effects = ( { emit = { ordering_key = \"x\"; }; } );",
	  "effects[0].emit.payload: is required where something is emitted\n"
	  "effects[0].emit.topic: is required where something is emitted\n"
	  "effects[0].emit.type: is required where something is emitted" },
	{ "effects = ( { emit = { topic = \"a b\"; type = \"x\\ny\"; payload = \"z\"; }; } );",
	  "effects[0].emit.topic: is not the name of a topic: letters, digits, \".\", \"_\" and "
	  "\"-\", at most 249\n"
	  "effects[0].emit.type: the value holds a control character" },
	/* times */
	{ "ledger = { attempt_keep = \"30d\"; }; effects = ( { retention = \"31d\"; } );",
	  "effects[0].retention: is longer than ledger.attempt_keep, \"30d\": the attempts of a "
	  "key would be forgotten before the key itself; write a longer one there, or \"forever\" "
	  "here" },
	{ "ledger = { attempt_keep = \"30d\"; }; effects = ( { retention = \"30d\"; }, { "
	  "retention = \"forever\"; } );",
	  "" },
};

static void each_fault_has_its_text(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf text = { 0 }, expected = { 0 }, faults = { 0 };
		buf_addf(&text, KAFKA "%s\n", cases[i].line);
		for (const char *line = cases[i].faults; *line;) {
			size_t length = strcspn(line, "\n");
			buf_addf(&expected, "c.conf:2: %.*s\n", (int)length, line);
			line += length + (line[length] == '\n');
		}
		conf_free(read_conf(text.data, &faults));
		assert_string_equal(buf_text(&faults), buf_text(&expected));
		buf_done(&text);
		buf_done(&expected);
		buf_done(&faults);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(every_key_has_its_field),
		cmocka_unit_test(profiles),
		cmocka_unit_test(each_fault_has_its_text),
	};
	return cmocka_run_group_tests_name("conf_ledger", tests, fixture_enter, fixture_leave);
}
