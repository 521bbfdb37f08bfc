/* Every statement of execution: lease, claim, result, take-over, targets. Each is one transaction.
 *
 * Lock order: effect_state by id, then outbox. A result locks its rows ORDER BY id FOR UPDATE
 * first; claim, take-over and expiry skip what is locked, and so does whoever frees a follower, for
 * that is of no order. set_config() stands in a WHERE, since a CTE that nothing refers to is never
 * run: without synchronous_commit a crash of the database would lose a marker after its send. */
#ifndef LEDGER_SQL_EXECUTION_H
#define LEDGER_SQL_EXECUTION_H

#include "rules/emit.h"
#include "wire.h"

#define SYNC_COMMIT "(SELECT set_config('synchronous_commit', 'on', true)) = 'on'"

/* --- instance -----------------------------------------------------------------------------------
 */

/* A copy that came into the original's place, with every connection at once, gives no lease:
 * nothing is claimed on it before somebody has looked whose it is. */
#define ADOPTED                                                                                    \
	"EXISTS (SELECT FROM counterfoil.installation i, pg_control_system() c"                    \
	"   WHERE i.system_identifier = c.system_identifier::text)"

/* $1 name, $2 version, $3 lease. No row: the database is a copy. */
static const char SQL_INSTANCE_NEW[] =
	"INSERT INTO counterfoil.instance (program, name, version, until)"
	" SELECT 'ledger', $1, $2, clock_timestamp() + $3 WHERE " ADOPTED " AND " SYNC_COMMIT
	" RETURNING id";

/* $1 id, $2 lease. No row: it had run out, and the keys may have been taken over already; or the
 * database is a copy. */
static const char SQL_INSTANCE_RENEW[] =
	"UPDATE counterfoil.instance SET seen_at = clock_timestamp(), until = clock_timestamp() + "
	"$2"
	" WHERE id = $1 AND until > clock_timestamp() AND " ADOPTED " AND " SYNC_COMMIT
	" RETURNING id";
#undef ADOPTED

static const char SQL_INSTANCE_RELEASE[] =
	"UPDATE counterfoil.instance SET until = least(until, clock_timestamp())"
	" WHERE id = $1 AND " SYNC_COMMIT;

static const char SQL_INSTANCE_FORGET[] =
	"DELETE FROM counterfoil.instance i WHERE i.until < now() - interval '1 day'"
	" AND NOT EXISTS (SELECT FROM counterfoil.effect_state s"
	"   WHERE s.owner = i.id AND s.state = 'in_flight') AND " SYNC_COMMIT;

/* --- key ----------------------------------------------------------------------------------------
 */

/* A key as decisions see it, of effect_state s and effect e; key.c reads them in this order. */
#define KEY_COLUMNS                                                                                \
	"s.id, s.epoch, s.owner, s.replays, s.sent_at IS NOT NULL, s.state_since, e.effect,"       \
	" e.topic, e.idempotency_key, e.mode, e.resend, s.tries, s.attempts, s.throttled, "        \
	"s.stalled,"                                                                               \
	" s.unknown_sends, s.unknown_before, s.window_until, e.not_after, s.first_sent_at"

/* Why nothing can be emitted; NULL: there is nothing to emit, or it can. */
#define EMIT_FAULT_OF(request)                                                                     \
	"CASE WHEN substr(" request ".emit, 1, 1) = '" EMIT_FAULT "'"                              \
	" THEN convert_from(substr(" request ".emit, 2), 'UTF8') END"

/* $1 id, $2 epoch, $3 owner: the send markers of at_most_once, durable before a byte leaves. Only a
 * key that is returned may be sent. What is locked is not waited for: somebody acts on it. Rows are
 * looked up by their id: the planner would look for each among all that their owner ever claimed.
 * In the order of ids, as they are given. */
