/* Every statement of the relay's screen and of `counterfoil outbox`. As in sql_console.h: planned
 * afresh, never scanning a table, ages by the database's clock. */
#ifndef COUNTERFOIL_SQL_RELAY_H
#define COUNTERFOIL_SQL_RELAY_H

#include "data/sql_console.h"

#define USEC(interval_) "(extract(epoch from " interval_ ") * 1000000)::bigint"

/* Rows of a source that are dead, or parked; $1: count no further. */
#define LEFT_OUT(parked_)                                                                          \
	"(SELECT count(*) FROM (SELECT FROM counterfoil.outbox_dead d WHERE d.source = s.name"     \
	" AND d.parked = " parked_ " LIMIT $1) t)"

#define SOURCE_COLUMNS(X)                                                                          \
	X(SOURCE_NAME, "s.name")                                                                   \
	X(SOURCE_BACKLOG, "r.backlog")                                                             \
	X(SOURCE_OLDEST, USEC("r.oldest"))                                                         \
	X(SOURCE_RATE, "round(r.rate::numeric * 10)::bigint") /* in tenths */                      \
	X(SOURCE_PUBLISHED, "r.published")                                                         \
	X(SOURCE_IN_FLIGHT, "r.in_flight")                                                         \
	X(SOURCE_DEAD, LEFT_OUT("false"))                                                          \
	X(SOURCE_PARKED, LEFT_OUT("true"))                                                         \
	X(SOURCE_BLOCKED, "r.blocked")                                                             \
	X(SOURCE_VIOLATIONS, "r.violations")                                                       \
	X(SOURCE_RELAY, "r.name")                                                                  \
	X(SOURCE_ROLE, "r.role")                                                                   \
	X(SOURCE_STARTED, AGE("r.started_at"))                                                     \
	X(SOURCE_SEEN, AGE("r.seen_at"))                                                           \
	X(SOURCE_P50, USEC("r.latency_p50"))                                                       \
	X(SOURCE_P99, USEC("r.latency_p99"))                                                       \
	X(SOURCE_RELAYS, "(SELECT count(*) FROM counterfoil.relay y WHERE y.source = s.name AND"   \
			 " y.seen_at > now() - interval '1 min')")
enum source_column { SOURCE_COLUMNS(SYMBOL) SOURCE_COLUMN_COUNT };

/* The figures are those of the relay that publishes, or was the last one to. */
static const char SQL_OUTBOXES[] = "SELECT " SOURCE_COLUMNS(
	COMMA) "1 FROM counterfoil.outbox_source s LEFT JOIN LATERAL"
	       " (SELECT * FROM counterfoil.relay x WHERE x.source = s.name"
	       " ORDER BY x.role = 'standby', x.seen_at DESC LIMIT 1) r ON true"
	       " ORDER BY s.name <> 'counterfoil.outbox', s.name LIMIT 50";

#define TOPIC_COLUMNS(X)                                                                           \
	X(TOPIC_SOURCE, "source")                                                                  \
	X(TOPIC_NAME, "coalesce(topic, '')")                                                       \
	X(TOPIC_PENDING, "coalesce(t.pending, 0)")                                                 \
	X(TOPIC_OLDEST, USEC("t.oldest"))                                                          \
	X(TOPIC_RATE, "round(coalesce(t.rate, 0)::numeric * 10)::bigint")                          \
	X(TOPIC_STATE, "coalesce(t.state, '')")                                                    \
	X(TOPIC_DEAD, "coalesce(d.n, 0)")                                                          \
	X(TOPIC_REASON, "coalesce(left(t.reason, 500), '')")                                       \
	X(TOPIC_SINCE, AGE("t.since"))                                                             \
	X(TOPIC_SEEN, AGE("t.seen_at"))
enum topic_column { TOPIC_COLUMNS(SYMBOL) TOPIC_COLUMN_COUNT };

