/* Every statement of orders and bulk operations. Each is one transaction; each that writes on
 * behalf of an order is guarded by its owner, so that whoever lost it changes nothing. */
#ifndef LEDGER_SQL_OPERATIONS_H
#define LEDGER_SQL_OPERATIONS_H

#define SYNC_COMMIT "(SELECT set_config('synchronous_commit', 'on', true)) = 'on'"

/* --- orders -------------------------------------------------------------------------------------
 */

#define ORDER_HELD " o.id = $1 AND o.owner = $2 AND o.state = 'running' AND " SYNC_COMMIT

enum order_column {
	ORDER_ID,
	ORDER_OPERATION,
	ORDER_KIND,
	ORDER_PARAMS,
	ORDER_CURSOR,
	ORDER_WHO,
	ORDER_CLAIMS,
	ORDER_REASON,
	ORDER_RATE,
	ORDER_CANARY,
	ORDER_STOP_AFTER,
	ORDER_TOTAL,
	ORDER_DONE,
	ORDER_FAILED,
	ORDER_SKIPPED,
	ORDER_FRESH,
};

/* $1 owner, $2 kinds, $3 lease. The oldest that nobody carries out, or that was ours already; one
 * that has rested comes behind those that did not, or did before it. A time further away than it
 * could have been set means that the clock jumped. */
static const char SQL_ORDERS_TAKE[] =
	"WITH x AS MATERIALIZED (SELECT x.id, x.started_at IS NULL OR (x.state = 'running'"
	"     AND x.owner <> $1) AS fresh"
	"   FROM counterfoil.operation x"
	"   WHERE x.state IN ('queued', 'running') AND x.kind = ANY ($2)"
	"     AND (x.state = 'queued' OR x.owner = $1 OR x.until <= clock_timestamp()"
	"       OR x.until > clock_timestamp() + $3::interval)"
	"   ORDER BY x.until NULLS FIRST, x.id LIMIT 1 FOR UPDATE SKIP LOCKED)"
	" UPDATE counterfoil.operation o SET state = 'running', owner = $1,"
	"   until = clock_timestamp() + $3::interval,"
	"   started_at = coalesce(o.started_at, clock_timestamp())"
	" FROM x WHERE o.id = x.id AND " SYNC_COMMIT
	" RETURNING o.id, o.operation::text, o.kind, o.params::text,"
	"   coalesce(o.cursor, ''), o.who, o.claims::text, coalesce(o.reason, ''),"
	"   coalesce(o.rate, 0)::text, o.canary, coalesce(o.stop_after, 0), o.total, o.done,"
	"   o.failed, o.skipped, x.fresh";

/* $1 order, $2 owner, $3 lease */
static const char SQL_ORDERS_RENEW[] =
	"UPDATE counterfoil.operation o SET until = clock_timestamp() + $3::interval"
	" WHERE" ORDER_HELD " RETURNING o.id";

enum progress_column { PROGRESS_KIND, PROGRESS_DONE, PROGRESS_FAILED, PROGRESS_SKIPPED };

/* $1 order, $2 owner; added to the figures: $3 done, $4 failed, $5 skipped; $6 cursor (NULL: it
 * stays). What was added comes back. */
static const char SQL_ORDERS_PROGRESS[] =
	"UPDATE counterfoil.operation o SET done = o.done + $3, failed = o.failed + $4,"
	"   skipped = o.skipped + $5, cursor = coalesce($6, o.cursor)"
	" WHERE" ORDER_HELD " RETURNING o.kind, $3, $4, $5";

/* $1 order, $2 owner, $3 state, $4 detail */
static const char SQL_ORDERS_END[] =
	"UPDATE counterfoil.operation o SET state = $3, detail = $4, ended_at = clock_timestamp(),"
	"   owner = NULL, until = NULL"
	" WHERE" ORDER_HELD " RETURNING o.state";

