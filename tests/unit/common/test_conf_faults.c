/* Every fault of a configuration with its text and place, and what each program requires. */
#include "conf_loading.h"

/* Line 1 is KAFKA; the line of the case is the second. */
static const struct fault_case {
	const char *line;
	const char *fault;
} fault_cases[] = {
	/* libconfig's traps */
	{ "relay = { batch = 3000000000; };",
	  "2: relay.batch: 3000000000 is outside of 1 to 10000" },
	{ "relay = { batch = 4294967297; };",
	  "2: relay.batch: 4294967297 is outside of 1 to 10000" },
	{ "relay = { batch = 3000000000L; };",
	  "2: relay.batch: 3000000000 is outside of 1 to 10000" },
	{ "relay = { batch = 0x100000001; };",
	  "2: relay.batch: 4294967297 is outside of 1 to 10000" },
	{ "relay = { batch = 99999999999999999999; };",
	  "2: relay.batch: 9223372036854775807 is outside of 1 to 10000" },
	{ "relay = { batch = -1; };", "2: relay.batch: -1 is outside of 1 to 10000" },
	{ "relay = { batch = 0; };", "2: relay.batch: 0 is outside of 1 to 10000" },
	{ "relay = { batch = \"1000\"; };",
	  "2: relay.batch: is a text; write a whole number, without quotes" },
	{ "relay = { batch = 1.5; };",
	  "2: relay.batch: is a number; write a whole number, without quotes" },
	{ "relay = { batch = (1); };",
	  "2: relay.batch: is a list; write a whole number, without quotes" },
	{ "relay = { batch = { }; };",
	  "2: relay.batch: is a group; write a whole number, without quotes" },
	{ "general = { production = 1; };",
	  "2: general.production: is a number; write true or false, without quotes" },
	{ "general = { environment = true; };",
	  "2: general.environment: is true or false; write a text in quotes" },
	{ "relay.batch = 3;",
	  "2: syntax error: on this line or just before it a quote, a bracket or a \"=\" is "
	  "missing, or something stands that is no part of a configuration" },
	{ "relay = { batch = 3;\n\n\n",
	  "2: syntax error: on this line or just before it a quote, a bracket or a \"=\" is "
	  "missing, or something stands that is no part of a configuration" },
	{ "log = { level = \"info\"; level = \"warn\"; };",
	  "2: a key or section of this line was set before" },
	{ "kafka = { };", "2: a key or section of this line was set before" },
	{ "general = { environment = \"a\\x00b\"; };", "2: a text cannot hold a NUL (\\x00)" },
	{ "general = { environment = \"\\xff\"; };",
	  "2: general.environment: byte 1 of the text is not UTF-8" },
	{ "general = { environment = \"a\xc0\xaf\"; };",
	  "2: general.environment: byte 2 of the text is not UTF-8" },
	{ "/* no end", "2: this comment is never closed; it ends with */" },
	{ "general = { environment = \"no end };",
	  "2: this text is never closed; it ends with \"" },
	/* durations, sizes, words */
	{ "relay = { lease = 15; };",
	  "2: relay.lease: is a number; write a duration in quotes, for example \"30s\"" },
	{ "relay = { lease = \"3\"; };",
	  "2: relay.lease: \"3\" is not a duration; write for example \"30s\"" },
	{ "relay = { lease = \"1s\\nx\"; };",
	  "2: relay.lease: \"1s\\nx\" is not a duration; write for example \"30s\"" },
	{ "relay = { lease = \"1ms\"; };",
	  "2: relay.lease: \"1ms\" is outside of \"1s\" to \"10m\"" },
	{ "relay = { batch_bytes = \"8MB\"; };",
	  "2: relay.batch_bytes: \"8MB\" is not a size; write for example \"16MiB\" (B, KiB, MiB, "
	  "GiB)" },
	{ "relay = { batch_bytes = 8; };",
	  "2: relay.batch_bytes: is a number; write a size in quotes, for example \"16MiB\"" },
	{ "relay = { batch_bytes = \"9999999999999999999GiB\"; };",
	  "2: relay.batch_bytes: \"9999999999999999999GiB\" is not a size; write for example "
	  "\"16MiB\" (B, KiB, MiB, GiB)" },
	{ "relay = { batch_bytes = \"1GiB\"; };",
	  "2: relay.batch_bytes: \"1GiB\" is outside of \"1KiB\" to \"256MiB\"" },
	{ "ledger = { response_keep = \"17MiB\"; };",
	  "2: ledger.response_keep: \"17MiB\" is outside of \"0B\" to \"16MiB\"" },
	{ "log = { level = \"loud\"; };",
	  "2: log.level: \"loud\" is not one of \"error\", \"warn\", \"info\", \"debug\"" },
	{ "log = { level = 3; };",
	  "2: log.level: is a number; write a word in quotes: \"error\", \"warn\", \"info\", "
	  "\"debug\"" },
	{ "ledger = { start = \"today\"; };",
	  "2: ledger.start: \"today\" is not \"earliest\", \"latest\" or a time such as "
	  "\"2026-01-31T00:00:00Z\"" },
	{ "ledger = { start = \"2026-02-30T00:00:00Z\"; };",
	  "2: ledger.start: \"2026-02-30T00:00:00Z\" is not \"earliest\", \"latest\" or a time "
	  "such "
	  "as \"2026-01-31T00:00:00Z\"" },
	{ "ledger = { group = \"\"; };", "2: ledger.group: must not be empty" },
	/* shapes and names */
	{ "relay = 3;", "2: relay: is not a group; write relay = { key = value; };" },
	{ "targets = { };", "2: targets: is not a list; write targets = ( { ... }, { ... } );" },
	{ "targets = ( 3 );", "2: targets[0]: is not a group; write { key = value; }" },
	{ "relay = { bach = 1; };", "2: relay.bach: unknown key; did you mean \"batch\"?" },
	{ "relay = { tables = \"x\"; };", "2: relay.tables: unknown key; did you mean \"table\"?" },
	{ "console = { colours = \"2s\"; };", "2: console.colours: unknown key" },
	{ "relays = { };", "2: relays: unknown section; did you mean \"relay\"?" },
	{ "colours = ( );", "2: colours: unknown section" },
	{ "targets = ( { headers = (\"a\", \"b\"); } );",
	  "2: targets[0].headers[0]: is not a pair; write (\"name\", \"value\")\n"
	  "c.conf:2: targets[0].headers[1]: is not a pair; write (\"name\", \"value\")" },
	{ "targets = ( { headers = ( (\"a\", 3) ); } );",
	  "2: targets[0].headers[0]: the value of \"a\" is not a text; write it in quotes" },
	{ "targets = ( { headers = \"a: b\"; } );",
	  "2: targets[0].headers: is a text; write a list of pairs, ( (\"name\", \"value\"), "
	  "(\"name\", \"value\") )" },
	{ "effects = ( { on = { type = (\"a\", 3); }; } );",
	  "2: effects[0].on.type[1]: is not a text; write it in quotes" },
	{ "effects = ( { on = { type = \"\"; }; } );", "2: effects[0].on.type: must not be empty" },
	{ "effects = ( { on = \"orders\"; } );",
	  "2: effects[0].on: is a text; write a group, { key = value; }" },
	{ "effects = ( { colour = \"x\"; } );", "2: effects[0].colour: unknown key" },
	/* what does not fit */
	{ "relay = { poll_busy = \"50ms\"; };",
	  "2: relay.poll_idle: is shorter than relay.poll_busy" },
	{ "relay = { source = \"a\\nb\"; };",
	  "2: relay.source: the value holds a control character" },
	{ "general = { instance = \"a\\x1b[0m\"; };",
	  "2: general.instance: holds a control character" },
	{ "ledger = { due_high = 100; due_low = 100; };",
	  "2: ledger.due_low: must be less than ledger.due_high" },
	{ "postgres = { conninfo = \"dbname=x password=hush\"; };",
	  "2: postgres.conninfo: holds a password; write postgres.password_file, a service file or "
	  "PGPASSFILE instead" },
	{ "console = { conninfo = \"postgresql://u:hush@h/d\"; };",
	  "2: console.conninfo: holds a password; write postgres.password_file, a service file or "
	  "PGPASSFILE instead" },
	{ "targets = ( { name = \"Pay\"; } );",
	  "2: targets[0].name: \"Pay\" is not a name: a-z, 0-9 and \"-\", at most 40 of them" },
	{ "targets = ( { name = \"\"; } );",
	  "2: targets[0].name: \"\" is not a name: a-z, 0-9 and \"-\", at most 40 of them" },
	{ "targets = ( { name = \"a\"; }, { name = \"a\"; } );",
	  "2: targets[1].name: \"a\" is the name of another one too" },
	{ "profiles = ( { name = \"plain\"; } );",
	  "2: profiles[0].name: \"plain\" is the name of another one too" },
	{ "targets = ( { profile = \"nope\"; } );",
	  "2: targets[0].profile: \"nope\" is neither a shipped profile nor one of profiles" },
	{ "targets = ( { url = \"smpt://mail\"; } );",
	  "2: targets[0].url: the scheme must be http, https, smtp or smtps" },
	{ "targets = ( { url = \"https://u:p@h/\"; } );",
	  "2: targets[0].url: holds a user name; write auth and secret_file instead" },
	{ "targets = ( { url = \"https://h/?a=b\"; } );",
	  "2: targets[0].url: holds a query; it belongs in request.query of the effects" },
	{ "targets = ( { url = \"https://h/#a\"; } );",
	  "2: targets[0].url: holds a fragment (#), which is never sent" },
	{ "targets = ( { headers = ( (\"authorization\", \"x\") ); } );",
	  "2: targets[0].headers[0]: the header authorization cannot be set here: write auth and "
	  "secret_file of the target" },
	{ "targets = ( { headers = ( (\"X-A\", \"1\"), (\"x-a\", \"2\") ); } );",
	  "2: targets[0].headers[1]: the header x-a is set twice" },
	{ "targets = ( { profile = \"plain\"; headers = ( (\"idempotency-key\", \"1\") ); } );",
	  "2: targets[0].headers[0]: the header Idempotency-Key carries the idempotency key; the "
	  "profile \"plain\" sets it" },
	{ "targets = ( { timeout = \"1s\"; } );",
	  "2: targets[0].timeout: is shorter than connect_timeout, which is a part of it" },
	{ "targets = ( { key_file = \"k\"; } );",
	  "2: targets[0].key_file: has no use without cert_file" },
	{ "targets = ( { provider_id = \"id\"; } );",
	  "2: targets[0].provider_id: is not a JSON pointer; write for example \"/id\", with ~1 "
	  "for "
	  "a \"/\" and ~0 for a \"~\" in a name" },
	{ "profiles = ( { header = \"a b\"; } );",
	  "2: profiles[0].header: is not the name of a header: letters, digits and "
	  "!#$%&'*+-.^_`|~ only" },
	{ "profiles = ( { header = \"\"; window = \"1d\"; } );",
	  "2: profiles[0].window: the provider cannot know a key that no header carries" },
	{ "profiles = ( { characters = \"a-zA-Z\"; } );",
	  "2: profiles[0].characters: must hold \"cf-0-9a-f\": a key with others is replaced by a "
	  "hash written with these" },
	{ "profiles = ( { characters = \" -~\"; } );",
	  "2: profiles[0].characters: holds something else than visible ASCII" },
	{ "profiles = ( { max_length = 40; } );",
	  "2: profiles[0].max_length: 40 is outside of 51 to 1024" },
	{ "profiles = ( { in_progress = (99, \"4xx\"); } );",
	  "2: profiles[0].in_progress[0]: 99 is outside of 100 to 599\n"
	  "c.conf:2: profiles[0].in_progress[1]: \"4xx\" is not a whole number" },
	{ "effects = ( { target = \"nope\"; } );",
	  "2: effects[0].target: \"nope\" is not the name of one of targets" },
	{ "effects = ( { on = { topic = \"a b\"; }; } );",
	  "2: effects[0].on.topic: is not the name of a topic: letters, digits, \".\", \"_\" and "
	  "\"-\", at most 249" },
	{ "effects = ( { on = { topic = \"a\"; }; dead_letter_topic = \"a\"; } );",
	  "2: effects[0].dead_letter_topic: is the topic of the events themselves; other readers "
	  "would get them twice" },
	{ "effects = ( { mode = \"natural\"; } );",
	  "2: effects[0].mode: \"natural\" needs request.method \"PUT\" or \"DELETE\"" },
	{ "effects = ( { mode = \"exactly_once\"; } );",
	  "2: effects[0].mode: \"exactly_once\" is not one of \"idempotent\", \"at_most_once\", "
	  "\"natural\"" },
	{ "targets = ( { name = \"a\"; profile = \"plain\"; } ); effects = ( { target = \"a\"; } "
	  ");",
	  "2: effects[0].mode: \"idempotent\" needs a provider that honours the key, and profile "
	  "\"plain\" of target \"a\" has no window" },
	{ "effects = ( { request = { method = \"post\"; }; } );",
	  "2: effects[0].request.method: \"post\" is not one of \"GET\", \"POST\", \"PUT\", "
	  "\"PATCH\", \"DELETE\"" },
	{ "effects = ( { request = { query = ( (\"\", \"x\") ); }; } );",
	  "2: effects[0].request.query[0]: the name is empty" },
	{ "effects = ( { request = { headers = ( (\"Expect\", \"x\") ); }; } );",
	  "2: effects[0].request.headers[0]: the header Expect cannot be set here: with it a "
	  "request "
	  "can be sent twice" },
	{ "effects = ( { retry = { first = \"1h\"; }; } );",
	  "2: effects[0].retry.first: is longer than retry.max" },
	{ "effects = ( { retry = { attempts = 0; }; } );",
	  "2: effects[0].retry.attempts: 0 is outside of 1 to 10000" },
	{ "effects = ( { retention = \"always\"; } );",
	  "2: effects[0].retention: \"always\" is not a duration; write for example \"30s\", or "
	  "\"forever\"" },
	{ "effects = ( { delay = \"2d\"; not_after = \"1d\"; } );",
	  "2: effects[0].delay: is not shorter than not_after: nothing would ever be sent" },
	{ "effects = ( { key = \"\"; } );", "2: effects[0].key: must not be empty" },
};

