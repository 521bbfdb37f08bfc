/* Every statement of the console and of its commands.
 *
 * The session plans each afresh and never scans a table (SQL_OPTIONS): a state is a literal in the
 * text, so that the partial indexes can be used. Lists walk an index from a cursor, at most a
 * budget of rows, and only then fetch the other table and filter. Ages are the database's now()
 * less its own times: no clock of ours is part of them. */
#ifndef COUNTERFOIL_SQL_CONSOLE_H
#define COUNTERFOIL_SQL_CONSOLE_H

#define SQL_OPTIONS                                                                                \
	"-c plan_cache_mode=force_custom_plan -c enable_seqscan=off -c jit=off"                    \
	" -c idle_in_transaction_session_timeout=10000"

/* Microseconds since a time. */
#define AGE(time_)           "(extract(epoch from now() - " time_ ") * 1000000)::bigint"
#define COMMA(symbol_, sql_) sql_ ", "

/* A grace of 2 s over what the ledger calls stale: nobody shall be alarmed by what is being taken
 * over just now. */
#define STALE(row_)                                                                                \
	"(" row_ ".deadline < now() - interval '2 s' OR NOT EXISTS (SELECT FROM"                   \
	" counterfoil.instance i WHERE i.id = " row_                                               \
	".owner AND i.program = 'ledger' AND i.until > now() - interval '2 s'))"

/* --- the connection ----------------------------------------------------------------------------
 */

#define HELLO_COLUMNS(X)                                                                           \
	X(HELLO_NOW, "now()")                                                                      \
	X(HELLO_DATABASE, "current_database()::text")                                              \
	X(HELLO_USER, "session_user::text")

static const char SQL_HELLO[] = "SELECT " HELLO_COLUMNS(COMMA) "1";

/* --- lists --------------------------------------------------------------------------------------
 */

#define PAUSED(scope_, name_)                                                                      \
	"EXISTS (SELECT FROM counterfoil.pause p WHERE p.scope = '" scope_ "' AND p.name = " name_ \
	")"

/* The key at the head of the line that x waits in; NULL: it waits in none. */
#define BEHIND                                                                                     \
	"CASE WHEN x.waiting AND x.aside IS NULL THEN (SELECT b.idempotency_key"                   \
	" FROM counterfoil.effect b WHERE b.id = (SELECT q.id FROM counterfoil.effect_state q"     \
	" WHERE q.target = x.target AND q.tenant = x.tenant AND q.serial_key = x.serial_key"       \
	" AND q.serial_key IS NOT NULL AND q.id < x.id"                                            \
	" AND q.state IN ('pending', 'retry_wait', 'in_flight', 'uncertain')"                      \
	" ORDER BY q.id LIMIT 1)) END"

/* What a person has stopped, so that x is not sent: everything, effect, tenant or target. */
#define WHEN_PAUSED(scope_, name_) " WHEN " PAUSED(scope_, name_) " THEN '" scope_ "'"
#define STOPPED                                                                                    \
	"CASE WHEN x.state NOT IN ('pending', 'retry_wait') THEN NULL" ALL_PAUSED EFFECT_PAUSED    \
		TENANT_PAUSED " WHEN EXISTS (SELECT FROM counterfoil.target_state t"               \
	" WHERE t.target = x.target AND t.held) THEN 'target' END"
#define ALL_PAUSED    WHEN_PAUSED("everything", "''")
#define EFFECT_PAUSED WHEN_PAUSED("effect", "k.effect")
#define TENANT_PAUSED WHEN_PAUSED("tenant", "x.tenant")

/* What a list shows of a key: x is the row of effect_state, k of effect. The first three are of the
 * walk and not of the key: how many rows it looked at, and the last one's place. */
