/* The statements on a source, with what differs from table to table in braces:
 *
 *   {table}         the relation, quoted; its alias is always o
 *   {regclass}      its oid
 *   {id} {event_id} the columns, bare, so that their indexes serve
 *   {columns}       the poll's view of a row, under the names of counterfoil.outbox
 *   {topic} {type} {ordering_key} {created_at}  the same, one by one
 *   {scope}         " AND ..." for the rows that are to be published, or nothing
 *   {mark}          the assignment that marks a row as published
 *   {kept}          what outbox_dead keeps of a row
 *   {name} {relation} {id_column} {event_id_column} {mark_column}  literals, for its registration
 *
 * Each statement has its own Sync, so its own snapshot and its own commit. What must hold after a
 * crash asks for synchronous_commit in a subselect of its WHERE, whatever the server's default is
 * (an unreferenced CTE would never be run). */
#ifndef COUNTERFOIL_RELAY_SOURCE_SQL_H
#define COUNTERFOIL_RELAY_SOURCE_SQL_H

/* $1 reading position, $2 and $3 first and last ids of the gaps below it, $4 rows, $5 bytes, $6
 * size limit of a row, $7 topics, $8 only them (else: all but them), $9 the source's name.
 *
 * One snapshot of the generation, of the gaps and of what lies above the position, by id, cut at so
 * many rows and bytes: what comes is complete up to its last row. Where there is none, one row with
 * the generation alone comes. The sum of the sizes before a row bounds the bytes, so the first one
 * always comes. A row over the limit, or of a topic that is not wanted, comes without what it
 * carries, its texts cut, and costs next to nothing; were it left out before the LIMIT, every poll
 * would walk a long stretch of such rows again.
 *
 * The LIMIT inside, which the planner cannot foresee, keeps it from fetching and sorting a whole
 * gap. The order holds without a sort: the gaps are given ascending, the parts of the union are run
 * one after the other, and the source's one row is joined from outside. */
#define SOURCE_ROWS(source_)                                                                       \
	"SELECT f.id, event_id, left(topic, 250),"                                                 \
	" CASE WHEN fetched THEN type ELSE left(type, 250) END,"                                   \
	" nullif(CASE WHEN fetched THEN ordering_key ELSE left(ordering_key, 4000) END, ''),"      \
	" partition,"                                                                              \
	" CASE WHEN fetched THEN message_key END,"                                                 \
	" CASE WHEN fetched THEN payload END,"                                                     \
	" CASE WHEN fetched THEN headers END,"                                                     \
	" created_at, n, fetched, withheld, s.generation"                                          \
	" FROM " source_ " s LEFT JOIN (SELECT * FROM (SELECT *,"                                  \
	"   sum((CASE WHEN fetched THEN n ELSE 0 END + 200)::int4)"                                \
	"   OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before"                     \
	"  FROM (SELECT *, n <= $6 AND NOT withheld AS fetched"                                    \
	"   FROM (SELECT *, coalesce(octet_length(payload), 0)::int8"                              \
	"     + coalesce(octet_length(message_key), 0) + coalesce(octet_length(ordering_key), 0)"  \
	"     + coalesce(octet_length(type), 0) + coalesce(octet_length(headers), 0) AS n,"        \
	"     coalesce(topic = ANY ($7), false) <> $8 AS withheld"                                 \
	"    FROM (SELECT r.* FROM unnest($2, $3) g(first, last), LATERAL"                         \
	"      (SELECT {columns} FROM {table} o WHERE {id} >= g.first AND {id} <= g.last{scope}"   \
	"       ORDER BY {id} LIMIT least($4, g.last - g.first + 1)) r"                            \
	"     UNION ALL"                                                                           \
	"     (SELECT {columns} FROM {table} o WHERE {id} > $1{scope} ORDER BY {id} LIMIT $4)"     \
	"     LIMIT $4) u) v) w) x"                                                                \
	"  WHERE coalesce(before, 0) < $5) f ON true"                                              \
	" WHERE s.name = $9"
static const char source_poll[] = SOURCE_ROWS("counterfoil.outbox_source");
/* The same of a table that need not be registered. */
static const char source_page[] = SOURCE_ROWS("(SELECT $9 AS name, 0::int8 AS generation)");

/* The transactions that hold the lock which a writer takes before it draws an id. Told by their
 * virtual id: a prepared transaction has no pid. A writer may name a partition itself. */
static const char source_holders[] =
	"SELECT virtualtransaction FROM pg_locks"
	" WHERE locktype = 'relation'"
	" AND (relation = {regclass} OR relation IN (SELECT relid FROM "
	"pg_partition_tree({regclass})))"
	" AND mode = 'RowExclusiveLock' AND granted AND pid IS DISTINCT FROM pg_backend_pid()"
	" AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/* $1 ids, $2 event ids, $3 lease, $4 token. By both ids, for after a crash of an asynchronous
 * writer the server gives an id out again. A lost removal is a duplicate, never a loss: it alone
 * need not wait for the disk. No join, which would be for the planner to choose: one that knows the
 * table as empty reads all of it for every batch. The ids stand in a subselect so that it does not
 * know how many they are, and looks each up; the pairs behind IS TRUE, so that they are a filter.
 */
