/* The configuration: values, defaults, the environment, the sample, and files. */
#include "conf_loading.h"

#include "conf/conf_profiles.h"

/* --- what is read -------------------------------------------------------------------------------
 */

static void defaults_stand_where_nothing_is_said(void **state)
{
	(void)state;
	struct conf *conf = load(KAFKA, CONF_RELAY);
	char host[256] = "", instance[300];
	assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
	(void)snprintf(instance, sizeof(instance), "%s-relay", host);
	assert_string_equal(conf->general.instance, instance);
	assert_string_equal(conf->general.environment, "");
	assert_false(conf->general.production);
	assert_int_equal(conf->general.drain_timeout, 35 * USEC_SEC);
	assert_string_equal(conf->postgres.conninfo, "");
	assert_int_equal(conf->postgres.connect_timeout, 5 * USEC_SEC);
	assert_int_equal(conf->postgres.statement_timeout, 30 * USEC_SEC);
	assert_int_equal(conf->kafka.properties.count, 1);
	assert_string_equal(conf->kafka.properties.items[0].name, "bootstrap.servers");
	assert_string_equal(conf->kafka.properties.items[0].value, "broker:9092");
	assert_string_equal(conf->relay.source, "/counterfoil");
	assert_string_equal(conf->relay.content_type, "application/json");
	assert_int_equal(conf->relay.message_key, CONF_KEY_EVENT_ID);
	assert_int_equal(conf->relay.batch, 1000);
	assert_int_equal(conf->relay.batch_bytes, 8 << 20);
	assert_int_equal(conf->relay.window_rows, 20000);
	assert_int_equal(conf->relay.window_bytes, 16 << 20);
	assert_int_equal(conf->relay.poll_busy, 2 * USEC_MS);
	assert_int_equal(conf->relay.poll_idle, 25 * USEC_MS);
	assert_int_equal(conf->relay.sweep, 5 * USEC_SEC);
	assert_int_equal(conf->relay.lease, 15 * USEC_SEC);
	assert_string_equal(conf->ledger.group, "counterfoil-ledger");
	assert_int_equal(conf->ledger.start, CONF_START_UNSET);
	assert_int_equal(conf->ledger.unmatched, CONF_UNMATCHED_PASS);
	assert_int_equal(conf->ledger.poison_max_bytes, 1 << 20);
	assert_int_equal(conf->ledger.batch, 500);
	assert_int_equal(conf->ledger.intake_wait, 20 * USEC_MS);
	assert_int_equal(conf->ledger.in_flight, 1000);
	assert_int_equal(conf->ledger.due_high, 200000);
	assert_int_equal(conf->ledger.due_low, 100000);
	assert_int_equal(conf->ledger.lease, 10 * USEC_SEC);
	assert_int_equal(conf->ledger.result_batch, 100);
	assert_int_equal(conf->ledger.result_wait, 5 * USEC_MS);
	assert_int_equal(conf->ledger.response_keep, 16 << 10);
	assert_int_equal(conf->log.level, LOG_INFO);
	assert_int_equal(conf->log.format, LOG_LOGFMT);
	assert_int_equal(conf->target_count, 0);
	assert_int_equal(conf->effect_count, 0);
	conf_free(conf);
	conf_free(NULL);
}

static void defaults_of_targets_and_effects(void **state)
{
	(void)state;
	struct conf *conf = load(LEDGER, CONF_LEDGER);
	const struct conf_target *target = &conf->targets[0];
	assert_string_equal(target->auth, "");
	assert_string_equal(target->ca_file, "");
	assert_int_equal(target->headers.count, 0);
	assert_int_equal(target->connect_timeout, 3 * USEC_SEC);
	assert_int_equal(target->timeout, 30 * USEC_SEC);
	assert_int_equal(target->concurrency, 20);
	assert_string_equal(target->provider_id, "/id");
	const struct conf_effect *effect = &conf->effects[0];
	assert_string_equal(effect->topic, "orders");
	assert_int_equal(effect->types.count, 0);
	assert_int_equal(effect->mode, EFFECT_IDEMPOTENT);
	assert_string_equal(effect->tenant, "");
	assert_string_equal(effect->method, "POST");
	assert_string_equal(effect->path, "/");
	assert_string_equal(effect->content_type, "");
	assert_string_equal(effect->body, "");
	assert_false(effect->has_body);
	assert_int_equal(effect->retry.strategy, CONF_RETRY_EXPONENTIAL);
	assert_int_equal(effect->retry.first, 2 * USEC_SEC);
	assert_int_equal(effect->retry.max, 10 * USEC_MIN);
	assert_int_equal(effect->retry.attempts, 12);
	assert_true(effect->retention == USEC_NEVER);
	assert_true(effect->not_after == USEC_NEVER);
	assert_int_equal(effect->delay, 0);
	assert_false(effect->tombstone);
	assert_string_equal(effect->dead_letter_topic, "");
	conf_free(conf);
}