/* $1 order, $2 owner: for another ledger, or behind other orders. */
static const char SQL_ORDERS_RELEASE[] =
	"UPDATE counterfoil.operation o SET state = 'queued', owner = NULL,"
	"   until = clock_timestamp()"
	" WHERE" ORDER_HELD;

/* --- bulk orders --------------------------------------------------------------------------------
 */

/* $1 order. The targets of the keys that are left, from one to the next by the index. */
static const char SQL_BULK_TARGETS[] =
	"WITH RECURSIVE t(target) AS ((SELECT i.target FROM counterfoil.operation_item i"
	"   WHERE i.operation_id = $1 AND i.result IS NULL ORDER BY i.target LIMIT 1)"
	" UNION ALL SELECT (SELECT i.target FROM counterfoil.operation_item i"
	"   WHERE i.operation_id = $1 AND i.result IS NULL AND i.target > t.target"
	"   ORDER BY i.target LIMIT 1) FROM t WHERE t.target IS NOT NULL)"
	" SELECT target FROM t WHERE target IS NOT NULL";

enum bulk_page_column { BULK_PAGE_HELD, BULK_PAGE_LOOKED, BULK_PAGE_ORDERED, BULK_PAGE_LAST };

/* $1 order, $2 owner, $3 target, $4 behind this key, $5 rows, $6 only of SKIP. The operation is
 * locked for the length of it: it can be neither paused nor lost in the middle. Each key is ordered
 * under an id made of the operation's and its own, so that even a page that came twice would order
 * it once. Its items are locked so that what the page of an earlier connection of ours, which held
 * up this one, has written by then is seen, and counted once.
 *
 * Lock order: operation, its items, then effect_state by id. */
#define BULK_PAGE(call_, result_, done_)                                                           \
	"WITH held AS MATERIALIZED (SELECT o.id, o.operation, o.reason, o.params, o.claims ||"     \
	"     jsonb_build_object('operation', o.id, 'ordered_by', o.who) AS claims"                \
	"   FROM counterfoil.operation o WHERE" ORDER_HELD " FOR UPDATE),"                         \
	" page AS MATERIALIZED (SELECT i.effect_id, i.epoch, i.state::text, h.reason, h.claims,"   \
	"     h.params, md5(h.operation::text || '/' || i.effect_id)::uuid AS operation"           \
	"   FROM held h, LATERAL (SELECT x.effect_id, x.epoch, x.state"                            \
	"     FROM counterfoil.operation_item x WHERE x.operation_id = h.id AND x.result IS NULL"  \
	"       AND x.target = $3 AND x.effect_id > $4 ORDER BY x.effect_id LIMIT $5"              \
	"     FOR UPDATE) i),"                                                                     \
	" verdict AS MATERIALIZED (SELECT p.effect_id, v.result, v.detail"                         \
	"   FROM page p, LATERAL " call_ " v),"                                                    \
	" item AS (UPDATE counterfoil.operation_item i SET at = clock_timestamp(), (result, "      \
	"detail) ="                                                                                \
	"     (SELECT CASE v.result WHEN 'done' THEN '" result_ "' ELSE 'skipped' END,"            \
	"       CASE v.result WHEN 'done' THEN NULL ELSE v.detail END"                             \
	"     FROM verdict v WHERE v.effect_id = i.effect_id)"                                     \
	"   WHERE i.operation_id = $1 AND i.effect_id = ANY (ARRAY(SELECT effect_id FROM "         \
	"verdict))),"                                                                              \
	" n AS (SELECT count(*) AS looked, count(*) FILTER (WHERE v.result = 'done') AS ordered,"  \
	"     max(v.effect_id) AS last FROM verdict v),"                                           \
	" figures AS (UPDATE counterfoil.operation o SET skipped = o.skipped + n.looked - "        \
	"n.ordered," done_ " FROM n WHERE o.id = $1 AND n.looked > 0)"                             \
	" SELECT EXISTS (SELECT FROM held), n.looked, n.ordered, n.last FROM n"

