/* The printed configuration: read again it is the same, each value says where it comes from, and no
 * secret is in it. Flags of the command line, and a configuration that opens no other file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "conf.h"
#include "conf/conf_keys.h"
#include "conf_fixture.h"

#define KAFKA "kafka = { properties = ( (\"bootstrap.servers\", \"b:1\") ); };\n"

static struct conf *load_from(const struct conf_source *source)
{
	struct conf *conf = NULL;
	struct buf faults = { 0 };
	if (!conf_load_from(source, &faults, &conf))
		fail_msg("%s", buf_text(&faults));
	buf_done(&faults);
	return conf;
}

static struct conf *load(const char *path, enum conf_program program)
{
	const struct conf_source source = { .path = path, .program = program };
	return load_from(&source);
}

static char *print(const struct conf *conf)
{
	struct buf out = { 0 };
	conf_print(conf, &out);
	return buf_take(&out);
}

/* --- the same ----------------------------------------------------------------------------------
 */

static const void *at(const void *base, size_t offset)
{
	return (const char *)base + offset;
}

static void assert_same_texts(const struct conf_texts *a, const struct conf_texts *b)
{
	assert_int_equal(a->count, b->count);
	for (size_t i = 0; i < a->count; i++)
		assert_string_equal(a->items[i], b->items[i]);
}

static void assert_same_pairs(const struct conf_pairs *a, const struct conf_pairs *b)
{
	assert_int_equal(a->count, b->count);
	for (size_t i = 0; i < a->count; i++) {
		assert_string_equal(a->items[i].name, b->items[i].name);
		assert_string_equal(a->items[i].value, b->items[i].value);
	}
}

static void assert_same_predicate(const struct conf_predicate *a, const struct conf_predicate *b)
{
	assert_string_equal(a->pointer, b->pointer);
	assert_string_equal(a->text, b->text);
	assert_int_equal(a->equal, b->equal);
}

static void assert_same_table(const struct conf_table *table, const void *a, const void *b);

static void assert_same_key(const struct conf_key *key, const void *a, const void *b)
{
	const void *left = at(a, key->offset), *right = at(b, key->offset);
	switch (key->type) {
	case CONF_BOOL:
		assert_int_equal(*(const bool *)left, *(const bool *)right);
		break;
	case CONF_INT:
	case CONF_DURATION:
	case CONF_SIZE:
		assert_true(*(const int64_t *)left == *(const int64_t *)right);
		break;
	case CONF_TEXT:
		assert_string_equal(*(char *const *)left, *(char *const *)right);
		break;
	case CONF_WORD:
		assert_memory_equal(left, right, sizeof(int));
		break;
	case CONF_START:
		assert_int_equal(((const struct conf_ledger *)a)->start,
				 ((const struct conf_ledger *)b)->start);
		assert_true(((const struct conf_ledger *)a)->start_time ==
			    ((const struct conf_ledger *)b)->start_time);
		break;
	case CONF_PAIRS:
		assert_same_pairs(left, right);
		break;
	case CONF_RATE:
		assert_memory_equal(left, right, sizeof(struct conf_rate));
		break;
	case CONF_PREDICATE:
		assert_same_predicate(left, right);
		break;
	case CONF_TEXTS:
	case CONF_STATUSES:
	case CONF_POINTERS:
		assert_same_texts(left, right);
		break;
	case CONF_GROUP:
		assert_same_table(key->group, a, b);
		break;
	}
}

static void assert_same_table(const struct conf_table *table, const void *a, const void *b)
{
	for (size_t i = 0; i < table->count; i++)
		assert_same_key(&table->keys[i], a, b);
}

static void assert_same_list(const struct conf_section *section, const struct conf *a,
			     const struct conf *b)
{
	size_t count = *(const size_t *)at(a, section->count_offset);
	const char *left = *(char *const *)at(a, section->offset);
	const char *right = *(char *const *)at(b, section->offset);
	assert_int_equal(count, *(const size_t *)at(b, section->count_offset));
	for (size_t i = 0; i < count; i++)
		assert_same_table(section->table, left + i * section->item_size,
				  right + i * section->item_size);
}

static void assert_same(const struct conf *a, const struct conf *b)
{
	for (size_t i = 0; i < conf_section_count; i++) {
		const struct conf_section *section = &conf_sections[i];
		if (section->item_size)
			assert_same_list(section, a, b);
		else
			assert_same_table(section->table, at(a, section->offset),
					  at(b, section->offset));
	}
	for (size_t i = 0; i < a->effect_count; i++)
		assert_int_equal(a->effects[i].has_body, b->effects[i].has_body);
}