static void every_kind_of_value_is_read(void **state)
{
	(void)state;
	struct conf *conf = load(
		KAFKA
		"general : { production = true; instance = \"sh\\xc3\\xb6p-1\"; drain_timeout = "
		"\"1m\"; };\n"
		"relay = { batch = 0x10; window_rows = 30000L; batch_bytes = \"64KiB\";\n"
		"  message_key = \"none\"; source = \"/a\" \"/b\"; };\n"
		"ledger = { start = \"2026-01-31T02:00:00.5+02:00\"; unmatched = \"poison\";\n"
		"  response_keep = \"0B\"; };\n"
		"targets = ( { name = \"a\"; url = \"http://[::1]:8080/v1/\"; profile = \"mine\";\n"
		"  headers = ( (\"X-One\", \"1\"), [\"X-Two\", \"2\"] ); } );\n"
		"profiles = ( { name = \"mine\"; window = \"forever\"; quoting = \"string\";\n"
		"  stores_errors = \"all\"; characters = \"a-z0-9-\"; in_progress = 409;\n"
		"  mismatch = (422, \"400\"); safe_503 = true; } );\n"
		"effects = ( { name = \"e\"; target = \"a\"; on = { topic = \"t\"; type = \"x\"; "
		"};\n"
		"    key = \"k\"; retention = \"30d\"; mode = \"natural\"; not_after = \"7d\";\n"
		"    request = { method = \"PUT\"; body = \"\"; query = ( (\"q\", \"${/a}\") ); "
		"};\n"
		"    retry = { strategy = \"none\"; }; tombstone = true; },\n"
		"  { name = \"f\"; target = \"a\"; on = { topic = \"t\"; type = [\"x\", \"y\"]; "
		"};\n"
		"    key = \"k\"; retention = \"1y\"; mode = \"at_most_once\"; } );\n",
		CONF_LEDGER);
	assert_true(conf->general.production);
	assert_string_equal(conf->general.instance, "shöp-1");
	assert_int_equal(conf->general.drain_timeout, USEC_MIN);
	assert_int_equal(conf->relay.batch, 16);
	assert_int_equal(conf->relay.window_rows, 30000);
	assert_int_equal(conf->relay.batch_bytes, 65536);
	assert_int_equal(conf->relay.message_key, CONF_KEY_NONE);
	assert_string_equal(conf->relay.source, "/a/b");
	assert_int_equal(conf->ledger.start, CONF_START_TIME);
	assert_int_equal(conf->ledger.start_time, 1769817600 * USEC_SEC + 500 * USEC_MS);
	assert_int_equal(conf->ledger.unmatched, CONF_UNMATCHED_POISON);
	assert_int_equal(conf->ledger.response_keep, 0);
	assert_int_equal(conf->targets[0].headers.count, 2);
	assert_string_equal(conf->targets[0].headers.items[1].name, "X-Two");
	const struct conf_profile *profile = conf_profile_find(conf, "mine");
	assert_non_null(profile);
	assert_true(profile->window == USEC_NEVER);
	assert_string_equal(profile->header, "Idempotency-Key");
	assert_int_equal(profile->quoting, CONF_QUOTING_STRING);
	assert_int_equal(profile->stores, CONF_STORES_ALL);
	assert_int_equal(profile->in_progress.count, 1);
	assert_string_equal(profile->in_progress.items[0], "409");
	assert_int_equal(profile->mismatch.count, 2);
	assert_string_equal(profile->mismatch.items[1], "400");
	assert_true(profile->safe_503);
	const struct conf_effect *effect = &conf->effects[0];
	assert_int_equal(effect->types.count, 1);
	assert_int_equal(effect->mode, EFFECT_NATURAL);
	assert_int_equal(effect->not_after, 7 * USEC_DAY);
	assert_true(effect->has_body);
	assert_string_equal(effect->query.items[0].value, "${/a}");
	assert_int_equal(effect->retry.strategy, CONF_RETRY_NONE);
	assert_true(effect->tombstone);
	assert_int_equal(conf->effects[1].mode, EFFECT_AT_MOST_ONCE);
	assert_int_equal(conf->effects[1].types.count, 2);
	assert_string_equal(conf->effects[1].types.items[1], "y");
	assert_false(conf->effects[1].has_body);
	conf_free(conf);
}

