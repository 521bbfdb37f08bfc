/* Every statement of expiry. Each is one transaction.
 *
 * Lock order: expiry, intake_position, then effect_state by id, of which it skips what is locked;
 * nobody locks the other rows of a finished key. So it never waits with a key in its hands. */
#ifndef LEDGER_SQL_EXPIRY_H
#define LEDGER_SQL_EXPIRY_H

#define SYNC_COMMIT "(SELECT set_config('synchronous_commit', 'on', true)) = 'on'"

/* $1 owner, $2 for how long, $3 the longest rest. One row: it is ours and something is to do; where
 * the walk goes on. A time further away than it could have been set means that the clock jumped. */
static const char SQL_EXPIRY_TAKE[] =
	"UPDATE counterfoil.expiry SET owner = $1, until = clock_timestamp() + $2::interval"
	" WHERE (owner = $1 OR until <= clock_timestamp()"
	"     OR until > clock_timestamp() + $2::interval)"
	"   AND (next_at <= clock_timestamp() OR next_at > clock_timestamp() + $3::interval)"
	"   AND " SYNC_COMMIT " RETURNING cursor";

/* $1 after this id, $2 rows. The finished keys of a page of all keys, and its last one. A scalar
 * subquery is never turned into a hash of the whole table, as EXISTS is; so it is with = ANY below,
 * in place of joins. */
static const char SQL_EXPIRY_PAGE[] =
	"WITH page AS MATERIALIZED (SELECT s.id, s.epoch, s.state, s.state_since, s.completed_at,"
	"     s.window_until, row_number() OVER (ORDER BY s.id) = $2 AS last"
	"   FROM counterfoil.effect_state s WHERE s.id > $1 ORDER BY s.id LIMIT $2)"
	" SELECT p.id, p.epoch, p.state::text,"
	"   e.effect, e.topic, p.state_since, coalesce(p.completed_at, p.state_since), "
	"p.window_until,"
	"   coalesce((SELECT true FROM counterfoil.effect_request r WHERE r.id = p.id), false),"
	"   coalesce((SELECT true FROM counterfoil.attempt a WHERE a.effect_id = p.id LIMIT 1),"
	"     false), p.last, now()"
	" FROM page p LEFT JOIN counterfoil.effect e ON e.id = p.id"
	" WHERE p.state IN ('completed', 'cancelled', 'pruned') OR p.last"
	" ORDER BY p.id";

/* $1 owner, $2 where the walk was, $3 where it goes on, $4 pause, $5 the lease, which ends with a
 * round ($3 = 0); arrays of equal length: $6 id, $7 epoch, $8 state, $9 prune, $10 forget,
 * $11 request, $12 attempts.
 *
 * The cursor moves by compare-and-set, so that of two walkers one writes. The numbers that were
 * decided on stand as long as the epoch and the state do. A pruned key is the same row still, with
 * all that intake compares; a forgotten one leaves all tables at once, so that intake finds a key
 * whole or not at all. A result that comes late may have left an attempt behind even then. What
 * came before a forgotten key in its partition may be unknown too: see counterfoil.reach. A key
 * whose event is open poison, for another effect's key could not be made of it, is not forgotten:
 * that can be replayed at any time. Nor is one whose event will be read again, since positions went
 * back: they are locked before any key (so they are counted), and none goes back meanwhile. */
static const char SQL_EXPIRY_STEP[] =
	"WITH held AS (UPDATE counterfoil.expiry SET cursor = $3::bigint,"
	"     next_at = clock_timestamp() + $4::interval, until = clock_timestamp() +"
	"       CASE WHEN $3::bigint = 0 THEN '0'::interval ELSE $5::interval END"
	"   WHERE owner = $1 AND cursor = $2 AND " SYNC_COMMIT " RETURNING cursor),"
	" r AS MATERIALIZED (SELECT * FROM unnest($6::bigint[], $7::int[], $8::text[], $9::bool[],"
	"     $10::bool[], $11::bool[], $12::bool[])"
	"     r(id, epoch, state, prune, forget, request, attempts)"
	"   WHERE EXISTS (SELECT FROM held)),"
	" place AS MATERIALIZED (SELECT i.topic, i.partition, i.next_offset"
	"   FROM counterfoil.intake_position i WHERE (i.topic, i.partition) IN (SELECT e.topic,"
	"     e.partition FROM r, LATERAL (SELECT x.topic, x.partition FROM counterfoil.effect x"
	"     WHERE x.id = r.id OFFSET 0) e WHERE r.forget)"
	"   ORDER BY i.topic, i.partition FOR SHARE),"
	" mine AS MATERIALIZED (SELECT s.id, r.prune, r.forget, r.request, r.attempts"
	"   FROM counterfoil.effect_state s JOIN r ON r.id = s.id"
	"   WHERE s.id = ANY ($6) AND s.epoch = r.epoch AND s.state = r.state::counterfoil.state"
	"     AND s.state IN ('completed', 'cancelled', 'pruned')"
	"     AND (s.state = 'pruned') = r.forget AND NOT s.emit_due"
	"     AND NOT (r.forget AND coalesce((SELECT true FROM counterfoil.effect e,"
	"         LATERAL (SELECT FROM counterfoil.poison p WHERE p.topic = e.topic"
	"           AND p.partition = e.partition AND p.\"offset\" = e.\"offset\""
	"           AND p.settled_at IS NULL OFFSET 0) p"
	"       WHERE e.id = s.id LIMIT 1), false))"
	"     AND NOT (r.forget AND coalesce((SELECT true FROM counterfoil.effect e"
	"       JOIN place i USING (topic, partition)"
	"       WHERE e.id = s.id AND e.\"offset\" >= i.next_offset), false))"
	"     AND (SELECT count(*) FROM place) >= 0"
	"   ORDER BY s.id FOR UPDATE OF s SKIP LOCKED),"
	" pruned AS (UPDATE counterfoil.effect_state s SET state = 'pruned', epoch = s.epoch + 1,"
	"     state_since = now()"
	"   WHERE s.id = ANY (ARRAY(SELECT id FROM mine WHERE prune)) RETURNING s.id),"
	" request AS (DELETE FROM counterfoil.effect_request q"
	"   WHERE q.id = ANY (ARRAY(SELECT id FROM mine WHERE prune OR request)) RETURNING q.id),"
	" attempt AS (DELETE FROM counterfoil.attempt a"
	"   WHERE a.effect_id = ANY (ARRAY(SELECT id FROM mine WHERE prune OR attempts OR "
	"forget))),"
	" effect AS (DELETE FROM counterfoil.effect e"
	"   WHERE e.id = ANY (ARRAY(SELECT id FROM mine WHERE forget))"
	"   RETURNING e.id, e.topic, e.partition, e.\"offset\"),"
	" reach AS (INSERT INTO counterfoil.reach AS r (topic, partition, since)"
	"   SELECT topic, partition, max(\"offset\") + 1 FROM effect GROUP BY 1, 2 ORDER BY 1, 2"
	"   ON CONFLICT (topic, partition) DO UPDATE SET since = greatest(r.since, "
	"excluded.since)),"
	" state AS (DELETE FROM counterfoil.effect_state s"
	"   WHERE s.id = ANY (ARRAY(SELECT id FROM mine WHERE forget)))"
	" SELECT EXISTS (SELECT FROM held), (SELECT count(*) FROM pruned),"
	"   (SELECT count(*) FROM effect), (SELECT count(*) FROM request)";

