/* The SQL of bulk orders and of what a ledger carries out. */
#ifndef COUNTERFOIL_SQL_OPERATIONS_H
#define COUNTERFOIL_SQL_OPERATIONS_H

/* $1 operation, $2 kind, $3 params, $4 reason, $5 claims */
static const char SQL_BULK_DRAFT[] =
	"SELECT counterfoil.bulk_draft($1::uuid, $2, $3::jsonb, $4, $5::jsonb)";

enum fill_column { FILL_TOTAL, FILL_CLOSED, FILL_FINISHED };

/* $1 operation, $2 keys to look at */
static const char SQL_BULK_FILL[] =
	"SELECT total, closed, finished FROM counterfoil.bulk_fill($1::uuid, $2)";

enum figure_column {
	FIGURE_STATE,
	FIGURE_TARGET,
	FIGURE_ERROR,
	FIGURE_OPEN,
	FIGURE_KEYS,
};

/* $1 operation */
static const char SQL_BULK_FIGURES[] = "SELECT state, target, error_class, window_open, keys FROM "
				       "counterfoil.bulk_figures($1::uuid)";

enum queue_column { QUEUE_RESULT, QUEUE_DETAIL, QUEUE_ID };

/* $1 operation, $2 expected, $3 rate (NULL: none), $4 canary, $5 stop after (0: never) */
static const char SQL_BULK_QUEUE[] =
	"SELECT result, detail, id FROM counterfoil.bulk_queue($1::uuid, $2, $3::double precision,"
	" $4, nullif($5, 0))";

#define OPERATION_COLUMNS                                                                          \
	"o.id, o.operation::text, o.kind, o.state, o.params::text, o.rate::text, o.canary,"        \
	" o.stop_after, o.total, o.done, o.failed, o.skipped, o.detail, o.who,"                    \
	" coalesce(o.claims ->> 'user', ''), o.reason, o.created_at, o.started_at, o.ended_at,"    \
	" (SELECT i.name FROM counterfoil.instance i WHERE i.id = o.owner), now()"

enum operation_column {
	OPERATION_ID,
	OPERATION_UUID,
	OPERATION_KIND,
	OPERATION_STATE,
	OPERATION_PARAMS,
	OPERATION_RATE,
	OPERATION_CANARY,
	OPERATION_STOP_AFTER,
	OPERATION_TOTAL,
	OPERATION_DONE,
	OPERATION_FAILED,
	OPERATION_SKIPPED,
	OPERATION_DETAIL,
	OPERATION_WHO,
	OPERATION_USER,
	OPERATION_REASON,
	OPERATION_CREATED,
	OPERATION_STARTED,
	OPERATION_ENDED,
	OPERATION_OWNER,
	OPERATION_NOW,
};

/* $1 at most; newest first. Drafts are no orders. */
static const char SQL_OPERATIONS[] =
	"SELECT " OPERATION_COLUMNS " FROM counterfoil.operation o WHERE o.state <> 'draft'"
	" ORDER BY o.id DESC LIMIT $1";

/* $1 id */
static const char SQL_OPERATION[] =
	"SELECT " OPERATION_COLUMNS " FROM counterfoil.operation o WHERE o.id = $1";

enum item_column { ITEM_EFFECT, ITEM_KEY, ITEM_TARGET, ITEM_RESULT, ITEM_DETAIL };

/* $1 operation's id, $2 at most. Keys that failed or were skipped. */
static const char SQL_OPERATION_ITEMS[] =
	"SELECT i.effect_id, (SELECT e.idempotency_key FROM counterfoil.effect e"
	"   WHERE e.id = i.effect_id), i.target, i.result, i.detail"
	" FROM (SELECT * FROM counterfoil.operation_item x WHERE x.operation_id = $1"
	"   ORDER BY x.effect_id LIMIT 100000) i WHERE i.result IN ('failed', 'skipped') LIMIT $2";

enum running_column { RUNNING_STATE, RUNNING_KEYS };

/* $1 operation's id. Where the keys are that were ordered and have not ended. */
static const char SQL_OPERATION_RUNNING[] =
	"SELECT s.state::text, count(*) FROM counterfoil.operation_item i, LATERAL"
	" (SELECT x.state FROM counterfoil.effect_state x WHERE x.id = i.effect_id OFFSET 0) s"
	" WHERE i.operation_id = $1 AND i.result = 'ordered' GROUP BY s.state ORDER BY s.state";

/* $1 id, $2 action, $3 operation, $4 reason, $5 claims */
static const char SQL_OPERATION_ORDER[] =
	"SELECT result, detail FROM counterfoil.operation_order($1, $2, $3::uuid, $4, $5::jsonb)";

#endif
