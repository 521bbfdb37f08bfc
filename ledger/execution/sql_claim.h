/* The statements of claims. Each is one transaction; see sql_execution.h.
 *
 * What is paused is asked for by the claims themselves, so that a pause is in force from its commit
 * on, in every process: counterfoil.pause has few rows. */
#ifndef LEDGER_SQL_CLAIM_H
#define LEDGER_SQL_CLAIM_H

#include "sql_execution.h"

/* The request of a claimed key, of effect_request r as well. */
#define CLAIM_COLUMNS                                                                              \
	KEY_COLUMNS                                                                                \
	", e.provider_key || CASE WHEN s.key_no > 0 THEN '~r' || s.key_no ELSE '' END,"            \
	" r.method, r.url, r.headers,"                                                             \
	" CASE WHEN r.value_is_body THEN coalesce(r.body, r.event_value) ELSE r.body END,"         \
	" r.key_header, e.shadow, r.emit IS NOT NULL, " EMIT_FAULT_OF("r") ", s.tenant"

/* A row s of the due index, and no more than that. */
#define IN_LINE "s.state IN ('pending', 'retry_wait') AND NOT s.waiting AND s.target = $1"

/* Such a row runs alone: it was taken over twice, and has had no answer since, so that it may be
 * what ended its ledgers. A claim asks for that once one could be claimed, for it costs all others
 * time; of paused effects they are put aside with the others. */
#define ALONE     "s.takeovers >= 2 AND s.outcome = 'lost'"
#define NOT_ALONE "(s.takeovers < 2 OR s.outcome IS DISTINCT FROM 'lost')"

/* What is paused, in one row. */
#define PAUSES                                                                                     \
	" z AS MATERIALIZED (SELECT coalesce(bool_or(scope = 'everything'), false) AS everything," \
	"   coalesce(array_agg(name) FILTER (WHERE scope = 'tenant'), '{}') AS tenants,"           \
	"   coalesce(array_agg(name) FILTER (WHERE scope = 'effect'), '{}') AS effects"            \
	"   FROM counterfoil.pause),"
#define ALL_PAUSED     "(SELECT everything FROM z)"
#define PAUSED_TENANTS "((SELECT tenants FROM z)::text[])"
#define PAUSED_EFFECTS "((SELECT effects FROM z)::text[])"

/* Of s, which is due. A row with a send unaccounted for is claimed well inside its provider's
 * window only; any other at any time, but it keeps the window that it has until a whole one and the
 * margin have passed without a send: only then has the provider forgotten the key for certain. What
 * is of a paused effect is picked too, and put aside.
 *
 * Of a serial key only the oldest unfinished row, and none while a younger one runs (ids commit out
 * of order): the CASE fixes the order of its tests, so that the advisory lock is tried for heads
 * only. A scalar subquery is never turned into a hash of all that is in flight, as EXISTS is. */
#define CLAIMABLE_BUT(paused, lock)                                                                \
	" AND (s.window_until IS NULL OR s.unknown_sends = 0 OR now() + $7 < s.window_until)"      \
	" AND CASE"                                                                                \
	"   WHEN e.not_after <= now() THEN false"                                                  \
	"   WHEN e.effect = ANY " PAUSED_EFFECTS " THEN " paused                                   \
	"   WHEN s.serial_key IS NULL THEN true"                                                   \
	"   WHEN EXISTS (SELECT FROM counterfoil.effect_state o"                                   \
	"       WHERE o.serial_key = s.serial_key AND o.target = s.target"                         \
	"         AND o.tenant = s.tenant AND o.serial_key IS NOT NULL AND o.id < s.id"            \
	"         AND o.state IN ('pending', 'retry_wait', 'in_flight', 'uncertain'))"             \
	"     THEN false"                                                                          \
	"   WHEN (SELECT true FROM counterfoil.effect_state o"                                     \
	"       WHERE o.serial_key = s.serial_key AND o.target = s.target"                         \
	"         AND o.tenant = s.tenant AND o.serial_key IS NOT NULL"                            \
	"         AND o.state = 'in_flight' LIMIT 1) THEN false"                                   \
	"   ELSE " lock " END"
#define SERIAL_LOCK                                                                                \
	"pg_try_advisory_xact_lock(1129270861,"                                                    \
	"     hashtext(s.target || chr(1) || s.tenant || chr(1) || s.serial_key))"
#define CLAIMABLE     CLAIMABLE_BUT("true", SERIAL_LOCK)
#define CLAIMABLE_NOW CLAIMABLE_BUT("false", "true") /* not put aside; by whoever may be first */

