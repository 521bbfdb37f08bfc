/* The statements that record a batch, in one transaction; for positions see sql_positions.h.
 *
 * Lock order: intake_position, effect by key, outbox, conflict, poison, unmatched, operation.
 * set_config() stands in a WHERE, since a CTE that nothing refers to is never run. */
#ifndef LEDGER_SQL_INTAKE_H
#define LEDGER_SQL_INTAKE_H

#define SYNC_COMMIT "(SELECT set_config('synchronous_commit', 'on', true)) = 'on'"
/* The positions are locked from here to the COMMIT: a process that stops in between, or whose
 * network does, must not hold up those that take over its partitions. */
#define SHORT_IDLE                                                                                 \
	"(SELECT set_config('idle_in_transaction_session_timeout', '5s', true)) IS NOT NULL"

/* --- a batch --- */

/* Positions: $1 topic, $2 partition, $3 where we left it, $4 where this takes it. Rows in the order
 * of their offsets, each (key, target, tenant) once (ON CONFLICT would skip the second, the join
 * would then make its state twice): $5 key, $6 target, $7 tenant, $8 effect, $9 mode, $10 provider
 * key, $11 fingerprint, $12 hash of the event, $13 topic, $14 partition, $15 offset, $16 event id,
 * $17 event type, $18 subject, $19 not_after, $20 delay, $21 why it is dead (NULL: it is not),
 * $22 method, $23 url, $24 headers, $25 body, $26 event key, $27 event value, $28 value is body,
 * $29 event headers, $30 serial key (NULL: none), $31 resend, $32 event number (NULL: its id is
 * only its place), $33 what it emits (NULL: nothing), $34 what stands before the key, $35 shadow,
 * $36 not due before that (NULL: now), $37 other names of $38 targets: what stands under one of
 * them is not inserted under the first.
 *
 * Ids are drawn in the order of the rows, which is the order of execution; rows are inserted in the
 * order of their keys, which is the order of locks. A row waits while one of its serial key is
 * there that is not finished; what a head that finishes meanwhile leaves waiting is freed by the
 * sweep (SQL_RELEASE). moved = false: a position was not where we left it, and nothing was written.
 */
