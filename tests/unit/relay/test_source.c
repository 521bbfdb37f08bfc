/* What the statements on a mapped table are made of: names, casts, topics, conditions. That they
 * work is shown against a server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "buf.h"
#include "source/source.h"
#include "source/source_map.h"

#define TEXT(text_)                                                                                \
	(char[])                                                                                   \
	{                                                                                          \
		text_                                                                              \
	}

static struct conf_relay debezium(void)
{
	static char table[] = "public.outboxevent", id[] = "seq", event_id[] = "id", none[] = "",
		    key[] = "aggregateid", type[] = "type", payload[] = "payload",
		    topic[] = "outbox.event.${aggregatetype}", pending[] = "true";
	return (struct conf_relay){
		.table = table,
		.columns = { .id = id,
			     .event_id = event_id,
			     .topic = none,
			     .type = type,
			     .ordering_key = key,
			     .partition = none,
			     .message_key = none,
			     .payload = payload,
			     .headers = none,
			     .created_at = none },
		.topic = topic,
		.pending = pending,
		.mark_column = none,
		.start_after = 41,
	};
}

static void found_as(struct source_map *map, const char *name, const char *type, struct buf *faults)
{
	const struct source_map_found found = {
		.there = true,
		.type = type,
		.shown = type,
		.readable = true,
	};
	for (size_t i = 0; i < map->count; i++)
		if (strcmp(map->columns[i].name, name) == 0)
			source_map_found(map, i, &found, faults);
}

/* A source with its statements, of columns "NAME TYPE, ...": each must be one that is asked for. */
static struct source *made(const struct conf_relay *conf, const char *columns)
{
	struct source *source = source_new(conf);
	struct source_map *map = source_map_new(conf);
	struct buf faults = { 0 };
	char name[64], type[64];
	for (const char *at = columns; *at; at += strspn(at, ", ")) {
		assert_int_equal(sscanf(at, "%63[^:]:%63[a-z0-9]", name, type), 2);
		found_as(map, name, type, &faults);
		at += strcspn(at, ",");
	}
	assert_string_equal(buf_text(&faults), "");
	source_map_fill(map, source);
	source_map_free(map);
	return source;
}

static void assert_holds(const char *statement, const char *part)
{
	if (!strstr(statement, part))
		fail_msg("%s\nis not in\n%s", part, statement);
}

static void our_own(void **state)
{
	(void)state;
	static char table[] = "counterfoil.outbox";
	const struct conf_relay conf = { .table = table };
	struct source *source = source_new(&conf);
	assert_true(source->own);
	assert_true(source->sequential);
	assert_string_equal(source->name, "counterfoil.outbox");
	assert_string_equal(source->lease, "relay");
	assert_true(source->start_after == INT64_MIN);
	assert_holds(source->poll, "FROM counterfoil.outbox o WHERE o.id > $1 ORDER BY o.id LIMIT");
	assert_holds(source->remove, "DELETE FROM counterfoil.outbox o WHERE o.id = ANY");
	assert_null(strpbrk(source->bury, "{}"));
	assert_null(source->add);
	source_free(source);
	source_free(NULL);
}

static void a_mapped_table(void **state)
{
	(void)state;
	const struct conf_relay conf = debezium();
	struct source *source =
		made(&conf, "seq:int4, id:uuid, aggregatetype:varchar, aggregateid:varchar, "
			    "type:varchar, payload:jsonb");
	assert_false(source->own);
	assert_string_equal(source->name, "public.outboxevent");
	assert_string_equal(source->lease, "relay:public.outboxevent");
	assert_int_equal(source->start_after, 41);
	assert_holds(
		source->poll,
		"(SELECT o.\"seq\"::int8 AS id, o.\"id\" AS event_id, "
		"('outbox.event.' || o.\"aggregatetype\"::text) AS topic, "
		"coalesce(o.\"type\"::text, ('outbox.event.' || o.\"aggregatetype\"::text)) "
		"AS type, o.\"aggregateid\"::text AS ordering_key, NULL::int4 AS partition, "
		"NULL::text AS message_key, o.\"payload\"::text AS payload, NULL::text AS "
		"headers, NULL::timestamptz AS created_at FROM \"public\".\"outboxevent\" o "
		"WHERE o.\"seq\" > $1 AND o.\"seq\" > 41 AND (true\n) ORDER BY o.\"seq\" LIMIT");
	assert_holds(source->remove,
		     "DELETE FROM \"public\".\"outboxevent\" o WHERE o.\"seq\" = ANY");
	assert_holds(source->holders, "'\"public\".\"outboxevent\"'::regclass");
	assert_holds(source->bury, "(o.*)::text AS whole");
	assert_holds(source->add, "SELECT 'public.outboxevent', '\"public\".\"outboxevent\"', "
				  "'seq', 'id', NULL WHERE");
	source_free(source);
}

