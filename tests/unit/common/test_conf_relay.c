/* A relay's table in the configuration: what a foreign one needs, what ours refuses, how tables and
 * topics are written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "conf.h"
#include "conf_fixture.h"
#include "mem.h"

#define KAFKA "kafka = { properties = ( (\"bootstrap.servers\", \"broker:9092\") ); };\n"
#define MAPPED                                                                                     \
	"table = \"public.events\"; pending = \"true\"; after_publish = \"delete\"; start_after "  \
	"= 7; "
#define SAYS "c.conf:2: relay."

static char *faults_of(const char *relay)
{
	struct buf text = { 0 };
	struct buf faults = { 0 };
	struct conf *conf;
	buf_addf(&text, KAFKA "relay = { %s };\n", relay);
	fixture_write("c.conf", text.data);
	buf_done(&text);
	if (conf_load("c.conf", CONF_RELAY, &faults, &conf))
		conf_free(conf);
	else
		assert_int_not_equal(faults.length, 0);
	return faults.length ? buf_take(&faults) : mem_text("");
}

static const struct {
	const char *relay;
	const char *faults; /* "": none */
} cases[] = {
	{ "", "" },
	{ "table = \"counterfoil.outbox\"; start_after = 0; after_publish = \"delete\";", "" },
	{ "table = \"\\\"counterfoil\\\".\\\"outbox\\\"\"; pending = \"true\";",
	  SAYS "pending: is for a mapped table; relay.table is our own, \"counterfoil.outbox\"\n" },
	{ "columns = { id = \"seq\"; created_at = \"\"; }; topic = \"a\"; after_publish = "
	  "\"mark\"; "
	  "mark_column = \"m\"; start_after = 3;",
	  SAYS "after_publish: is for a mapped table; relay.table is our own, "
	       "\"counterfoil.outbox\"\n" SAYS
	       "columns.created_at: is for a mapped table; relay.table is our own, "
	       "\"counterfoil.outbox\"\n" SAYS
	       "columns.id: is for a mapped table; relay.table is our own, "
	       "\"counterfoil.outbox\"\n" SAYS
	       "mark_column: is for a mapped table; relay.table is our own, "
	       "\"counterfoil.outbox\"\n" SAYS
	       "start_after: is for a mapped table; relay.table is our own, "
	       "\"counterfoil.outbox\"\n" SAYS
	       "topic: is for a mapped table; relay.table is our own, "
	       "\"counterfoil.outbox\"\n" },
	{ MAPPED, "" },
	{ "table = \"public.events\";", SAYS
	  "after_publish: is required for a mapped table; write \"delete\", or \"mark\" and the "
	  "name of the column in relay.mark_column\n" SAYS
	  "pending: is required for a mapped table; write the condition of the rows that are "
	  "to be published, as in \"published_at IS NULL\", or \"true\" for all\n" SAYS
	  "start_after: is required for a mapped table; rows with an id up to it are left "
	  "alone: the highest id of today publishes only what is new, 0 all there is\n" },
	{ "table = \"public.events\"; pending = \"true\"; after_publish = \"mark\"; start_after = "
	  "0;",
	  SAYS
	  "mark_column: is required with after_publish = \"mark\": the column that says that a "
	  "row was published\n" },
	{ "table = \"public.events\"; pending = \"true\"; after_publish = \"mark\"; start_after = "
	  "0; "
	  "mark_column = \"done\";",
	  SAYS
	  "pending: does not speak of relay.mark_column: marked rows would be published again, "
	  "for ever; write for example \"done IS NULL\"\n" },
	{ "table = \"public.events\"; pending = \"NOT Done\"; after_publish = \"mark\"; "
	  "start_after = 0; mark_column = \"done\";",
	  "" },
	{ MAPPED "mark_column = \"done\";",
	  SAYS "mark_column: has no use where relay.after_publish is \"delete\"\n" },
	{ MAPPED "columns = { id = \"\"; event_id = \"\"; payload = \"\"; };",
	  SAYS "columns.event_id: is required\n" SAYS "columns.id: is required\n" SAYS
	       "columns.payload: is required\n" },
	{ MAPPED "columns = { topic = \"\"; };",
	  SAYS "topic: ${topic} has no column: relay.columns.topic is \"\"\n" },
	{ MAPPED "columns = { topic = \"\"; }; topic = \"a.${kind}\";", "" },
	{ MAPPED "topic = \"a b\";", SAYS
	  "topic: holds what no topic's name may hold; between columns, written ${name}, there "
	  "may be letters, digits, \".\", \"_\" and \"-\"\n" },
	{ MAPPED "topic = \"a.${kind\";", SAYS "topic: \"${\" is not closed by a \"}\"\n" },
	{ MAPPED "topic = \"${}\";", SAYS "topic: \"${}\" names no column\n" },
	{ MAPPED "topic = \"\";", SAYS "topic: must not be empty\n" },
	{ MAPPED "columns = { kind = \"x\"; };", SAYS "columns.kind: unknown key\n" },
	{ "table = \"events\";",
	  SAYS "table: has no schema; write SCHEMA.TABLE, as in \"public.events\"\n" },
	{ "topics = (\"a\", \"b c\");",
	  SAYS "topics[1]: \"b c\" is not the name of a topic: letters, digits, \".\", \"_\" and "
	       "\"-\", at most 249\n" },
	{ "on_dead = \"park\";", SAYS "on_dead: \"park\" is not one of \"block_key\", \"skip\"\n" },
};