/* $1 dead rows of a source to look at. Those in trouble first. */
static const char SQL_OUTBOX_TOPICS[] = "SELECT " TOPIC_COLUMNS(
	COMMA) "1 FROM (SELECT * FROM counterfoil.relay_topic ORDER BY state = 'open', pending DESC"
	       " LIMIT 200) t FULL JOIN (SELECT source, topic, count(*) AS n FROM"
	       " (SELECT x.source, x.topic FROM counterfoil.outbox_source s, LATERAL (SELECT * FROM"
	       " counterfoil.outbox_dead d WHERE d.source = s.name AND NOT d.parked ORDER BY "
	       "d.died_at DESC,"
	       " d.row_id DESC LIMIT $1) x) y GROUP BY 1, 2) d USING (source, topic)"
	       " ORDER BY coalesce(t.state, 'open') = 'open', coalesce(d.n, 0) = 0,"
	       " coalesce(t.pending, 0) DESC, topic, source LIMIT 200";

#define RELAY_COLUMNS(X)                                                                           \
	X(RELAY_NAME, "r.name")                                                                    \
	X(RELAY_SOURCE, "r.source")                                                                \
	X(RELAY_ROLE, "r.role")                                                                    \
	X(RELAY_SEEN, AGE("r.seen_at"))                                                            \
	X(RELAY_UP, AGE("r.started_at"))                                                           \
	X(RELAY_BATCH, "r.batch")                                                                  \
	X(RELAY_IN_FLIGHT, "r.in_flight")                                                          \
	X(RELAY_VERSION, "r.version")
enum relay_column { RELAY_COLUMNS(SYMBOL) RELAY_COLUMN_COUNT };

static const char SQL_RELAYS[] =
	"SELECT " RELAY_COLUMNS(COMMA) "1 FROM counterfoil.relay r ORDER BY r.role = 'standby',"
				       " r.seen_at DESC, r.name LIMIT 20";

/* Texts of any length come from outside: of each its beginning. */
#define DEAD_COLUMNS(X)                                                                            \
	X(DEAD_SOURCE, "d.source")                                                                 \
	X(DEAD_ID, "d.row_id")                                                                     \
	X(DEAD_EVENT, "d.event_id::text")                                                          \
	X(DEAD_PARKED, "d.parked")                                                                 \
	X(DEAD_TOPIC, "left(d.topic, 500)")                                                        \
	X(DEAD_TYPE, "left(d.type, 500)")                                                          \
	X(DEAD_KEY, "left(d.ordering_key, 1000)")                                                  \
	X(DEAD_HASH, "d.order_hash")                                                               \
	X(DEAD_PARTITION, "d.partition")                                                           \
	X(DEAD_SIZE, "d.size")                                                                     \
	X(DEAD_REASON, "left(d.reason, 2000)")                                                     \
	X(DEAD_AT, "d.died_at")                                                                    \
	X(DEAD_AGE, AGE("d.died_at"))                                                              \
	X(DEAD_CREATED, "d.created_at")                                                            \
	X(DEAD_OWNER, "d.owner")                                                                   \
	X(DEAD_BEHIND, "(SELECT count(*) FROM (SELECT FROM counterfoil.outbox_dead p WHERE"        \
		       " NOT d.parked AND p.source = d.source AND p.order_hash = d.order_hash"     \
		       " AND p.parked LIMIT 10001) t)")
enum dead_column { DEAD_COLUMNS(SYMBOL) DEAD_COLUMN_COUNT };

/* $1 parked, $2 source, $3 topic and $4 ordering key (NULL: any), $5 rows; newest first */
static const char SQL_DEAD_ROWS[] = "SELECT " DEAD_COLUMNS(
	COMMA) "1 FROM counterfoil.outbox_source s, LATERAL (SELECT * FROM counterfoil.outbox_dead "
	       "x"
	       " WHERE x.source = s.name AND x.parked = $1 AND ($3::text IS NULL OR x.topic = $3)"
	       " AND ($4::text IS NULL OR x.ordering_key = $4)"
	       " ORDER BY x.died_at DESC, x.row_id DESC LIMIT $5) d"
	       " WHERE s.name = coalesce($2, s.name)"
	       " ORDER BY d.died_at DESC, d.row_id DESC, d.source, d.event_id LIMIT $5";

