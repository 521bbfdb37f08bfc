/* librdkafka's settings from ours: properties files, the order of sources, what is refused; its log
 * in ours, and its queue on our loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "conf/conf_properties.h"
#include "conf_fixture.h"
#include "kafka.h"

/* --- properties files ----------------------------------------------------------------------------
 */

static void properties_are_read_as_java_does(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		const char *names[3];
		const char *values[3];
	} cases[] = {
		{ "", { NULL }, { NULL } },
		{ "\n \n# a=b\n  ! c=d\n", { NULL }, { NULL } },
		{ "a=b", { "a" }, { "b" } },
		{ "a = b \n", { "a" }, { "b " } },
		{ "a:b\nc : d\ne f", { "a", "c", "e" }, { "b", "d", "f" } },
		{ "a=b=c:d", { "a" }, { "b=c:d" } },
		{ "a==b", { "a" }, { "=b" } },
		{ "a", { "a" }, { "" } },
		{ "a=", { "a" }, { "" } },
		{ "\ta=b\r\nc=d\r\n", { "a", "c" }, { "b", "d" } },
		{ "a=b # c", { "a" }, { "b # c" } },
		{ "a=b,\\\n   c\nd=e", { "a", "d" }, { "b,c", "e" } },
		{ "a=b\\\r\n c", { "a" }, { "bc" } },
		{ "a\\=b\\:c\\ d=e", { "a=b:c d" }, { "e" } },
		{ "a=\\t\\\\\\u00e4\\u20AC\\x",
		  { "a" },
		  { "\t\\\xc3\xa4\xe2\x82\xac"
		    "x" } },
		{ "a=b\\", { "a" }, { "b" } },
		{ "a=1\na=2", { "a", "a" }, { "1", "2" } },
		{ "a=\xc3\xa4", { "a" }, { "\xc3\xa4" } },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct properties properties;
		struct err err = { "" };
		size_t count = 0;
		fixture_write("k.properties", cases[i].text);
		if (!properties_read("k.properties", &err, &properties))
			fail_msg("%s", err.text);
		for (; count < 3 && cases[i].names[count]; count++) {
			assert_true(count < properties.count);
			assert_string_equal(properties.items[count].name, cases[i].names[count]);
			assert_string_equal(properties.items[count].value, cases[i].values[count]);
		}
		assert_int_equal(properties.count, count);
		properties_done(&properties);
	}
}

static void properties_that_cannot_be_read(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		size_t length; /* 0: of the text */
		const char *why;
	} cases[] = {
		{ "a=b\n=c", 0, "k.properties:2: a name is missing before the \"=\"" },
		{ "a=\\u12", 0, "k.properties:1: \\u is followed by four hexadecimal digits" },
		{ "a=\\u12xy", 0, "k.properties:1: \\u is followed by four hexadecimal digits" },
		{ "a=\\u0000", 0,
		  "k.properties:1: this \\u character cannot stand here; write it as UTF-8" },
		{ "a=\\ud83d\\ude00", 0,
		  "k.properties:1: this \\u character cannot stand here; write it as UTF-8" },
		{ "a=\\\0", 4, "k.properties:1: the file holds a NUL byte" },
		{ "a=b\\\n\nc=\0", 9, "k.properties:3: the file holds a NUL byte" },
	};
	struct properties properties;
	struct err err;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fixture_write_n("k.properties", cases[i].text,
				cases[i].length ? cases[i].length : strlen(cases[i].text));
		assert_false(properties_read("k.properties", &err, &properties));
		assert_string_equal(err.text, cases[i].why);
	}
	assert_false(properties_read("none", &err, &properties));
	assert_string_equal(err.text, "none: No such file or directory");
}

/* --- settings ------------------------------------------------------------------------------------
 */

static char text_properties_file[] = "k.properties";
static char text_password_file[] = "password";
static char text_none[] = "";