static void faults(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = faults_of(cases[i].relay);
		assert_string_equal(text, cases[i].faults);
		free(text);
	}
}

static void values(void **state)
{
	(void)state;
	struct buf text = { 0 };
	struct conf *conf;
	fixture_write("c.conf",
		      KAFKA "relay = { " MAPPED
			    "columns = { id = \"seq\"; headers = \"\"; }; topics = (\"a\", \"b\"); "
			    "headers = \"debezium\"; on_dead = \"skip\"; };\n");
	assert_true(conf_load("c.conf", CONF_RELAY, &text, &conf));
	assert_string_equal(conf->relay.table, "public.events");
	assert_string_equal(conf->relay.columns.id, "seq");
	assert_string_equal(conf->relay.columns.event_id, "event_id");
	assert_string_equal(conf->relay.columns.headers, "");
	assert_string_equal(conf->relay.topic, "${topic}");
	assert_int_equal(conf->relay.start_after, 7);
	assert_int_equal(conf->relay.topics.count, 2);
	assert_int_equal(conf->relay.headers, CONF_HEADERS_DEBEZIUM);
	assert_int_equal(conf->relay.on_dead, CONF_DEAD_SKIP);
	assert_false(conf_table_is_own(&conf->relay));
	conf_print(conf, &text);
	conf_free(conf);
	fixture_write("c.conf", text.data); /* as it was printed, it is read again */
	buf_done(&text);
	assert_true(conf_load("c.conf", CONF_RELAY, &text, &conf));
	assert_string_equal(conf->relay.columns.id, "seq");
	assert_int_equal(conf->relay.topics.count, 2);
	conf_free(conf);
	buf_done(&text);
}

static void tables_are_split(void **state)
{
	(void)state;
	static const struct {
		const char *text, *schema, *table;
	} tables[] = {
		{ "public.events", "public", "events" },
		{ "Shop.Order Events", "Shop", "Order Events" },
		{ "\"Order Events\".\"select\"", "Order Events", "select" },
		{ "\"a.b\".\"say \"\"no\"\"\"", "a.b", "say \"no\"" },
		{ "public.\"\"", NULL, NULL },
		{ "public.", NULL, NULL },
		{ ".events", NULL, NULL },
		{ "a.b.c", NULL, NULL },
		{ "\"a.b", NULL, NULL },
		{ "\"a\"b.c", NULL, NULL },
		{ "", NULL, NULL },
	};
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		char *schema, *table;
		struct err err;
		bool ok = conf_table_split(tables[i].text, &err, &schema, &table);
		assert_int_equal(ok, tables[i].schema != NULL);
		if (!ok)
			continue;
		assert_string_equal(schema, tables[i].schema);
		assert_string_equal(table, tables[i].table);
		free(schema);
		free(table);
	}
}

static void topics_come_in_pieces(void **state)
{
	(void)state;
	static const struct {
		bool column;
		const char *text;
	} expected[] = { { false, "a." }, { true, "Kind of it" }, { true, "b" }, { false, "-c" } };
	const char *rest = "a.${Kind of it}${b}-c";
	struct conf_piece piece;
	struct err err;
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		assert_true(conf_topic_piece(&rest, &err, &piece));
		assert_int_equal(piece.column, expected[i].column);
		assert_int_equal(piece.length, strlen(expected[i].text));
		assert_memory_equal(piece.text, expected[i].text, piece.length);
	}
	assert_false(conf_topic_piece(&rest, &err, &piece));
	assert_string_equal(err.text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(faults),
		cmocka_unit_test(values),
		cmocka_unit_test(tables_are_split),
		cmocka_unit_test(topics_come_in_pieces),
	};
	return cmocka_run_group_tests_name("conf_relay", tests, fixture_enter, fixture_leave);
}