#define SOURCE_PUBLISHED                                                                           \
	" WHERE {id} = ANY ((SELECT $1::int8[])::int8[])"                                          \
	" AND (({id}, {event_id}) IN (SELECT * FROM unnest($1::int8[], $2::uuid[]))) IS TRUE"      \
	"{scope}"                                                                                  \
	" AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off'"                      \
	" AND EXISTS (SELECT FROM counterfoil.lease l WHERE l.name = $3 AND l.token = $4)"
static const char source_delete[] = "DELETE FROM {table} o" SOURCE_PUBLISHED;
static const char source_mark[] = "UPDATE {table} o SET {mark}" SOURCE_PUBLISHED;

/* $1 ids, $2 event ids, $3 order hashes, $4 parked, $5 reasons, $6 sizes: one of each a row. $7
 * lease, $8 token, $9 the source's name, $10 generation, $11 owner. Gives the ids that were moved;
 * and a NULL unless nothing could be moved, whatever is there.
 *
 * Nothing moves once rows were put back, or while they are: what was found out about these rows may
 * no longer hold. Nor once there is another owner, who raises the generation (sql_fence): the lease
 * alone is seen as it was when this statement began. What lies in outbox_dead under the same ids
 * already is superseded by the row, which is about to be gone from its table. A row that is kept as
 * text must mean the same to any session: its dates are ISO. */
#define SOURCE_HELD                                                                                \
	"WITH held AS MATERIALIZED (SELECT FROM counterfoil.outbox_source"                         \
	"  WHERE name = $9 AND generation = $10"                                                   \
	"  AND EXISTS (SELECT FROM counterfoil.lease l WHERE l.name = $7 AND l.token = $8)"        \
	"  AND (SELECT set_config('synchronous_commit', 'on', true)) = 'on'"                       \
	"  AND (SELECT set_config('datestyle', 'ISO, YMD', true)) <> ''"                           \
	"  FOR SHARE SKIP LOCKED),"
#define SOURCE_CONDEMNED                                                                           \
	" unnest((SELECT $1::int8[]), (SELECT $2::uuid[]), (SELECT $3::int8[]),"                   \
	"  (SELECT $4::bool[]), (SELECT $5::text[]), (SELECT $6::int8[]))"                         \
	"  d(cf_id, cf_event_id, cf_order, cf_parked, cf_reason, cf_size)"
/* The first condition is for the planner: however it joins, it reads no other rows. */
#define SOURCE_SAME                                                                                \
	" {id} = ANY ((SELECT $1::int8[])::int8[])"                                                \
	" AND {id} = cf_id AND ({event_id} IS NOT DISTINCT FROM cf_event_id) IS TRUE"
#define SOURCE_LAY_DOWN                                                                            \
	", laid AS (INSERT INTO counterfoil.outbox_dead AS t"                                      \
	"  (source, row_id, event_id, parked, order_hash,"                                         \
	"  topic, type, ordering_key, partition, message_key, payload, headers, created_at, row,"  \
	"  size, reason, owner)"                                                                   \
	" SELECT $9, cf_id, coalesce(cf_event_id, '00000000-0000-0000-0000-000000000000'),"        \
	"  cf_parked, cf_order, topic, type, ordering_key, partition, message_key, payload, "      \
	"headers,"                                                                                 \
	"  created_at, whole, cf_size, cf_reason, $11 FROM condemned"                              \
	" ON CONFLICT (source, row_id, event_id) DO UPDATE SET parked = excluded.parked,"          \
	"  order_hash = excluded.order_hash, topic = excluded.topic, type = excluded.type,"        \
	"  ordering_key = excluded.ordering_key, partition = excluded.partition,"                  \
	"  message_key = excluded.message_key, payload = excluded.payload,"                        \
	"  headers = excluded.headers, created_at = excluded.created_at, row = excluded.row,"      \
	"  size = excluded.size, reason = excluded.reason, died_at = excluded.died_at,"            \
	"  owner = excluded.owner"                                                                 \
	" RETURNING row_id)"                                                                       \
	" SELECT row_id FROM laid UNION ALL SELECT NULL FROM held"
static const char source_bury[] =
	SOURCE_HELD " condemned AS (DELETE FROM {table} o USING" SOURCE_CONDEMNED
		    "  WHERE" SOURCE_SAME "{scope} AND EXISTS (SELECT FROM held)"
		    "  RETURNING d.*, {kept})" SOURCE_LAY_DOWN;