#define ROW_COLUMNS(X)                                                                             \
	X(ROW_ID, "x.id")                                                                          \
	X(ROW_EPOCH, "x.epoch")                                                                    \
	X(ROW_STATE, "x.state::text")                                                              \
	X(ROW_KEY, "k.idempotency_key")                                                            \
	X(ROW_TARGET, "x.target")                                                                  \
	X(ROW_TENANT, "x.tenant")                                                                  \
	X(ROW_EFFECT, "k.effect")                                                                  \
	X(ROW_TOPIC, "k.topic")                                                                    \
	X(ROW_PARTITION, "k.partition")                                                            \
	X(ROW_OFFSET, "k.\"offset\"")                                                              \
	X(ROW_SUBJECT, "k.subject")                                                                \
	X(ROW_EVENT_ID, "k.event_id")                                                              \
	X(ROW_ATTEMPTS, "x.attempts")                                                              \
	X(ROW_TRIES, "x.tries")                                                                    \
	X(ROW_SINCE, "x.state_since")                                                              \
	X(ROW_AGE, AGE("x.state_since"))                                                           \
	X(ROW_DUE, "x.due_at")                                                                     \
	X(ROW_ERROR, "x.error_class")                                                              \
	X(ROW_PROVIDER_ID, "x.provider_id")                                                        \
	X(ROW_OWNER, "(SELECT i.name FROM counterfoil.instance i WHERE i.id = x.owner)")           \
	X(ROW_SHADOW, "x.state = 'completed' AND x.outcome IS NOT DISTINCT FROM 'shadow'")         \
	X(ROW_BEHIND, BEHIND)                                                                      \
	X(ROW_STOPPED, STOPPED)

#define SYMBOL(symbol_, sql_) symbol_,
enum hello_column { HELLO_COLUMNS(SYMBOL) HELLO_COLUMN_COUNT };
enum row_column {
	ROW_COLUMNS(SYMBOL) ROW_EXAMINED,
	ROW_LAST_TIME,
	ROW_LAST_ID,
	ROW_LAST_TARGET,
	ROW_LAST_TENANT
};
enum { ROW_MATCHED = ROW_EXAMINED }; /* of what was found: by what */

#define STATE_OF_ROW                                                                               \
	"id, epoch, state, target, tenant, attempts, tries, state_since, due_at, error_class,"     \
	" provider_id, owner, outcome, waiting, aside, serial_key"
#define EFFECT_OF_ROW                                                                              \
	"LATERAL (SELECT idempotency_key, effect, topic, partition, \"offset\", subject, event_id" \
	" FROM counterfoil.effect WHERE id = x.id OFFSET 0) k"

/* $1 and $2: behind this time (NULL: from the beginning) and id; $3 rows to look at; $4 rows
 * wanted; $5 error class; $6 and $7: behind this target and tenant. Each uses of these what it
 * needs. There is always a row: without any key its ROW_ID is NULL. */
#define LIST_OF(from_, order_, time_, filter_)                                                     \
	"WITH r AS MATERIALIZED (SELECT " STATE_OF_ROW ", row_number() OVER (ORDER BY " order_     \
	") AS n FROM " from_ " ORDER BY " order_ " LIMIT $3),"                                     \
	" e AS (SELECT n, " time_ " AS time, id, target, tenant FROM r ORDER BY n DESC LIMIT 1)"   \
	" SELECT " ROW_COLUMNS(COMMA) "coalesce(e.n, 0), e.time, e.id, e.target, e.tenant"         \
				      " FROM (SELECT) o LEFT JOIN e ON true"                       \
				      " LEFT JOIN (SELECT * FROM r WHERE " filter_                 \
				      " ORDER BY n LIMIT $4) x ON true"                            \
				      " LEFT JOIN " EFFECT_OF_ROW " ON true ORDER BY x.n"

#define LIST(where_, order_, time_, filter_)                                                       \
	LIST_OF("counterfoil.effect_state s WHERE " where_, order_, time_, filter_)

#define BEHIND_TIME " AND (state_since, id) < (coalesce($1, 'infinity'), $2)"
#define NEWEST      "state_since DESC, id DESC"

#define LIST_STATE(state_) LIST("state = '" state_ "'" BEHIND_TIME, NEWEST, "state_since", "true")
#define LIST_ERROR(state_)                                                                         \
	LIST("state = '" state_ "' AND error_class = $5" BEHIND_TIME, NEWEST, "state_since", "true")
/* By id, the newest first, with a filter behind it: no index is paid for what most keys are. */
#define LIST_ID(filter_) LIST("id < $2", "id DESC", "state_since", filter_)

