/* Every statement of `counterfoil conflicts`. */
#ifndef COUNTERFOIL_SQL_CONFLICTS_H
#define COUNTERFOIL_SQL_CONFLICTS_H

#include "data/sql_console.h"

/* c: the conflict, e: the key that stands, s: its state; none of both once that was forgotten. */
#define CLASH_COLUMNS(X)                                                                           \
	X(CLASH_ID, "c.id")                                                                        \
	X(CLASH_TOPIC, "c.topic")                                                                  \
	X(CLASH_PARTITION, "c.partition")                                                          \
	X(CLASH_OFFSET, "c.\"offset\"")                                                            \
	X(CLASH_EFFECT, "c.effect")                                                                \
	X(CLASH_KEY, "c.idempotency_key")                                                          \
	X(CLASH_TARGET, "c.target")                                                                \
	X(CLASH_TENANT, "c.tenant")                                                                \
	X(CLASH_EVENT_ID, "c.event_id")                                                            \
	X(CLASH_LETTER, "c.letter::text")                                                          \
	X(CLASH_SEEN, "c.seen_at")                                                                 \
	X(CLASH_SETTLED, "c.settled_at")                                                           \
	X(CLASH_SETTLED_BY, "c.settled_by")                                                        \
	X(CLASH_NOTE, "c.note")                                                                    \
	X(CLASH_HOLDER, "c.holder")                                                                \
	X(CLASH_HOLDER_KEY, "e.idempotency_key")                                                   \
	X(CLASH_HOLDER_EFFECT, "e.effect")                                                         \
	X(CLASH_HOLDER_STATE, "s.state::text")                                                     \
	X(CLASH_NOW, "now()")
#define HOLDER_OF_CLASH                                                                            \
	" LEFT JOIN LATERAL (SELECT * FROM counterfoil.effect WHERE id = c.holder OFFSET 0) e"     \
	" ON true"                                                                                 \
	" LEFT JOIN LATERAL (SELECT state FROM counterfoil.effect_state WHERE id = c.holder"       \
	" OFFSET 0) s ON true"

/* $1 topic (NULL: all), $2 rows: open ones, the newest first. */
static const char SQL_CLASH_LIST[] =
	"WITH c AS MATERIALIZED (SELECT * FROM counterfoil.conflict c WHERE c.settled_at IS NULL"
	"   AND ($1::text IS NULL OR c.topic = $1) ORDER BY c.id DESC LIMIT $2)"
	" SELECT " CLASH_COLUMNS(COMMA) "1 FROM c" HOLDER_OF_CLASH " ORDER BY c.id DESC";

/* What the two requests have in common; NULL where it is not known. The trace is not compared. */
#define TRACE_BEGINS "position('\\x0a7472616365706172656e743a20'::bytea IN r.headers)"
#define SAME_COLUMNS(X)                                                                            \
	X(SAME_EFFECT, "c.effect = e.effect")                                                      \
	X(SAME_KEY, "c.idempotency_key = e.idempotency_key")                                       \
	X(SAME_METHOD, "c.method = r.method")                                                      \
	X(SAME_URL, "c.url_hash = sha256(convert_to(r.url, 'UTF8'))")                              \
	X(SAME_HEADERS, "c.headers_hash = sha256(CASE WHEN " TRACE_BEGINS                          \
			" > 0 THEN substring(r.headers FOR " TRACE_BEGINS ") ELSE r.headers END)") \
	X(SAME_BODY, "c.body_hash = sha256(coalesce(" BODY ", ''))")                               \
	X(SAME_FINGERPRINT, "c.fingerprint = e.fingerprint")
#define HELD_COLUMNS(X)                                                                            \
	X(HELD_FINGERPRINT, "encode(e.fingerprint, 'hex')")                                        \
	X(HELD_TOPIC, "e.topic")                                                                   \
	X(HELD_PARTITION, "e.partition")                                                           \
	X(HELD_OFFSET, "e.\"offset\"")                                                             \
	X(HELD_EVENT_ID, "e.event_id")                                                             \
	X(HELD_RECORDED, "e.created_at")                                                           \
	X(HELD_KEPT, "r.id IS NOT NULL")                                                           \
	X(HELD_METHOD, "r.method")                                                                 \
	X(HELD_URL, "r.url")                                                                       \
	X(CLASH_METHOD, "c.method")                                                                \
	X(CLASH_FINGERPRINT, "encode(c.fingerprint, 'hex')")

enum clash_column {
	CLASH_COLUMNS(SYMBOL) HELD_COLUMNS(SYMBOL) SAME_COLUMNS(SYMBOL) CLASH_COLUMN_COUNT
};

/* $1 id */
static const char SQL_CLASH_SHOW[] = "SELECT " CLASH_COLUMNS(COMMA) HELD_COLUMNS(COMMA)
	SAME_COLUMNS(COMMA) "1 FROM counterfoil.conflict c" HOLDER_OF_CLASH
			    " LEFT JOIN LATERAL (SELECT * FROM counterfoil.effect_request"
			    " WHERE id = c.holder OFFSET 0) r ON true WHERE c.id = $1";

/* $1 topic, $2 no more than: ids of open ones, from the oldest on. */
static const char SQL_CLASH_IDS[] =
	"SELECT c.id FROM counterfoil.conflict c WHERE c.topic = $1 AND c.settled_at IS NULL"
	" ORDER BY c.id LIMIT $2";

/* $1 ids, $2 operation, $3 reason, $4 claims, $5 dry run */
static const char SQL_CLASH_SETTLE[] =
	"SELECT id, result, detail FROM counterfoil.settle_conflicts($1, $2::uuid, $3, $4::jsonb, "
	"$5)";

#endif
