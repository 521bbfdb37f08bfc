/* Statements that settle poison whose message is taken in after all. */
#ifndef LEDGER_SQL_POISON_H
#define LEDGER_SQL_POISON_H

#define SYNC_COMMIT "(SELECT set_config('synchronous_commit', 'on', true)) = 'on'"

/* $1 id, $2 reason (NULL: it is poison no more), $3 error. One row: how many of them were open. */
static const char SQL_SETTLE[] =
	"WITH s AS MATERIALIZED (SELECT * FROM unnest($1, $2, $3) s(id, reason, error)"
	"   WHERE " SYNC_COMMIT "),"
	" mine AS MATERIALIZED (SELECT p.id FROM counterfoil.poison p"
	"   WHERE p.id = ANY ($1) AND p.settled_at IS NULL ORDER BY p.id FOR UPDATE),"
	" settled AS (UPDATE counterfoil.poison p SET"
	"     settled_at = CASE WHEN s.reason IS NULL THEN now() END,"
	"     settlement = CASE WHEN s.reason IS NULL THEN 'replayed' END,"
	"     reason = coalesce(s.reason, p.reason), error = coalesce(s.error, p.error)"
	"   FROM mine JOIN s USING (id) WHERE p.id = mine.id RETURNING p.id)"
	" SELECT count(*) FROM settled";

/* $1 topic, $2 partition, $3 offset, $4 hash: messages that were read again and are no poison. */
static const char SQL_SETTLE_READ[] =
	"WITH s AS MATERIALIZED (SELECT * FROM unnest($1, $2, $3, $4)"
	"   s(topic, partition, \"offset\", hash) WHERE " SYNC_COMMIT "),"
	" mine AS MATERIALIZED (SELECT p.id FROM s, LATERAL (SELECT * FROM counterfoil.poison p"
	"     WHERE p.topic = s.topic AND p.partition = s.partition AND p.\"offset\" = s.\"offset\""
	"       AND p.hash = s.hash AND p.settled_at IS NULL OFFSET 0) p ORDER BY p.id),"
	" settled AS (UPDATE counterfoil.poison p SET settled_at = now(),"
	"     settlement = 'redelivered' FROM mine WHERE p.id = mine.id AND p.settled_at IS NULL"
	"   RETURNING p.id)"
	" SELECT count(*) FROM settled";

#endif