static const char SQL_LIST_ALL[] = LIST_ID("true");
static const char SQL_LIST_COMPLETED[] = LIST_ID("state = 'completed'");
/* Keys that may be sent and keys that wait, behind another or put aside, have an index each: both
 * are walked in the same order and merged. */
#define DUE "target, tenant, due_at, id"
#define DUE_WALK(waits_)                                                                           \
	"(SELECT " STATE_OF_ROW " FROM counterfoil.effect_state"                                   \
	" WHERE state IN ('pending', 'retry_wait') AND " waits_ " AND (" DUE ") >"                 \
	" (coalesce($6, ''), coalesce($7, ''), coalesce($1, '-infinity'), $2)"                     \
	" ORDER BY " DUE " LIMIT $3)"
static const char SQL_LIST_PENDING[] =
	LIST_OF("(" DUE_WALK("NOT waiting") " UNION ALL " DUE_WALK("waiting") ") s", DUE, "due_at",
		"state = 'pending'");
static const char SQL_LIST_IN_FLIGHT[] = LIST_STATE("in_flight");
static const char SQL_LIST_STALE[] =
	LIST("state = 'in_flight' AND " STALE("s") BEHIND_TIME, NEWEST, "state_since", "true");
static const char SQL_LIST_RETRY_WAIT[] = LIST_STATE("retry_wait");
static const char SQL_LIST_UNCERTAIN[] = LIST_STATE("uncertain");
static const char SQL_LIST_DEAD[] = LIST_STATE("dead");
static const char SQL_LIST_CANCELLED[] = LIST_STATE("cancelled");
static const char SQL_ERROR_RETRY_WAIT[] = LIST_ERROR("retry_wait");
static const char SQL_ERROR_UNCERTAIN[] = LIST_ERROR("uncertain");
static const char SQL_ERROR_DEAD[] = LIST_ERROR("dead");

/* --- find ---------------------------------------------------------------------------------------
 */

/* $1 the text; $2 topic, $3 partition and $4 offset when it is such a place, else NULL; $5 rows of
 * each kind. chr(1114111) is behind every other character. */
static const char SQL_FIND[] =
	"WITH m AS MATERIALIZED ("
	" (SELECT id, 1 AS n, CASE idempotency_key WHEN $1 THEN 'key' ELSE 'key prefix' END AS what"
	"   FROM counterfoil.effect WHERE idempotency_key >= $1"
	"   AND idempotency_key <= $1 || chr(1114111) ORDER BY idempotency_key, target, tenant"
	"   LIMIT $5)"
	" UNION ALL (SELECT id, 2, 'subject' FROM counterfoil.effect WHERE subject = $1"
	"   ORDER BY subject, id LIMIT $5)"
	" UNION ALL (SELECT id, 3, 'event' FROM counterfoil.effect WHERE event_id = $1 LIMIT $5)"
	" UNION ALL (SELECT effect_id, 4, 'provider id' FROM counterfoil.attempt"
	"   WHERE provider_id = $1 LIMIT $5)"
	" UNION ALL (SELECT id, 4, 'provider id' FROM counterfoil.effect_state"
	"   WHERE provider_id = $1 AND resolution IS NOT NULL LIMIT $5)"
	" UNION ALL (SELECT id, 5, 'offset' FROM counterfoil.effect WHERE topic = $2"
	"   AND partition = $3 AND \"offset\" = $4 LIMIT $5)),"
	" f AS MATERIALIZED (SELECT id, min(n) AS n, string_agg(DISTINCT what, ', ') AS what FROM m"
	"   GROUP BY id)"
	" SELECT " ROW_COLUMNS(COMMA) "f.what FROM f,"
				      " LATERAL (SELECT " STATE_OF_ROW
				      " FROM counterfoil.effect_state WHERE id = f.id OFFSET 0) x,"
				      " " EFFECT_OF_ROW
				      " ORDER BY f.n, k.idempotency_key, x.target, x.tenant, x.id";

/* --- a key in full ------------------------------------------------------------------------------
 */

/* $1 key, $2 target and $3 tenant (NULL: any). More than one: it has to be said which. */
static const char SQL_NAMED[] =
	"SELECT id, target, tenant FROM counterfoil.effect WHERE idempotency_key = $1"
	" AND target = coalesce($2, target) AND tenant = coalesce($3, tenant)"
	" ORDER BY target, tenant LIMIT 20";