static const char SQL_MARK[] =
	"WITH mine AS MATERIALIZED (SELECT l.id"
	"   FROM unnest($1::bigint[], $2::int[], $3::bigint[]) r(id, epoch, owner),"
	"     LATERAL (SELECT id, state, epoch, owner, sent_at FROM counterfoil.effect_state"
	"       WHERE id = r.id AND " SYNC_COMMIT " FOR UPDATE SKIP LOCKED OFFSET 0) l"
	"   WHERE l.state = 'in_flight' AND l.epoch = r.epoch AND l.owner = r.owner"
	"     AND l.sent_at IS NULL)"
	" UPDATE counterfoil.effect_state s SET sent_at = now(),"
	"   first_sent_at = coalesce(s.first_sent_at, now()), unknown_sends = s.unknown_sends + 1"
	" FROM mine WHERE s.id = mine.id RETURNING s.id";

/* Of an attempt that left nothing: whether its marker was set is known here only, since the answer
 * to it may have been lost. A window did not begin with it. */
#define UNSENT_SET                                                                                 \
	"   unknown_sends = s.unknown_sends"                                                       \
	"     + CASE WHEN r.unsent AND s.sent_at IS NULL THEN 0 ELSE r.unknown END,"               \
	"   first_sent_at = CASE WHEN r.unsent AND s.first_sent_at = s.sent_at THEN NULL"          \
	"     ELSE s.first_sent_at END,"                                                           \
	"   window_until = CASE WHEN r.unsent AND s.first_sent_at = s.sent_at THEN NULL"           \
	"     ELSE s.window_until END,"                                                            \
	"   sent_at = CASE WHEN r.unsent THEN NULL ELSE s.sent_at END,"

/* --- what follows from the end of a key ----------------------------------------------------------
 */

/* These read the CTEs r (what was asked for, numbered by ord) and u (what was changed: the row of
 * effect_state as it is now, with ord). Rows of the outbox are written in the order of ord, which
 * is that of the keys. */

/* A key made dead sends the event that died to its dead-letter topic, in the same transaction: the
 * event as it came, and why it died; see dead_letter.h. Of a letter that would pass what a broker
 * takes by default the value is left out, and what else is too large. */
#define DEAD_LETTERS                                                                               \
	" letter AS (SELECT ord, r.dl_id, r.dl_topic, e.event_type, e.subject, q.event_key,"       \
	"     CASE WHEN q.value_is_body THEN coalesce(q.event_value, q.body)"                      \
	"       ELSE q.event_value END AS value,"                                                  \
	"     coalesce(convert_from(q.event_headers, 'UTF8')::jsonb, '{}') AS kept,"               \
	"     jsonb_build_object("                                                                 \
	"       '" WIRE_EVENT_ID "', e.event_id, '" WIRE_DEAD_REASON "', r.dl_reason,"             \
	"       '" WIRE_DEAD_EFFECT "', e.effect, '" WIRE_DEAD_ATTEMPTS "', u.attempts::text,"     \
	"       '" WIRE_DEAD_ORIGIN "', e.topic || '/' || e.partition || '/' || e.\"offset\")"     \
	"       AS own"                                                                            \
	"   FROM u JOIN r USING (ord),"                                                            \
	"     LATERAL (SELECT * FROM counterfoil.effect WHERE id = u.id OFFSET 0) e,"              \
	"     LATERAL (SELECT * FROM counterfoil.effect_request WHERE id = u.id OFFSET 0) q"       \
	"   WHERE u.state = 'dead' AND r.dl_id IS NOT NULL),"                                      \
	" sized AS (SELECT *, octet_length(kept::text) AS heads,"                                  \
	"     coalesce(octet_length(value), 0) AS size,"                                           \
	"     990000 - octet_length(own::text) - coalesce(octet_length(event_key), 0) AS room"     \
	"   FROM letter),"                                                                         \
	" letters AS (INSERT INTO counterfoil.outbox"                                              \
	"   (event_id, topic, type, ordering_key, message_key, payload, headers)"                  \
	"   SELECT dl_id, dl_topic, coalesce(nullif(event_type, ''), 'unknown'),"                  \
	"     nullif(subject, ''), CASE WHEN room > 0 THEN event_key END,"                         \
	"     CASE WHEN heads + size <= room THEN value END,"                                      \
	"     CASE WHEN heads <= room THEN kept ELSE '{}' END || own || CASE"                      \
	"       WHEN heads + size <= room THEN '{}'"                                               \
	"       ELSE jsonb_build_object('" WIRE_VALUE_OMITTED "', size::text) END"                 \
	"   FROM sized ORDER BY ord ON CONFLICT (event_id) DO NOTHING),"