static void each_fault_has_its_text_and_line(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(fault_cases) / sizeof(fault_cases[0]); i++) {
		struct buf text = { 0 };
		struct buf expected = { 0 };
		buf_addf(&text, KAFKA "%s\n", fault_cases[i].line);
		buf_addf(&expected, "c.conf:%s\n", fault_cases[i].fault);
		assert_faults(text.data, CONF_RELAY, expected.data);
		buf_done(&text);
		buf_done(&expected);
	}
}

static void all_faults_are_told_at_once_in_the_order_of_the_file(void **state)
{
	(void)state;
	fixture_write("more.conf", "\nconsole = { colour = 3; };\n");
	assert_faults(
		"log = { level = \"loud\"; };\n"
		"relay = {\n"
		"  batch = 0;\n"
		"  lease = \"1\";\n"
		"};\n"
		"@include \"more.conf\"\n"
		"targets = (\n"
		"  { name = \"a\"; url = \"http://h\"; profile = \"plain\"; },\n"
		"  { name = \"a\"; timeout = \"3\";\n"
		"    url = \"ftp://h\"; }\n"
		");\n"
		"effects = (\n"
		"  { name = \"b\"; on = { typ = \"x\"; }; }\n"
		");\n",
		CONF_LEDGER,
		"c.conf: kafka.properties: bootstrap.servers is required, here or in "
		"kafka.properties_file; write properties = ( (\"bootstrap.servers\", "
		"\"HOST:9092\") );\n"
		"c.conf:1: log.level: \"loud\" is not one of \"error\", \"warn\", \"info\", "
		"\"debug\"\n"
		"c.conf:3: relay.batch: 0 is outside of 1 to 10000\n"
		"c.conf:4: relay.lease: \"1\" is not a duration; write for example \"30s\"\n"
		"more.conf:2: console.colour: unknown key\n"
		"c.conf:9: targets[1].name: \"a\" is the name of another one too\n"
		"c.conf:9: targets[1].profile: is required: how it treats an idempotency key: "
		"a shipped profile, as \"stripe-v1\", or one of profiles\n"
		"c.conf:9: targets[1].timeout: \"3\" is not a duration; write for example "
		"\"30s\"\n"
		"c.conf:10: targets[1].url: the scheme must be http, https, smtp or smtps\n"
		"c.conf:13: effects[0].key: is required: template of the idempotency key, made "
		"from what is the same whenever the same operation is asked for\n"
		"c.conf:13: effects[0].on.topic: is required: Kafka topic\n"
		"c.conf:13: effects[0].on.typ: unknown key; did you mean \"type\"?\n"
		"c.conf:13: effects[0].retention: is required: a finished key is remembered for "
		"so long, or \"forever\": afterwards the same event would be performed again\n"
		"c.conf:13: effects[0].target: is required: name of one of targets\n");
}