static struct conf_pair pair(const char *name, const char *value, char *storage)
{
	size_t length = strlen(name) + 1;
	memcpy(storage, name, length);
	memcpy(storage + length, value, strlen(value) + 1);
	return (struct conf_pair){ .name = storage, .value = storage + length };
}

static void assert_property(const rd_kafka_conf_t *conf, const char *name, const char *value)
{
	char found[256];
	size_t size = sizeof(found);
	assert_int_equal(rd_kafka_conf_get(conf, name, found, &size), RD_KAFKA_CONF_OK);
	assert_string_equal(found, value);
}

static void later_sources_win(void **state)
{
	(void)state;
	char storage[3][128];
	struct conf_pair items[] = {
		pair("bootstrap.servers", "list:1", storage[0]),
		pair("client.id", "list", storage[1]),
		pair("linger.ms", "3", storage[2]),
	};
	struct conf_kafka kafka = { .properties = { .items = items, .count = 3 },
				    .properties_file = text_properties_file,
				    .password_file = text_password_file };
	rd_kafka_conf_t *conf;
	struct err err = { "" };
	fixture_write("k.properties",
		      "client.id=file\nsasl.password=file\nsasl.username=u\nclient.id=last\n");
	fixture_write("password", "from its own file\n");
	if (!kafka_conf_new(&kafka, NULL, &err, &conf))
		fail_msg("%s", err.text);
	assert_property(conf, "bootstrap.servers", "list:1");
	assert_property(conf, "linger.ms", "3");
	assert_property(conf, "client.id", "last");
	assert_property(conf, "sasl.username", "u");
	assert_property(conf, "sasl.password", "from its own file");
	assert_true(kafka_conf_set(conf, "client.id", "ours", &err));
	assert_property(conf, "client.id", "ours");
	assert_false(kafka_conf_set(conf, "linger.ms", "soon", &err));
	assert_string_equal(err.text, "Kafka property linger.ms: Invalid value for configuration "
				      "property \"queue.buffering.max.ms\"");
	rd_kafka_conf_destroy(conf);
}

