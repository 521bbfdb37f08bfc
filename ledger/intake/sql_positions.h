/* Statements about where partitions go on, and where topics begin. */
#ifndef LEDGER_SQL_POSITIONS_H
#define LEDGER_SQL_POSITIONS_H

#define SYNC_COMMIT "(SELECT set_config('synchronous_commit', 'on', true)) = 'on'"

/* $1 topics */
static const char SQL_POSITIONS[] =
	"SELECT topic, partition, next_offset FROM counterfoil.intake_position"
	" WHERE topic = ANY ($1)";

/* $1 topics: those that have no position yet. */
static const char SQL_UNBEGUN[] =
	"SELECT t.topic FROM unnest($1) t(topic) WHERE NOT EXISTS"
	" (SELECT FROM counterfoil.intake_position i WHERE i.topic = t.topic) ORDER BY 1";

/* $1 topics, $2 partitions: they have appeared since their topic was begun, so they are read from
 * their beginning. A topic without any position is begun by SQL_POSITIONS_BEGIN. */
static const char SQL_POSITIONS_ADD[] =
	"INSERT INTO counterfoil.intake_position (topic, partition, next_offset)"
	" SELECT n.topic, n.partition, -2 FROM unnest($1, $2) n(topic, partition)"
	" WHERE EXISTS (SELECT FROM counterfoil.intake_position i WHERE i.topic = n.topic)"
	" AND " SYNC_COMMIT " ORDER BY 1, 2 ON CONFLICT (topic, partition) DO NOTHING";

/* $1 topic. A statement of its own: the next one's snapshot must be taken under the lock. */
static const char SQL_POSITIONS_LOCK[] = "SELECT pg_advisory_xact_lock(1129270862, hashtext($1))";

/* $1 topic, $2 offsets, of partition 0 and up: all of a topic's partitions, or none. What is before
 * them the ledger will never know. */
static const char SQL_POSITIONS_BEGIN[] =
	"WITH begun AS (INSERT INTO counterfoil.intake_position (topic, partition, next_offset)"
	"   SELECT $1, (n.ord - 1)::int, n.next FROM unnest($2) WITH ORDINALITY n(next, ord)"
	"   WHERE NOT EXISTS (SELECT FROM counterfoil.intake_position WHERE topic = $1)"
	"   AND " SYNC_COMMIT " RETURNING topic, partition, next_offset),"
	" reach AS (INSERT INTO counterfoil.reach (topic, partition, since)"
	"   SELECT topic, partition, next_offset FROM begun WHERE next_offset > 0"
	"   ON CONFLICT (topic, partition) DO UPDATE SET since = excluded.since),"
	" awaited AS (DELETE FROM counterfoil.topic_awaited a USING (SELECT DISTINCT topic FROM"
	"   begun) b WHERE a.topic = b.topic)"
	" SELECT count(*) FROM begun";

/* $1 topics: those that were not there when a ledger first asked for them, and when that was. */
static const char SQL_AWAITED[] =
	"SELECT topic, since FROM counterfoil.topic_awaited WHERE topic = ANY ($1)";

/* $1 topic */
static const char SQL_AWAIT[] =
	"INSERT INTO counterfoil.topic_awaited (topic) SELECT $1 WHERE NOT EXISTS"
	" (SELECT FROM counterfoil.intake_position WHERE topic = $1) AND " SYNC_COMMIT
	" ON CONFLICT (topic) DO NOTHING";

/* $1 topics, $2 count no further: poison that is open. */
static const char SQL_POISON_OPEN[] =
	"SELECT t.topic, (SELECT count(*) FROM (SELECT FROM counterfoil.poison p"
	"     WHERE p.topic = t.topic AND p.settled_at IS NULL LIMIT $2) x)"
	" FROM unnest($1) t(topic)";

#endif