#define BODY "CASE WHEN r.value_is_body THEN coalesce(r.body, r.event_value) ELSE r.body END"

#define KEY_COLUMNS(X)                                                                             \
	X(KEY_ID, "e.id")                                                                          \
	X(KEY_EPOCH, "x.epoch")                                                                    \
	X(KEY_STATE, "x.state::text")                                                              \
	X(KEY_KEY, "e.idempotency_key")                                                            \
	X(KEY_TARGET, "e.target")                                                                  \
	X(KEY_TENANT, "e.tenant")                                                                  \
	X(KEY_EFFECT, "e.effect")                                                                  \
	X(KEY_MODE, "e.mode")                                                                      \
	X(KEY_PROVIDER_KEY, "e.provider_key || CASE WHEN x.key_no > 0 THEN '~r' || x.key_no"       \
			    " ELSE '' END")                                                        \
	X(KEY_TOPIC, "e.topic")                                                                    \
	X(KEY_PARTITION, "e.partition")                                                            \
	X(KEY_OFFSET, "e.\"offset\"")                                                              \
	X(KEY_EVENT_ID, "e.event_id")                                                              \
	X(KEY_EVENT_TYPE, "e.event_type")                                                          \
	X(KEY_SUBJECT, "e.subject")                                                                \
	X(KEY_CREATED, "e.created_at")                                                             \
	X(KEY_TRIES, "x.tries")                                                                    \
	X(KEY_ATTEMPTS, "x.attempts")                                                              \
	X(KEY_UNKNOWN, "x.unknown_sends + x.unknown_before")                                       \
	X(KEY_UNKNOWN_BEFORE, "x.unknown_before")                                                  \
	X(KEY_REPLAYS, "x.replays")                                                                \
	X(KEY_NUMBER, "x.key_no")                                                                  \
	X(KEY_STORED, "x.stored")                                                                  \
	X(KEY_RESEND, "e.resend")                                                                  \
	X(KEY_EMIT_DUE, "x.emit_due")                                                              \
	X(KEY_EMIT_FAILED, "x.emit_failed")                                                        \
	X(KEY_RESOLUTION, "x.resolution")                                                          \
	X(KEY_NOTE, "(SELECT a.reason FROM counterfoil.audit a WHERE a.effect_id = e.id"           \
		    " AND a.action = 'note' AND a.result = 'done'"                                 \
		    " ORDER BY a.effect_id DESC, a.id DESC LIMIT 1)")                              \
	X(KEY_REPLAY_OF, "(SELECT o.idempotency_key FROM counterfoil.effect o"                     \
			 " WHERE o.id = e.replay_of)")                                             \
	X(KEY_FORCED, "(SELECT string_agg(o.idempotency_key, ' ' ORDER BY o.id)"                   \
		      " FROM counterfoil.effect o WHERE o.replay_of = e.id)")                      \
	X(KEY_FIRST_SENT, "x.first_sent_at")                                                       \
	X(KEY_SENT, "x.sent_at")                                                                   \
	X(KEY_WINDOW, "x.window_until")                                                            \
	X(KEY_DUE, "x.due_at")                                                                     \
	X(KEY_OUTCOME, "x.outcome")                                                                \
	X(KEY_STATUS, "x.http_status")                                                             \
	X(KEY_PROVIDER_ID, "x.provider_id")                                                        \
	X(KEY_ERROR, "x.error_class")                                                              \
	X(KEY_SINCE, "x.state_since")                                                              \
	X(KEY_AGE, AGE("x.state_since"))                                                           \
	X(KEY_OWNER, "(SELECT i.name FROM counterfoil.instance i WHERE i.id = x.owner)")           \
	X(KEY_STALE, "x.state = 'in_flight' AND " STALE("x"))                                      \
	X(KEY_NOT_AFTER, "e.not_after")                                                            \
	X(KEY_METHOD, "r.method")                                                                  \
	X(KEY_URL, "r.url")                                                                        \
	X(KEY_HEADERS, "substring(r.headers FOR 65536)")                                           \
	X(KEY_BODY, "substring(" BODY " FOR 65536)")                                               \
	X(KEY_BODY_SIZE, "coalesce(octet_length(" BODY "), 0)")                                    \
	X(KEY_HELD, "coalesce(t.held, false)")                                                     \
	X(KEY_HOLD_REASON, "t.hold_reason")                                                        \
	X(KEY_PAUSED, "t.paused_until")                                                            \
	X(KEY_ALL_PAUSED, PAUSED("everything", "''"))                                              \
	X(KEY_EFFECT_PAUSED, PAUSED("effect", "e.effect"))                                         \
	X(KEY_TENANT_PAUSED, PAUSED("tenant", "e.tenant"))                                         \
	X(KEY_WAITS, "x.waiting AND x.aside IS NULL")                                              \
	X(KEY_BEHIND, BEHIND)                                                                      \
	X(KEY_LEDGERS, "EXISTS (SELECT FROM counterfoil.instance i WHERE i.program = 'ledger'"     \
		       " AND i.until > now())")                                                    \
	X(KEY_NOW, "now()")