/* The effect is looked up row by row, and never joined as a whole. */
#define PICKED_FROM                                                                                \
	" s.id, s.due_at, s.state::text AS was,"                                                   \
	" CASE WHEN e.effect = ANY " PAUSED_EFFECTS " THEN e.effect END AS aside,"                 \
	" s.first_sent_at IS NULL OR (s.unknown_sends = 0 AND s.state_since + $6 + $7 <= now())"   \
	"   AS anew"                                                                               \
	" FROM counterfoil.effect_state s,"                                                        \
	"   LATERAL (SELECT effect, not_after FROM counterfoil.effect WHERE id = s.id OFFSET 0) e"

/* Of the rows of `chosen`: those of paused effects leave the due index, the others become ours. */
#define TAKE                                                                                       \
	" put AS (UPDATE counterfoil.effect_state s SET waiting = true, aside = c.aside"           \
	"   FROM chosen c WHERE s.id = c.id AND c.aside IS NOT NULL AND " SYNC_COMMIT              \
	"   RETURNING s.tenant),"                                                                  \
	" u AS (UPDATE counterfoil.effect_state s SET state = 'in_flight', epoch = s.epoch + 1,"   \
	"   owner = $2, deadline = clock_timestamp() + $5, tries = s.tries + 1,"                   \
	"   state_since = now(), aside = NULL, sent_at = CASE WHEN e.marks THEN now() END,"        \
	"   unknown_sends = s.unknown_sends + e.marks::int,"                                       \
	"   first_sent_at = CASE WHEN c.anew AND e.marks THEN now() ELSE s.first_sent_at END,"     \
	"   window_until = CASE WHEN c.anew"                                                       \
	"     THEN CASE WHEN e.mode = 'idempotent' AND e.marks THEN now() + $6 END"                \
	"     ELSE s.window_until END"                                                             \
	"   FROM chosen c,"                                                                        \
	"     LATERAL (SELECT effect, topic, idempotency_key, mode, resend, provider_key,"         \
	"         not_after, shadow,"                                                              \
	"         mode <> 'at_most_once' AND NOT shadow AS marks"                                  \
	"       FROM counterfoil.effect WHERE id = c.id OFFSET 0) e,"                              \
	"     LATERAL (SELECT method, url, headers, body, event_value, value_is_body,"             \
	"         key_header, emit"                                                                \
	"       FROM counterfoil.effect_request WHERE id = c.id OFFSET 0) r"                       \
	"   WHERE s.id = c.id AND c.aside IS NULL AND " SYNC_COMMIT "   RETURNING " CLAIM_COLUMNS  \
	", c.was)"

/* $1 target, $2 owner, $3 bytes of bodies (of more than one row never more), $4 rows, $5 length of
 * the deadline, $6 window (NULL: none, or endless), $7 margin, $8 the first tenant of this walk, $9
 * tenants to walk, $10 tenants that may have none, $11 tenants of another weight than 1, or with a
 * cap, $12 their weights, $13 their rows at most (NULL: any), $14 the floor of due_at of tenant $8.
 *
 * The claim is the send marker as well, but of a key of at_most_once, which has one of its own
 * (SQL_MARK): what was claimed and not sent is then known to be so; and of a shadow, which is never
 * sent.
 *
 * The tenants by skip scan, in their order from $8 on, until more of them have due rows than rows
 * are wanted, or $9 have been seen. Each in its turn has as many rows as its weight is; where all
 * tenants were seen and there is room for more, all have more. Where rows are left over, the next
 * claim has them. While somebody holds an old snapshot, what was claimed since stays in the index,
 * in front of what is due: the floor spares the claim of the first tenant, which mostly is the only
 * one, the walk over it. One row comes back at least: behind the columns of a key is what became of
 * the walk, see struct claim_walk. */
