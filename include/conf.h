/* The configuration: one libconfig file for the three programs, checked whole by each of them.
 *
 * conf_load() reads flags, COUNTERFOIL_SECTION_KEY environment, file and default in that order and
 * reports *all* faults at once, one a line, each with file, line, key and remedy. An unknown key is
 * a fault in any section. A required key binds only the program that uses it. Tables in
 * common/conf/conf_keys.c drive parsing, defaults, the printed configuration and the sample.
 *
 * Every text is non-NULL ("" when not set), owned by the struct, and valid until conf_free(). What
 * a text means to a part (templates, predicates) is checked by that part, which asks conf_place()
 * for where it stands. */
#ifndef COUNTERFOIL_CONF_H
#define COUNTERFOIL_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "effect.h"
#include "err.h"
#include "log.h"
#include "usec.h"

enum conf_program { CONF_RELAY, CONF_LEDGER, CONF_CONSOLE };

struct conf_pair {
	char *name;
	char *value;
};
struct conf_pairs {
	struct conf_pair *items;
	size_t count;
};
struct conf_texts {
	char **items;
	size_t count;
};

struct conf_rate {
	int64_t events; /* 0: no limit */
	usec_t period;
};

/* "/status = ok": what stands at the pointer is, or is not, this text. */
struct conf_predicate {
	char *pointer; /* "": none */
	bool equal;
	char *text; /* of a string its content, of anything else as it stands in the JSON */
};

struct conf_general {
	char *environment;
	bool production;
	char *instance; /* never empty: "<hostname>-relay", "-ledger", "-console" by default */
	usec_t drain_timeout;
};

struct conf_postgres {
	char *conninfo; /* already the program's own (relay.conninfo, ...) where that is set */
	char *password_file;
	usec_t connect_timeout;
	usec_t statement_timeout;
};

struct conf_kafka {
	struct conf_pairs properties;
	char *properties_file;
	char *password_file;
};

enum conf_message_key { CONF_KEY_EVENT_ID, CONF_KEY_ORDERING_KEY, CONF_KEY_NONE };

enum conf_relay_headers { CONF_HEADERS_CLOUDEVENTS, CONF_HEADERS_DEBEZIUM, CONF_HEADERS_NONE };
enum conf_after_publish { CONF_AFTER_DELETE, CONF_AFTER_MARK };
enum conf_on_dead { CONF_DEAD_BLOCK_KEY, CONF_DEAD_SKIP };

/* Columns of a mapped table by what they hold for us; "": it has none. */
struct conf_columns {
	char *id;
	char *event_id;
	char *topic;
	char *type;
	char *ordering_key;
	char *partition;
	char *message_key;
	char *payload;
	char *headers;
	char *created_at;
};

#define CONF_OWN_TABLE "counterfoil.outbox"

struct conf_relay {
	char *conninfo; /* "" : postgres.conninfo */
	char *table;    /* for conf_table_split() */
	struct conf_columns columns;
	char *topic;   /* for conf_topic_piece() */
	char *pending; /* SQL; of a mapped table, never "" */
	enum conf_after_publish after_publish;
	char *mark_column;
	int64_t start_after;
	struct conf_texts topics; /* none: any */
	enum conf_relay_headers headers;
	enum conf_on_dead on_dead;
	char *source; /* ce_source */
	char *content_type;
	enum conf_message_key message_key;
	int64_t batch;
	int64_t batch_bytes;
	int64_t window_rows;
	int64_t window_bytes;
	usec_t poll_busy;
	usec_t poll_idle;
	usec_t sweep;
	usec_t lease;
};

enum conf_start { CONF_START_UNSET, CONF_START_EARLIEST, CONF_START_LATEST, CONF_START_TIME };
enum conf_unmatched { CONF_UNMATCHED_PASS, CONF_UNMATCHED_POISON };

