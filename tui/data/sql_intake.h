/* Every statement of the commands about intake: poison, unmatched events, what is read again. */
#ifndef COUNTERFOIL_SQL_INTAKE_H
#define COUNTERFOIL_SQL_INTAKE_H

#include "data/sql_console.h"

#define POISON_COLUMNS(X)                                                                          \
	X(POISON_ID, "p.id")                                                                       \
	X(POISON_TOPIC, "p.topic")                                                                 \
	X(POISON_PARTITION, "p.partition")                                                         \
	X(POISON_OFFSET, "p.\"offset\"")                                                           \
	X(POISON_SIZE, "p.size")                                                                   \
	X(POISON_KEPT, "coalesce(octet_length(p.value), 0)::bigint")                               \
	X(POISON_REASON, "p.reason")                                                               \
	X(POISON_ERROR, "left(p.error, 2000)")                                                     \
	X(POISON_SENT, "p.sent_at")                                                                \
	X(POISON_SEEN, "p.seen_at")                                                                \
	X(POISON_SETTLED, "p.settled_at")                                                          \
	X(POISON_SETTLEMENT, "p.settlement")                                                       \
	X(POISON_NOW, "now()")
enum poison_column {
	POISON_COLUMNS(SYMBOL) POISON_COLUMN_COUNT,
	POISON_TOMBSTONE = POISON_COLUMN_COUNT
};

/* $1 topic (NULL: all), $2 rows: open ones. */
static const char SQL_POISON_LIST[] = "SELECT " POISON_COLUMNS(
	COMMA) "1 FROM counterfoil.poison p WHERE p.settled_at IS NULL"
	       " AND ($1::text IS NULL OR p.topic = $1) ORDER BY p.topic, p.id LIMIT $2";

/* $1 id, $2 bytes of the value */
enum poison_body { POISON_BODY_KEY = POISON_COLUMN_COUNT, POISON_BODY_HEADERS, POISON_BODY_VALUE };
static const char SQL_POISON_SHOW[] = "SELECT " POISON_COLUMNS(
	COMMA) "p.key, p.headers, substring(p.value for $2::int) FROM counterfoil.poison p"
	       " WHERE p.id = $1";

/* $1 topic, $2 no more than: ids of open rows, from the oldest on. */
static const char SQL_POISON_IDS[] =
	"SELECT p.id FROM counterfoil.poison p WHERE p.topic = $1 AND p.settled_at IS NULL"
	" ORDER BY p.id LIMIT $2";

/* $1 ids: how many there are, how many of them are open, how many were replayed. */
enum poison_count_column { POISON_KNOWN, POISON_OPEN, POISON_REPLAYED };
static const char SQL_POISON_COUNTS[] =
	"SELECT count(*), count(*) FILTER (WHERE p.settled_at IS NULL),"
	" count(*) FILTER (WHERE p.settlement = 'replayed')"
	" FROM counterfoil.poison p WHERE p.id = ANY ($1)";

/* $1 ids, $2 operation, $3 reason, $4 claims, $5 dry run */
static const char SQL_POISON_DISCARD[] =
	"SELECT id, result, detail FROM counterfoil.discard_poison($1, $2::uuid, $3, $4::jsonb, "
	"$5)";

/* $1 kind, $2 params, $3 operation, $4 reason, $5 claims */
static const char SQL_ORDER_INTAKE[] =
	"SELECT counterfoil.order_intake($1, $2::jsonb, $3::uuid, $4, $5::jsonb)";

/* $1 topic */
enum place_column { PLACE_PARTITION, PLACE_NEXT, PLACE_SINCE };
static const char SQL_PLACES[] =
	"SELECT i.partition, i.next_offset, coalesce(r.since, 0)"
	" FROM counterfoil.intake_position i LEFT JOIN counterfoil.reach r USING (topic, partition)"
	" WHERE i.topic = $1 ORDER BY 1";

/* $1 time */
static const char SQL_MS[] = "SELECT (extract(epoch FROM $1::text::timestamptz) * 1000)::bigint";

/* $1 for how long. Counts stand by the minute, and are few. */
enum counted_column {
	COUNTED_TOPIC,
	COUNTED_TYPE,
	COUNTED_COUNT,
	COUNTED_FIRST,
	COUNTED_LAST,
	COUNTED_NOW
};
static const char SQL_UNMATCHED_EVENTS[] =
	"SELECT topic, type, sum(n)::bigint, min(minute), max(minute), now()"
	" FROM (SELECT * FROM counterfoil.unmatched WHERE minute > now() - $1::interval"
	"   ORDER BY minute DESC LIMIT 100000) u"
	" GROUP BY topic, type ORDER BY 3 DESC, 1, 2 LIMIT 1000";

#endif
