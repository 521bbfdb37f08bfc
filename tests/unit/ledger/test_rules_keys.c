/* The key at the provider, the place in an order, and the time of a request. */
#include "ledger/rules_world.h"
#include "rules/profile.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(provider_keys_fit_the_profile),
		cmocka_unit_test(tenants_do_not_meet_at_the_provider),
		cmocka_unit_test(what_is_sent_one_at_a_time),
		cmocka_unit_test(without_its_place_in_the_order_nothing_is_sent),
		cmocka_unit_test(not_before_the_time_that_the_event_says),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
