/* The statements about counterfoil.suspect. All that is written is written durably, and under the
 * lease: of an owner that is none any more nothing is taken. */
#ifndef COUNTERFOIL_RELAY_SQL_SUSPECTS_H
#define COUNTERFOIL_RELAY_SQL_SUSPECTS_H

/* $1 source */
static const char sql_suspect_read[] =
	"SELECT first, last, crashes, alone, alone_now FROM counterfoil.suspect WHERE source = $1";

#define SQL_DURABLE_UNDER_LEASE(lease, token)                                                      \
	" (SELECT set_config('synchronous_commit', 'on', true)) = 'on'"                            \
	" AND EXISTS (SELECT FROM counterfoil.lease l"                                             \
	"  WHERE l.name = " lease " AND l.token = " token ")"

/* $1 source, $2 first, $3 last, $4 crashes, $5 alone, $6 alone_now, $7 lease, $8 token. No row: the
 * lease is another's. */
static const char sql_suspect_write[] =
	"INSERT INTO counterfoil.suspect AS s (source, first, last, crashes, alone, alone_now)"
	" SELECT $1, $2, $3, $4, $5, $6 WHERE" SQL_DURABLE_UNDER_LEASE(
		"$7", "$8") " ON CONFLICT (source) DO UPDATE SET first = excluded.first, last = "
			    "excluded.last,"
			    "  crashes = excluded.crashes, alone = excluded.alone, alone_now = "
			    "excluded.alone_now,"
			    "  updated_at = clock_timestamp()";

/* $1 source, $2 lease, $3 token */
static const char sql_suspect_erase[] =
	"DELETE FROM counterfoil.suspect s"
	" WHERE s.source = $1 AND" SQL_DURABLE_UNDER_LEASE("$2", "$3");
#undef SQL_DURABLE_UNDER_LEASE

#endif
