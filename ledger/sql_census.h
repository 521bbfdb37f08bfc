/* Statements that only count, for metrics and readiness. Each reads through an index, in its order,
 * and no further than to a cap. */
#ifndef LEDGER_SQL_CENSUS_H
#define LEDGER_SQL_CENSUS_H

/* $1 rows of a state, at most: pending and retry_wait together, each other by itself. Keys that
 * wait behind another of their serial key are not among them. */
static const char SQL_CENSUS[] =
	"SELECT state::text, count(*),"
	"   (extract(epoch FROM now() - min(state_since)) * 1000000)::bigint"
	" FROM ("
	"   (SELECT state, state_since FROM counterfoil.effect_state"
	"     WHERE state IN ('pending', 'retry_wait') AND NOT waiting"
	"     ORDER BY target, tenant, due_at, id LIMIT $1)"
	"   UNION ALL (SELECT state, state_since FROM counterfoil.effect_state"
	"     WHERE state = 'in_flight' ORDER BY owner, deadline, id LIMIT $1)"
	"   UNION ALL (SELECT state, state_since FROM counterfoil.effect_state"
	"     WHERE state = 'uncertain' ORDER BY state_since, id LIMIT $1)"
	"   UNION ALL (SELECT state, state_since FROM counterfoil.effect_state"
	"     WHERE state = 'dead' ORDER BY state_since, id LIMIT $1)"
	"   UNION ALL (SELECT state, state_since FROM counterfoil.effect_state"
	"     WHERE state = 'cancelled' ORDER BY state_since, id LIMIT $1)) s"
	" GROUP BY state";

/* $1 tenants of targets, at most. The earliest due time of each target's keys that are due, by skip
 * scan over its tenants. What is paused waits for a person. */
static const char SQL_CENSUS_DUE[] =
	"WITH RECURSIVE t AS ("
	"  (SELECT target, tenant, 1 AS n FROM counterfoil.effect_state"
	"    WHERE state IN ('pending', 'retry_wait') AND NOT waiting"
	"    ORDER BY target, tenant LIMIT 1)"
	"  UNION ALL"
	"  SELECT m.target, m.tenant, t.n + 1 FROM t, LATERAL ("
	"    SELECT target, tenant FROM counterfoil.effect_state"
	"    WHERE state IN ('pending', 'retry_wait') AND NOT waiting"
	"      AND (target, tenant) > (t.target, t.tenant)"
	"    ORDER BY target, tenant LIMIT 1) m WHERE t.n < $1)"
	" SELECT t.target, greatest((extract(epoch FROM now() - min(d.due_at)) * 1000000)::bigint, "
	"1)"
	" FROM t, LATERAL (SELECT due_at FROM counterfoil.effect_state s"
	"   WHERE s.state IN ('pending', 'retry_wait') AND NOT s.waiting"
	"     AND s.target = t.target AND s.tenant = t.tenant"
	"   ORDER BY s.due_at, s.id LIMIT 1) d"
	" WHERE d.due_at <= now() AND NOT EXISTS (SELECT FROM counterfoil.pause p"
	"   WHERE p.scope = 'everything' OR (p.scope = 'tenant' AND p.name = t.tenant))"
	" GROUP BY t.target";

/* $1 rows, at most. Orders that have not ended: how many of a kind in a state, and the items that
 * nothing was done to, of all states of the kind. */
static const char SQL_CENSUS_OPERATIONS[] =
	"SELECT kind, state, count(*),"
	"   (sum(sum(greatest(total - done - failed - skipped, 0))) OVER (PARTITION BY "
	"kind))::bigint"
	" FROM (SELECT * FROM counterfoil.operation WHERE state IN ('queued', 'running', 'paused')"
	"   ORDER BY kind, id LIMIT $1) o"
	" GROUP BY kind, state";

/* $1 names of targets, $2 keys are counted up to this, $3 targets that are told: those of other
 * names that have unfinished keys, by skip scan over the keys that may be due and over those of a
 * serial key, uncertain ones too. */
#define NAMES_OF(where_)                                                                           \
	"((SELECT target FROM counterfoil.effect_state WHERE " where_                              \
	"   ORDER BY target LIMIT 1)"                                                              \
	" UNION ALL"                                                                               \
	" SELECT m.target FROM t, LATERAL (SELECT target FROM counterfoil.effect_state"            \
	"   WHERE " where_ " AND target > t.target ORDER BY target LIMIT 1) m)"
#define COUNT_OF(where_)                                                                           \
	"(SELECT count(*) FROM (SELECT FROM counterfoil.effect_state s WHERE " where_              \
	"   AND s.target = n.target LIMIT $2) c)"
#define MAY_BE_DUE "state IN ('pending', 'retry_wait') AND NOT waiting"
#define IN_A_ROW                                                                                   \
	"serial_key IS NOT NULL AND state IN ('pending', 'retry_wait', 'in_flight', 'uncertain')"
static const char SQL_STRAYS[] =
	"WITH n AS MATERIALIZED ("
	"  SELECT target FROM (WITH RECURSIVE t AS " NAMES_OF(
		MAY_BE_DUE) " SELECT target FROM t) d"
			    "  UNION"
			    "  SELECT target FROM (WITH RECURSIVE t AS " NAMES_OF(
				    IN_A_ROW) " SELECT target FROM t) r)"
					      " SELECT n.target, greatest(" COUNT_OF(
						      MAY_BE_DUE) ", " COUNT_OF(IN_A_ROW) ")"
											  " FROM n "
											  "WHERE "
											  "n."
											  "target "
											  "<> ALL "
											  "($1) "
											  "ORDER "
											  "BY 1 "
											  "LIMIT "
											  "$3";
#undef NAMES_OF
#undef COUNT_OF
#undef MAY_BE_DUE
#undef IN_A_ROW

/* Does a relay serve the outbox of this database, and how long does its oldest row wait? Dead
 * letters leave through it. */
static const char SQL_CENSUS_OUTBOX[] =
	"SELECT EXISTS (SELECT FROM counterfoil.lease"
	"   WHERE name = 'relay' AND owner <> '' AND until > clock_timestamp()),"
	" coalesce((SELECT CASE WHEN isfinite(created_at) THEN"
	"   greatest(extract(epoch FROM clock_timestamp() - created_at) * 1000000, 0)::bigint END"
	"   FROM counterfoil.outbox ORDER BY id LIMIT 1), 0)";

#endif