static void a_start_is_a_word_or_a_time(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		enum conf_start start;
	} cases[] = {
		{ "earliest", CONF_START_EARLIEST },
		{ "latest", CONF_START_LATEST },
		{ "2026-01-31T00:00:00Z", CONF_START_TIME },
		{ "", CONF_START_UNSET },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[300];
		(void)snprintf(text, sizeof(text), KAFKA "ledger = { start = \"%s\"; };",
			       cases[i].text);
		struct conf *conf = load(text, CONF_RELAY);
		assert_int_equal(conf->ledger.start, cases[i].start);
		conf_free(conf);
	}
}

static void shipped_profiles(void **state)
{
	(void)state;
	struct conf *conf = load(KAFKA, CONF_RELAY);
	assert_int_equal(conf->profile_count, conf_profiles_shipped());
	const struct conf_profile *stripe = conf_profile_find(conf, "stripe-v1");
	assert_string_equal(stripe->header, "Idempotency-Key");
	assert_int_equal(stripe->quoting, CONF_QUOTING_RAW);
	assert_int_equal(stripe->max_length, 255);
	assert_string_equal(stripe->characters, "");
	assert_true(stripe->window == USEC_DAY);
	assert_int_equal(stripe->stores, CONF_STORES_ALL);
	assert_int_equal(stripe->in_progress.count, 1);
	assert_string_equal(stripe->in_progress.items[0], "409");
	assert_int_equal(stripe->mismatch.count, 0);
	assert_false(stripe->safe_503);
	const struct conf_profile *plain = conf_profile_find(conf, "plain");
	assert_string_equal(plain->header, "Idempotency-Key");
	assert_true(plain->window == 0);
	assert_int_equal(plain->stores, CONF_STORES_NONE);
	assert_int_equal(plain->in_progress.count + plain->mismatch.count, 0);
	assert_null(conf_profile_find(conf, "Stripe-v1"));
	conf_free(conf);
}

static void each_program_has_its_own_conninfo(void **state)
{
	(void)state;
	static const char text[] = KAFKA "postgres = { conninfo = \"dbname=all\"; };\n"
					 "relay = { conninfo = \"dbname=relay\"; };\n"
					 "console = { conninfo = \"dbname=console\"; };\n"
					 "targets = ( " TARGET " ); effects = ( " EFFECT " );\n";
	static const char *const expected[] = { [CONF_RELAY] = "dbname=relay",
						[CONF_LEDGER] = "dbname=all",
						[CONF_CONSOLE] = "dbname=console" };
	for (enum conf_program program = CONF_RELAY; program <= CONF_CONSOLE; program++) {
		struct conf *conf = load(text, program);
		assert_string_equal(conf->postgres.conninfo, expected[program]);
		conf_free(conf);
	}
}

