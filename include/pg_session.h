/* PostgreSQL for a command that runs once and ends: blocking, one statement after the other. The
 * services never use it. */
#ifndef COUNTERFOIL_PG_SESSION_H
#define COUNTERFOIL_PG_SESSION_H

#include "pg.h"

struct pg_session;

/* settings->statement_timeout 0: no limit. */
MUST_USE bool pg_session_open(const struct pg_settings *settings, struct err *err,
			      struct pg_session **session_r);
void pg_session_free(struct pg_session *session); /* NULL is fine */

/* For a result that a session gave: PG_RESULT_AUTO PGresult *result = NULL; */
#define PG_RESULT_AUTO __attribute__((cleanup(pg_result_done)))
void pg_result_done(PGresult **result);

/* One statement with binary parameters (NULL: none) and binary results; *result_r may be NULL when
 * no rows are wanted, else the caller's. sqlstate_r (6 bytes, may be NULL) is filled on failure. */
MUST_USE bool pg_session_query(struct pg_session *session, const char *sql,
			       const struct pg_params *params, struct err *err, char *sqlstate_r,
			       PGresult **result_r);

/* 'database "shop" at db.internal:5432', for messages. */
const char *pg_session_name(const struct pg_session *session);

/* A script of several statements, as psql would send it; any error ends it. sqlstate_r as above. */
MUST_USE bool pg_session_script(struct pg_session *session, const char *sql, struct err *err,
				char *sqlstate_r);

#endif
