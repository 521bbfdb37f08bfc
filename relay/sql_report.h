/* What a relay writes of itself. For displays only: nothing hangs on it, so it need not wait for
 * the disk. */
#ifndef COUNTERFOIL_RELAY_SQL_REPORT_H
#define COUNTERFOIL_RELAY_SQL_REPORT_H

/* $1 the source's name, $2 rows, counted up to so many. Dead, parked. */
static const char sql_dead_counts[] =
	"SELECT (SELECT count(*) FROM (SELECT FROM counterfoil.outbox_dead"
	"  WHERE source = $1 AND NOT parked LIMIT $2) d),"
	" (SELECT count(*) FROM (SELECT FROM counterfoil.outbox_dead"
	"  WHERE source = $1 AND parked LIMIT $2) p)";

/* $1 owner, $2 name, $3 source, $4 role, $5 version, $6 age of the process, $7 backlog, $8 oldest,
 * $9 in flight, $10 batch, $11 published, $12 rows a thousand seconds, $13 median, $14 p99, $15
 * violations, $16 blocked topics. The row of one that has not been seen for long goes; but nobody
 * waits for the row of another while he holds his own: all come back at once when the database
 * does. */
static const char sql_report_relay[] =
	"WITH gone AS (DELETE FROM counterfoil.relay WHERE owner = ANY (ARRAY("
	"  SELECT owner FROM counterfoil.relay"
	"  WHERE seen_at < clock_timestamp() - interval '10 min' AND owner <> $1"
	"  FOR UPDATE SKIP LOCKED)))"
	" INSERT INTO counterfoil.relay AS r (owner, name, source, role, version, started_at, "
	"seen_at,"
	"  backlog, oldest, in_flight, batch, published, rate, latency_p50, latency_p99, "
	"violations,"
	"  blocked)"
	" SELECT $1, $2, $3, $4, $5, clock_timestamp() - $6, clock_timestamp(), $7, $8, $9, $10, "
	"$11,"
	"  $12 / 1000.0, $13, $14, $15, $16"
	" WHERE (SELECT set_config('synchronous_commit', 'off', true)) = 'off'"
	" ON CONFLICT (owner) DO UPDATE SET role = excluded.role, seen_at = excluded.seen_at,"
	"  backlog = excluded.backlog, oldest = excluded.oldest, in_flight = excluded.in_flight,"
	"  batch = excluded.batch, published = excluded.published, rate = excluded.rate,"
	"  latency_p50 = coalesce(excluded.latency_p50, r.latency_p50),"
	"  latency_p99 = coalesce(excluded.latency_p99, r.latency_p99),"
	"  violations = excluded.violations, blocked = excluded.blocked";

/* $1 source; then of each topic: $2 name, $3 pending, $4 oldest, $5 rows a thousand seconds, $6
 * published, $7 state, $8 reason, $9 how long it has not been open. One that is not among them has
 * nothing to tell, and after an hour goes. */
static const char sql_report_topics[] =
	"WITH gone AS (DELETE FROM counterfoil.relay_topic WHERE source = $1 AND topic = ANY "
	"(ARRAY("
	"  SELECT topic FROM counterfoil.relay_topic"
	"  WHERE source = $1 AND seen_at < clock_timestamp() - interval '1 hour'"
	"  AND topic <> ALL ($2) FOR UPDATE SKIP LOCKED)))"
	" INSERT INTO counterfoil.relay_topic AS r (source, topic, pending, oldest, rate, "
	"published,"
	"  state, reason, since, seen_at)"
	" SELECT $1, t.topic, t.pending, t.oldest, t.rate / 1000.0, t.published, t.state, t.reason,"
	"  clock_timestamp() - t.since, clock_timestamp()"
	" FROM unnest($2, $3, $4, $5, $6, $7, $8, $9)"
	"  t(topic, pending, oldest, rate, published, state, reason, since)"
	" WHERE (SELECT set_config('synchronous_commit', 'off', true)) = 'off'"
	" ORDER BY t.topic"
	" ON CONFLICT (source, topic) DO UPDATE SET pending = excluded.pending,"
	"  oldest = excluded.oldest, rate = excluded.rate, published = excluded.published,"
	"  state = excluded.state, reason = excluded.reason, since = excluded.since,"
	"  seen_at = excluded.seen_at";

#endif