static void the_environment_wins_over_the_file(void **state)
{
	(void)state;
	static const char *const variables[][2] = {
		{ "COUNTERFOIL_LEDGER_START", "latest" },
		{ "COUNTERFOIL_GENERAL_PRODUCTION", "true" },
		{ "COUNTERFOIL_RELAY_BATCH", "7" },
		{ "COUNTERFOIL_RELAY_WINDOW_BYTES", "1MiB" },
		{ "COUNTERFOIL_POSTGRES_CONNECT_TIMEOUT", "2s" },
		{ "COUNTERFOIL_POSTGRES_CONNINFO", "" },
		{ "COUNTERFOIL_LOG_FORMAT", "json" },
		/* what a cluster may set for a service of our name is none of ours */
		{ "COUNTERFOIL_SERVICE_HOST", "10.0.0.1" },
	};
	char place[200];
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		assert_int_equal(setenv(variables[i][0], variables[i][1], 1), 0);
	struct conf *conf =
		load(KAFKA "relay = { batch = 5; };\nledger = { start = \"earliest\"; };\n"
			   "postgres = { conninfo = \"dbname=x\"; };\n",
		     CONF_RELAY);
	assert_int_equal(conf->ledger.start, CONF_START_LATEST);
	assert_true(conf->general.production);
	assert_int_equal(conf->relay.batch, 7);
	assert_int_equal(conf->relay.window_bytes, 1 << 20);
	assert_int_equal(conf->postgres.connect_timeout, 2 * USEC_SEC);
	assert_string_equal(conf->postgres.conninfo, "");
	assert_int_equal(conf->log.format, LOG_JSON);
	assert_string_equal(conf_place(conf, "relay.batch", place, sizeof(place)),
			    "COUNTERFOIL_RELAY_BATCH: relay.batch");
	conf_free(conf);

	assert_int_equal(setenv("COUNTERFOIL_RELAY_BATCH", "1e3", 1), 0);
	assert_int_equal(setenv("COUNTERFOIL_GENERAL_PRODUCTION", "yes", 1), 0);
	assert_int_equal(setenv("COUNTERFOIL_LOG_FORMAT", "", 1), 0);
	assert_int_equal(setenv("COUNTERFOIL_RELAY_SOURCE", "/\xff", 1), 0);
	assert_faults(
		KAFKA, CONF_RELAY,
		"COUNTERFOIL_GENERAL_PRODUCTION: general.production: \"yes\" is not true or false\n"
		"COUNTERFOIL_LOG_FORMAT: log.format: \"\" is not one of \"logfmt\", \"json\"\n"
		"COUNTERFOIL_RELAY_BATCH: relay.batch: \"1e3\" is not a whole number\n"
		"COUNTERFOIL_RELAY_SOURCE: relay.source: byte 2 of the text is not UTF-8\n");
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		assert_int_equal(unsetenv(variables[i][0]), 0);
	assert_int_equal(unsetenv("COUNTERFOIL_RELAY_SOURCE"), 0);
}

static void places(void **state)
{
	(void)state;
	fixture_write("targets.conf", "\ntargets = (\n  " TARGET "\n);\n");
	struct conf *conf = load(KAFKA "@include \"targets.conf\"\n"
				       "log = { level = \"warn\"; };\n"
				       "effects = (\n " EFFECT "\n);\n",
				 CONF_LEDGER);
	static const struct {
		const char *key;
		const char *place;
	} cases[] = {
		{ "kafka.properties[0]", "c.conf:1: kafka.properties[0]" },
		{ "targets[0].url", "targets.conf:3: targets[0].url" },
		{ "targets[0].timeout", "targets.conf:3: targets[0].timeout" },
		{ "log.level", "c.conf:3: log.level" },
		{ "effects[0].on.topic", "c.conf:5: effects[0].on.topic" },
		{ "effects[0].request.headers[2]", "c.conf:5: effects[0].request.headers[2]" },
		{ "effects", "c.conf:4: effects" },
		{ "relay.batch", "c.conf: relay.batch" },
	};
	char place[200];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(conf_place(conf, cases[i].key, place, sizeof(place)),
				    cases[i].place);
	char small[12];
	assert_string_equal(conf_place(conf, "log.level", small, sizeof(small)), "c.conf:3: l");
	conf_free(conf);
}

/* --- the sample ----------------------------------------------------------------------------------
 */

static struct buf read_sample(void)
{
	struct buf text = { 0 };
	char path[sizeof(fixture_root) + 64];
	char line[512];
	(void)snprintf(path, sizeof(path), "%s/conf/counterfoil.conf", fixture_root);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		buf_add_text(&text, line);
	fclose(file);
	return text;
}

static void the_sample_suits_all_programs(void **state)
{
	(void)state;
	struct buf text = read_sample();
	for (enum conf_program program = CONF_RELAY; program <= CONF_CONSOLE; program++) {
		struct conf *conf = load(text.data, program);
		assert_int_equal(conf->effect_count, 1);
		assert_string_equal(conf->effects[0].key, "order:${/order_id}:charge");
		assert_true(conf->effects[0].has_body);
		conf_free(conf);
	}
	buf_done(&text);
}

/* The "#" of "#key = value;" and of what is indented behind one; not that of a sentence. */
static char *disabling_mark(char *line)
{
	char *mark = line + strspn(line, " ");
	size_t blanks = *mark == '#' ? strspn(mark + 1, " ") : 1;
	return blanks == 1 || mark[1 + blanks] == '\n' ? NULL : mark;
}

