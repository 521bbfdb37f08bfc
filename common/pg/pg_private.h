/* What the files of common/pg*.c share, and nobody else. */
#ifndef COUNTERFOIL_PG_PRIVATE_H
#define COUNTERFOIL_PG_PRIVATE_H

#include "pg.h"

/* Oids of the types are fixed for ever (pg_type.dat). */
enum pg_oid {
	PG_OID_BOOL = 16,
	PG_OID_BYTEA = 17,
	PG_OID_INT8 = 20,
	PG_OID_INT4 = 23,
	PG_OID_TEXT = 25,
	PG_OID_TIMESTAMPTZ = 1184,
	PG_OID_INTERVAL = 1186,
	PG_OID_UUID = 2950,
	PG_OID_JSONB = 3802,
};

/* From 1970, where our clock begins, to 2000, where PostgreSQL's does. */
#define PG_EPOCH (946684800 * USEC_SEC)

/* --- parameters as libpq takes them (pg_params.c) ----------------------------------------------
 */

struct pg_arguments {
	int count;
	const Oid *types;
	const char *values[PG_PARAMS_MAX]; /* into the parameters: no copy */
	const int *lengths;
	const int *formats; /* all binary */
};

void pg_arguments(const struct pg_params *params, struct pg_arguments *arguments_r);

/* --- how to connect (pg_conninfo.c) ------------------------------------------------------------
 */

struct pg_conninfo {
	const char **names; /* NULL-terminated, as libpq takes them */
	char **values;
	size_t count;
};

/* rotation: how many hosts of a list to pass over, for libpq always begins with the first one.
 * wait: for a blocking connect, which libpq itself bounds. */
struct pg_attempt {
	unsigned rotation;
	bool ask_options; /* statement_timeout and such at startup: poolers may refuse them */
	bool wait;
};

MUST_USE bool pg_conninfo_make(const struct pg_settings *settings, const struct pg_attempt *attempt,
			       struct err *err, struct pg_conninfo *conninfo_r);
void pg_conninfo_done(struct pg_conninfo *conninfo);

/* Did a pooler refuse the connection for a startup option? */
bool pg_option_refused(const PGconn *conn);

/* --- errors in words (pg_error.c) ---------------------------------------------------------------
 */

/* libpq's text on one line. */
void pg_one_line(const char *text, char *buffer, size_t size);

/* What a failed result says; kind is PG_LOST when the error ends the connection. */
void pg_error_from(const PGresult *result, struct pg_error *error_r);

/* Of an error that says that a right is missing (42501): puts behind its text what grants it, where
 * the statement tells that. */
#define PG_DENIED "42501"
void pg_error_remedy(const char *sql, const PGconn *conn, struct pg_error *error);

/* The GRANT that is missing, of what `text` names and `sql` uses (pg_denied.c). False: the
 * statement does not name it, but calls what does. */
MUST_USE bool pg_denied_remedy(const char *text, const char *sql, const char *role, char *remedy,
			       size_t size);

/* May the server at the other end no longer serve us: shutting down, or no longer the primary? */
bool pg_error_of_server(const char *sqlstate);

#endif