/* A completed key emits what was rendered at intake; now the provider's id is known. A key without
 * one emits null in its place, or nothing between quotes. */
#define EMITS                                                                                      \
	" emit AS (SELECT ord, r.emit_id, convert_from(q.emit, 'UTF8')::jsonb AS emit,"            \
	"     to_json(u.provider_id)::text AS name"                                                \
	"   FROM u JOIN r USING (ord),"                                                            \
	"     LATERAL (SELECT emit FROM counterfoil.effect_request WHERE id = u.id OFFSET 0) q"    \
	"   WHERE u.state = 'completed' AND r.emit_id IS NOT NULL AND q.emit IS NOT NULL),"        \
	" emits AS (INSERT INTO counterfoil.outbox"                                                \
	"   (event_id, topic, type, ordering_key, payload, headers)"                               \
	"   SELECT emit_id, emit->>'topic', emit->>'type', emit->>'key',"                          \
	"     convert_to(replace(replace(emit->>'payload',"                                        \
	"       chr(1), coalesce(substr(name, 2, length(name) - 2), '')),"                         \
	"       chr(2), coalesce(name, 'null')), 'UTF8'),"                                         \
	"     emit->'headers'"                                                                     \
	"   FROM emit ORDER BY ord ON CONFLICT (event_id) DO NOTHING),"

/* A finished head frees the next of its serial key. What is locked is not waited for, whoever has
 * it: a person's order, or a page of many, which may want a key of ours next. The sweep frees it.
 */
#define FOLLOWERS                                                                                  \
	" next AS MATERIALIZED (SELECT l.id FROM u, LATERAL ("                                     \
	"   SELECT q.id FROM counterfoil.effect_state q WHERE q.target = u.target"                 \
	"     AND q.tenant = u.tenant AND q.serial_key = u.serial_key AND q.serial_key IS NOT "    \
	"NULL"                                                                                     \
	"     AND q.state IN ('pending', 'retry_wait', 'in_flight', 'uncertain') AND q.id <> u.id" \
	"   ORDER BY q.id LIMIT 1) h, LATERAL (SELECT f.id, f.waiting"                             \
	"   FROM counterfoil.effect_state f WHERE f.id = h.id FOR UPDATE SKIP LOCKED OFFSET 0) l"  \
	"   WHERE u.serial_key IS NOT NULL AND u.state IN ('completed', 'dead') AND l.waiting),"   \
	" freed AS (UPDATE counterfoil.effect_state f SET waiting = false FROM next"               \
	"   WHERE f.id = next.id RETURNING f.id)"

#define ENDED                                                                                      \
	FOLLOWERS                                                                                  \
	" SELECT ARRAY(SELECT ord FROM u ORDER BY 1) AS changed, (SELECT count(*) "                \
	"FROM freed) AS freed"

/* --- result -------------------------------------------------------------------------------------
 */

/* Arrays of equal length, sorted by id: $1 id, $2 epoch, $3 owner, $4 n, $5 state, $6 outcome,
 * $7 http_status, $8 curl_code, $9 error_class, $10 due_at, $11..$14 unknown_sends, attempts,
 * throttled and stalled to add, $15 unsent, $16 provider_id, $17 started_at, $18 took_us, $19
 * error, $20 provider_key, $21 response_head, $22 response_body, $23 truncated, $24 emit_failed,
 * $25 dl_id (NULL: no dead letter), $26 dl_topic, $27 dl_reason, $28 stored, $29 emit_id (NULL:
 * nothing is emitted), $30 emit_due: neither letter nor event is written, a sweep does it later.
 *
 * A result counts while its claim is in force: the same epoch, the same owner, still in flight. One
 * exception: an answer that says applied completes the key that a take-over of this very claim made
 * uncertain, when nobody has acted since (whoever acts raises the epoch). What matches no row is
 * kept as evidence. The unique index of attempt makes the second sending of a statement whose
 * answer was lost harmless. OFFSET 0 keeps the tests behind the lock, and each row looked up by its
 * id: the planner would read all that is in flight and all that is uncertain. */