/* $1 how long, $2 rows. What people did, poison and conflicts that were settled, counts of events
 * that nobody asked for; open poison and conflicts stay. One row: how many went. */
static const char SQL_EXPIRY_AUDIT[] = "SELECT counterfoil.forget_audit($1, $2) WHERE " SYNC_COMMIT;

static const char SQL_EXPIRY_POISON[] =
	"WITH old AS MATERIALIZED (SELECT id FROM counterfoil.poison"
	"   WHERE settled_at < now() - $1::interval AND " SYNC_COMMIT
	"   ORDER BY settled_at LIMIT $2),"
	" gone AS (DELETE FROM counterfoil.poison p USING old WHERE p.id = old.id RETURNING p.id)"
	" SELECT count(*) FROM gone";

static const char SQL_EXPIRY_CONFLICTS[] =
	"WITH old AS MATERIALIZED (SELECT id FROM counterfoil.conflict"
	"   WHERE settled_at < now() - $1::interval AND " SYNC_COMMIT
	"   ORDER BY settled_at LIMIT $2),"
	" gone AS (DELETE FROM counterfoil.conflict c USING old WHERE c.id = old.id RETURNING c.id)"
	" SELECT count(*) FROM gone";

static const char SQL_EXPIRY_UNMATCHED[] =
	"WITH old AS MATERIALIZED (SELECT topic, type, minute, instance FROM counterfoil.unmatched"
	"   WHERE minute < now() - $1::interval AND " SYNC_COMMIT
	"   ORDER BY minute LIMIT $2 FOR UPDATE SKIP LOCKED),"
	" gone AS (DELETE FROM counterfoil.unmatched u USING old o WHERE u.topic = o.topic"
	"   AND u.type = o.type AND u.minute = o.minute AND u.instance = o.instance"
	"   RETURNING u.topic)"
	" SELECT count(*) FROM gone";

/* A draft that nobody has confirmed is refused after an hour, so it can be cleared behind that; $1
 * as above for what has ended. */
#define OLD_OPERATIONS                                                                             \
	"(SELECT o.id FROM counterfoil.operation o WHERE o.state = 'draft'"                        \
	"   AND o.created_at < now() - interval '65 min' ORDER BY o.created_at LIMIT 100)"         \
	" UNION ALL (SELECT o.id FROM counterfoil.operation o"                                     \
	"   WHERE o.ended_at < now() - $1::interval ORDER BY o.ended_at LIMIT 100)"

static const char SQL_EXPIRY_ITEMS[] =
	"WITH o AS MATERIALIZED (" OLD_OPERATIONS "),"
	" gone AS (DELETE FROM counterfoil.operation_item i"
	"   WHERE i.ctid = ANY (ARRAY(SELECT x.ctid FROM o, LATERAL"
	"     (SELECT y.ctid FROM counterfoil.operation_item y WHERE y.operation_id = o.id"
	"     ORDER BY y.effect_id LIMIT $2) x LIMIT $2))"
	"   AND " SYNC_COMMIT " RETURNING i.effect_id)"
	" SELECT count(*) FROM gone";

static const char SQL_EXPIRY_OPERATIONS[] =
	"WITH o AS MATERIALIZED (" OLD_OPERATIONS "),"
	" gone AS (DELETE FROM counterfoil.operation x WHERE x.id = ANY (ARRAY(SELECT o.id FROM o"
	"   WHERE (SELECT true FROM counterfoil.operation_item i WHERE i.operation_id = o.id"
	"     LIMIT 1) IS NULL LIMIT $2)) AND " SYNC_COMMIT " RETURNING x.id)"
	" SELECT count(*) FROM gone";
#undef OLD_OPERATIONS

#endif