enum key_column { KEY_COLUMNS(SYMBOL) KEY_COLUMN_COUNT };

/* $1 id */
static const char SQL_KEY[] = "SELECT " KEY_COLUMNS(
	COMMA) "1 FROM counterfoil.effect e"
	       " JOIN counterfoil.effect_state x ON x.id = e.id"
	       " LEFT JOIN counterfoil.effect_request r ON r.id = e.id"
	       " LEFT JOIN counterfoil.target_state t ON t.target = e.target WHERE e.id = $1";

#define ATTEMPT_COLUMNS(X)                                                                         \
	X(ATTEMPT_N, "a.n")                                                                        \
	X(ATTEMPT_EPOCH, "a.epoch")                                                                \
	X(ATTEMPT_STARTED, "a.started_at")                                                         \
	X(ATTEMPT_TOOK, "a.took_us")                                                               \
	X(ATTEMPT_OUTCOME, "a.outcome")                                                            \
	X(ATTEMPT_STATUS, "a.http_status")                                                         \
	X(ATTEMPT_ERROR, "a.error")                                                                \
	X(ATTEMPT_PROVIDER_ID, "a.provider_id")                                                    \
	X(ATTEMPT_PROVIDER_KEY, "a.provider_key")                                                  \
	X(ATTEMPT_LATE, "a.late")                                                                  \
	X(ATTEMPT_OWNER, "(SELECT i.name FROM counterfoil.instance i WHERE i.id = a.owner)")       \
	X(ATTEMPT_HEAD, "substring(a.response_head FOR 65536)")                                    \
	X(ATTEMPT_BODY_SIZE, "coalesce(octet_length(a.response_body), 0)")                         \
	X(ATTEMPT_CUT, "a.truncated")
enum attempt_column { ATTEMPT_COLUMNS(SYMBOL) ATTEMPT_COLUMN_COUNT };

/* $1 id, $2 rows; newest first */
static const char SQL_ATTEMPTS[] = "SELECT " ATTEMPT_COLUMNS(
	COMMA) "1 FROM counterfoil.attempt a WHERE a.effect_id = $1"
	       " ORDER BY a.effect_id DESC, a.n DESC, a.epoch DESC LIMIT $2";

/* $1 id, $2 n, $3 epoch, $4 outcome */
static const char SQL_RESPONSE[] =
	"SELECT substring(a.response_body FOR 65536) FROM counterfoil.attempt a"
	" WHERE a.effect_id = $1 AND a.n = $2 AND a.epoch = $3 AND (a.outcome = 'lost') = ($4 = "
	"'lost')";

#define AUDIT_COLUMNS(X)                                                                           \
	X(AUDIT_AT, "a.at")                                                                        \
	X(AUDIT_WHO, "a.who")                                                                      \
	X(AUDIT_OS_USER, "a.claims ->> 'user'")                                                    \
	X(AUDIT_ADDRESS, "coalesce(a.claims ->> 'address', a.claims ->> 'host')")                  \
	X(AUDIT_ACTION, "a.action")                                                                \
	X(AUDIT_RESULT, "a.result")                                                                \
	X(AUDIT_DETAIL, "a.detail")                                                                \
	X(AUDIT_REASON, "a.reason")                                                                \
	X(AUDIT_FROM, "a.from_state::text")                                                        \
	X(AUDIT_TO, "a.to_state::text")                                                            \
	X(AUDIT_OPERATION, "a.operation::text")