/* Returns what was printed. */
static char *assert_round_trip(const char *path, enum conf_program program)
{
	struct conf *first = load(path, program);
	char *text = print(first);
	fixture_write("printed.conf", text);
	struct conf *second = load("printed.conf", program);
	assert_same(first, second);
	conf_free(first);
	conf_free(second);
	return text;
}

static void the_sample_is_the_same_again(void **state)
{
	(void)state;
	char path[5000];
	(void)snprintf(path, sizeof(path), "%s/conf/counterfoil.conf", fixture_root);
	free(assert_round_trip(path, CONF_RELAY));
	free(assert_round_trip(path, CONF_LEDGER));
	free(assert_round_trip(path, CONF_CONSOLE));
}

/* Every type, with values that a careless writer would spoil. */
static const char odd[] =
	"general = { environment = \"a \\\"b\\\" \\\\ c # d /* \"; production = true;\n"
	"  drain_timeout = \"90001ms\"; };\n"
	"postgres = { conninfo = \"dbname='o''dd' host=/run\"; statement_timeout = \"1h\"; };\n"
	"kafka = { properties = ( (\"bootstrap.servers\", \"b:1,c:2\"), "
	"(\"sasl.oauthbearer.token.endpoint.url\", \"https://x\"), (\"client.id\", \"\") );\n"
	"  password_file = \"/run/credentials/kafka\"; };\n"
	"relay = { message_key = \"none\"; batch_bytes = \"1025B\"; window_bytes = \"1GiB\";\n"
	"  source = \"/\xc3\xb6/@include\"; };\n"
	"ledger = { start = \"2026-01-31T01:30:00.25+01:30\"; due_high = 100000000; due_low = 1;\n"
	"  unmatched = \"poison\"; response_keep = \"0B\"; conninfo = \"dbname=ledger\"; };\n"
	"profiles = ( { name = \"p\"; quoting = \"string\"; window = \"forever\"; safe_503 = "
	"true;\n"
	"  stores_errors = \"2xx\"; in_progress = (409, \"425\"); mismatch = 422; } );\n"
	"targets = ( { name = \"t\"; url = \"http://h\"; profile = \"p\"; provider_id = \"\";\n"
	"  headers = ( (\"A\", \"b\"), (\"C\", \"\") ); },\n"
	"  { name = \"u\"; url = \"http://h\"; profile = \"plain\"; } );\n"
	"effects = (\n"
	"  { name = \"a\"; on = { topic = \"x\"; type = \"one\"; }; target = \"t\"; key = "
	"\"${/a}\";\n"
	"    retention = \"1y\"; request = { body = \"\"; query = ( (\"q[]\", \"${/q}\") ); };\n"
	"    not_after = \"3d\"; },\n"
	"  { name = \"b\"; on = { topic = \"x\"; type = (\"one\", \"t\\\\wo\"); }; target = "
	"\"t\";\n"
	"    key = \"\\x01\\n\\t\\\"\xc2\x85\x7f${/a}\"; retention = \"forever\"; tombstone = "
	"true;\n"
	"    request = { body = \"{\\n\\t\\\"a\\\": \\\"${/a}\\\"\\n}\"; };\n"
	"    retry = { strategy = \"none\"; }; },\n"
	"  { name = \"c\"; on = { topic = \"x\"; }; target = \"t\"; key = \"${/a}\";\n"
	"    retention = \"forever\"; } );\n"
	"log = { level = \"debug\"; format = \"json\"; };\n";

static void an_odd_one_is_the_same_again(void **state)
{
	(void)state;
	fixture_write("odd.conf", odd);
	char *text = assert_round_trip("odd.conf", CONF_LEDGER);
	assert_non_null(strstr(text, "start = \"2026-01-31T00:00:00.250000Z\";"));
	for (const char *c = text; *c; c++)
		if (((unsigned char)*c < ' ' && *c != '\n') || *c == 0x7f ||
		    (*c == '\xc2' && (unsigned char)c[1] < 0xa0))
			fail_msg("a control character: %.40s", c);
	fixture_write("again.conf", text);
	struct conf *conf = load("again.conf", CONF_LEDGER);
	char *again = print(conf);
	assert_non_null(strstr(again, "again.conf:"));
	conf_free(conf);
	free(again);
	free(text);
	free(assert_round_trip("odd.conf", CONF_RELAY));
	fixture_write("empty.conf", KAFKA);
	free(assert_round_trip("empty.conf", CONF_RELAY));
}

