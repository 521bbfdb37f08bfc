/* Does the database's schema fit this program? Relay and ledger ask whenever they have connected.
 */
#ifndef COUNTERFOIL_SCHEMA_H
#define COUNTERFOIL_SCHEMA_H

#include "err.h"
#include "pg.h"

/* For pg_send(); takes no parameters. */
extern const char schema_check_sql[];

/* Reads its answer, the arguments of a pg_done_fn. False: err says in words what does not fit and
 * the remedy. An error of kind PG_LOST or PG_UNSENT says nothing of the schema: ask again once the
 * connection is up, and do not call this. */
MUST_USE bool schema_check(const PGresult *result, const struct pg_error *error, struct err *err);
/* The same for a program that needs that migration instead of COUNTERFOIL_SCHEMA. */
MUST_USE bool schema_check_for(int needed, const PGresult *result, const struct pg_error *error,
			       struct err *err);

#endif