struct conf_ledger {
	char *conninfo; /* "" : postgres.conninfo */
	char *group;
	enum conf_start start;
	usec_t start_time; /* wall, for CONF_START_TIME */
	bool shadow;
	enum conf_unmatched unmatched;
	int64_t poison_max_bytes;
	int64_t poison_limit;
	int64_t batch;
	usec_t intake_wait;
	int64_t in_flight;
	int64_t due_high;
	int64_t due_low;
	usec_t lease;
	int64_t result_batch;
	usec_t result_wait;
	usec_t pruned_keep;
	usec_t audit_keep;
	usec_t request_keep;
	usec_t attempt_keep;
	int64_t response_keep; /* bytes */
};

enum conf_zone { CONF_ZONE_UTC, CONF_ZONE_LOCAL };

struct conf_console {
	char *conninfo; /* "" : postgres.conninfo */
	usec_t refresh;
	usec_t statement_timeout;
	int64_t count_cap;
	usec_t slice;
	enum conf_zone zone;
	usec_t escape_delay;
	bool read_only;
};

struct conf_breaker {
	int64_t failures;
	int64_t ratio; /* per cent */
	usec_t open;
};

struct conf_target {
	char *name;
	struct conf_texts alias; /* former names */
	char *url;
	char *profile;
	char *auth; /* template, only ${secret} */
	char *secret_file;
	struct conf_pairs headers;
	usec_t connect_timeout;
	usec_t timeout;
	int64_t concurrency;
	struct conf_rate rate;
	struct conf_breaker breaker;
	char *ca_file;
	char *cert_file;
	char *key_file;
	char *lookup;      /* template, only ${key} */
	char *provider_id; /* JSON pointer into an answer */
	char *from;        /* templates; of mail, "" else */
	char *to;
	char *subject;
};

struct conf_tenant {
	char *name;
	int64_t weight;
	int64_t cap; /* 0: none */
};

enum conf_retry_strategy { CONF_RETRY_NONE, CONF_RETRY_FIXED, CONF_RETRY_EXPONENTIAL };

struct conf_retry {
	enum conf_retry_strategy strategy;
	usec_t first;
	usec_t max;
	int64_t attempts; /* sends only */
};

enum conf_on_uncertain { CONF_UNCERTAIN_HOLD, CONF_UNCERTAIN_RESEND };

struct conf_emit {
	char *topic; /* "": nothing is emitted */
	char *type;
	char *ordering_key; /* template; "": that of the event */
	char *payload;      /* template */
};

struct conf_effect {
	char *name;
	char *target;
	char *topic;
	struct conf_texts types;
	enum effect_mode mode;
	enum conf_on_uncertain on_uncertain;
	bool shadow;
	char *key;
	char *tenant;
	char *serialize_by; /* template; "": none */
	char *method;
	char *path;
	struct conf_pairs query;
	struct conf_pairs headers;
	char *content_type;
	char *body;
	bool has_body;
	struct conf_retry retry;
	usec_t retention; /* USEC_NEVER: for ever */
	usec_t not_after; /* USEC_NEVER: none */
	usec_t delay;
	char *not_before; /* template of a time; "": none */
	bool tombstone;
	struct conf_predicate success;
	struct conf_texts redact; /* JSON pointers */
	struct conf_emit emit;
	char *dead_letter_topic; /* "": "<topic>.dlq" */
};

/* Which answers a provider keeps for a key and gives again. */
enum conf_stores { CONF_STORES_NONE, CONF_STORES_2XX, CONF_STORES_ALL };
enum conf_quoting { CONF_QUOTING_RAW, CONF_QUOTING_STRING };
/* What a request is beside its key; a profile of the user's is always HTTP. */
enum conf_protocol {
	CONF_PROTOCOL_HTTP,
	CONF_PROTOCOL_WEBHOOK, /* signed with the target's secret: Standard Webhooks */
	CONF_PROTOCOL_MAIL,    /* SMTP */
};

struct conf_profile {
	char *name;
	char *header; /* "": no key is sent */
	enum conf_quoting quoting;
	int64_t max_length;
	char *characters; /* "" any visible ASCII, else the allowed set, ranges as in "a-zA-Z0-9_-"
			   */
	usec_t window; /* 0: none, the profile cannot serve idempotent effects; USEC_NEVER: endless
			*/
	enum conf_stores stores;
	struct conf_texts in_progress; /* statuses, "409" */
	struct conf_texts mismatch;    /* statuses that mean: this key with other content */
	bool safe_503;                 /* 503 promises that nothing was done */
	enum conf_protocol protocol;
};

