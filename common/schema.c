/* The schema's version against the program's, both ways: the schema must have what the program
 * needs, and the program must not be older than the schema still serves. */
#include "schema.h"

#include <string.h>

#include "version.h"

const char schema_check_sql[] = "SELECT coalesce(max(version), 0), coalesce(max(oldest_program), "
				"0), current_database()::text"
				" FROM counterfoil.migration";

static bool unreadable(const struct pg_error *error, struct err *err)
{
	if (strcmp(error->sqlstate, "42P01") == 0 || strcmp(error->sqlstate, "3F000") == 0)
		return err_set(err, "the database has no schema counterfoil: "
				    "run `counterfoil migrate` against it");
	if (strcmp(error->sqlstate, "42501") == 0)
		return err_set(err,
			       "%s; to begin, a role needs USAGE on schema counterfoil and SELECT "
			       "on counterfoil.migration",
			       error->text);
	return err_set(err, "cannot read counterfoil.migration: %s", error->text);
}

bool schema_check(const PGresult *result, const struct pg_error *error, struct err *err)
{
	return schema_check_for(COUNTERFOIL_SCHEMA, result, error, err);
}

bool schema_check_for(int needed, const PGresult *result, const struct pg_error *error,
		      struct err *err)
{
	if (error)
		return unreadable(error, err);
	int version = pg_get_int4(result, 0, 0);
	int oldest_program = pg_get_int4(result, 0, 1);
	const char *database = pg_get_text(result, 0, 2);
	if (version < needed)
		return err_set(err,
			       "the schema in database \"%s\" is at migration %d, and "
			       "Counterfoil " COUNTERFOIL_VERSION
			       " needs %d: run `counterfoil migrate`",
			       database, version, needed);
	if (oldest_program > COUNTERFOIL_PROGRAM)
		return err_set(
			err,
			"the schema in database \"%s\" (migration %d) serves programs of level "
			"%d and later, and Counterfoil " COUNTERFOIL_VERSION
			" is of level %d: use a newer Counterfoil",
			database, version, oldest_program, COUNTERFOIL_PROGRAM);
	return true;
}
