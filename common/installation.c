/* Two statements, one after the other: the second one's function exists only where the schema fits.
 */
#include "installation.h"

#include <string.h>

#include "schema.h"

const char installation_check_sql[] =
	"SELECT c.system_identifier, c.recorded_identifier, c.recorded_environment,"
	" current_database()::text FROM counterfoil.check_installation($1) c";

enum column { COLUMN_SERVER, COLUMN_IDENTIFIER, COLUMN_ENVIRONMENT, COLUMN_DATABASE };

/* --- the answer --- */

static bool unreadable(const struct pg_error *error, struct err *err)
{
	if (strcmp(error->sqlstate, "42501") == 0)
		return err_set(err,
			       "%s: GRANT SELECT and UPDATE on counterfoil.installation, and "
			       "EXECUTE on function pg_control_system, to this role",
			       error->text);
	return err_set(err, "cannot tell whose database this is: %s", error->text);
}

static bool other_environment(const char *environment, const char *database, const char *recorded,
			      struct err *err)
{
	if (!*environment)
		return err_set(err,
			       "database \"%s\" belongs to environment \"%s\", and "
			       "general.environment is empty: set it",
			       database, recorded);
	return err_set(err,
		       "database \"%s\" belongs to environment \"%s\", and general.environment is "
		       "\"%s\": correct that or postgres.conninfo; if the database is a copy that "
		       "shall work, run `counterfoil adopt`",
		       database, recorded, environment);
}

bool installation_check(const char *environment, const PGresult *result,
			const struct pg_error *error, struct err *err)
{
	if (error)
		return unreadable(error, err);
	const char *server = pg_get_text(result, 0, COLUMN_SERVER);
	const char *identifier = pg_get_text(result, 0, COLUMN_IDENTIFIER);
	const char *recorded = pg_get_text(result, 0, COLUMN_ENVIRONMENT);
	const char *database = pg_get_text(result, 0, COLUMN_DATABASE);
	if (!identifier)
		return err_set(err,
			       "nobody knows whose database \"%s\" is: counterfoil.installation is "
			       "empty; run `counterfoil adopt`",
			       database);
	if (strcmp(server, identifier) != 0)
		return err_set(err,
			       "database \"%s\" is a copy: it belongs to the cluster with system "
			       "identifier %s%s%s, and this one has %s; if it shall work, run "
			       "`counterfoil adopt`",
			       database, identifier, *recorded ? ", environment " : "", recorded,
			       server);
	if (strcmp(recorded, environment) != 0)
		return other_environment(environment, database, recorded, err);
	return true;
}

bool installation_is_unnamed(const PGresult *result)
{
	const char *recorded = pg_get_text(result, 0, COLUMN_ENVIRONMENT);
	return recorded && !*recorded;
}

/* --- the question --- */

/* A statement that was cancelled or found no memory says nothing; a right or a function that is
 * missing is an answer. */
static bool is_answer(const struct pg_error *error)
{
	return !error || strncmp(error->sqlstate, "42", 2) == 0 ||
	       strncmp(error->sqlstate, "3F", 2) == 0;
}

static void answer(struct installation_question *question, enum installation_answer answer,
		   const char *reason)
{
	question->answered(question->arg, answer, reason);
}

static bool settled(struct installation_question *question, const struct pg_error *error)
{
	if (is_answer(error))
		return false;
	if (error->kind == PG_REFUSED)
		answer(question, INSTALLATION_UNKNOWN, error->text);
	return true; /* or the connection is gone, and whoever asks is told so */
}

static void on_installation(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct installation_question *question = arg;
	struct err err = { "" };
	if (settled(question, error))
		return;
	bool ours = installation_check(question->environment, result, error, &err);
	answer(question, ours ? INSTALLATION_OURS : INSTALLATION_FOREIGN, err.text);
}

static void on_schema(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct installation_question *question = arg;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	struct err err;
	if (settled(question, error))
		return;
	if (!schema_check(result, error, &err)) {
		answer(question, INSTALLATION_MISFIT, err.text);
		return;
	}
	pg_add_text(&params, question->environment);
	pg_send(question->pg, installation_check_sql, &params, on_installation, question);
}

void installation_ask(struct installation_question *question, struct pg *pg)
{
	question->pg = pg;
	pg_send(pg, schema_check_sql, NULL, on_schema, question);
}
