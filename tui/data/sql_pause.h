/* Pauses: counterfoil.pause. */
#ifndef COUNTERFOIL_SQL_PAUSE_H
#define COUNTERFOIL_SQL_PAUSE_H

enum pause_column {
	PAUSE_SCOPE,
	PAUSE_NAME,
	PAUSE_SINCE,
	PAUSE_NOW,
	PAUSE_WHO,
	PAUSE_REASON,
	PAUSE_ASIDE, /* of an effect: its keys that were met in line, and put aside; NULL of others
		      */
};

/* $1: no more are counted. */
static const char SQL_PAUSES[] =
	"SELECT p.scope, p.name, p.since, now(), p.who, p.reason,"
	"   CASE p.scope WHEN 'effect' THEN (SELECT count(*) FROM (SELECT"
	"     FROM counterfoil.effect_state s WHERE s.aside = p.name LIMIT $1) t) END"
	" FROM counterfoil.pause p ORDER BY p.scope DESC, p.name LIMIT 1000";

/* $1 pause or resume, $2 scope, $3 name, $4 operation, $5 reason, $6 claims, $7 dry run */
static const char SQL_PAUSE[] =
	"SELECT (v).result, (v).action, (v).detail, (v).from_state::text, (v).to_state::text"
	" FROM counterfoil.pause($1, $2, $3, $4::uuid, $5, $6::jsonb, $7) v";

#endif
