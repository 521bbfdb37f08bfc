/* The SQL of `counterfoil adopt`. */
#ifndef COUNTERFOIL_TUI_SQL_ADOPT_H
#define COUNTERFOIL_TUI_SQL_ADOPT_H

/* What would be sent, or looked at again, once the programs run. */
#define ADOPT_WAITING(X)                                                                           \
	X(OUTBOX, "outbox rows", "outbox", "FROM counterfoil.outbox")                              \
	X(REFUSED, "dead and parked outbox rows", "outbox_dead", "FROM counterfoil.outbox_dead")   \
	X(PENDING, "pending keys", "pending",                                                      \
	  "FROM counterfoil.effect_state WHERE state = 'pending'")                                 \
	X(RETRY_WAIT, "keys that wait for another try", "retry_wait",                              \
	  "FROM counterfoil.effect_state WHERE state = 'retry_wait'")                              \
	X(IN_FLIGHT, "keys in flight, whose attempt may have gone out", "in_flight",               \
	  "FROM counterfoil.effect_state WHERE state = 'in_flight'")                               \
	X(UNCERTAIN, "uncertain keys", "uncertain",                                                \
	  "FROM counterfoil.effect_state WHERE state = 'uncertain'")

#define ADOPT_COLUMN(symbol_, words_, name_, from_) , ADOPT_##symbol_
#define ADOPT_COUNT(symbol_, words_, name_, from_)                                                 \
	", (SELECT count(*) FROM (SELECT " from_ " LIMIT $1) t)"

enum adopt_column {
	ADOPT_SERVER,
	ADOPT_IDENTIFIER,
	ADOPT_ENVIRONMENT,
	ADOPT_ADOPTED_AT,
	ADOPT_ADOPTED_BY ADOPT_WAITING(ADOPT_COLUMN)
};

/* $1: each number is counted up to this. One row always. */
static const char SQL_ADOPT_LOOK[] =
	"SELECT c.system_identifier::text, i.system_identifier, i.environment,"
	" i.adopted_at, i.adopted_by" ADOPT_WAITING(
		ADOPT_COUNT) " FROM pg_control_system() c LEFT JOIN counterfoil.installation i ON "
			     "true";

enum { ADOPT_RESULT, ADOPT_DETAIL };

/* $1 environment; as it was shown: $2 the server's identifier, $3 and $4 what was recorded (NULL:
 * nothing); $5 operation, $6 reason, $7 claims */
static const char SQL_ADOPT[] =
	"SELECT result, detail FROM counterfoil.adopt($1, $2, $3, $4, $5::uuid, $6, $7::jsonb)";

#endif
