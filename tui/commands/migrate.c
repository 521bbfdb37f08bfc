/* Migrations are numbered SQL, built into the program. Each is applied in its own transaction
 * together with its row in counterfoil.migration, under an advisory lock, so that two who migrate
 * at once do each step once. */
#include "commands/migrate.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "commands/sql.h"
#include "pg_session.h"
#include "version.h"

struct migration {
	int number;
	const char *name;
	int oldest_program; /* that the schema still serves afterwards */
	const char *text;
};

#include "migrations.h"

enum { COUNT = sizeof(migrations) / sizeof(migrations[0]) };

enum wish { WISH_APPLY, WISH_PRINT, WISH_STATUS, WISH_HELP };

/* The database at hand, and the words of its last error. */
struct migrate {
	struct pg_session *session;
	struct err err;
	char sqlstate[6];
};

static bool query(struct migrate *migrate, const char *sql, const struct pg_params *params,
		  PGresult **result_r)
{
	return pg_session_query(migrate->session, sql, params, &migrate->err, migrate->sqlstate,
				result_r);
}

static bool script(struct migrate *migrate, const char *sql)
{
	return pg_session_script(migrate->session, sql, &migrate->err, migrate->sqlstate);
}

/* The rows of counterfoil.migration; NULL when there is no such table yet. */
static bool read_applied(struct migrate *migrate, PGresult **applied_r)
{
	PG_RESULT_AUTO PGresult *found = NULL;
	if (!query(migrate, SQL_HAS_TABLE, NULL, &found))
		return false;
	return !pg_get_bool(found, 0, 0) || query(migrate, SQL_APPLIED, NULL, applied_r);
}

static int applied_count(const PGresult *applied)
{
	return applied ? pg_rows(applied) : 0;
}

/* The row of a migration; -1 when it is missing. */
static int applied_row(const PGresult *applied, int number)
{
	for (int row = 0; row < applied_count(applied); row++)
		if (pg_get_int4(applied, row, 0) == number)
			return row;
	return -1;
}

static bool is_known(int number)
{
	return number <= migrations[COUNT - 1].number;
}

/* --- what went wrong --- */

static enum exit_code failed(const struct migrate *migrate, const char *step)
{
	const char *state = migrate->sqlstate;
	fprintf(stderr, "counterfoil: %s, %s: %s\n", pg_session_name(migrate->session), step,
		migrate->err.text);
	if (strcmp(state, "42501") == 0) {
		fputs("migrate as a role that may CREATE in this database (postgres.conninfo), or "
		      "give "
		      "the output of `counterfoil migrate --print` to who may\n",
		      stderr);
		return EXIT_PERMISSION;
	}
	bool gone = !*state || strncmp(state, "08", 2) == 0 || strncmp(state, "57P", 3) == 0;
	if (gone)
		fputs("the connection was lost: migrate again, a step is applied wholly or not at "
		      "all\n",
		      stderr);
	return gone ? EXIT_UNAVAILABLE : EXIT_ERROR;
}

static enum exit_code too_new(const struct migrate *migrate, int version, int oldest_program)
{
	fprintf(stderr,
		"counterfoil: %s is at migration %d and serves programs of level %d and later; "
		"this "
		"is Counterfoil " COUNTERFOIL_VERSION
		" of level %d, which knows migrations up to %d: use a newer Counterfoil\n",
		pg_session_name(migrate->session), version, oldest_program, COUNTERFOIL_PROGRAM,
		migrations[COUNT - 1].number);
	return EXIT_CONFIG;
}

/* --- apply --- */

static bool record(struct migrate *migrate, const struct migration *migration)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_int4(&params, migration->number);
	pg_add_text(&params, migration->name);
	pg_add_int4(&params, migration->oldest_program);
	return query(migrate, SQL_RECORD, &params, NULL);
}

/* Inside its transaction. *done_r: somebody else was quicker. */
static bool apply_locked(struct migrate *migrate, const struct migration *migration, bool *done_r)
{
	PG_RESULT_AUTO PGresult *applied = NULL;
	if (!read_applied(migrate, &applied))
		return false;
	*done_r = applied_row(applied, migration->number) >= 0;
	return *done_r || (script(migrate, migration->text) && record(migrate, migration));
}

/* The connection ends after a failure, and the open transaction with it. */
static enum exit_code apply(struct migrate *migrate, const struct migration *migration)
{
	char step[100];
	bool done = false;
	(void)snprintf(step, sizeof(step), "migration %d (%s), nothing of which was kept",
		       migration->number, migration->name);
	if (!script(migrate, SQL_BEGIN) || !apply_locked(migrate, migration, &done))
		return failed(migrate, step);
	if (!script(migrate, "COMMIT")) {
		(void)snprintf(step, sizeof(step), "commit of migration %d (%s)", migration->number,
			       migration->name);
		return failed(migrate, step);
	}
	if (!done)
		printf("applied %d %s\n", migration->number, migration->name);
	return EXIT_OK;
}

static enum exit_code apply_missing(struct migrate *migrate, const PGresult *applied)
{
	for (size_t i = 0; i < COUNT; i++) {
		if (applied_row(applied, migrations[i].number) >= 0)
			continue;
		enum exit_code code = apply(migrate, &migrations[i]);
		if (code != EXIT_OK)
			return code;
	}
	printf("schema is at %d\n", migrations[COUNT - 1].number);
	return EXIT_OK;
}