static void what_is_refused_names_its_place(void **state)
{
	(void)state;
	static const struct {
		const char *name, *value; /* in the list */
		const char *file;
		const char *password; /* NULL: there is no such file */
		const char *why;
	} cases[] = {
		{ "no.such", "1", "", "x",
		  "kafka.properties[0]: Kafka property no.such: No such configuration property: "
		  "\"no.such\"" },
		{ "security.protocol", "tls", "", "x",
		  "kafka.properties[0]: Kafka property security.protocol: Invalid value \"tls\" "
		  "for "
		  "configuration property \"security.protocol\"" },
		{ "acks", "1", "", "x",
		  "kafka.properties[0]: Kafka property acks cannot be set: it is always \"all\", "
		  "or a "
		  "published event could be lost" },
		{ "client.id", "a", "\nssl.key=secret", "x",
		  "k.properties:2: Kafka property ssl.key: No such configuration "
		  "property: "
		  "\"ssl.key\"" },
		{ "client.id", "a", "# ours\nclient.id=b\ngroup.id=g", "x",
		  "k.properties:3: Kafka property group.id cannot be set: write ledger.group" },
		{ "client.id", "a", "=", "x",
		  "kafka.properties_file: k.properties:1: a name is missing before the \"=\"" },
		{ "client.id", "a", "", "",
		  "kafka.password_file: password: the first line is empty; it must be the secret" },
		{ "client.id", "a", "", NULL,
		  "kafka.password_file: password: No such file or directory" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char storage[128];
		struct conf_pair item = pair(cases[i].name, cases[i].value, storage);
		struct conf_kafka kafka = { .properties = { .items = &item, .count = 1 },
					    .properties_file = text_properties_file,
					    .password_file = text_password_file };
		rd_kafka_conf_t *conf = NULL;
		struct err err = { "" };
		fixture_write("k.properties", cases[i].file);
		if (cases[i].password)
			fixture_write("password", cases[i].password);
		else
			assert_int_equal(remove("password"), 0);
		assert_false(kafka_conf_new(&kafka, NULL, &err, &conf));
		assert_null(conf);
		assert_string_equal(err.text, cases[i].why);
	}
}

/* --- checks without a server ---------------------------------------------------------------------
 */

static void all_wrong_properties_are_told(void **state)
{
	(void)state;
	struct conf *conf;
	struct buf faults = { 0 };
	fixture_write("c.conf", "kafka = { properties = ( (\"bootstrap.servers\", \"b:1\"),\n"
				"  (\"linger.ms\", \"soon\"),\n  (\"nonsense\", \"1\") );\n"
				"  properties_file = \"k.properties\";\n"
				"  password_file = \"nowhere\"; };\n");
	fixture_write("k.properties", "sasl.username=u\n\nsasl.pasword=hush\n");
	assert_true(conf_load("c.conf", CONF_RELAY, &faults, &conf));
	kafka_conf_check(conf, &faults);
	assert_string_equal(
		buf_text(&faults),
		"c.conf:2: kafka.properties[1]: Kafka property linger.ms: Invalid value for "
		"configuration property \"queue.buffering.max.ms\"\n"
		"c.conf:3: kafka.properties[2]: Kafka property nonsense: No such configuration "
		"property: \"nonsense\"\n"
		"k.properties:3: Kafka property sasl.pasword: No such configuration property: "
		"\"sasl.pasword\"\n"
		"c.conf:5: kafka.password_file: nowhere: No such file or "
		"directory\n");
	buf_done(&faults);
	conf_free(conf);
}

static void a_client_is_tried_without_a_server(void **state)
{
	(void)state;
	static const struct {
		const char *properties[4];
		const char *values[4];
		const char *why; /* NULL: taken */
	} cases[] = {
		{ { NULL }, { NULL }, NULL },
		{ { "security.protocol", "ssl.ca.location" }, { "ssl", "/nowhere" }, "ssl.ca" },
		{ { "security.protocol", "sasl.mechanism" },
		  { "sasl_ssl", "PLAIN" },
		  "sasl.username and sasl.password must be set" },
		{ { "max.poll.interval.ms" }, { "10000" }, "session.timeout.ms" },
		{ { "security.protocol", "sasl.mechanism" },
		  { "sasl_plaintext", "OAUTHBEARER" },
		  NULL },
		{ { "security.protocol" }, { "sasl_plaintext" }, NULL }, /* GSSAPI */
		{ { "security.protocol", "ssl.ca.location" },
		  { "sasl_ssl", "/nowhere" },
		  "ssl.ca" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		rd_kafka_conf_t *conf = rd_kafka_conf_new();
		struct err err = { "" };
		assert_true(kafka_conf_set(conf, "bootstrap.servers", "127.0.0.1:1", &err));
		for (size_t k = 0; k < 4 && cases[i].properties[k]; k++)
			if (!kafka_conf_set(conf, cases[i].properties[k], cases[i].values[k], &err))
				fail_msg("%s", err.text);
		bool ok = kafka_client_check(conf, RD_KAFKA_CONSUMER, &err);
		if (ok != !cases[i].why || (!ok && !strstr(err.text, cases[i].why)))
			fail_msg("case %zu: \"%s\"", i, err.text);
	}
}

/* --- log and wake-up -----------------------------------------------------------------------------
 */

struct scene {
	struct log *log; /* first: the owner of a client's callbacks */
	struct loop *loop;
	rd_kafka_t *client;
	rd_kafka_queue_t *queue;
	int wakeups;
	int errors;
};

static void on_wakeup(void *arg)
{
	struct scene *scene = arg;
	rd_kafka_event_t *event;
	scene->wakeups++;
	while ((event = rd_kafka_queue_poll(scene->queue, 0))) {
		if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR)
			scene->errors++;
		rd_kafka_event_destroy(event);
	}
	if (scene->errors)
		loop_stop(scene->loop);
}

static void give_up(void *arg)
{
	struct scene *scene = arg;
	loop_stop(scene->loop); /* without an error: the test says so */
}

/* A client whose only broker refuses connections, until its first error came through the loop; what
 * was logged in the meantime. */
static void run_client(struct scene *scene, bool owner, char *logged, size_t size)
{
	char storage[128], why[512];
	struct conf_pair item = pair("bootstrap.servers", "127.0.0.1:1", storage);
	struct conf_kafka kafka = { .properties = { .items = &item, .count = 1 },
				    .properties_file = text_none,
				    .password_file = text_none };
	rd_kafka_conf_t *conf;
	struct err err = { "" };
	int saved = dup(STDERR_FILENO);
	FILE *capture = tmpfile();
	assert_non_null(capture);
	assert_true(kafka_conf_new(&kafka, scene->log, &err, &conf));
	if (owner)
		kafka_conf_set_owner(conf, scene);
	rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_ERROR);
	assert_true(dup2(fileno(capture), STDERR_FILENO) >= 0);
	scene->client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
	assert_non_null(scene->client);
	scene->queue = rd_kafka_queue_get_main(scene->client);
	scene->loop = loop_new();
	struct loop_timer *timer = loop_timer_new(scene->loop, give_up, scene);
	loop_timer_set(timer, 30 * USEC_SEC);
	struct kafka_wakeup *wakeup = kafka_wakeup_new(scene->loop, scene->queue, on_wakeup, scene);
	loop_run(scene->loop);
	kafka_wakeup_free(wakeup);
	kafka_wakeup_free(NULL);
	loop_timer_free(timer);
	loop_free(scene->loop);
	rd_kafka_queue_destroy(scene->queue);
	assert_true(kafka_destroy(scene->client, 0));
	assert_true(dup2(saved, STDERR_FILENO) >= 0);
	close(saved);
	rewind(capture);
	logged[fread(logged, 1, size - 1, capture)] = '\0';
	fclose(capture);
}

