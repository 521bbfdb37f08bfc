/* Findings, and those about PostgreSQL that every program needs. */
#include "findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "installation.h"
#include "schema.h"

#define CONNECT_TIMEOUT   (5 * USEC_SEC)
#define STATEMENT_TIMEOUT (2 * USEC_SEC)

/* --- findings --- */

static const char *word_of(struct findings *findings, enum findings_level level)
{
	switch (level) {
	case FINDING_OK:
		break;
	case FINDING_WARNING:
		findings->warnings++;
		return "warning";
	case FINDING_ERROR:
		findings->errors++;
		return "error";
	case FINDING_UNREACHABLE:
		findings->unreachable++;
		return "error";
	}
	return "ok";
}

void findings_say(struct findings *findings, enum findings_level level, const char *format, ...)
{
	char text[1200];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	for (char *at = text; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
	printf("%-7s  %s\n", word_of(findings, level), text);
}

enum exit_code findings_code(const struct findings *findings, bool strict)
{
	if (findings->errors || (strict && findings->warnings))
		return EXIT_CONFIG;
	return findings->unreachable ? EXIT_UNAVAILABLE : EXIT_OK;
}

/* --- the connection --- */

static bool needs_a_hand(const char *why)
{
	static const char *const words[] = { "authentication failed", "no pg_hba.conf entry",
					     "does not exist", "no password supplied",
					     "permission denied" };
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(why, words[i]))
			return true;
	return false;
}

static usec_t at_most(usec_t usec, usec_t limit)
{
	return usec > 0 && usec < limit ? usec : limit;
}

static struct pg_session *reach(struct findings *findings, const struct conf *conf,
				const char *program)
{
	const struct conf_postgres *postgres = &conf->postgres;
	const struct pg_settings settings = {
		.conninfo = postgres->conninfo,
		.password_file = postgres->password_file,
		.program = program,
		.connect_timeout = at_most(postgres->connect_timeout, CONNECT_TIMEOUT),
		.statement_timeout = at_most(postgres->statement_timeout, STATEMENT_TIMEOUT),
	};
	struct pg_session *session = NULL;
	struct err err;
	if (!pg_session_open(&settings, &err, &session))
		findings_say(findings, needs_a_hand(err.text) ? FINDING_ERROR : FINDING_UNREACHABLE,
			     "PostgreSQL: %s: see postgres.conninfo and the server's log",
			     err.text);
	return session;
}

static const char sql_server[] =
	"SELECT current_setting('server_version'), current_setting('server_version_num')::int4,"
	" current_user::text, current_setting('transaction_read_only') = 'on',"
	" pg_is_in_recovery(), current_setting('synchronous_commit'),"
	" current_setting('fsync') = 'on', current_database()::text";

enum { SERVER_VERSION, SERVER_NUMBER, SERVER_USER, SERVER_READ_ONLY, SERVER_RECOVERY };
enum { SERVER_SYNCHRONOUS = SERVER_RECOVERY + 1, SERVER_FSYNC, SERVER_DATABASE };

#define OLDEST_SERVER 130000

static void judge_server(struct findings *findings, const struct pg_session *session,
			 const PGresult *server)
{
	findings_say(findings, FINDING_OK, "PostgreSQL: reached %s as \"%s\", version %s",
		     pg_session_name(session), pg_get_text(server, 0, SERVER_USER),
		     pg_get_text(server, 0, SERVER_VERSION));
	if (pg_get_int4(server, 0, SERVER_NUMBER) < OLDEST_SERVER)
		findings_say(findings, FINDING_ERROR, "PostgreSQL: 13 or later is needed");
	if (pg_get_bool(server, 0, SERVER_RECOVERY))
		findings_say(findings, FINDING_ERROR,
			     "PostgreSQL: a standby answered: name the primary in "
			     "postgres.conninfo, or all hosts");
	else if (pg_get_bool(server, 0, SERVER_READ_ONLY))
		findings_say(findings, FINDING_ERROR,
			     "PostgreSQL: transactions are read-only: see "
			     "default_transaction_read_only of the server, database and role");
	if (strcmp(pg_get_text(server, 0, SERVER_SYNCHRONOUS), "off") == 0)
		findings_say(
			findings, FINDING_WARNING,
			"PostgreSQL: synchronous_commit is off: a crash may take back what was "
			"published; ALTER DATABASE \"%s\" SET synchronous_commit = on",
			pg_get_text(server, 0, SERVER_DATABASE));
	if (!pg_get_bool(server, 0, SERVER_FSYNC))
		findings_say(findings, FINDING_WARNING,
			     "PostgreSQL: fsync is off: a crash may destroy the database; set "
			     "fsync = on");
}

static bool ask(struct findings *findings, struct pg_session *session, const char *sql,
		const struct pg_params *params, PGresult **result_r)
{
	struct err err;
	if (pg_session_query(session, sql, params, &err, NULL, result_r))
		return true;
	findings_say(findings, FINDING_ERROR, "PostgreSQL: %s", err.text);
	return false;
}