static const char SQL_RECORD[] =
	"WITH p AS (SELECT * FROM unnest($1, $2, $3, $4) p(topic, partition, expected, next)),"
	" held AS MATERIALIZED ("
	"   SELECT i.topic, i.partition FROM counterfoil.intake_position i"
	"   JOIN p USING (topic, partition) WHERE i.next_offset = p.expected"
	"   ORDER BY i.topic, i.partition FOR UPDATE OF i),"
	" ok AS MATERIALIZED ("
	"   SELECT count(*) = cardinality($1) AS ok FROM held WHERE " SYNC_COMMIT
	"   AND " SHORT_IDLE "),"
	" moved AS ("
	"   UPDATE counterfoil.intake_position i SET next_offset = p.next FROM p"
	"   WHERE i.topic = p.topic AND i.partition = p.partition AND (SELECT ok FROM ok)),"
	" src AS MATERIALIZED ("
	"   SELECT nextval('counterfoil.effect_id_seq') AS id, s.* FROM unnest($5, $6, $7, $8, $9,"
	"     $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26,"
	"     $27, $28, $29, $30, $31, $32, $33, $34, $35, $36)"
	"     WITH ORDINALITY s(key, target, tenant, effect, mode, "
	"provider_key,"
	"     fingerprint, event_hash, topic, partition, \"offset\", event_id, event_type, subject,"
	"     not_after, delay, why, method, url, headers, body, event_key, event_value,"
	"     value_is_body, event_headers, serial_key, resend, event_no, emit, key_header,"
	"     shadow, not_before, ord)"
	"   WHERE (SELECT ok FROM ok) AND (cardinality($37::text[]) = 0 OR NOT EXISTS ("
	"     SELECT FROM unnest($37::text[], $38::text[]) a(other, name), LATERAL (SELECT"
	"       FROM counterfoil.effect o WHERE o.idempotency_key = s.key"
	"         AND o.target = a.other AND o.tenant = s.tenant OFFSET 0) o"
	"     WHERE a.name = s.target))),"
	" ins AS ("
	"   INSERT INTO counterfoil.effect (id, idempotency_key, target, tenant, effect, mode,"
	"     provider_key, fingerprint, event_hash, topic, partition, \"offset\", event_id,"
	"     event_type, subject, not_after, serial_key, resend, event_no, shadow)"
	"   OVERRIDING SYSTEM VALUE"
	"   SELECT id, key, target, tenant, effect, mode, provider_key, fingerprint, event_hash,"
	"     topic, partition, \"offset\", event_id, event_type, subject, not_after,"
	"     serial_key, resend, coalesce(event_no, id), shadow FROM src"
	"   ORDER BY key COLLATE \"C\", target COLLATE \"C\", tenant COLLATE \"C\""
	"   ON CONFLICT DO NOTHING RETURNING id),"
	" made AS MATERIALIZED (SELECT s.* FROM ins JOIN src s USING (id)),"
	" state AS ("
	"   INSERT INTO counterfoil.effect_state (id, target, tenant, state, due_at, outcome,"
	"     error_class, serial_key, waiting)"
	"   SELECT id, target, tenant,"
	"     CASE WHEN why IS NULL THEN 'pending' ELSE 'dead' END::counterfoil.state,"
	"     greatest(now() + delay, not_before), CASE WHEN why IS NULL THEN NULL ELSE "
	"'unrendered' END,"
	"     CASE WHEN why IS NULL THEN '' ELSE 'unrendered' END, serial_key,"
	"     CASE WHEN serial_key IS NULL THEN false"
	"       WHEN row_number() OVER (PARTITION BY target, tenant, serial_key ORDER BY id) > 1"
	"         THEN true"
	"       ELSE coalesce((SELECT true FROM counterfoil.effect_state o WHERE o.target = "
	"made.target"
	"         AND o.tenant = made.tenant AND o.serial_key = made.serial_key"
	"         AND o.serial_key IS NOT NULL"
	"         AND o.state IN ('pending', 'retry_wait', 'in_flight', 'uncertain') LIMIT 1), "
	"false) END"
	"   FROM made),"
	" request AS ("
	"   INSERT INTO counterfoil.effect_request (id, method, url, headers, body, event_key,"
	"     event_value, value_is_body, event_headers, emit, key_header)"
	"   SELECT id, method, url, headers, body, event_key, event_value, value_is_body,"
	"     event_headers, emit, key_header FROM made),"
	" attempt AS ("
	"   INSERT INTO counterfoil.attempt (effect_id, n, epoch, started_at, outcome, error)"
	"   SELECT id, 0, 0, now(), 'unrendered', why FROM made WHERE why IS NOT NULL)"
	" SELECT (SELECT ok FROM ok) AS moved, ARRAY(SELECT ord FROM made ORDER BY 1) AS inserted";

/* $1 key, $2 target, $3 tenant, $4 fingerprint, $5 hash of the event, $6 event id, $7 effect, $8
 * event number, $9 other names of $10 targets: the rows that were not inserted. In a statement of
 * its own: the one before sees neither the row that stood there nor its own. The same event is a
 * duplicate, whatever today's template makes of it, another key too. */