static void errors_wake_the_loop_and_reach_the_log(void **state)
{
	(void)state;
	for (int owner = 0; owner <= 1; owner++) {
		struct scene scene = { .log = log_new("relay", LOG_INFO, LOG_LOGFMT) };
		char logged[8192];
		run_client(&scene, owner, logged, sizeof(logged));
		assert_true(scene.wakeups >= 1);
		assert_true(scene.errors >= 1);
		assert_non_null(strstr(logged, " level=warn program=relay msg=librdkafka "
					       "client=rdkafka#producer-"));
		assert_non_null(strstr(logged, " facility=FAIL detail=\""));
		assert_non_null(strstr(logged, "127.0.0.1:1"));
		log_free(scene.log);
	}
}

static void a_quiet_log_stays_quiet(void **state)
{
	(void)state;
	struct scene scene = { .log = log_new("relay", LOG_WARN, LOG_JSON) };
	char logged[8192];
	run_client(&scene, false, logged, sizeof(logged));
	assert_null(strstr(logged, "\"level\":\"info\""));
	assert_non_null(strstr(logged, "\"level\":\"warn\",\"program\":\"relay\","));
	log_free(scene.log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(properties_are_read_as_java_does),
		cmocka_unit_test(properties_that_cannot_be_read),
		cmocka_unit_test(later_sources_win),
		cmocka_unit_test(what_is_refused_names_its_place),
		cmocka_unit_test(all_wrong_properties_are_told),
		cmocka_unit_test(a_client_is_tried_without_a_server),
		cmocka_unit_test(errors_wake_the_loop_and_reach_the_log),
		cmocka_unit_test(a_quiet_log_stays_quiet),
	};
	return cmocka_run_group_tests_name("kafka_conf", tests, fixture_enter, fixture_leave);
}