#define CUT(column_) "substring(" column_ " FOR 65536)"

#define DEAD_MORE_COLUMNS(X)                                                                       \
	X(DEAD_MESSAGE_KEY, CUT("d.message_key"))                                                  \
	X(DEAD_MESSAGE_KEY_SIZE, "octet_length(d.message_key)::bigint")                            \
	X(DEAD_HEADERS, CUT("d.headers::text"))                                                    \
	X(DEAD_HEADERS_SIZE, "octet_length(d.headers::text)::bigint")                              \
	X(DEAD_PAYLOAD, CUT("d.payload"))                                                          \
	X(DEAD_PAYLOAD_SIZE, "octet_length(d.payload)::bigint")                                    \
	X(DEAD_ROW, CUT("d.row"))                                                                  \
	X(DEAD_ROW_SIZE, "octet_length(d.row)::bigint")
enum dead_more_column { DEAD_MORE_FIRST = DEAD_COLUMN_COUNT - 1, DEAD_MORE_COLUMNS(SYMBOL) };

/* $1 source (NULL: any), $2 row id, $3 event id (NULL: any). An id can be that of several events.
 */
static const char SQL_DEAD_ROW[] = "SELECT " DEAD_COLUMNS(COMMA)
	DEAD_MORE_COLUMNS(COMMA) "1 FROM counterfoil.outbox_source s,"
				 " LATERAL (SELECT * FROM counterfoil.outbox_dead"
				 " x WHERE x.source = s.name AND x.row_id = $2 LIMIT 20) d"
				 " WHERE s.name = coalesce($1, s.name) AND"
				 " d.event_id = coalesce($3::uuid, d.event_id)"
				 " ORDER BY d.source, d.died_at, d.event_id LIMIT 20";

enum behind_column { BEHIND_ID, BEHIND_EVENT, BEHIND_TYPE, BEHIND_PARKED };

/* $1 source, $2 order hash, $3 a row of it that is not meant; in the order of the outbox */
static const char SQL_OF_ITS_KEY[] = "SELECT p.row_id, p.event_id::text, left(p.type, 500), "
				     "p.parked FROM counterfoil.outbox_dead p"
				     " WHERE p.source = $1 AND p.order_hash = $2 AND p.row_id <> $3"
				     " ORDER BY p.source, p.order_hash, p.row_id LIMIT 50";

/* $1 ids: the sources that have dead or parked rows of that number */
static const char SQL_SOURCES_OF[] =
	"SELECT s.name FROM counterfoil.outbox_source s WHERE EXISTS (SELECT FROM "
	"counterfoil.outbox_dead d"
	" WHERE d.source = s.name AND d.row_id = ANY ($1)) ORDER BY s.name LIMIT 20";

enum settle_column { SETTLE_ID, SETTLE_EVENT, SETTLE_RESULT, SETTLE_DETAIL, SETTLE_BEHIND };

/* $1 source, $2 ids, $3 operation, $4 reason, $5 claims, $6 dry run */
#define SETTLE(action_)                                                                            \
	"SELECT row_id, event_id::text, result, detail, behind FROM counterfoil.outbox_" action_   \
	"($1, $2, $3::uuid, $4, $5::jsonb, $6)"
static const char SQL_REQUEUE[] = SETTLE("requeue");
static const char SQL_DISCARD[] = SETTLE("discard");

enum blocked_column { BLOCKED_TOPIC, BLOCKED_REASON, BLOCKED_SINCE };

/* As a relay that is there says. */
static const char SQL_TOPICS_BLOCKED[] = "SELECT topic, coalesce(left(reason, 200), ''), " AGE(
	"since") " FROM counterfoil.relay_topic"
		 " WHERE state IN ('blocked', 'probing') AND seen_at > now() - interval '1 min'"
		 " ORDER BY since, topic LIMIT 8";

#endif