enum audit_column { AUDIT_COLUMNS(SYMBOL) AUDIT_COLUMN_COUNT };

/* $1 id; newest first */
static const char SQL_AUDIT[] =
	"SELECT " AUDIT_COLUMNS(COMMA) "1 FROM counterfoil.audit a WHERE a.effect_id = $1"
				       " ORDER BY a.effect_id DESC, a.id DESC LIMIT 50";

/* --- orders -------------------------------------------------------------------------------------
 */

static const char SQL_BEGIN_ORDER[] = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

enum verdict_column { VERDICT_RESULT, VERDICT_ACTION, VERDICT_DETAIL, VERDICT_FROM, VERDICT_TO };

/* $1 id, $2 epoch, $3 state, $4 operation, $5 reason, $6 claims, $7 dry run, $8 provider's id. Each
 * uses of these what it needs. */
#define ORDER(call_)                                                                               \
	"SELECT result, action, detail, from_state::text, to_state::text FROM counterfoil." call_
#define ORDERED "$1, $2, $3, $4::uuid, "

static const char SQL_REPLAY[] = ORDER("replay(" ORDERED "$5, $6::jsonb, $7)");
static const char SQL_NEW_KEY[] = ORDER("replay(" ORDERED "$5, $6::jsonb, $7, true)");
static const char SQL_HAPPENED[] = ORDER("resolve(" ORDERED "true, $8, $5, $6::jsonb, $7)");
static const char SQL_NOT_HAPPENED[] = ORDER("resolve(" ORDERED "false, NULL, $5, $6::jsonb, $7)");
static const char SQL_CANCEL[] = ORDER("cancel(" ORDERED "$5, $6::jsonb, $7)");
static const char SQL_GIVE_UP[] = ORDER("give_up(" ORDERED "$5, $6::jsonb, $7)");
static const char SQL_ORDER_TAKE_OVER[] = ORDER("take_over(" ORDERED "$5, $6::jsonb, $7)");
static const char SQL_NOTE[] = ORDER("note($1, $4::uuid, $5, $6::jsonb, $7)");
static const char SQL_ERASE[] = ORDER("erase(" ORDERED "$5, $6::jsonb, $7)");

/* --- the overview -------------------------------------------------------------------------------
 */

#define COUNT(where_)                                                                              \
	"(SELECT count(*) FROM (SELECT FROM counterfoil.effect_state s WHERE " where_              \
	" LIMIT $1) t)"
#define OLDEST(state_)                                                                             \
	"(SELECT " AGE("state_since") " FROM counterfoil.effect_state WHERE state = '" state_      \
				      "' ORDER BY state_since, id LIMIT 1)"

#define OF_PENDING(waits_)                                                                         \
	"(SELECT state_since FROM counterfoil.effect_state WHERE state = 'pending' AND " waits_    \
	" LIMIT $1)"

#define ROWS_LEFT_OUT(parked_)                                                                     \
	"(SELECT count(*) FROM (SELECT FROM counterfoil.outbox_source o, LATERAL (SELECT FROM"     \
	" counterfoil.outbox_dead d WHERE d.source = o.name AND d.parked = " parked_               \
	" LIMIT $1) x LIMIT $1) t)"

/* $1: count no further. What is completed has no index of its own: counted as long as the table is
 * small, else estimated from the planner's figure. */