/* --- whose database --- */

/* A result or an error, as the checks read them. */
struct reply {
	PGresult *result;
	struct pg_error error;
	bool failed;
};

static void fetch(struct pg_session *session, const char *sql, const struct pg_params *params,
		  struct reply *reply_r)
{
	struct reply reply = { .error = { .kind = PG_REFUSED } };
	struct err err;
	reply.failed =
		!pg_session_query(session, sql, params, &err, reply.error.sqlstate, &reply.result);
	if (reply.failed)
		(void)snprintf(reply.error.text, sizeof(reply.error.text), "%.500s", err.text);
	*reply_r = reply;
}

static const struct pg_error *error_of(const struct reply *reply)
{
	return reply->failed ? &reply->error : NULL;
}

static bool judge_schema(struct findings *findings, struct pg_session *session)
{
	struct reply reply;
	struct err err;
	fetch(session, schema_check_sql, NULL, &reply);
	bool fits = schema_check(reply.result, error_of(&reply), &err);
	if (fits)
		findings_say(findings, FINDING_OK, "schema: at migration %d, which fits",
			     pg_get_int4(reply.result, 0, 0));
	else
		findings_say(findings, FINDING_ERROR, "schema: %s", err.text);
	pg_drop(reply.result);
	return fits;
}

/* Asked without an environment, for then nothing is taken over. Returns the rights that it takes to
 * be let in. */
static const char *judge_installation(struct findings *findings, const char *environment,
				      struct pg_session *session)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	struct reply reply;
	struct err err;
	pg_add_text(&params, "");
	fetch(session, installation_check_sql, &params, &reply);
	bool unnamed = !reply.failed && installation_is_unnamed(reply.result);
	bool ours = installation_check(unnamed ? "" : environment, reply.result, error_of(&reply),
				       &err);
	if (!ours)
		findings_say(findings, FINDING_ERROR, "installation: %s", err.text);
	else if (!*environment)
		findings_say(findings, FINDING_WARNING,
			     "installation: " INSTALLATION_NO_ENVIRONMENT "; name one");
	else
		findings_say(findings, FINDING_OK, "installation: %s environment \"%s\"",
			     unnamed ? "nobody's yet, and will be of" : "of this server and",
			     environment);
	pg_drop(reply.result);
	return reply.failed || (unnamed && *environment) ? "SELECT, UPDATE" : "SELECT";
}

/* --- rights --- */

/* $1 tables and sequences, $2 rights: the missing ones, as the statement that grants them. */
static const char sql_missing[] =
	"SELECT format('GRANT %s ON %s%s TO %I', string_agg(p.name, ', ' ORDER BY p.n),"
	" CASE c.relkind WHEN 'S' THEN 'SEQUENCE ' ELSE '' END, w.relation, current_user)"
	" FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w (relation, rights, at)"
	" JOIN pg_class c ON c.oid = to_regclass(w.relation),"
	" LATERAL unnest(string_to_array(w.rights, ', ')) WITH ORDINALITY AS p (name, n)"
	" WHERE NOT CASE c.relkind WHEN 'S' THEN has_sequence_privilege(c.oid, p.name)"
	" ELSE has_table_privilege(c.oid, p.name) END"
	" GROUP BY c.relkind, w.relation, w.at ORDER BY w.at";

static void judge_rights(struct findings *findings, struct pg_session *session,
			 const char *installation, const struct findings_right *rights)
{
	PG_RESULT_AUTO PGresult *missing = NULL;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	PG_ARRAY_AUTO struct pg_array relations, names;
	pg_array_init(&relations, PG_TEXT);
	pg_array_init(&names, PG_TEXT);
	pg_array_text(&relations, "counterfoil.installation");
	pg_array_text(&names, installation);
	for (; rights->relation; rights++) {
		pg_array_text(&relations, rights->relation);
		pg_array_text(&names, rights->rights);
	}
	pg_add_array(&params, &relations);
	pg_add_array(&params, &names);
	if (!ask(findings, session, sql_missing, &params, &missing))
		return;
	for (int row = 0; row < pg_rows(missing); row++)
		findings_say(findings, FINDING_ERROR, "rights: this role may not do its work: %s",
			     pg_get_text(missing, row, 0));
	if (pg_rows(missing) == 0)
		findings_say(findings, FINDING_OK, "rights: nothing is missing");
}

bool findings_postgres(struct findings *findings, const struct conf *conf, const char *program,
		       const struct findings_right *rights, struct pg_session **session_r)
{
	PG_RESULT_AUTO PGresult *server = NULL;
	struct pg_session *session = reach(findings, conf, program);
	if (!session)
		return false;
	if (!ask(findings, session, sql_server, NULL, &server)) {
		pg_session_free(session);
		return false;
	}
	judge_server(findings, session, server);
	if (!judge_schema(findings, session)) {
		pg_session_free(session);
		return false;
	}
	judge_rights(findings, session,
		     judge_installation(findings, conf->general.environment, session), rights);
	*session_r = session;
	return true;
}