#define RESULT(events)                                                                             \
	"WITH r AS MATERIALIZED (SELECT * FROM unnest($1::bigint[], $2::int[], $3::bigint[],"      \
	"   $4::int[], $5::text[], $6::text[], $7::int[], $8::int[], $9::text[],"                  \
	"   $10::timestamptz[], $11::int[], $12::int[], $13::int[], $14::int[], $15::bool[],"      \
	"   $16::text[], $17::timestamptz[], $18::bigint[], $19::text[], $20::text[],"             \
	"   $21::bytea[], $22::bytea[], $23::bool[], $24::bool[], $25::uuid[], $26::text[],"       \
	"   $27::text[], $28::bool[], $29::uuid[], $30::bool[])"                                   \
	"   WITH ORDINALITY r(id, epoch, owner, n, state, outcome, http, curl, error_class,"       \
	"     due_at, unknown, attempts, throttled, stalled, unsent, provider_id, started, took,"  \
	"     error, provider_key, head, body, truncated, emit_failed, dl_id, dl_topic, "          \
	"dl_reason,"                                                                               \
	"     stored, emit_id, emit_due, ord)),"                                                   \
	" mine AS MATERIALIZED (SELECT r.*, s.state = 'uncertain' AS late"                         \
	"   FROM r, LATERAL (SELECT state, epoch, owner FROM counterfoil.effect_state"             \
	"     WHERE id = r.id AND " SYNC_COMMIT " FOR UPDATE OFFSET 0) s"                          \
	"   WHERE s.state = 'in_flight' AND s.epoch = r.epoch AND s.owner = r.owner"               \
	"     OR s.state = 'uncertain' AND s.epoch = r.epoch + 1 AND r.state = 'completed'),"      \
	" u AS (UPDATE counterfoil.effect_state s SET state = r.state::counterfoil.state,"         \
	"   owner = NULL, deadline = NULL, outcome = r.outcome, http_status = r.http,"             \
	"   curl_code = r.curl, error_class = r.error_class,"                                      \
	"   due_at = coalesce(r.due_at, s.due_at),"                                                \
	"   attempts = s.attempts + CASE WHEN r.late THEN 0 ELSE r.attempts END,"                  \
	"   throttled = s.throttled + r.throttled,"                                                \
	"   stalled = s.stalled + r.stalled, stored = r.stored," UNSENT_SET                        \
	"   provider_id = coalesce(r.provider_id, s.provider_id),"                                 \
	"   emit_failed = r.emit_failed, emit_due = r.emit_due, state_since = now(),"              \
	"   completed_at = CASE WHEN r.state = 'completed' THEN now() END"                         \
	"   FROM mine r WHERE s.id = r.id RETURNING s.*, r.ord),"                                  \
	" a AS (INSERT INTO counterfoil.attempt (effect_id, n, epoch, owner, started_at, took_us," \
	"     outcome, http_status, curl_code, error, provider_id, provider_key, response_head,"   \
	"     response_body, truncated, late)"                                                     \
	"   SELECT r.id, r.n, r.epoch, r.owner, r.started, r.took, r.outcome, r.http, r.curl,"     \
	"     r.error, r.provider_id, r.provider_key, r.head, r.body, r.truncated,"                \
	"     coalesce(m.late, true)"                                                              \
	"   FROM r LEFT JOIN mine m USING (ord) WHERE " SYNC_COMMIT                                \
	" ON CONFLICT DO NOTHING)," events ENDED                                                   \
	", ARRAY(SELECT ord FROM mine WHERE late ORDER BY 1) AS late"

/* With and without what follows: a statement that does not name the outbox needs neither its lock
 * nor a right to it. */