static const char SQL_COMPARE[] =
	"SELECT s.ord, CASE WHEN same THEN v.id ELSE coalesce(e.id, v.id) END,"
	"   CASE WHEN same THEN 'duplicate' WHEN e.id IS NULL AND v.id IS NULL THEN 'vanished'"
	"   WHEN e.effect <> s.effect THEN 'conflict'"
	"   WHEN e.event_id = s.event_id AND e.event_hash = s.event_hash THEN 'duplicate'"
	"   WHEN e.fingerprint = s.fingerprint THEN 'duplicate'"
	"   ELSE 'conflict' END"
	" FROM unnest($1, $2, $3, $4, $5, $6, $7, $8) WITH ORDINALITY"
	"   s(key, target, tenant, fingerprint, event_hash, event_id, effect, event_no, ord)"
	" LEFT JOIN LATERAL (SELECT * FROM counterfoil.effect e WHERE e.idempotency_key = s.key"
	"   AND e.tenant = s.tenant AND (e.target = s.target OR e.target IN"
	"     (SELECT a.other FROM unnest($9::text[], $10::text[]) a(other, name)"
	"       WHERE a.name = s.target))"
	"   ORDER BY e.target <> s.target LIMIT 1) e ON true"
	" LEFT JOIN LATERAL (SELECT * FROM counterfoil.effect v WHERE v.event_id = s.event_id"
	"   AND v.effect = s.effect AND v.event_no = s.event_no OFFSET 0) v ON true"
	" CROSS JOIN LATERAL (SELECT coalesce(v.event_hash = s.event_hash, false) AS same) same";

/* $1 topic, $2 partition, $3 offset, $4 effect, $5 key, $6 target, $7 tenant, $8 holder, $9 event
 * id, $10 fingerprint; of its request, NULL where there is none: $11 method, and digests in
 * hexadecimal of $12 URL, $13 headers, $14 body; $15 event id of its dead letter. Gives the numbers
 * of those that are new: only these have a dead letter. */
static const char SQL_CONFLICT[] =
	"WITH s AS MATERIALIZED (SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10,"
	"   $11, $12, $13, $14, $15) WITH ORDINALITY s(topic, partition, \"offset\", effect, key,"
	"   target, tenant, holder, event_id, fingerprint, method, url, headers, body, letter, ord)"
	"   WHERE " SYNC_COMMIT "),"
	" i AS (INSERT INTO counterfoil.conflict (topic, partition, \"offset\", effect,"
	"     idempotency_key, target, tenant, holder, event_id, fingerprint, method, url_hash,"
	"     headers_hash, body_hash, letter)"
	"   SELECT topic, partition, \"offset\", effect, key, target, tenant, holder, event_id,"
	"     fingerprint, method, decode(url, 'hex'), decode(headers, 'hex'),"
	"     decode(body, 'hex'), letter FROM s ORDER BY 1, 2, 3, 4, 9"
	"   ON CONFLICT (topic, partition, \"offset\", effect, event_id) DO NOTHING"
	"   RETURNING topic, partition, \"offset\", effect, event_id)"
	" SELECT ARRAY(SELECT s.ord FROM i"
	"   JOIN s USING (topic, partition, \"offset\", effect, event_id) ORDER BY 1)";

/* $1 event id, $2 topic, $3 type, $4 ordering key, $5 message key, $6 payload, $7 headers */
static const char SQL_LETTERS[] =
	"INSERT INTO counterfoil.outbox (event_id, topic, type, ordering_key, message_key, payload,"
	"   headers)"
	" SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7) WHERE " SYNC_COMMIT
	" ON CONFLICT (event_id) DO NOTHING";

/* $1 topic, $2 partition, $3 offset, $4 hash, $5 size, $6 key, $7 value, $8 headers, $9 sent_at,
 * $10 reason, $11 error */
static const char SQL_POISON[] =
	"INSERT INTO counterfoil.poison (topic, partition, \"offset\", hash, size, key, value,"
	"   headers, sent_at, reason, error)"
	" SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) WHERE " SYNC_COMMIT
	" ON CONFLICT (topic, partition, \"offset\", hash) DO NOTHING";

/* $1 topic, $2 type, $3 count, each topic and type once; $4 instance */
static const char SQL_UNMATCHED[] =
	"INSERT INTO counterfoil.unmatched AS u (topic, type, minute, instance, n)"
	" SELECT s.topic, s.type, date_trunc('minute', now()), $4, s.n"
	" FROM unnest($1, $2, $3) s(topic, type, n) WHERE " SYNC_COMMIT " ORDER BY 1, 2"
	" ON CONFLICT (topic, type, minute, instance) DO UPDATE SET n = u.n + excluded.n";

#endif