struct conf_http {
	char *relay; /* "127.0.0.1:9464", "[::1]:0": where it listens; "": not at all */
	char *ledger;
	usec_t ready_max_age;
};

struct conf_log {
	enum log_level level;
	enum log_format format;
};

struct conf {
	char *path;
	struct conf_general general;
	struct conf_postgres postgres;
	struct conf_kafka kafka;
	struct conf_relay relay;
	struct conf_ledger ledger;
	struct conf_console console;
	struct conf_http http;
	struct conf_log log;
	struct conf_target *targets;
	size_t target_count;
	struct conf_tenant *tenants;
	size_t tenant_count;
	struct conf_effect *effects;
	size_t effect_count;
	struct conf_profile *profiles; /* the shipped ones first, then the user's */
	size_t profile_count;
	struct conf_places *places; /* private: where each key stands */
};

/* A value from the command line. */
struct conf_flag {
	const char *option; /* "--log-level": where a fault of it stands */
	const char *key;    /* "log.level": a key outside of the lists, no list itself */
	const char *value;
};

/* Where a configuration comes from, and for whom. */
struct conf_source {
	const char *path;
	enum conf_program program;
	const struct conf_flag *flags;
	size_t flag_count;
	/* Opens no file that is named in it: none that holds a secret, none that perhaps is on
	 * another machine. What is wrong with those is then not found. */
	bool closed;
};

/* False: `faults` holds the list, ready to be shown, and *conf_r is untouched. */
MUST_USE bool conf_load(const char *path, enum conf_program program, struct buf *faults,
			struct conf **conf_r);
MUST_USE bool conf_load_from(const struct conf_source *source, struct buf *faults,
			     struct conf **conf_r);
void conf_free(struct conf *conf); /* NULL is fine */

/* "FILE:LINE: effects[0].key", into the caller's buffer. Of a key that has its default: the line
 * where the group around it begins, or no line. Of one from the environment: its variable instead
 * of the file. `key` is written as in the list of keys: "targets[1].url", "ledger.group",
 * "effects[0].request.headers[2]". */
const char *conf_place(const struct conf *conf, const char *key, char *buffer, size_t size);

/* Where the program's connection string stands: "relay.conninfo", "postgres.conninfo". */
const char *conf_conninfo_key(const struct conf *conf, enum conf_program program);

/* The value would be taken for the key. */
MUST_USE bool conf_flag_check(const struct conf_flag *flag, struct err *err);

/* Appends the whole of it as a file, each value followed by where it comes from. Read again, by the
 * same program in the same environment, it is the same. No secret is shown: what may be one by the
 * name of its header is replaced, and a comment says so. */
void conf_print(const struct conf *conf, struct buf *out);

/* By its name this header carries a secret: its value is not shown to anybody. */
bool conf_header_is_secret(const char *name);

const struct conf_profile *conf_profile_find(const struct conf *conf, const char *name);

/* SCHEMA.TABLE, each part as it is or, with a dot or quote in it, as "..." with "" for a quote. The
 * parts are the caller's to free. */
MUST_USE bool conf_table_split(const char *text, struct err *err, char **schema_r, char **table_r);
bool conf_table_is_own(const struct conf_relay *relay);

/* relay.topic in pieces: a column ("${name}"), or text that stands between columns. */
struct conf_piece {
	bool column;
	const char *text;
	size_t length;
};
/* Takes the next one off *rest. False: there is none, or (err is set, else its text is "") the rest
 * cannot be read. */
bool conf_topic_piece(const char **rest, struct err *err, struct conf_piece *piece_r);

/* The first line of a file that holds a secret, without its line end; at most 64 KiB. */
MUST_USE bool conf_read_secret(const char *path, struct err *err, char **secret_r);

#endif