static const char SQL_RESULT[] = RESULT("");
static const char SQL_RESULT_EVENTS[] = RESULT(DEAD_LETTERS EMITS);
#undef RESULT

/* --- sweep --------------------------------------------------------------------------------------
 */

/* Of s: its deadline has passed, or its owner's lease has. */
#define STALE                                                                                      \
	"(s.deadline < now() OR NOT EXISTS (SELECT FROM counterfoil.instance i"                    \
	" WHERE i.id = s.owner AND i.program = 'ledger' AND i.until > now()))"

/* $1 after this id, $2 rows. By id, so that a row that cannot be taken over hides no other. */
static const char SQL_STALE[] =
	"SELECT " KEY_COLUMNS ", s.target, clock_timestamp(), s.state::text"
	" FROM counterfoil.effect_state s JOIN counterfoil.effect e ON e.id = s.id"
	" WHERE s.state = 'in_flight' AND s.id > $1 AND " STALE " ORDER BY s.id LIMIT $2";

/* What the two statements of the sweep share: $1 id, $2 epoch, $3 state, $4 due_at, $5 and $6
 * unknown_sends and attempts to add, $7 unsent, $8 error_class, $9 emit_failed, $10 dl_id,
 * $11 dl_topic, $12 dl_reason, $13 whether the marker was set. The numbers that were decided on
 * stand as long as the epoch, the state and, of what is in flight, the marker do, so the rows need
 * not be locked while they are decided on. */
#define SWEPT                                                                                      \
	"WITH r AS MATERIALIZED (SELECT * FROM unnest($1::bigint[], $2::int[], $3::text[],"        \
	"   $4::timestamptz[], $5::int[], $6::int[], $7::bool[], $8::text[], $9::bool[],"          \
	"   $10::uuid[], $11::text[], $12::text[], $13::bool[])"                                   \
	"   WITH ORDINALITY r(id, epoch, state, due_at, unknown, attempts, unsent, error_class,"   \
	"     emit_failed, dl_id, dl_topic, dl_reason, sent, ord)),"

#define SWEPT_SET                                                                                  \
	"   due_at = coalesce(r.due_at, s.due_at), attempts = s.attempts + r.attempts," UNSENT_SET \
	"   error_class = r.error_class, emit_failed = r.emit_failed, emit_due = r.emit_failed,"   \
	"   state_since = now()"

#define TAKE_OVER(events)                                                                          \
	SWEPT                                                                                      \
	" mine AS MATERIALIZED (SELECT s.id, s.epoch, s.owner, s.tries, r.ord,"                    \
	"     coalesce(s.sent_at, s.state_since) AS started"                                       \
	"   FROM counterfoil.effect_state s JOIN r ON r.id = s.id"                                 \
	"   WHERE s.state = 'in_flight' AND s.epoch = r.epoch AND " STALE                          \
	"     AND (s.sent_at IS NOT NULL) = r.sent AND " SYNC_COMMIT                               \
	"   ORDER BY s.id FOR UPDATE OF s SKIP LOCKED),"                                           \
	" u AS (UPDATE counterfoil.effect_state s SET state = r.state::counterfoil.state,"         \
	"   epoch = s.epoch + 1, owner = NULL, deadline = NULL, takeovers = s.takeovers + 1,"      \
	"   outcome = 'lost', http_status = NULL, curl_code = NULL," SWEPT_SET                     \
	"   FROM mine m JOIN r USING (ord) WHERE s.id = m.id RETURNING s.*, m.ord),"               \
	" a AS (INSERT INTO counterfoil.attempt (effect_id, n, epoch, owner, started_at, outcome)" \
	"   SELECT m.id, m.tries, m.epoch, m.owner, m.started, 'lost' FROM mine m"                 \
	"   ON CONFLICT DO NOTHING)," events ENDED

static const char SQL_TAKE_OVER[] = TAKE_OVER("");
static const char SQL_TAKE_OVER_EVENTS[] = TAKE_OVER(DEAD_LETTERS);
#undef TAKE_OVER