static void a_flood_of_faults_is_cut(void **state)
{
	(void)state;
	struct buf text = { 0 };
	struct buf faults = { 0 };
	struct conf *conf;
	buf_add_text(&text, KAFKA "relay = {\n");
	for (int i = 0; i < 250; i++)
		buf_addf(&text, "unknown-%d = 1;\n", i);
	buf_add_text(&text, "};\n");
	fixture_write("c.conf", text.data);
	assert_false(conf_load("c.conf", CONF_RELAY, &faults, &conf));
	assert_non_null(strstr(faults.data, "c.conf:3: relay.unknown-0: unknown key\n"));
	assert_non_null(strstr(faults.data, "\nc.conf: and 50 more\n"));
	buf_done(&faults);
	buf_done(&text);
}

static void what_each_program_requires(void **state)
{
	(void)state;
	static const char kafka_missing[] =
		"c.conf: kafka.properties: bootstrap.servers is required, here or in "
		"kafka.properties_file; write properties = ( (\"bootstrap.servers\", "
		"\"HOST:9092\") );\n";
	static const char half[] = KAFKA "targets = ( { name = \"a\"; } );\n";
	assert_faults("", CONF_RELAY, kafka_missing);
	conf_free(load("", CONF_CONSOLE));
	conf_free(load(half, CONF_RELAY));
	conf_free(load(half, CONF_CONSOLE));
	assert_faults(KAFKA, CONF_LEDGER, "c.conf: effects: at least one effect is required\n");
	assert_faults(
		half, CONF_LEDGER,
		"c.conf: effects: at least one effect is required\n"
		"c.conf:2: targets[0].profile: is required: how it treats an idempotency key: "
		"a shipped profile, as \"stripe-v1\", or one of profiles\n"
		"c.conf:2: targets[0].url: is required: http:// or https://, host, and where "
		"there is one a path that all requests begin with; or smtp:// or smtps://, "
		"host, and the name we go by there\n");
	fixture_write("k.properties", "bootstrap.servers=h:9092\n");
	conf_free(load("kafka = { properties_file = \"k.properties\"; };", CONF_RELAY));
}