static enum exit_code run_apply(struct migrate *migrate)
{
	PG_RESULT_AUTO PGresult *applied = NULL;
	int version = 0, oldest_program = 0;
	if (!script(migrate, SQL_REQUIRE_SERVER)) {
		enum exit_code code = failed(migrate, "this server cannot hold the schema");
		return strcmp(migrate->sqlstate, "P0001") == 0 ? EXIT_CONFIG : code;
	}
	if (!read_applied(migrate, &applied))
		return failed(migrate, "reading counterfoil.migration");
	for (int row = 0; row < applied_count(applied); row++) {
		version = pg_get_int4(applied, row, 0);
		if (pg_get_int4(applied, row, 2) > oldest_program)
			oldest_program = pg_get_int4(applied, row, 2);
	}
	if (is_known(version))
		return apply_missing(migrate, applied);
	if (oldest_program > COUNTERFOIL_PROGRAM)
		return too_new(migrate, version, oldest_program);
	printf("schema is at %d, newer than the %d that Counterfoil " COUNTERFOIL_VERSION
	       " knows: nothing to do\n",
	       version, migrations[COUNT - 1].number);
	return EXIT_OK;
}

/* --- status --- */

static enum exit_code run_status(struct migrate *migrate)
{
	PG_RESULT_AUTO PGresult *applied = NULL;
	bool missing = false;
	if (!read_applied(migrate, &applied))
		return failed(migrate, "reading counterfoil.migration");
	for (size_t i = 0; i < COUNT; i++) {
		int row = applied_row(applied, migrations[i].number);
		missing = missing || row < 0;
		printf("%d %s %s%s\n", migrations[i].number, migrations[i].name,
		       row < 0 ? "missing" : "applied ",
		       row < 0 ? "" : pg_get_text(applied, row, 3));
	}
	for (int row = 0; row < applied_count(applied); row++)
		if (!is_known(pg_get_int4(applied, row, 0)))
			printf("%d %s applied %s, unknown to Counterfoil " COUNTERFOIL_VERSION "\n",
			       pg_get_int4(applied, row, 0), pg_get_text(applied, row, 1),
			       pg_get_text(applied, row, 3));
	return missing ? EXIT_ERROR : EXIT_OK;
}

/* --- print --- */

static enum exit_code run_print(void)
{
	printf("-- Counterfoil " COUNTERFOIL_VERSION
	       ": its whole schema, for a database that has none "
	       "of it. Run it as one transaction:\n"
	       "--   psql -X -1 -v ON_ERROR_STOP=1 -f THIS-FILE DATABASE\n\n");
	printf("%s;\n\n%s;\n\n", SQL_REQUIRE_SERVER, SQL_LOCK);
	for (size_t i = 0; i < COUNT; i++)
		printf("%s\nINSERT INTO counterfoil.migration (version, name, oldest_program) "
		       "VALUES (%d, '%s', %d);\n\n",
		       migrations[i].text, migrations[i].number, migrations[i].name,
		       migrations[i].oldest_program);
	return EXIT_OK;
}

/* --- the command --- */

static enum exit_code connect_and_run(const struct conf *conf, enum wish wish)
{
	const struct pg_settings settings = { .conninfo = conf->postgres.conninfo,
					      .password_file = conf->postgres.password_file,
					      .program = "counterfoil",
					      .connect_timeout = conf->postgres.connect_timeout };
	struct migrate migrate = { 0 };
	if (!pg_conninfo_check(settings.conninfo, &migrate.err)) {
		fprintf(stderr, "%s: postgres.%s\n", conf->path, migrate.err.text);
		return EXIT_CONFIG;
	}
	if (!pg_session_open(&settings, &migrate.err, &migrate.session)) {
		fprintf(stderr, "counterfoil: %s\nsee postgres.conninfo in %s\n", migrate.err.text,
			conf->path);
		return EXIT_UNAVAILABLE;
	}
	enum exit_code code = wish == WISH_STATUS ? run_status(&migrate) : run_apply(&migrate);
	pg_session_free(migrate.session);
	return code;
}

static const char usage[] =
	"usage: counterfoil migrate [--config FILE] [--print | --status]\n"
	"Brings the schema counterfoil in the database of postgres.conninfo up to date.\n"
	"  --print   print the SQL instead, for a database that has none of it; needs no "
	"configuration\n"
	"  --status  list what is applied and what is missing; exit 1 when something is\n";

static bool read_options(int argc, char **argv, const char **config_path, enum wish *wish_r)
{
	static const struct option options[] = { { "config", required_argument, NULL, 'c' },
						 { "print", no_argument, NULL, WISH_PRINT },
						 { "status", no_argument, NULL, WISH_STATUS },
						 { "help", no_argument, NULL, WISH_HELP },
						 { 0 } };
	enum wish wish = WISH_APPLY;
	int option;
	optind = 0; /* begins afresh behind the command's name */
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'c')
			*config_path = optarg;
		else if (option == '?' || wish != WISH_APPLY)
			return false;
		else
			wish = (enum wish)option;
	}
	if (optind < argc)
		return false;
	*wish_r = wish;
	return true;
}

enum exit_code migrate_run(const char *config_path, int argc, char **argv)
{
	struct conf *conf = NULL;
	enum wish wish = WISH_APPLY;
	if (!read_options(argc, argv, &config_path, &wish)) {
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	if (wish == WISH_HELP) {
		fputs(usage, stdout);
		return EXIT_OK;
	}
	if (wish == WISH_PRINT)
		return run_print();
	if (!command_config(config_path, &conf))
		return EXIT_CONFIG;
	enum exit_code code = connect_and_run(conf, wish);
	conf_free(conf);
	return code;
}