/* $1..$4 after this target, tenant, due_at, id; $5 rows; $6 targets and $7 their margins. Walks the
 * waiting keys a page at a time: those whose time is over, and the last of a full page. The claim
 * refuses them meanwhile, so the walk need not be quick. */
static const char SQL_EXPIRED[] =
	"WITH page AS MATERIALIZED (SELECT s.*, row_number() OVER"
	"     (ORDER BY s.target, s.tenant, s.due_at, s.id) = $5 AS last"
	"   FROM counterfoil.effect_state s"
	"   WHERE s.state IN ('pending', 'retry_wait') AND NOT s.waiting"
	"     AND (s.target, s.tenant, s.due_at, s.id) > ($1, $2, $3, $4)"
	"   ORDER BY s.target, s.tenant, s.due_at, s.id LIMIT $5),"
	" m AS (SELECT * FROM unnest($6::text[], $7::interval[]) m(target, margin))"
	" SELECT " KEY_COLUMNS ", s.target, clock_timestamp(), s.state::text, o.over, s.last,"
	"   s.tenant, s.due_at"
	" FROM page s JOIN counterfoil.effect e ON e.id = s.id LEFT JOIN m ON m.target = s.target,"
	"   LATERAL (SELECT coalesce(e.not_after <= now(), false)"
	"     OR (s.unknown_sends > 0 AND coalesce("
	"       s.window_until - coalesce(m.margin, '0') <= now(), false)) AS over) o"
	" WHERE o.over OR s.last ORDER BY s.target, s.tenant, s.due_at, s.id";

#define EXPIRE(events)                                                                             \
	SWEPT                                                                                      \
	" mine AS MATERIALIZED (SELECT s.id, r.ord"                                                \
	"   FROM counterfoil.effect_state s JOIN r ON r.id = s.id"                                 \
	"   WHERE s.state IN ('pending', 'retry_wait') AND s.epoch = r.epoch AND " SYNC_COMMIT     \
	"   ORDER BY s.id FOR UPDATE OF s SKIP LOCKED),"                                           \
	" u AS (UPDATE counterfoil.effect_state s SET state = "                                    \
	"r.state::counterfoil.state," SWEPT_SET                                                    \
	"   FROM mine m JOIN r USING (ord) WHERE s.id = m.id RETURNING s.*, m.ord)," events ENDED

static const char SQL_EXPIRE[] = EXPIRE("");
static const char SQL_EXPIRE_EVENTS[] = EXPIRE(DEAD_LETTERS);
#undef EXPIRE

/* $1 after this id, $2 rows. Ended keys of which an event or a dead letter is still to be written:
 * a person ended them, or the outbox did not take it then. */
static const char SQL_OWING[] =
	"SELECT s.id, s.epoch, s.replays, s.state::text, s.emit_failed, e.effect, e.topic,"
	"   e.idempotency_key, coalesce(s.outcome, ''), q.emit IS NOT NULL, q.fault"
	" FROM counterfoil.effect_state s"
	" JOIN LATERAL (SELECT effect, topic, idempotency_key FROM counterfoil.effect"
	"   WHERE id = s.id OFFSET 0) e ON true"
	" LEFT JOIN LATERAL (SELECT r.emit, " EMIT_FAULT_OF(
		"r") " AS fault" //
		     "   FROM counterfoil.effect_request r WHERE r.id = s.id OFFSET 0) q ON true"
		     " WHERE s.emit_due AND s.state IN ('completed', 'dead') AND s.id > $1 ORDER "
		     "BY s.id LIMIT $2";

/* $1 id, $2 epoch, $3 emit_failed: there is nothing to write, and never will be; $4 dl_id,
 * $5 dl_topic, $6 dl_reason, $7 emit_id. The ids are those that the result would have used, so that
 * whoever is second writes nothing. */