static void properties_that_are_ours_are_refused_with_the_reason(void **state)
{
	(void)state;
	static const char *const owned[] = {
		"acks",
		"request.required.acks",
		"enable.idempotence",
		"enable.gapless.guarantee",
		"transactional.id",
		"message.timeout.ms",
		"delivery.timeout.ms",
		"retries",
		"message.send.max.retries",
		"partitioner",
		"sticky.partitioning.linger.ms",
		"delivery.report.only.error",
		"queue.buffering.max.messages",
		"queue.buffering.max.kbytes",
		"group.id",
		"enable.auto.commit",
		"enable.auto.offset.store",
		"auto.commit.enable",
		"auto.commit.interval.ms",
		"auto.offset.reset",
		"isolation.level",
		"partition.assignment.strategy",
		"enable.partition.eof",
		"dr_cb",
		"dr_msg_cb",
		"log_cb",
		"opaque",
		"log.queue",
	};
	for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++) {
		char text[300], start[200];
		struct buf faults = { 0 };
		struct conf *conf;
		(void)snprintf(text, sizeof(text),
			       "kafka = { properties = ( (\"bootstrap.servers\", \"h\"),\n"
			       " (\"%s\", \"1\") ); };",
			       owned[i]);
		(void)snprintf(
			start, sizeof(start),
			"c.conf:2: kafka.properties[1]: the property %s cannot be set: ", owned[i]);
		fixture_write("c.conf", text);
		assert_false(conf_load("c.conf", CONF_RELAY, &faults, &conf));
		assert_memory_equal(buf_text(&faults), start, strlen(start));
		assert_true(faults.length > strlen(start) + 10);
		buf_done(&faults);
	}
	assert_faults("kafka = { properties = ( (\"bootstrap.servers\", \"h\"),\n"
		      " (\"sasl.password\", \"hush\"), (\"\", \"x\") ); };",
		      CONF_RELAY,
		      "c.conf:2: kafka.properties[1]: sasl.password is a secret; write it in "
		      "kafka.properties_file, a password in kafka.password_file\n"
		      "c.conf:2: kafka.properties[2]: the name is empty\n");
	fixture_write("k.properties", "# ours\nsasl.password=fine\ngroup.id=x\nacks = 1\n");
	assert_faults(
		"kafka = { properties_file = \"k.properties\"; };", CONF_RELAY,
		"c.conf:1: kafka.properties: bootstrap.servers is required, here or in "
		"kafka.properties_file; write properties = ( (\"bootstrap.servers\", "
		"\"HOST:9092\") );\n"
		"c.conf:1: kafka.properties_file: k.properties:3: the property group.id cannot "
		"be set: write ledger.group\n"
		"c.conf:1: kafka.properties_file: k.properties:4: the property acks cannot be "
		"set: it is always \"all\", or a published event could be lost\n");
	assert_faults("kafka = { properties_file = \"none\"; };", CONF_LEDGER,
		      "c.conf: effects: at least one effect is required\n"
		      "c.conf:1: kafka.properties_file: none: No such file or directory\n");
	/* the console opens no file with secrets */
	conf_free(load("kafka = { properties_file = \"none\"; };", CONF_CONSOLE));
}