/* --- where it comes from -----------------------------------------------------------------------
 */

/* Exactly one line begins and ends so. */
static void assert_line(const char *text, const char *begin, const char *end)
{
	int found = 0;
	for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
		size_t length = strcspn(line, "\n");
		const char *word = line + strspn(line, " ");
		if (strncmp(word, begin, strlen(begin)) == 0 && length >= strlen(end) &&
		    strncmp(line + length - strlen(end), end, strlen(end)) == 0)
			found++;
	}
	if (found != 1)
		fail_msg("%d lines %s ... %s in\n%s", found, begin, end, text);
}

static void each_value_says_where_it_comes_from(void **state)
{
	(void)state;
	static const struct conf_flag flags[] = { { "--log-level", "log.level", "error" } };
	const struct conf_source source = {
		.path = "c.conf", .program = CONF_LEDGER, .flags = flags, .flag_count = 1
	};
	fixture_write("part.conf", "\nledger = { batch = 7; conninfo = \"dbname=own\"; };\n");
	fixture_write("c.conf",
		      KAFKA "@include \"part.conf\"\n"
			    "log = { level = \"debug\"; };\n"
			    "targets = ( { name = \"t\"; url = \"http://h\";\n"
			    "profile = \"stripe-v1\"; } );\n"
			    "effects = ( { name = \"e\"; on = { topic = \"x\"; };\n"
			    "target = \"t\"; key = \"${/a}\"; retention = \"7d\"; } );\n");
	assert_int_equal(setenv("COUNTERFOIL_LOG_LEVEL", "warn", 1), 0);
	assert_int_equal(setenv("COUNTERFOIL_LEDGER_LEASE", "8s", 1), 0);
	struct conf *conf = load_from(&source);
	assert_int_equal(conf->log.level, LOG_ERROR);
	char *text = print(conf);
	assert_line(text, "level = \"error\";", " # --log-level");
	assert_line(text, "format = \"logfmt\";", " # default");
	assert_line(text, "lease = \"8s\";", " # COUNTERFOIL_LEDGER_LEASE");
	assert_line(text, "lease = \"15s\";", " # default");
	assert_line(text, "batch = 7;", " # part.conf:2");
	assert_line(text, "profile = \"stripe-v1\";", " # c.conf:5");
	assert_line(text, "retention = \"7d\";", " # c.conf:7");
	assert_line(text, "properties = (", " # c.conf:1");
	assert_line(text, "targets = (", " # c.conf:4");
	assert_line(text, "profiles = ();", " # default");
	assert_line(text, "instance = \"", " # default");
	/* the connection of this program is its own, and says so */
	assert_string_equal(conf->postgres.conninfo, "dbname=own");
	char place[256];
	assert_string_equal(conf_place(conf, "postgres.conninfo", place, sizeof(place)),
			    "part.conf:2: postgres.conninfo");
	free(text);
	conf_free(conf);
	assert_int_equal(unsetenv("COUNTERFOIL_LOG_LEVEL"), 0);
	assert_int_equal(unsetenv("COUNTERFOIL_LEDGER_LEASE"), 0);
}

static void a_file_with_an_odd_name_stays_in_its_comment(void **state)
{
	(void)state;
	fixture_write("a\nlog = 1;.conf", KAFKA);
	free(assert_round_trip("a\nlog = 1;.conf", CONF_RELAY));
}

static void a_flag_is_checked(void **state)
{
	(void)state;
	const struct conf_flag bad = { "--log-level", "log.level", "loud" };
	const struct conf_flag good = { "--log-format", "log.format", "json" };
	const struct conf_flag text = { "--name", "general.instance", "x" };
	const struct conf_source source = {
		.path = "c.conf", .program = CONF_RELAY, .flags = &bad, .flag_count = 1
	};
	struct conf *conf;
	struct err err;
	struct buf faults = { 0 };
	assert_true(conf_flag_check(&good, &err));
	assert_true(conf_flag_check(&text, &err));
	assert_false(conf_flag_check(&bad, &err));
	assert_string_equal(err.text,
			    "\"loud\" is not one of \"error\", \"warn\", \"info\", \"debug\"");
	fixture_write("c.conf", KAFKA);
	assert_false(conf_load_from(&source, &faults, &conf));
	assert_string_equal(buf_text(&faults), "--log-level: log.level: \"loud\" is not one of "
					       "\"error\", \"warn\", \"info\", \"debug\"\n");
	buf_done(&faults);
}