static const char SQL_SETTLE[] =
	"WITH r AS MATERIALIZED (SELECT * FROM unnest($1::bigint[], $2::int[], $3::bool[],"
	"   $4::uuid[], $5::text[], $6::text[], $7::uuid[])"
	"   WITH ORDINALITY r(id, epoch, emit_failed, dl_id, dl_topic, dl_reason, emit_id, ord)),"
	" mine AS MATERIALIZED (SELECT r.id, r.ord"
	"   FROM r, LATERAL (SELECT epoch, emit_due FROM counterfoil.effect_state"
	"     WHERE id = r.id AND " SYNC_COMMIT " FOR UPDATE SKIP LOCKED OFFSET 0) s"
	"   WHERE s.emit_due AND s.epoch = r.epoch),"
	" u AS (UPDATE counterfoil.effect_state s SET emit_due = false, emit_failed = r.emit_failed"
	"   FROM mine m JOIN r USING (ord) WHERE s.id = m.id RETURNING s.*, m.ord)," //
	DEAD_LETTERS EMITS " done AS (SELECT count(*) FROM u) SELECT count FROM done";

/* $1..$3 after this target, tenant and serial key, $4 rows. Frees heads that a race left waiting: a
 * head that finished while its follower was being inserted. */
static const char SQL_RELEASE[] =
	"WITH RECURSIVE k AS ("
	"  (SELECT target, tenant, serial_key, 1 AS n FROM counterfoil.effect_state"
	"    WHERE serial_key IS NOT NULL"
	"      AND state IN ('pending', 'retry_wait', 'in_flight', 'uncertain')"
	"      AND (target, tenant, serial_key) > ($1, $2, $3)"
	"    ORDER BY target, tenant, serial_key LIMIT 1)"
	"  UNION ALL"
	"  SELECT m.target, m.tenant, m.serial_key, k.n + 1 FROM k, LATERAL ("
	"    SELECT target, tenant, serial_key FROM counterfoil.effect_state"
	"    WHERE serial_key IS NOT NULL"
	"      AND state IN ('pending', 'retry_wait', 'in_flight', 'uncertain')"
	"      AND (target, tenant, serial_key) > (k.target, k.tenant, k.serial_key)"
	"    ORDER BY target, tenant, serial_key LIMIT 1) m WHERE k.n < $4),"
	" h AS MATERIALIZED (SELECT h.id FROM k, LATERAL ("
	"    SELECT id, waiting, aside FROM counterfoil.effect_state s"
	"    WHERE s.serial_key = k.serial_key"
	"      AND s.target = k.target AND s.tenant = k.tenant AND s.serial_key IS NOT NULL"
	"      AND s.state IN ('pending', 'retry_wait', 'in_flight', 'uncertain')"
	"    ORDER BY s.id LIMIT 1) h WHERE h.waiting AND h.aside IS NULL),"
	" l AS MATERIALIZED (SELECT s.id FROM counterfoil.effect_state s"
	"    WHERE s.id = ANY (ARRAY(SELECT id FROM h)) AND " SYNC_COMMIT
	"    ORDER BY s.id FOR UPDATE SKIP LOCKED),"
	" f AS (UPDATE counterfoil.effect_state s SET waiting = false FROM l WHERE s.id = l.id"
	"    RETURNING s.id)"
	" SELECT target, tenant, serial_key, (SELECT count(*) FROM f) FROM k"
	" ORDER BY n DESC LIMIT 1";

/* $1: count no further; $2 targets: what waits for others, which have left the configuration, will
 * not be fewer by waiting. */
static const char SQL_BACKLOG[] =
	"SELECT count(*) FROM (SELECT FROM counterfoil.effect_state"
	" WHERE state IN ('pending', 'retry_wait') AND NOT waiting AND due_at <= now()"
	" AND target = ANY ($2) LIMIT $1) t";

/* --- targets ------------------------------------------------------------------------------------
 */

/* One row at least: how many ledgers live. A hold by the system is probed, but of what is gone for
 * good there is no time for it. */
static const char SQL_TARGETS[] =
	"SELECT l.ledgers, t.target, coalesce(t.held, false),"
	" coalesce(t.held AND t.held_by = 'system' AND t.probe_at IS NOT NULL, false),"
	" coalesce(t.hold_reason, ''),"
	" greatest(extract(epoch from t.paused_until - now()) * 1000000, 0)::bigint,"
	" greatest(extract(epoch from t.breaker_until - now()) * 1000000, 0)::bigint,"
	" t.breaker_until"
	" FROM (SELECT count(*) AS ledgers FROM counterfoil.instance"
	"   WHERE program = 'ledger' AND until > now()) l"
	" LEFT JOIN counterfoil.target_state t ON true";