static void tls_files_must_be_there_for_the_ledger(void **state)
{
	(void)state;
	static const char text[] = KAFKA
		"effects = ( " EFFECT " );\ntargets = ( { name = \"pay\";\n"
		" url = \"https://h\"; profile = \"stripe-v1\"; ca_file = \"none.pem\"; } );\n";
	assert_faults(text, CONF_LEDGER,
		      "c.conf:4: targets[0].ca_file: \"none.pem\" cannot be read: No such file or "
		      "directory\n");
	conf_free(load(text, CONF_RELAY));
	fixture_write("none.pem", "");
	conf_free(load(text, CONF_LEDGER));
}

static void a_topic_too_long_for_its_dead_letters(void **state)
{
	(void)state;
	char topic[250], text[1000];
	memset(topic, 't', 246);
	topic[246] = '\0';
	(void)snprintf(text, sizeof(text), KAFKA "effects = ( { on = { topic = \"%s\"; }; } );",
		       topic);
	assert_faults(
		text, CONF_RELAY,
		"c.conf:2: effects[0].dead_letter_topic: is required: with \".dlq\" behind it "
		"the topic's name is too long\n");
	topic[245] = '\0';
	(void)snprintf(text, sizeof(text), KAFKA "effects = ( { on = { topic = \"%s\"; }; } );",
		       topic);
	conf_free(load(text, CONF_RELAY));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_fault_has_its_text_and_line),
		cmocka_unit_test(all_faults_are_told_at_once_in_the_order_of_the_file),
		cmocka_unit_test(a_flood_of_faults_is_cut),
		cmocka_unit_test(what_each_program_requires),
		cmocka_unit_test(properties_that_are_ours_are_refused_with_the_reason),
		cmocka_unit_test(tls_files_must_be_there_for_the_ledger),
		cmocka_unit_test(a_topic_too_long_for_its_dead_letters),
	};
	return cmocka_run_group_tests_name("conf_faults", tests, fixture_enter, fixture_leave);
}
