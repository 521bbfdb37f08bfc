/* Pauses: counterfoil.pause. */
#ifndef COUNTERFOIL_SQL_PAUSE_H
#define COUNTERFOIL_SQL_PAUSE_H

enum pause_column { PAUSE_SCOPE, PAUSE_NAME, PAUSE_SINCE, PAUSE_NOW, PAUSE_WHO, PAUSE_REASON };

static const char SQL_PAUSES[] = "SELECT scope, name, since, now(), who, reason"
				 " FROM counterfoil.pause ORDER BY scope DESC, name LIMIT 1000";

/* $1 pause or resume, $2 scope, $3 name, $4 operation, $5 reason, $6 claims, $7 dry run */
static const char SQL_PAUSE[] =
	"SELECT (v).result, (v).action, (v).detail, (v).from_state::text, (v).to_state::text"
	" FROM counterfoil.pause($1, $2, $3, $4::uuid, $5, $6::jsonb, $7) v";

#endif