#define COUNT_COLUMNS(X)                                                                           \
	X(COUNT_PENDING,                                                                           \
	  COUNT("state = 'pending' AND NOT waiting") " + " COUNT("state = 'pending' AND waiting")) \
	X(COUNT_IN_FLIGHT, COUNT("state = 'in_flight'"))                                           \
	X(COUNT_STALE, COUNT("state = 'in_flight' AND " STALE("s")))                               \
	X(COUNT_RETRY_WAIT, COUNT("state = 'retry_wait'"))                                         \
	X(COUNT_UNCERTAIN, COUNT("state = 'uncertain'"))                                           \
	X(COUNT_DEAD, COUNT("state = 'dead'"))                                                     \
	X(COUNT_CANCELLED, COUNT("state = 'cancelled'"))                                           \
	X(COUNT_COMPLETED,                                                                         \
	  "CASE WHEN c.about < $1 THEN (SELECT count(*) FROM (SELECT state FROM"                   \
	  " counterfoil.effect_state ORDER BY id DESC LIMIT $1) t WHERE state = 'completed') END") \
	X(COUNT_ABOUT, "c.about")                                                                  \
	X(OLDEST_PENDING, "(SELECT " AGE("min(state_since)") " FROM (" OF_PENDING(                 \
				  "NOT waiting") " UNION ALL " OF_PENDING("waiting") ") t)")       \
	X(OLDEST_IN_FLIGHT, "(SELECT " AGE("min(state_since)") " FROM (SELECT state_since FROM"    \
							       " counterfoil.effect_state WHERE "  \
							       "state = 'in_flight' LIMIT $1) t)") \
	X(OLDEST_STALE,                                                                            \
	  "(SELECT " AGE("min(state_since)") " FROM (SELECT state_since FROM"                      \
					     " counterfoil.effect_state s WHERE state = "          \
					     "'in_flight' AND " STALE("s") " LIMIT $1) t)")        \
	X(OLDEST_RETRY_WAIT, OLDEST("retry_wait"))                                                 \
	X(OLDEST_UNCERTAIN, OLDEST("uncertain"))                                                   \
	X(OLDEST_DEAD, OLDEST("dead"))                                                             \
	X(OLDEST_CANCELLED, OLDEST("cancelled"))                                                   \
	X(NEXT_WINDOW,                                                                             \
	  "(SELECT (extract(epoch from window_until - now()) * 1000000)::bigint FROM"              \
	  " counterfoil.effect_state WHERE state = 'uncertain' AND window_until > now()"           \
	  " ORDER BY window_until, id LIMIT 1)")                                                   \
	X(OUTBOX_COUNT,                                                                            \
	  "(SELECT count(*) FROM (SELECT FROM counterfoil.outbox ORDER BY id LIMIT $1) t)")        \
	X(OUTBOX_OLDEST,                                                                           \
	  "(SELECT " AGE("created_at") " FROM counterfoil.outbox ORDER BY id LIMIT 1)")            \
	X(OUTBOX_DEAD, ROWS_LEFT_OUT("false"))                                                     \
	X(OUTBOX_PARKED, ROWS_LEFT_OUT("true"))                                                    \
	X(RELAY_OWNER,                                                                             \
	  "(SELECT owner FROM counterfoil.lease WHERE name = 'relay' AND until > now()"            \
	  " AND until <= now() + length)")                                                         \
	X(LEDGER_COUNT, "(SELECT count(*) FROM counterfoil.instance WHERE program = 'ledger' AND " \
			"until > now())")                                                          \
	X(LEDGER_NAMES,                                                                            \
	  "(SELECT string_agg(split_part(name, '/', 1), ' ' ORDER BY name) FROM (SELECT name FROM" \
	  " counterfoil.instance WHERE program = 'ledger' AND until > now() LIMIT 20) t)")         \
	X(POISON_COUNT,                                                                            \
	  "(SELECT count(*) FROM (SELECT FROM counterfoil.poison WHERE settled_at IS NULL"         \
	  " LIMIT $1) t)")                                                                         \
	X(CONFLICT_COUNT,                                                                          \
	  "(SELECT count(*) FROM (SELECT FROM counterfoil.conflict WHERE settled_at IS NULL"       \
	  " LIMIT $1) t)")
enum count_column { COUNT_COLUMNS(SYMBOL) COUNT_COLUMN_COUNT };

static const char SQL_COUNTS[] =
	"SELECT " COUNT_COLUMNS(COMMA) "1 FROM (SELECT reltuples::bigint AS about FROM pg_class"
				       " WHERE oid = 'counterfoil.effect_state'::regclass) c";

enum error_column { ERROR_STATE, ERROR_CLASS, ERROR_COUNT, ERROR_LAST };

