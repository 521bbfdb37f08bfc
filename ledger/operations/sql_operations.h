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
};

/* $1 owner, $2 kinds, $3 lease. The oldest that nobody carries out, or that was ours already. A
 * time further away than it could have been set means that the clock jumped. */
static const char SQL_ORDERS_TAKE[] =
	"UPDATE counterfoil.operation o SET state = 'running', owner = $1,"
	"   until = clock_timestamp() + $3::interval,"
	"   started_at = coalesce(o.started_at, clock_timestamp())"
	" WHERE o.id = (SELECT x.id FROM counterfoil.operation x"
	"     WHERE x.state IN ('queued', 'running') AND x.kind = ANY ($2)"
	"       AND (x.state = 'queued' OR x.owner = $1 OR x.until <= clock_timestamp()"
	"         OR x.until > clock_timestamp() + $3::interval)"
	"     ORDER BY x.id LIMIT 1 FOR UPDATE SKIP LOCKED)"
	"   AND " SYNC_COMMIT " RETURNING o.id, o.operation::text, o.kind, o.params::text,"
	"   coalesce(o.cursor, ''), o.who, o.claims::text, coalesce(o.reason, ''),"
	"   coalesce(o.rate, 0)::text, o.canary, coalesce(o.stop_after, 0), o.total, o.done,"
	"   o.failed, o.skipped";

/* $1 order, $2 owner, $3 lease */
static const char SQL_ORDERS_RENEW[] =
	"UPDATE counterfoil.operation o SET until = clock_timestamp() + $3::interval"
	" WHERE" ORDER_HELD " RETURNING o.id";

/* $1 order, $2 owner; added to the figures: $3 done, $4 failed, $5 skipped; $6 cursor (NULL: it
 * stays) */
static const char SQL_ORDERS_PROGRESS[] =
	"UPDATE counterfoil.operation o SET done = o.done + $3, failed = o.failed + $4,"
	"   skipped = o.skipped + $5, cursor = coalesce($6, o.cursor)"
	" WHERE" ORDER_HELD " RETURNING o.id";

/* $1 order, $2 owner, $3 state, $4 detail */
static const char SQL_ORDERS_END[] =
	"UPDATE counterfoil.operation o SET state = $3, detail = $4, ended_at = clock_timestamp(),"
	"   owner = NULL, until = NULL"
	" WHERE" ORDER_HELD " RETURNING o.id";

/* $1 order, $2 owner: for another ledger. */
static const char SQL_ORDERS_RELEASE[] =
	"UPDATE counterfoil.operation o SET state = 'queued', owner = NULL, until = NULL"
	" WHERE" ORDER_HELD;

#endif