/* The row is kept as it was before its mark, so that it can come back without it. */
static const char source_bury_marked[] = SOURCE_HELD
	" condemned AS MATERIALIZED (SELECT d.*, {kept} FROM" SOURCE_CONDEMNED ", {table} o"
	"  WHERE" SOURCE_SAME "{scope} AND EXISTS (SELECT FROM held) FOR UPDATE OF o),"
	" marked AS (UPDATE {table} o SET {mark} FROM condemned WHERE" SOURCE_SAME
	")" SOURCE_LAY_DOWN;

/* $1 rows, counted up to so many. The count; the age of the oldest in microseconds, 0 without a row
 * and NULL where it is not known; the lowest id or NULL. By id, so that the index alone is read,
 * from the end at which the relay reads; the row with the lowest id is about the oldest. */
static const char source_measure[] =
	"SELECT (SELECT count(*) FROM"
	"  (SELECT {id} FROM {table} o WHERE true{scope} ORDER BY {id} LIMIT $1) c),"
	" CASE WHEN f.id IS NULL THEN 0 WHEN f.created_at IS NULL THEN NULL"
	"  WHEN isfinite(f.created_at) THEN"
	"   greatest(extract(epoch FROM clock_timestamp() - f.created_at) * 1000000, 0)::int8"
	"  ELSE 0 END, f.id"
	" FROM (VALUES (1)) one LEFT JOIN (SELECT {id}::int8 AS id, {created_at} AS created_at"
	"  FROM {table} o WHERE true{scope} ORDER BY {id} LIMIT 1) f ON true";

/* $1 and $2 ids, both included, $3 rows, counted up to so many. Of the rows that wait in that
 * range: the lowest id, that of the last one that was counted, the highest, the count. */
static const char source_waiting[] =
	"SELECT min(w.id), max(w.id), (SELECT {id}::int8 FROM {table} o"
	"  WHERE {id} >= $1 AND {id} <= $2{scope} ORDER BY {id} DESC LIMIT 1), count(*)"
	" FROM (SELECT {id}::int8 AS id FROM {table} o"
	"  WHERE {id} >= $1 AND {id} <= $2{scope} ORDER BY {id} LIMIT $3) w";

/* $1 rows that are looked at. A row for each topic: how many of them wait, the age of the oldest in
 * microseconds or NULL. */
static const char source_topics[] =
	"SELECT left(coalesce(topic, ''), 250), count(*), CASE WHEN isfinite(min(created_at)) THEN"
	"  greatest(extract(epoch FROM clock_timestamp() - min(created_at)) * 1000000, 0)::int8 END"
	" FROM (SELECT {topic} AS topic, {created_at} AS created_at FROM {table} o WHERE "
	"true{scope}"
	"  ORDER BY {id} LIMIT $1) f"
	" GROUP BY 1 ORDER BY 1 LIMIT 200";

/* A mapped table makes itself known to those who put rows back. */
static const char source_add[] =
	"INSERT INTO counterfoil.outbox_source AS s"
	"  (name, relation, id_column, event_id_column, mark_column)"
	" SELECT {name}, {relation}, {id_column}, {event_id_column}, {mark_column}"
	" WHERE (SELECT set_config('synchronous_commit', 'on', true)) = 'on'"
	" ON CONFLICT (name) DO UPDATE SET relation = excluded.relation,"
	"  id_column = excluded.id_column, event_id_column = excluded.event_id_column,"
	"  mark_column = excluded.mark_column"
	" WHERE (s.relation, s.id_column, s.event_id_column, s.mark_column) IS DISTINCT FROM"
	"  (excluded.relation, excluded.id_column, excluded.event_id_column, excluded.mark_column)";

/* The part of a poll whose plan matters, with the choices of a planner that knows little of the
 * table taken away: what an index can serve, it shall. */
static const char source_plan[] =
	"EXPLAIN (COSTS OFF)"
	" SELECT {columns} FROM {table} o WHERE {id} > 0{scope} ORDER BY {id} LIMIT 1000";

static const char source_highest[] = "SELECT max({id})::int8 FROM {table} o";

/* $1 the source's name, $2 the hash to go on behind: ordering keys with a dead row, ascending, and
 * the first such row. From one key to the next by the index: there may be many rows of a key. */
static const char source_blocked[] = "WITH RECURSIVE k(h, id) AS ("
				     "(SELECT order_hash, row_id FROM counterfoil.outbox_dead"
				     "  WHERE source = $1 AND order_hash > $2 AND NOT parked ORDER "
				     "BY order_hash, row_id LIMIT 1)"
				     " UNION ALL SELECT n.order_hash, n.row_id FROM k, LATERAL"
				     " (SELECT order_hash, row_id FROM counterfoil.outbox_dead"
				     "  WHERE source = $1 AND order_hash > k.h AND NOT parked "
				     "ORDER BY order_hash, row_id LIMIT 1)"
				     " n) SELECT h, id FROM k LIMIT 10000";

#endif
