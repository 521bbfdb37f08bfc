/* Every key that exists: name, type, default, bounds, meaning; those of the lists in
 * conf_keys_rules.c.
 *
 * The rows, the sample conf/counterfoil.conf and the reference conf/KEYS.md say the same:
 * tests/checks/conf-documented compares them. */
#include "conf/conf_keys.h"

#include "conf.h"
#include "conf/conf_rows.h"

#define KIB ((int64_t)1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

static const struct conf_key general_keys[] = {
	KEY(conf_general, environment, CONF_TEXT, "",
	    "name of this environment, \"production\" or \"staging\"; shown to people, and told to "
	    "the "
	    "database, so that a copy of it is known as one",
	    RANGE(0, 128)),
	KEY(conf_general, production, CONF_BOOL, "false", "this is the real thing: ask twice"),
	KEY(conf_general, instance, CONF_TEXT, "",
	    "shown name of the process; \"\": HOSTNAME-relay, HOSTNAME-ledger, HOSTNAME-console",
	    RANGE(0, 128)),
	KEY(conf_general, drain_timeout, CONF_DURATION, "35s",
	    "after SIGTERM, what was begun may be finished for so long; less than the supervisor's "
	    "own limit",
	    RANGE(100 * USEC_MS, USEC_HOUR)),
};
static const struct conf_table general_table = TABLE(general_keys);

static const struct conf_key postgres_keys[] = {
	KEY(conf_postgres, conninfo, CONF_TEXT, "",
	    "libpq's connection string or URI, without a password; PG* variables and service files "
	    "fill what is missing"),
	KEY(conf_postgres, password_file, CONF_TEXT, "", "file whose first line is the password"),
	KEY(conf_postgres, connect_timeout, CONF_DURATION, "5s", "for one attempt to connect",
	    RANGE(100 * USEC_MS, 5 * USEC_MIN)),
	KEY(conf_postgres, statement_timeout, CONF_DURATION, "30s",
	    "for one statement of relay or ledger", RANGE(100 * USEC_MS, USEC_HOUR)),
};
static const struct conf_table postgres_table = TABLE(postgres_keys);

static const struct conf_key kafka_keys[] = {
	KEY(conf_kafka, properties, CONF_PAIRS, NULL,
	    "librdkafka's properties, (\"name\", \"value\") each; \"bootstrap.servers\" must be "
	    "here or in properties_file; secrets and what the programs decide themselves are "
	    "refused"),
	KEY(conf_kafka, properties_file, CONF_TEXT, "",
	    "Java-style file of name=value, applied after properties; sasl.* and ssl.* normally "
	    "live there"),
	KEY(conf_kafka, password_file, CONF_TEXT, "",
	    "file whose first line becomes sasl.password, applied last"),
};
static const struct conf_table kafka_table = TABLE(kafka_keys);

static const struct conf_word message_keys[] = {
	{ "event_id", CONF_KEY_EVENT_ID },
	{ "ordering_key", CONF_KEY_ORDERING_KEY },
	{ "none", CONF_KEY_NONE },
	{ 0 },
};

static const struct conf_word after_words[] = {
	{ "delete", CONF_AFTER_DELETE },
	{ "mark", CONF_AFTER_MARK },
	{ 0 },
};
static const struct conf_word relay_headers[] = {
	{ "cloudevents", CONF_HEADERS_CLOUDEVENTS },
	{ "debezium", CONF_HEADERS_DEBEZIUM },
	{ "none", CONF_HEADERS_NONE },
	{ 0 },
};
static const struct conf_word on_dead_words[] = {
	{ "block_key", CONF_DEAD_BLOCK_KEY },
	{ "skip", CONF_DEAD_SKIP },
	{ 0 },
};