static void types_decide_the_casts(void **state)
{
	(void)state;
	struct conf_relay conf = debezium();
	conf.columns.topic = TEXT("dest");
	conf.columns.type = TEXT("");
	conf.columns.partition = TEXT("part");
	conf.columns.message_key = TEXT("mkey");
	conf.columns.headers = TEXT("meta");
	conf.columns.created_at = TEXT("at");
	conf.topic = TEXT("${topic}");
	struct source *source = made(&conf, "seq:int8, id:uuid, dest:text, aggregateid:int4, "
					    "part:int2, mkey:bytea, payload:bytea, meta:json, "
					    "at:timestamp");
	assert_holds(source->poll, "(o.\"dest\"::text) AS topic, (o.\"dest\"::text) AS type");
	assert_holds(source->poll, "o.\"part\"::int4 AS partition, o.\"mkey\"::bytea AS "
				   "message_key, o.\"payload\"::bytea AS payload, o.\"meta\"::text "
				   "AS headers, (o.\"at\" AT TIME ZONE 'UTC') AS created_at");
	source_free(source);
}

static void marks(void **state)
{
	(void)state;
	static const struct {
		const char *type, *assignment;
	} types[] = {
		{ "bool", "SET \"done \"\"yes\"\"\" = true " },
		{ "timestamptz", "SET \"done \"\"yes\"\"\" = clock_timestamp() " },
		{ "timestamp", "SET \"done \"\"yes\"\"\" = clock_timestamp() AT TIME ZONE 'UTC' " },
	};
	struct conf_relay conf = debezium();
	conf.after_publish = CONF_AFTER_MARK;
	conf.mark_column = TEXT("done \"yes\"");
	conf.pending = TEXT("\"done \"\"yes\"\"\" IS NULL -- not yet");
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct buf columns = { 0 };
		buf_addf(&columns, "seq:int8, id:uuid, payload:text, done \"yes\":%s",
			 types[i].type);
		struct source *source = made(&conf, columns.data);
		assert_holds(source->remove, types[i].assignment);
		assert_holds(source->remove, "IS NULL -- not yet\n)");
		assert_holds(source->bury, types[i].assignment);
		assert_holds(source->bury, "FOR UPDATE OF o");
		assert_holds(source->add, "'done \"yes\"' WHERE");
		source_free(source);
		buf_done(&columns);
	}
}

static void what_does_not_fit(void **state)
{
	(void)state;
	struct conf_relay conf = debezium();
	struct source_map *map = source_map_new(&conf);
	struct buf faults = { 0 };
	const struct source_map_found missing = { .there = false };
	const struct source_map_found unreadable = { .there = true,
						     .type = "uuid",
						     .shown = "uuid" };
	found_as(map, "seq", "numeric", &faults);
	assert_false(source_map_ordered(map));
	source_map_found(map, 1, &unreadable, &faults);
	source_map_found(map, 2, &missing, &faults);
	found_as(map, "payload", "xml", &faults);
	assert_string_equal(
		faults.data,
		"relay.columns.id: column \"seq\" is numeric; it must be bigint or integer\n"
		"relay.columns.event_id: column \"id\" cannot be read; GRANT SELECT ON "
		"\"public\".\"outboxevent\" TO the relay\n"
		"relay.columns.type: there is no column \"type\"; name a column of "
		"\"public\".\"outboxevent\" or, where the table has none, \"\": the topic is the "
		"type\n"
		"relay.columns.payload: column \"payload\" is xml; it must be bytea, text, "
		"varchar, "
		"json or jsonb\n");
	buf_done(&faults);
	source_map_index(map, false, &faults);
	assert_string_equal(faults.data, "CREATE INDEX CONCURRENTLY ON "
					 "\"public\".\"outboxevent\" (\"seq\")");
	buf_done(&faults);
	conf.pending = TEXT("ready");
	source_map_index(map, true, &faults);
	assert_string_equal(faults.data,
			    "CREATE INDEX ON \"public\".\"outboxevent\" (\"seq\") WHERE ready");
	buf_done(&faults);
	source_map_free(map);
	source_map_free(NULL);
}

static void awful_names(void **state)
{
	(void)state;
	struct conf_relay conf = debezium();
	conf.table = TEXT("\"it's {a}.b\".\"say \"\"\\no\"\"\"");
	conf.columns.id = TEXT("{id}");
	struct source_map *map = source_map_new(&conf);
	assert_string_equal(buf_text(&map->relation), "\"it's {a}.b\".\"say \"\"\\no\"\"\"");
	source_map_free(map);
	conf.topic = TEXT("a.${o'x}");
	struct source *source = made(&conf, "{id}:int8");
	assert_string_equal(source->name, "\"it's {a}.b\".\"say \"\"\\no\"\"\"");
	assert_holds(source->poll, "o.\"{id}\"::int8 AS id");
	assert_holds(source->poll, "('a.' || o.\"o'x\"::text) AS topic");
	assert_holds(source->holders, " E'\"it''s {a}.b\".\"say \"\"\\\\no\"\"\"'::regclass");
	source_free(source);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(our_own),
		cmocka_unit_test(a_mapped_table),
		cmocka_unit_test(types_decide_the_casts),
		cmocka_unit_test(marks),
		cmocka_unit_test(what_does_not_fit),
		cmocka_unit_test(awful_names),
	};
	return cmocka_run_group_tests_name("source", tests, NULL, NULL);
}