/* A loose index scan over the classes, so that its cost follows their number and not the keys'. */
static const char SQL_ERRORS[] =
	"WITH RECURSIVE c(s, e) AS ((SELECT state, error_class FROM counterfoil.effect_state"
	"   WHERE state IN ('retry_wait', 'uncertain', 'dead') ORDER BY state, error_class LIMIT 1)"
	" UNION ALL SELECT n.state, n.error_class FROM c, LATERAL (SELECT state, error_class"
	"   FROM counterfoil.effect_state WHERE state IN ('retry_wait', 'uncertain', 'dead')"
	"   AND (state, error_class) > (c.s, c.e) ORDER BY state, error_class LIMIT 1) n)"
	" SELECT c.s::text, c.e, k.n, l.age FROM c, LATERAL (SELECT count(*) AS n FROM (SELECT FROM"
	"   counterfoil.effect_state WHERE state = c.s AND error_class = c.e"
	"   AND state IN ('retry_wait', 'uncertain', 'dead') LIMIT 10001) q) k,"
	" LATERAL (SELECT " AGE("state_since") " AS age FROM counterfoil.effect_state"
					       "   WHERE state = c.s AND error_class = c.e AND "
					       "state IN ('retry_wait', 'uncertain', 'dead')"
					       "   ORDER BY state_since DESC, id DESC LIMIT 1) l"
					       " ORDER BY k.n DESC, c.s DESC, c.e LIMIT 20";

enum target_column {
	TARGET_NAME,
	TARGET_HELD,
	TARGET_REASON,
	TARGET_PROBED,
	TARGET_FAILING,
	TARGET_SINCE,
	TARGET_FOR_MORE
};

/* Those that hold work back. */
static const char SQL_TARGETS_HELD[] =
	"SELECT target, held, coalesce(hold_reason, ''),"
	" coalesce(held_by = 'system' AND probe_at IS NOT NULL, false), breaker_until IS NOT NULL,"
	" " AGE("held_since") ","
			      " (extract(epoch from coalesce(breaker_until, paused_until) - now()) "
			      "* 1000000)::bigint"
			      " FROM counterfoil.target_state WHERE held OR paused_until > now() "
			      "OR breaker_until IS NOT NULL"
			      " ORDER BY target LIMIT 20";

enum halt_column {
	HALT_SCOPE,
	HALT_NAME,
	HALT_WHO,
	HALT_REASON,
	HALT_SINCE,
	HALT_ASIDE, /* keys of an effect that were put aside; 0 of others */
	HALT_COUNT  /* of all pauses */
};

/* The first pauses, and how many there are. $1: no more keys are counted. */
static const char SQL_PAUSES_FIRST[] =
	"SELECT p.scope, p.name, p.who, coalesce(p.reason, ''), " AGE(
		"p.since") ","
			   " CASE p.scope WHEN 'effect' THEN (SELECT count(*) FROM (SELECT"
			   "   FROM counterfoil.effect_state s WHERE s.aside = p.name LIMIT $1) t) "
			   "ELSE 0 END, p.n"
			   " FROM (SELECT *, count(*) OVER () AS n FROM counterfoil.pause"
			   "   ORDER BY scope <> 'everything', scope, name LIMIT 3) p"
			   " ORDER BY p.scope <> 'everything', p.scope, p.name";

enum unmatched_column { UNMATCHED_TOPIC, UNMATCHED_TYPE, UNMATCHED_COUNT };

/* Of the last hour, by topic and type: loose as well, for the minutes of old add up. */
static const char SQL_UNMATCHED_LATELY[] =
	"WITH RECURSIVE c(topic, type, n) AS ((SELECT topic, type, 1 FROM counterfoil.unmatched"
	"   ORDER BY topic, type LIMIT 1)"
	" UNION ALL SELECT u.topic, u.type, c.n + 1 FROM c, LATERAL (SELECT topic, type"
	"   FROM counterfoil.unmatched WHERE (topic, type) > (c.topic, c.type)"
	"   ORDER BY topic, type LIMIT 1) u WHERE c.n < 100)"
	" SELECT c.topic, c.type, m.n FROM c, LATERAL (SELECT sum(u.n)::bigint AS n"
	"   FROM counterfoil.unmatched u WHERE u.topic = c.topic AND u.type = c.type"
	"   AND u.minute > now() - interval '1 hour') m WHERE m.n > 0 ORDER BY m.n DESC LIMIT 5";

#endif