#define COLUMN(field_, meaning_)                                                                   \
	KEY_AS(#field_, conf_relay, columns.field_, CONF_TEXT, #field_, meaning_, RANGE(0, 63))

static const struct conf_key column_keys[] = {
	COLUMN(id, "a bigint or integer that grows with insertion, drawn one by one inside the "
		   "INSERT (an identity, or a sequence with CACHE 1), with an index; required"),
	COLUMN(event_id, "a uuid: the event's identity; required"),
	COLUMN(topic, "text; used where relay.topic says ${topic}"),
	COLUMN(type, "text; \"\": the type is the topic"),
	COLUMN(ordering_key, "any type, by its text: events of one key stay in order; \"\": none"),
	COLUMN(partition, "an int, or NULL: by the ordering key; \"\": always"),
	COLUMN(message_key, "bytea or text, or NULL: as message_key says; \"\": always"),
	COLUMN(payload, "bytea as it is; text, varchar, json and jsonb by their text, which is not "
			"parsed (a jsonb is printed by the server for every row that a fetch looks "
			"at: where such payloads are large, lower batch); required"),
	COLUMN(headers, "jsonb or json: an object; \"\": none"),
	COLUMN(created_at, "timestamptz, or timestamp in UTC; \"\": not known"),
};
static const struct conf_table column_table = TABLE(column_keys);

static const struct conf_key relay_keys[] = {
	KEY(conf_relay, conninfo, CONF_TEXT, "",
	    "the relay's own connection string, instead of postgres.conninfo"),
	KEY(conf_relay, table, CONF_TEXT, CONF_OWN_TABLE,
	    "SCHEMA.TABLE that is published, letters as they are; a part with a dot in it stands "
	    "in "
	    "quotes of its own; any other than ours is mapped by the keys from columns to "
	    "start_after",
	    RANGE(1, 300)),
	GROUP("columns", column_table, "how the columns of a mapped table are called"),
	KEY(conf_relay, topic, CONF_TEXT, "${topic}",
	    "of a mapped table: the topic, made of text and of columns in ${}, as in "
	    "\"outbox.event.${aggregatetype}\"; a name of columns means the column named there",
	    RANGE(1, 1024)),
	KEY(conf_relay, pending, CONF_TEXT, "",
	    "of a mapped table, and required there: SQL condition of the rows that are to be "
	    "published, as in \"published_at IS NULL\"; an index must serve it; \"true\": all",
	    RANGE(0, 1024)),
	KEY(conf_relay, after_publish, CONF_WORD, "delete",
	    "what becomes of a published row; of a mapped table it must be said. delete: it is "
	    "deleted; mark: mark_column is set, which must end pending",
	    .words = after_words),
	KEY(conf_relay, mark_column, CONF_TEXT, "",
	    "for mark: a timestamptz or timestamp, set to the time, or a boolean, set to true",
	    RANGE(0, 63)),
	KEY(conf_relay, start_after, CONF_INT, "0",
	    "of a mapped table, where it must be said: rows with an id up to this are left alone, "
	    "neither published nor deleted nor marked",
	    RANGE(0, INT64_MAX)),
	KEY(conf_relay, topics, CONF_TEXTS, NULL,
	    "the topics that may be published to; a row of another one is dead; none: any"),
	KEY(conf_relay, headers, CONF_WORD, "cloudevents",
	    "headers that are put beside the row's own. cloudevents: ce_id, ce_type and so on; "
	    "debezium: id and eventType; none: no others",
	    .words = relay_headers),
	KEY(conf_relay, on_dead, CONF_WORD, "block_key",
	    "rows behind a dead row of their topic and ordering key. block_key: they are parked, "
	    "in "
	    "order, until it is put back or discarded; skip: they are published",
	    .words = on_dead_words),
	KEY(conf_relay, source, CONF_TEXT, "/counterfoil", "header ce_source of every event",
	    NOT_EMPTY),
	KEY(conf_relay, content_type, CONF_TEXT, "application/json",
	    "header content-type of an event that has none of its own", NOT_EMPTY),
	KEY(conf_relay, message_key, CONF_WORD, "event_id",
	    "Kafka key of a row without a message_key; the partition follows the ordering key in "
	    "any case",
	    .words = message_keys),
	KEY(conf_relay, batch, CONF_INT, "1000", "rows a fetch", RANGE(1, 10000)),
	KEY(conf_relay, batch_bytes, CONF_SIZE, "8MiB", "bytes a fetch", RANGE(KIB, 256 * MIB)),
	KEY(conf_relay, window_rows, CONF_INT, "20000",
	    "rows sent and not yet acknowledged; at most an eighth of it a partition",
	    RANGE(1, 1000000)),
	KEY(conf_relay, window_bytes, CONF_SIZE, "16MiB", "their bytes", RANGE(KIB, GIB)),
	KEY(conf_relay, poll_busy, CONF_DURATION, "2ms", "pause between fetches that found rows",
	    RANGE(USEC_MS, USEC_SEC)),
	KEY(conf_relay, poll_idle, CONF_DURATION, "25ms", "pause between fetches that found none",
	    RANGE(USEC_MS, 10 * USEC_SEC)),
	KEY(conf_relay, sweep, CONF_DURATION, "5s",
	    "pause between full looks at the outbox; longer when a look takes long",
	    RANGE(100 * USEC_MS, 10 * USEC_MIN)),
	KEY(conf_relay, lease, CONF_DURATION, "15s",
	    "one relay owns the outbox for so long; renewed at a third of it",
	    RANGE(USEC_SEC, 10 * USEC_MIN)),
};
static const struct conf_table relay_table = TABLE(relay_keys);

static const struct conf_word unmatched_words[] = {
	{ "pass", CONF_UNMATCHED_PASS },
	{ "poison", CONF_UNMATCHED_POISON },
	{ 0 },
};

#define KEPT RANGE(USEC_SEC, 100 * 365 * USEC_DAY)

static const struct conf_key ledger_keys[] = {
	KEY(conf_ledger, conninfo, CONF_TEXT, "",
	    "the ledger's own connection string, instead of postgres.conninfo"),
	KEY(conf_ledger, group, CONF_TEXT, "counterfoil-ledger", "Kafka consumer group",
	    RANGE(1, 255)),
	KEY(conf_ledger, start, CONF_START, "",
	    "where a topic without any position begins: \"earliest\", \"latest\" or a time such as "
	    "\"2026-01-31T00:00:00Z\"; required as long as there is such a topic; \"earliest\" "
	    "performs its whole history"),
	KEY(conf_ledger, shadow, CONF_BOOL, "false",
	    "record and render everything, send nothing; each key ends as completed, says that it "
	    "was not sent, and emits nothing; what was recorded before waits"),
	KEY(conf_ledger, unmatched, CONF_WORD, "pass",
	    "an event of a subscribed topic that no effect asks for: count it, or keep it as "
	    "poison",
	    .words = unmatched_words),
	KEY(conf_ledger, poison_max_bytes, CONF_SIZE, "1MiB",
	    "of a poison message's value this much is kept; the rest is cut, the hash is of all",
	    RANGE(KIB, 64 * MIB)),
	KEY(conf_ledger, poison_limit, CONF_INT, "100000",
	    "open poison messages of one topic; with so many the topic is not read until some are "
	    "replayed or discarded, and nothing is dropped",
	    RANGE(1, 10000000)),
	KEY(conf_ledger, batch, CONF_INT, "500", "messages recorded in one transaction",
	    RANGE(1, 10000)),
	KEY(conf_ledger, intake_wait, CONF_DURATION, "20ms", "a batch waits so long to fill",
	    RANGE(USEC_MS, 10 * USEC_SEC)),
	KEY(conf_ledger, in_flight, CONF_INT, "1000",
	    "requests in flight, all targets of a process", RANGE(1, 100000)),
	KEY(conf_ledger, due_high, CONF_INT, "200000", "intake pauses at so many due keys",
	    RANGE(1, 100000000)),
	KEY(conf_ledger, due_low, CONF_INT, "100000", "and goes on below so many",
	    RANGE(1, 100000000)),
	KEY(conf_ledger, lease, CONF_DURATION, "10s",
	    "a process that is silent for so long has its keys taken over; renewed at a third of "
	    "it",
	    RANGE(USEC_SEC, 10 * USEC_MIN)),
	KEY(conf_ledger, result_batch, CONF_INT, "100", "results recorded in one transaction",
	    RANGE(1, 10000)),
	KEY(conf_ledger, result_wait, CONF_DURATION, "5ms", "a result waits so long for others",
	    RANGE(0, 10 * USEC_SEC)),
	KEY(conf_ledger, request_keep, CONF_DURATION, "30d",
	    "a finished key's request is kept for so long", KEPT),
	KEY(conf_ledger, attempt_keep, CONF_DURATION, "400d",
	    "and the record of its attempts; not shorter than the retention of any effect, unless "
	    "that is \"forever\"",
	    KEPT),
	KEY(conf_ledger, pruned_keep, CONF_DURATION, "90d",
	    "after its retention a key, without request and attempts, still answers duplicates for "
	    "so long, and as long as its topics keep events",
	    KEPT),
	KEY(conf_ledger, audit_keep, CONF_DURATION, "2y",
	    "what people did, and why, is kept for so long; settled poison and counts of "
	    "unmatched events too",
	    RANGE(USEC_DAY, 100 * 365 * USEC_DAY)),
	KEY(conf_ledger, response_keep, CONF_SIZE, "16KiB", "of an answer's body this much is kept",
	    RANGE(0, 16 * MIB)),
};
static const struct conf_table ledger_table = TABLE(ledger_keys);

static const struct conf_word zones[] = {
	{ "UTC", CONF_ZONE_UTC },
	{ "local", CONF_ZONE_LOCAL },
	{ 0 },
};

static const struct conf_key console_keys[] = {
	KEY(conf_console, conninfo, CONF_TEXT, "",
	    "the console's own connection string, instead of postgres.conninfo"),
	KEY(conf_console, refresh, CONF_DURATION, "2s", "what is shown is read again so often",
	    RANGE(500 * USEC_MS, USEC_HOUR)),
	KEY(conf_console, statement_timeout, CONF_DURATION, "2s",
	    "for one statement of the console; beyond it, it is cancelled",
	    RANGE(100 * USEC_MS, USEC_HOUR)),
	KEY(conf_console, count_cap, CONF_INT, "100000",
	    "keys are counted up to this; above it a number is an estimate, or open",
	    RANGE(100, 10000000)),
	KEY(conf_console, slice, CONF_DURATION, "150ms",
	    "a search that has to look at many keys does so in slices of about this length",
	    RANGE(10 * USEC_MS, 10 * USEC_SEC)),
	KEY(conf_console, zone, CONF_WORD, "UTC", "zone of the times that are shown",
	    .words = zones),
	KEY(conf_console, escape_delay, CONF_DURATION, "100ms",
	    "an Esc that nothing follows for so long is the key, not the beginning of another; "
	    "ESCDELAY overrides",
	    RANGE(10 * USEC_MS, 2 * USEC_SEC)),
	KEY(conf_console, read_only, CONF_BOOL, "false", "the console changes nothing"),
};
static const struct conf_table console_table = TABLE(console_keys);

static const struct conf_key http_keys[] = {
	KEY(conf_http, relay, CONF_TEXT, "127.0.0.1:9464",
	    "address and port of the relay's /livez, /readyz and /metrics; port 0 takes a free "
	    "one, "
	    "which the log names; \"\": none",
	    RANGE(0, 256)),
	KEY(conf_http, ledger, CONF_TEXT, "127.0.0.1:9465", "the same for the ledger",
	    RANGE(0, 256)),
	KEY(conf_http, ready_max_age, CONF_DURATION, "60s",
	    "/readyz says no when the oldest row of the outbox, or the oldest key that is due, "
	    "waits for longer",
	    RANGE(USEC_SEC, USEC_DAY)),
};
static const struct conf_table http_table = TABLE(http_keys);

static const struct conf_word log_levels[] = {
	{ "error", LOG_ERROR },
	{ "warn", LOG_WARN },
	{ "info", LOG_INFO },
	{ "debug", LOG_DEBUG },
	{ 0 },
};
static const struct conf_word log_formats[] = {
	{ "logfmt", LOG_LOGFMT },
	{ "json", LOG_JSON },
	{ 0 },
};

static const struct conf_key log_keys[] = {
	KEY(conf_log, level, CONF_WORD, "info", "what is written to stderr", .words = log_levels),
	KEY(conf_log, format, CONF_WORD, "logfmt", "how", .words = log_formats),
};
static const struct conf_table log_table = TABLE(log_keys);

#define SECTION(name_)                                                                             \
	{                                                                                          \
		.name = #name_, .table = &name_##_table, .offset = offsetof(struct conf, name_)    \
	}
#define LIST(name_, item_, ...)                                                                    \
	{                                                                                          \
		.name = #name_, .table = &conf_##item_##_table,                                    \
		.offset = offsetof(struct conf, name_),                                            \
		.count_offset = offsetof(struct conf, item_##_count),                              \
		.item_size = sizeof(struct conf_##item_), ##__VA_ARGS__                            \
	}

const struct conf_section conf_sections[] = {
	SECTION(general),      SECTION(postgres),     SECTION(kafka),
	SECTION(relay),        SECTION(ledger),       LIST(targets, target),
	LIST(tenants, tenant), LIST(effects, effect), LIST(profiles, profile),
	SECTION(console),      SECTION(http),         SECTION(log),
};
const size_t conf_section_count = sizeof(conf_sections) / sizeof(conf_sections[0]);

const char *conf_type_name(enum conf_type type)
{
	static const char *const names[] = {
		[CONF_BOOL] = "bool",           [CONF_INT] = "int",
		[CONF_TEXT] = "text",           [CONF_DURATION] = "duration",
		[CONF_SIZE] = "size",           [CONF_WORD] = "word",
		[CONF_START] = "word or time",  [CONF_PAIRS] = "pairs",
		[CONF_TEXTS] = "texts",         [CONF_STATUSES] = "statuses",
		[CONF_GROUP] = "group",         [CONF_RATE] = "rate",
		[CONF_PREDICATE] = "predicate", [CONF_POINTERS] = "pointers",
	};
	return names[type];
}