/* Each "#key = ..." line of it, enabled, is a line that loads. */
static void the_sample_with_every_line_enabled(void **state)
{
	(void)state;
	struct buf text = read_sample();
	struct buf all = { 0 };
	for (char *line = text.data, *end; line && *line; line = end) {
		end = strchr(line, '\n');
		assert_non_null(end);
		end++;
		char *mark = disabling_mark(line);
		if (mark)
			*mark = ' ';
		buf_add(&all, line, (size_t)(end - line));
	}
	struct conf *conf = load(buf_text(&all), CONF_CONSOLE);
	assert_int_equal(conf->profile_count, conf_profiles_shipped() + 1);
	assert_string_equal(conf_profile_find(conf, "acme-v2")->mismatch.items[0], "422");
	assert_string_equal(conf->targets[0].ca_file, "/etc/counterfoil/payments-ca.pem");
	assert_int_equal(conf->relay.window_rows, 20000);
	assert_int_equal(conf->effects[0].query.count, 1);
	conf_free(conf);
	buf_done(&all);
	buf_done(&text);
}

/* --- files ---------------------------------------------------------------------------------------
 */

static void assert_file_fault(const char *path, const char *expected)
{
	struct buf faults = { 0 };
	struct conf *conf;
	assert_false(conf_load(path, CONF_RELAY, &faults, &conf));
	assert_string_equal(buf_text(&faults), expected);
	buf_done(&faults);
}

static void files_that_cannot_be_read(void **state)
{
	(void)state;
	assert_file_fault(
		"none.conf",
		"none.conf: No such file or directory; name another file with --config\n");
	assert_file_fault(".", ".: is a directory, not a file\n");
	fixture_write("locked.conf", "");
	assert_int_equal(chmod("locked.conf", 0), 0);
	if (geteuid() != 0)
		assert_file_fault("locked.conf",
				  "locked.conf: permission denied: the user who runs "
				  "this program must be able to read it\n");
}

static void secrets_are_first_lines(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		size_t length;
		const char *secret; /* NULL: refused */
		const char *why;
	} cases[] = {
		{ "hush", 4, "hush", NULL },
		{ "hush\n", 5, "hush", NULL },
		{ "hush\r\nmore", 10, "hush", NULL },
		{ " hush \n", 7, " hush ", NULL },
		{ "", 0, NULL, "s: the first line is empty; it must be the secret" },
		{ "\nhush", 5, NULL, "s: the first line is empty; it must be the secret" },
		{ "hu\0sh", 5, NULL, "s: the secret holds a NUL" },
	};
	struct err err;
	char *secret = NULL;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fixture_write_n("s", cases[i].text, cases[i].length);
		assert_int_equal(conf_read_secret("s", &err, &secret), cases[i].secret != NULL);
		if (!cases[i].secret) {
			assert_string_equal(err.text, cases[i].why);
			continue;
		}
		assert_string_equal(secret, cases[i].secret);
		free(secret);
	}
	struct buf large = { 0 };
	for (int i = 0; i < 64 * 1024 + 1; i++)
		buf_add_char(&large, 'x');
	fixture_write_n("s", large.data, large.length);
	assert_false(conf_read_secret("s", &err, &secret));
	assert_string_equal(err.text, "s: is larger than 65536 bytes");
	buf_done(&large);
	assert_false(conf_read_secret("none", &err, &secret));
	assert_string_equal(err.text, "none: No such file or directory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_stand_where_nothing_is_said),
		cmocka_unit_test(defaults_of_targets_and_effects),
		cmocka_unit_test(every_kind_of_value_is_read),
		cmocka_unit_test(a_start_is_a_word_or_a_time),
		cmocka_unit_test(shipped_profiles),
		cmocka_unit_test(each_program_has_its_own_conninfo),
		cmocka_unit_test(the_environment_wins_over_the_file),
		cmocka_unit_test(places),
		cmocka_unit_test(the_sample_suits_all_programs),
		cmocka_unit_test(the_sample_with_every_line_enabled),
		cmocka_unit_test(files_that_cannot_be_read),
		cmocka_unit_test(secrets_are_first_lines),
	};
	return cmocka_run_group_tests_name("conf", tests, fixture_enter, fixture_leave);
}