/* --- secrets ------------------------------------------------------------------------------------
 */

static void no_secret_is_printed(void **state)
{
	(void)state;
	fixture_write("c.conf",
		      KAFKA "targets = ( { name = \"t\"; url = \"http://h\"; profile = \"plain\";\n"
			    "  auth = \"Bearer ${secret}\"; secret_file = \"/run/secret\";\n"
			    "  headers = ( (\"X-API-Key\", \"hush\"), (\"X-Plain\", \"shown\"),\n"
			    "    (\"Session-Token\", \"hush\") ); } );\n"
			    "effects = ( { name = \"e\"; request = { headers = (\n"
			    "  (\"my-secret\", \"hush\") ); }; } );\n");
	struct conf *conf = load("c.conf", CONF_RELAY);
	char *text = print(conf);
	assert_null(strstr(text, "hush"));
	assert_line(text, "(\"X-API-Key\", \"[redacted]\"),",
		    " # not shown: by its name it may be a secret");
	assert_non_null(strstr(text, "(\"X-Plain\", \"shown\"),"));
	assert_non_null(strstr(text, "(\"my-secret\", \"[redacted]\")"));
	assert_line(text, "auth = \"Bearer ${secret}\";", " # c.conf:3");
	assert_line(text, "secret_file = \"/run/secret\";", " # c.conf:3");
	free(text);
	conf_free(conf);
}

static void a_secret_in_the_file_is_refused_and_not_repeated(void **state)
{
	(void)state;
	static const char *const texts[] = {
		KAFKA "targets = ( { auth = \"Bearer hush\"; } );\n",
		KAFKA "postgres = { conninfo = \"password=hush\"; };\n",
		KAFKA "postgres = { conninfo = \"postgres://u:hush@h/x\"; };\n",
		KAFKA "relay = { conninfo = \"sslpassword=hush\"; };\n",
		"kafka = { properties = ( (\"bootstrap.servers\", \"b:1\"), "
		"(\"sasl.password\", \"hush\") ); };\n",
	};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct buf faults = { 0 };
		struct conf *conf;
		fixture_write("c.conf", texts[i]);
		assert_false(conf_load("c.conf", CONF_RELAY, &faults, &conf));
		assert_null(strstr(buf_text(&faults), "hush"));
		assert_non_null(strstr(buf_text(&faults), "_file"));
		buf_done(&faults);
	}
}

static void a_closed_one_opens_no_other_file(void **state)
{
	(void)state;
	static const char text[] =
		"kafka = { properties_file = \"/nonexistent/p\"; };\n"
		"targets = ( { name = \"t\"; url = \"http://h\"; profile = \"stripe-v1\";\n"
		"  ca_file = \"/nonexistent/ca\"; } );\n"
		"effects = ( { name = \"e\"; on = { topic = \"x\"; }; target = \"t\"; key = "
		"\"${/a}\";\n"
		"  retention = \"7d\"; } );\n";
	struct conf_source source = { .path = "c.conf", .program = CONF_LEDGER };
	struct conf *conf;
	struct buf faults = { 0 };
	fixture_write("c.conf", text);
	assert_false(conf_load_from(&source, &faults, &conf));
	assert_non_null(strstr(buf_text(&faults), "kafka.properties_file"));
	assert_non_null(strstr(buf_text(&faults), "ca_file"));
	buf_done(&faults);
	source.closed = true;
	conf_free(load_from(&source));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sample_is_the_same_again),
		cmocka_unit_test(an_odd_one_is_the_same_again),
		cmocka_unit_test(each_value_says_where_it_comes_from),
		cmocka_unit_test(a_file_with_an_odd_name_stays_in_its_comment),
		cmocka_unit_test(a_flag_is_checked),
		cmocka_unit_test(no_secret_is_printed),
		cmocka_unit_test(a_secret_in_the_file_is_refused_and_not_repeated),
		cmocka_unit_test(a_closed_one_opens_no_other_file),
	};
	return cmocka_run_group_tests(tests, fixture_enter, fixture_leave);
}
