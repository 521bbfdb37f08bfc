/* The SQL of `counterfoil targets`, `hold` and `release`. */
#ifndef COUNTERFOIL_TUI_SQL_TARGETS_H
#define COUNTERFOIL_TUI_SQL_TARGETS_H

enum gate_column {
	GATE_NAME,
	GATE_STATE, /* in words */
	GATE_SINCE,
	GATE_UNTIL,
	GATE_BY,
	GATE_REASON,
	GATE_WAITING,
	GATE_LEDGERS,
};

#define WAITING_KEYS(waits_)                                                                       \
	"(SELECT count(*) FROM (SELECT FROM counterfoil.effect_state e"                            \
	" WHERE e.state IN ('pending', 'retry_wait') AND " waits_ " AND e.target = s.target"       \
	" LIMIT $2) c)"
#define ALL_WAITING "least($2, " WAITING_KEYS("NOT e.waiting") " + " WAITING_KEYS("e.waiting") ")"

/* $1 targets of the configuration, $2 keys are counted up to this. Beside them every target that
 * has a state or waiting keys. Those that wait behind an older key, or are put aside, count too. */
static const char SQL_TARGETS[] =
	"WITH RECURSIVE w AS ("
	"  (SELECT target FROM counterfoil.effect_state"
	"    WHERE state IN ('pending', 'retry_wait') AND NOT waiting ORDER BY target LIMIT 1)"
	"  UNION ALL"
	"  SELECT n.target FROM w, LATERAL (SELECT target FROM counterfoil.effect_state"
	"    WHERE state IN ('pending', 'retry_wait') AND NOT waiting AND target > w.target"
	"    ORDER BY target LIMIT 1) n),"
	" names AS (SELECT target FROM w UNION SELECT target FROM counterfoil.target_state"
	"   UNION SELECT c COLLATE \"C\" FROM unnest($1::text[]) c),"
	" said AS (SELECT n.target, t.held_by, t.hold_reason, t.held_since, t.paused_until,"
	"     t.breaker_until, CASE"
	"       WHEN t.held AND t.held_by = 'system' AND t.probe_at IS NULL THEN 'disabled'"
	"       WHEN t.held THEN 'held'"
	"       WHEN t.breaker_until > now() THEN 'breaker open'"
	"       WHEN t.breaker_until IS NOT NULL THEN 'breaker half open'"
	"       WHEN t.paused_until > now() THEN 'paused'"
	"       WHEN n.target = ANY ($1) OR cardinality($1) = 0 THEN 'open'"
	"       ELSE 'no target' END AS state"
	"   FROM names n LEFT JOIN counterfoil.target_state t ON t.target = n.target)"
	" SELECT s.target, s.state,"
	"   CASE WHEN s.state IN ('held', 'disabled') THEN s.held_since END,"
	"   CASE WHEN s.state = 'breaker open' THEN s.breaker_until"
	"     WHEN s.state = 'paused' THEN s.paused_until END,"
	"   CASE WHEN s.state IN ('held', 'disabled') THEN s.held_by END,"
	"   CASE WHEN s.state IN ('held', 'disabled') THEN s.hold_reason END,"
	"   " ALL_WAITING ", (SELECT count(*) FROM counterfoil.instance i"
	"     WHERE i.program = 'ledger' AND i.until > now())"
	" FROM said s ORDER BY s.target";

/* $1 hold or release, $2 its names, $3 known, $4 operation, $5 reason, $6 claims, $7 dry run. The
 * columns are those of a verdict. */
static const char SQL_HOLD_TARGET[] =
	"SELECT result, action, detail, from_state::text, to_state::text"
	" FROM counterfoil.hold_target($1, $2, $3, $4::uuid, $5, $6::jsonb, $7)";

#endif