static const char SQL_BULK_REPLAY[] =
	BULK_PAGE("counterfoil.replay(p.effect_id, p.epoch, p.state, p.operation, p.reason, "
		  "p.claims)",
		  "ordered", " done = o.done");
static const char SQL_BULK_RESOLVE[] =
	BULK_PAGE("counterfoil.resolve(p.effect_id, p.epoch, p.state, p.operation,"
		  " (p.params ->> 'happened')::boolean, NULL, p.reason, p.claims)",
		  "done", " done = o.done + n.ordered");
static const char SQL_BULK_SKIP[] =
	BULK_PAGE("(SELECT 'refused' AS result, $6::text AS detail)", "", " done = o.done");

enum bulk_watch_column {
	BULK_WATCH_HELD,
	BULK_WATCH_DONE,
	BULK_WATCH_FAILED,
	BULK_WATCH_ENDED,
	BULK_WATCH_FAILURE,
	BULK_WATCH_TARGET,
	BULK_WATCH_RUNNING,
	BULK_WATCH_NEW_DONE, /* by this look */
	BULK_WATCH_NEW_FAILED,
	BULK_WATCH_NEW_SKIPPED,
};

/* $1 order, $2 owner. What became of the keys that were ordered, of which there are never many. The
 * figures follow what was changed in the items, so that each is counted once whoever else looks.
 * Rows: the figures, and a target with keys that are still running, or NULL. */
static const char SQL_BULK_WATCH[] =
	"WITH seen AS MATERIALIZED (SELECT i.effect_id, i.target, s.state, s.error_class,"
	"     coalesce(s.state NOT IN ('pending', 'in_flight', 'retry_wait'), true) AS ended"
	"   FROM counterfoil.operation_item i LEFT JOIN LATERAL (SELECT x.state, x.error_class"
	"     FROM counterfoil.effect_state x WHERE x.id = i.effect_id OFFSET 0) s ON true"
	"   WHERE i.operation_id = $1 AND i.result = 'ordered'),"
	" item AS (UPDATE counterfoil.operation_item i SET at = clock_timestamp(), (result, "
	"detail) ="
	"     (SELECT CASE WHEN s.state IN ('dead', 'uncertain') THEN 'failed'"
	"         WHEN s.state = 'cancelled' THEN 'skipped' ELSE 'done' END,"
	"       CASE WHEN s.state IN ('dead', 'uncertain') THEN s.state || ', ' || s.error_class"
	"         WHEN s.state = 'cancelled' THEN 'it was cancelled since' END"
	"     FROM seen s WHERE s.effect_id = i.effect_id)"
	"   WHERE i.operation_id = $1 AND i.result = 'ordered'"
	"     AND i.effect_id = ANY (ARRAY(SELECT effect_id FROM seen WHERE ended))"
	"     AND " SYNC_COMMIT " RETURNING i.result, i.detail),"
	" n AS (SELECT count(*) AS ended, count(*) FILTER (WHERE result = 'done') AS done,"
	"     count(*) FILTER (WHERE result = 'failed') AS failed,"
	"     count(*) FILTER (WHERE result = 'skipped') AS skipped,"
	"     max(detail) FILTER (WHERE result = 'failed') AS failure FROM item),"
	" figures AS (UPDATE counterfoil.operation o SET done = o.done + n.done,"
	"     failed = o.failed + n.failed, skipped = o.skipped + n.skipped"
	"   FROM n WHERE o.id = $1 AND n.ended > 0 RETURNING o.done, o.failed)"
	" SELECT o.owner = $2 AND o.state = 'running', coalesce(f.done, o.done),"
	"   coalesce(f.failed, o.failed), n.ended, n.failure, t.target, t.running,"
	"   n.done, n.failed, n.skipped"
	" FROM counterfoil.operation o CROSS JOIN n LEFT JOIN figures f ON true"
	" LEFT JOIN (SELECT target, count(*) AS running FROM seen WHERE NOT ended GROUP BY target) "
	"t"
	"   ON true"
	" WHERE o.id = $1";

#endif
