/* All SQL of the relay. Each statement has its own Sync, so its own snapshot and its own commit.
 * What must hold after a crash asks for synchronous_commit in a subselect of its WHERE, whatever
 * the server's default is (an unreferenced CTE would never be run). */
#ifndef COUNTERFOIL_RELAY_SQL_H
#define COUNTERFOIL_RELAY_SQL_H

/* poll: $1 reading position, $2 and $3 first and last ids of the gaps below it, $4 rows, $5 bytes,
 * $6 size limit of a row. Columns: enum row_column.
 *
 * One snapshot of the gaps and of what lies above the position, by id, cut at so many rows and
 * bytes: what comes is complete up to its last row. The sum of the sizes before a row bounds the
 * bytes, so the first one always comes. A row over the limit comes without what it carries, its
 * texts cut.
 *
 * The LIMIT inside, which the planner cannot foresee, keeps it from fetching and sorting a whole
 * gap. The order holds without a sort: the gaps are given ascending, and the parts of the union are
 * run one after the other. */
static const char sql_poll[] =
	"SELECT id, event_id, left(topic, 250),"
	" CASE WHEN fits THEN type ELSE left(type, 250) END,"
	" nullif(CASE WHEN fits THEN ordering_key ELSE left(ordering_key, 4000) END, ''),"
	" partition,"
	" CASE WHEN fits THEN message_key END,"
	" CASE WHEN fits THEN payload END,"
	" CASE WHEN fits AND headers IS NOT NULL THEN"
	"  (SELECT array_agg(ARRAY[h.key, h.value]) FROM jsonb_each_text(headers) h) END,"
	" created_at, n, fits"
	" FROM (SELECT *, n <= $6 AS fits, sum((CASE WHEN n <= $6 THEN n ELSE 0 END + 200)::int4)"
	"   OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before"
	"  FROM (SELECT *, coalesce(octet_length(payload), 0)::int8"
	"    + coalesce(octet_length(message_key), 0) + coalesce(octet_length(ordering_key), 0)"
	"    + octet_length(type) + coalesce(pg_column_size(headers), 0) AS n"
	"   FROM (SELECT o.* FROM unnest($2, $3) g(first, last), LATERAL"
	"     (SELECT * FROM counterfoil.outbox WHERE id >= g.first AND id <= g.last"
	"      ORDER BY id LIMIT least($4, g.last - g.first + 1)) o"
	"    UNION ALL"
	"    (SELECT * FROM counterfoil.outbox WHERE id > $1 ORDER BY id LIMIT $4)"
	"    LIMIT $4) u) s) f"
	" WHERE coalesce(before, 0) < $5";

#define SQL_ROW_COST 200 /* what sql_poll counts for a row beside its size */

/* The transactions that hold the lock which a writer takes before it draws an id. Told by their
 * virtual id: a prepared transaction has no pid. */
static const char sql_holders[] =
	"SELECT virtualtransaction FROM pg_locks"
	" WHERE locktype = 'relation' AND relation = 'counterfoil.outbox'::regclass"
	" AND mode = 'RowExclusiveLock' AND granted AND pid IS DISTINCT FROM pg_backend_pid()"
	" AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/* $1 ids, $2 event ids, $3 lease, $4 token. By both ids, for after a crash of an asynchronous
 * writer the server gives an id out again. A lost deletion is a duplicate, never a loss: it alone
 * need not wait for the disk. The arrays stand in subselects so that the planner, not knowing their
 * length, looks each id up and never reads the whole table for a join. */
static const char sql_delete[] =
	"DELETE FROM counterfoil.outbox o"
	" USING unnest((SELECT $1::int8[]), (SELECT $2::uuid[])) d(id, event_id)"
	" WHERE o.id = d.id AND (o.event_id = d.event_id) IS TRUE"
	" AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off'"
	" AND EXISTS (SELECT FROM counterfoil.lease l WHERE l.name = $3 AND l.token = $4)";

/* $1 how many */
static const char sql_expire_once[] =
	"DELETE FROM counterfoil.once o USING (SELECT scope, key FROM counterfoil.once"
	"  WHERE expires_at <= clock_timestamp() ORDER BY expires_at LIMIT $1"
	"  FOR UPDATE SKIP LOCKED) e"
	" WHERE o.scope = e.scope AND o.key = e.key"
	" AND (SELECT set_config('synchronous_commit', 'on', true)) = 'on'";

/* $1 rows, counted up to so many. Both by id, so that the index alone is read, from the end at
 * which the relay reads; the row with the lowest id is about the oldest. */
static const char sql_measure[] =
	"SELECT (SELECT count(*) FROM (SELECT id FROM counterfoil.outbox ORDER BY id LIMIT $1) c),"
	" coalesce((SELECT CASE WHEN isfinite(created_at) THEN"
	"   greatest(extract(epoch FROM clock_timestamp() - created_at) * 1000000, 0)::int8 END"
	"  FROM counterfoil.outbox ORDER BY id LIMIT 1), 0)";

/* What tells one run of a server from the next: after a crash ids may have been given out again. */
#define SQL_IDENTITY                                                                               \
	" extract(epoch FROM pg_postmaster_start_time())::text"                                    \
	" || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)"

/* $1 lease, $2 owner, $3 length, $4 the token that this process held last (0: none).
 * One row: the new token, or NULL; who held it before, and for how many microseconds to come; the
 * server's identity. Free is what has ended, what ends later than its own length allows (the clock
 * jumped), and what this very process held last. */
static const char sql_acquire[] =
	"WITH old AS (SELECT owner, until FROM counterfoil.lease WHERE name = $1),"
	" taken AS (INSERT INTO counterfoil.lease AS l (name, owner, token, until, length)"
	"  SELECT $1, $2, 1, clock_timestamp() + $3, $3"
	"  WHERE (SELECT set_config('synchronous_commit', 'on', true)) = 'on'"
	"  ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, token = l.token + 1,"
	"   until = clock_timestamp() + $3, length = $3"
	"  WHERE l.until <= clock_timestamp() OR l.until > clock_timestamp() + l.length"
	"   OR (l.owner = excluded.owner AND l.token = $4)"
	"  RETURNING token)"
	" SELECT taken.token, old.owner,"
	"  (extract(epoch FROM old.until - clock_timestamp()) * 1000000)::int8," SQL_IDENTITY
	" FROM (VALUES (1)) one LEFT JOIN taken ON true LEFT JOIN old ON true";

/* $1 lease, $2 owner, $3 length, $4 token. No row: it is no longer ours. */
static const char sql_renew[] =
	"UPDATE counterfoil.lease SET until = clock_timestamp() + $3, length = $3"
	" WHERE name = $1 AND owner = $2 AND token = $4"
	" AND (SELECT set_config('synchronous_commit', 'on', true)) = 'on'"
	" RETURNING token, NULL::text, NULL::int8," SQL_IDENTITY;
#undef SQL_IDENTITY

/* $1 lease, $2 owner, $3 the token that this process held last: an answer with a newer one may
 * still have been on its way. The owner '' tells the next one that nothing was left behind. */
static const char sql_release[] =
	"UPDATE counterfoil.lease SET until = clock_timestamp(), owner = ''"
	" WHERE name = $1 AND owner = $2 AND token >= $3"
	" AND (SELECT set_config('synchronous_commit', 'on', true)) = 'on'";

#endif