/* $1 target, $2 reason, $3 time to the first probe; NULL: it is gone for good, which goes before a
 * hold that is probed. No row: it is so already. */
static const char SQL_TARGET_HOLD[] =
	"INSERT INTO counterfoil.target_state AS t"
	" (target, held, hold_reason, held_by, held_since, probe_at)"
	" SELECT $1, true, $2, 'system', now(), now() + $3::interval WHERE " SYNC_COMMIT
	" ON CONFLICT (target) DO UPDATE SET held = true, hold_reason = excluded.hold_reason,"
	"   held_by = 'system', held_since = now(), probe_at = excluded.probe_at,"
	"   changed_at = clock_timestamp()"
	" WHERE NOT t.held OR (t.held_by = 'system' AND t.probe_at IS NOT NULL"
	"   AND excluded.probe_at IS NULL) RETURNING target";

static const char SQL_TARGET_OPEN[] =
	"UPDATE counterfoil.target_state SET held = false, hold_reason = NULL, held_by = NULL,"
	" held_since = NULL, probe_at = NULL, changed_at = clock_timestamp()"
	" WHERE target = $1 AND held AND held_by = 'system' AND probe_at IS NOT NULL"
	" AND " SYNC_COMMIT " RETURNING target";

/* $1 target, $2 time to the next probe. Compare and set: of all processes one gets the row. */
static const char SQL_TARGET_PROBE[] =
	"UPDATE counterfoil.target_state SET probe_at = now() + $2::interval"
	" WHERE target = $1 AND held AND held_by = 'system' AND probe_at <= now()"
	" AND " SYNC_COMMIT " RETURNING target";

/* $1 target, $2 length */
static const char SQL_TARGET_PAUSE[] =
	"INSERT INTO counterfoil.target_state AS t (target, paused_until)"
	" SELECT $1, now() + $2::interval WHERE " SYNC_COMMIT
	" ON CONFLICT (target) DO UPDATE SET changed_at = clock_timestamp(),"
	"   paused_until = greatest(t.paused_until, excluded.paused_until)"
	" WHERE t.paused_until IS NULL OR t.paused_until < excluded.paused_until";

/* --- breakers -----------------------------------------------------------------------------------
 */

/* $1 target, $2 length. Nothing is changed of one that is open or tried. */
static const char SQL_BREAKER_OPEN[] =
	"INSERT INTO counterfoil.target_state AS t (target, breaker_until)"
	" SELECT $1, now() + $2::interval WHERE " SYNC_COMMIT
	" ON CONFLICT (target) DO UPDATE SET breaker_until = excluded.breaker_until,"
	"   changed_at = clock_timestamp() WHERE t.breaker_until IS NULL";

/* $1 target, $2 length of a trial, $3 our former one that came to nothing. Compare and set: of all
 * processes one gets the row. */
static const char SQL_BREAKER_TRIAL[] =
	"UPDATE counterfoil.target_state SET breaker_until = now() + $2::interval"
	" WHERE target = $1 AND (breaker_until <= now() OR breaker_until = $3)"
	" AND " SYNC_COMMIT " RETURNING breaker_until";

/* $1 target, $2 the trial, $3 length. No row is changed once the trial is no longer ours. */
static const char SQL_BREAKER_REOPEN[] =
	"UPDATE counterfoil.target_state SET breaker_until = now() + $3::interval,"
	" changed_at = clock_timestamp() WHERE target = $1 AND breaker_until = $2"
	" AND " SYNC_COMMIT;

static const char SQL_BREAKER_CLOSE[] =
	"UPDATE counterfoil.target_state SET breaker_until = NULL, changed_at = clock_timestamp()"
	" WHERE target = $1 AND breaker_until = $2 AND " SYNC_COMMIT;

#endif
