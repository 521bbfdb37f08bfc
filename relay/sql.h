/* The SQL of the relay that does not depend on the table which it publishes; the rest is in
 * source_sql.h. Each statement has its own Sync, so its own snapshot and its own commit. What must
 * hold after a crash asks for synchronous_commit in a subselect of its WHERE, whatever the server's
 * default is (an unreferenced CTE would never be run). */
#ifndef COUNTERFOIL_RELAY_SQL_H
#define COUNTERFOIL_RELAY_SQL_H

#define SQL_ROW_COST 200 /* what a poll counts for a row beside its size */

/* $1 the source's name. Rises when rows are put back, and with each owner. */
static const char sql_generation[] =
	"SELECT generation FROM counterfoil.outbox_source WHERE name = $1";

/* $1 the source's name. A burial locks the source's row, at the generation that it knows, to its
 * end: those under way are over when this is answered, and a later one moves nothing, whenever it
 * began. It may take its time, for rows that others have locked: what is sent behind this does not
 * wait for that. */
static const char sql_fence[] =
	"UPDATE counterfoil.outbox_source SET generation = generation + 1 WHERE name = $1"
	" AND (SELECT set_config('lock_timeout', '1s', true)) <> ''"
	" RETURNING generation";

/* $1 the source's name. No row: someone puts rows back, so no burial is under way. */
static const char sql_may_bury[] =
	"SELECT FROM counterfoil.outbox_source WHERE name = $1 FOR SHARE SKIP LOCKED";

/* $1 how many. The time in a subselect, so that the index ends there; the rows by their places,
 * which their locks keep, so that nobody joins. */
static const char sql_expire_once[] =
	"DELETE FROM counterfoil.once WHERE ctid = ANY (ARRAY(SELECT ctid FROM counterfoil.once"
	"  WHERE expires_at <= (SELECT clock_timestamp()) ORDER BY expires_at LIMIT $1"
	"  FOR UPDATE SKIP LOCKED))"
	" AND (SELECT set_config('synchronous_commit', 'on', true)) = 'on'";

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