static const char SQL_CLAIM[] =
	"WITH RECURSIVE" PAUSES " t AS ("
	"  (SELECT m.tenant, 1 AS n, 0 AS before, m.due_at <= now() AND m.tenant <> ALL ($10)"
	"      AND m.tenant <> ALL " PAUSED_TENANTS " AS live"
	"    FROM (SELECT s.tenant, s.due_at FROM counterfoil.effect_state s"
	"      WHERE " IN_LINE " AND (s.tenant, s.due_at) >= ($8, $14) AND NOT " ALL_PAUSED
	"      ORDER BY s.tenant, s.due_at, s.id LIMIT 1) m)"
	"  UNION ALL"
	"  SELECT m.tenant, t.n + 1, t.before + t.live::int, m.due_at <= now()"
	"      AND m.tenant <> ALL ($10) AND m.tenant <> ALL " PAUSED_TENANTS
	"    FROM t, LATERAL (SELECT s.tenant, s.due_at FROM counterfoil.effect_state s"
	"      WHERE " IN_LINE " AND s.tenant > t.tenant"
	"      ORDER BY s.tenant, s.due_at, s.id LIMIT 1) m"
	"    WHERE t.n < $9 AND t.before + t.live::int <= $4),"
	" l AS MATERIALIZED (SELECT tenant, n < $9 AND before + live::int <= $4 AS ended"
	"   FROM t ORDER BY n DESC LIMIT 1),"
	" q AS MATERIALIZED (SELECT tenant, n, weight, least(room, greatest(weight,"
	"     CASE WHEN $8 = '' AND (SELECT ended FROM l)"
	"       THEN ceil($4 * weight / sum(weight) OVER ()) END))::bigint AS share"
	"   FROM (SELECT t.tenant, t.n, o.room, coalesce(o.weight, 1)::numeric AS weight"
	"     FROM t LEFT JOIN unnest($11::text[], $12::bigint[], $13::bigint[])"
	"       o(tenant, weight, room) ON o.tenant = t.tenant WHERE t.live) w),"
	" pick AS MATERIALIZED (SELECT p.*, q.tenant, q.n, q.share, q.weight,"
	"     (SELECT octet_length(coalesce(r.body, r.event_value))"
	"       FROM counterfoil.effect_request r WHERE r.id = p.id) AS size"
	"   FROM (SELECT * FROM q ORDER BY n) q, LATERAL (SELECT" PICKED_FROM "     WHERE " IN_LINE
	" AND s.tenant = q.tenant AND s.due_at <= now()"
	"       AND s.due_at >= CASE WHEN q.tenant = $8 THEN $14 ELSE '-infinity' END"
	"       AND (" NOT_ALONE " OR e.effect = ANY " PAUSED_EFFECTS ")" CLAIMABLE
	"     ORDER BY s.due_at, s.id LIMIT q.share FOR UPDATE OF s SKIP LOCKED) p LIMIT $4),"
	" sized AS MATERIALIZED (SELECT *, row_number() OVER w AS place,"
	"     row_number() OVER (PARTITION BY n ORDER BY due_at, id) AS nth,"
	"     coalesce(sum(size) OVER w, 0) AS sum"
	"   FROM pick WINDOW w AS (ORDER BY n, due_at, id)),"
	" chosen AS (SELECT * FROM sized WHERE place = 1 OR sum <= $3)," TAKE
	" SELECT u.*, (SELECT count(*) FROM put) AS aside,"
	"   (SELECT min(tenant) FROM put) AS aside_of,"
	"   c.got >= $4 OR c.got < (SELECT count(*) FROM sized) AS cut, c.more,"
	"   coalesce(l.ended, true) AS ended, l.tenant AS walked,"
	"   v.tenant AS served, v.nth AS got, v.weight::bigint AS weight,"
	"   EXISTS (SELECT FROM counterfoil.effect_state s, LATERAL (SELECT effect, not_after"
	"       FROM counterfoil.effect WHERE id = s.id OFFSET 0) e WHERE " ALONE " AND " IN_LINE
	"     AND s.due_at <= now() AND NOT " ALL_PAUSED
	"     AND s.tenant <> ALL " PAUSED_TENANTS CLAIMABLE_NOW ") AS alone,"
	"   least((SELECT min(due_at) FROM sized WHERE tenant = $8), now() - interval '1 minute')"
	"     AS floor"
	" FROM (SELECT count(*) AS got, coalesce(bool_or(nth >= share), false) AS more,"
	"     max(place) AS last FROM chosen) c"
	"   LEFT JOIN sized v ON v.place = c.last LEFT JOIN l ON true LEFT JOIN u ON true";

/* $1 to $7 as of SQL_CLAIM. The longest due of the keys that run alone. */
static const char SQL_CLAIM_ALONE[] =
	"WITH" PAUSES " chosen AS MATERIALIZED (SELECT" PICKED_FROM "   WHERE " ALONE
	" AND " IN_LINE " AND s.due_at <= now() AND $3 > 0"
	"     AND NOT " ALL_PAUSED " AND s.tenant <> ALL " PAUSED_TENANTS CLAIMABLE
	"   ORDER BY s.due_at, s.id LIMIT $4 FOR UPDATE OF s SKIP LOCKED)," TAKE
	" SELECT u.*, w.* FROM (SELECT (SELECT count(*) FROM put) AS aside,"
	"   (SELECT min(tenant) FROM put) AS aside_of) w LEFT JOIN u ON true";

/* $1 target, $2 tenant, $3 rows. A claim has met keys of a paused effect: those that are next to
 * them in line are put aside too, before the next claim meets them. Gives their number. */
static const char SQL_PUT_ASIDE[] =
	"WITH" PAUSES " pick AS MATERIALIZED (SELECT c.id, e.effect FROM"
	"   (SELECT s.id FROM counterfoil.effect_state s"
	"     WHERE " IN_LINE " AND s.tenant = $2 AND s.due_at <= now()"
	"     ORDER BY s.due_at, s.id LIMIT $3) c,"
	"   LATERAL (SELECT effect FROM counterfoil.effect WHERE id = c.id OFFSET 0) e"
	"   WHERE e.effect = ANY " PAUSED_EFFECTS "),"
	" mine AS MATERIALIZED (SELECT l.id, p.effect FROM (SELECT * FROM pick ORDER BY id) p,"
	"     LATERAL (SELECT s.id, s.state, s.waiting FROM counterfoil.effect_state s"
	"       WHERE s.id = p.id AND " SYNC_COMMIT " OFFSET 0 FOR UPDATE SKIP LOCKED) l"
	"   WHERE l.state IN ('pending', 'retry_wait') AND NOT l.waiting),"
	" put AS (UPDATE counterfoil.effect_state s SET waiting = true, aside = m.effect"
	"   FROM mine m WHERE s.id = m.id RETURNING s.id)"
	" SELECT count(*) FROM put";

/* $1 rows. Of the effects that are not paused any more, those that were due first. A follower of a
 * serial key goes on waiting. Gives their number. */
static const char SQL_TAKE_BACK[] =
	"WITH RECURSIVE e AS ("
	"  (SELECT aside FROM counterfoil.effect_state WHERE aside IS NOT NULL"
	"    ORDER BY aside LIMIT 1)"
	"  UNION ALL"
	"  SELECT n.aside FROM e, LATERAL (SELECT aside FROM counterfoil.effect_state"
	"    WHERE aside IS NOT NULL AND aside > e.aside ORDER BY aside LIMIT 1) n),"
	" pick AS MATERIALIZED (SELECT c.id FROM e, LATERAL (SELECT s.id"
	"     FROM counterfoil.effect_state s WHERE s.aside = e.aside"
	"     ORDER BY s.due_at, s.id LIMIT $1) c"
	"   WHERE NOT EXISTS (SELECT FROM counterfoil.pause p WHERE p.scope = 'effect'"
	"     AND p.name = e.aside) LIMIT $1),"
	" mine AS MATERIALIZED (SELECT s.id FROM counterfoil.effect_state s"
	"   WHERE s.id = ANY (ARRAY(SELECT id FROM pick)) AND " SYNC_COMMIT
	"   ORDER BY s.id FOR UPDATE SKIP LOCKED),"
	" back AS (UPDATE counterfoil.effect_state s SET aside = NULL,"
	"   waiting = s.serial_key IS NOT NULL AND EXISTS (SELECT FROM counterfoil.effect_state o"
	"     WHERE o.serial_key = s.serial_key AND o.target = s.target AND o.tenant = s.tenant"
	"       AND o.serial_key IS NOT NULL AND o.id < s.id"
	"       AND o.state IN ('pending', 'retry_wait', 'in_flight', 'uncertain'))"
	"   FROM mine m WHERE s.id = m.id RETURNING s.id)"
	" SELECT count(*) FROM back";

/* $1 owner, $2 the ids that are known here. What a claim took whose answer never came: nothing of
 * these was sent. A marker is set by none of them: where it is, the result could not be recorded.
 */
static const char SQL_CLAIM_LOST[] =
	"SELECT " CLAIM_COLUMNS ", s.target"
	" FROM counterfoil.effect_state s JOIN counterfoil.effect e ON e.id = s.id"
	" JOIN counterfoil.effect_request r ON r.id = s.id"
	" WHERE s.state = 'in_flight' AND s.owner = $1 AND s.id <> ALL ($2)"
	"   AND (e.mode <> 'at_most_once' OR s.sent_at IS NULL)"
	" ORDER BY s.id";

#undef IN_LINE
#undef ALONE
#undef NOT_ALONE
#undef PAUSES
#undef ALL_PAUSED
#undef PAUSED_TENANTS
#undef PAUSED_EFFECTS
#undef CLAIMABLE_BUT
#undef SERIAL_LOCK
#undef CLAIMABLE
#undef CLAIMABLE_NOW
#undef PICKED_FROM
#undef TAKE

#endif
