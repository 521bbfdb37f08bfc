/* A blocking connection for commands. */
#include "pg_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "pg/pg_private.h"

struct pg_session {
	PGconn *conn;
	char name[320];
};

static void ignore_notice(void *arg, const PGresult *notice)
{
	(void)arg;
	(void)notice;
}

static const char *known(const char *text)
{
	return text && *text ? text : "?";
}

static void name_it(struct pg_session *session)
{
	const char *host = known(PQhost(session->conn));
	const char *database = known(PQdb(session->conn));
	if (host[0] == '/')
		(void)snprintf(session->name, sizeof(session->name), "database \"%s\" at %s",
			       database, host);
	else
		(void)snprintf(session->name, sizeof(session->name), "database \"%s\" at %s:%s",
			       database, host, known(PQport(session->conn)));
}

static bool attempt(struct pg_session *session, const struct pg_settings *settings,
		    bool ask_options, struct err *err)
{
	const struct pg_attempt how = { .ask_options = ask_options, .wait = true };
	struct pg_conninfo conninfo = { 0 };
	if (!pg_conninfo_make(settings, &how, err, &conninfo))
		return false;
	PQfinish(session->conn);
	session->conn = PQconnectdbParams(conninfo.names, (const char *const *)conninfo.values, 0);
	pg_conninfo_done(&conninfo);
	if (!session->conn)
		abort();
	name_it(session);
	if (PQstatus(session->conn) == CONNECTION_OK)
		return true;
	char line[512];
	pg_one_line(PQerrorMessage(session->conn), line, sizeof(line));
	return err_set(err, "cannot connect to %s: %s", session->name, line);
}

bool pg_session_open(const struct pg_settings *settings, struct err *err,
		     struct pg_session **session_r)
{
	struct pg_session *session = mem_zero(sizeof(*session));
	bool good = attempt(session, settings, true, err);
	if (!good && session->conn && pg_option_refused(session->conn))
		good = attempt(session, settings, false, err);
	if (!good) {
		pg_session_free(session);
		return false;
	}
	PQsetNoticeReceiver(session->conn, ignore_notice, NULL);
	*session_r = session;
	return true;
}

void pg_session_free(struct pg_session *session)
{
	if (!session)
		return;
	PQfinish(session->conn);
	free(session);
}

void pg_result_done(PGresult **result)
{
	PQclear(*result);
	*result = NULL;
}

const char *pg_session_name(const struct pg_session *session)
{
	return session->name;
}

static const char *field(const PGresult *result, int code, const char *otherwise)
{
	const char *text = PQresultErrorField(result, code);
	return text ? text : otherwise;
}

/* The whole of it, with detail and hint: a person reads this, and no payload passes here. */
static void explain(const PGresult *result, const struct pg_session *session, const char *sql,
		    struct err *err, char *sqlstate_r)
{
	char text[1024], line[640], remedy[320];
	const char *sqlstate = field(result, PG_DIAG_SQLSTATE, "");
	const char *detail = field(result, PG_DIAG_MESSAGE_DETAIL, "");
	const char *hint = field(result, PG_DIAG_MESSAGE_HINT, "");
	(void)snprintf(text, sizeof(text), "%s%s%s%s%s",
		       field(result, PG_DIAG_MESSAGE_PRIMARY, PQerrorMessage(session->conn)),
		       *detail ? ": " : "", detail, *hint ? "; " : "", hint);
	pg_one_line(text, line, sizeof(line));
	const bool denied =
		strcmp(sqlstate, PG_DENIED) == 0 &&
		pg_denied_remedy(line, sql, known(PQuser(session->conn)), remedy, sizeof(remedy));
	err_set(err, "%s%s%s", line, denied ? ": " : "", denied ? remedy : "");
	if (sqlstate_r)
		(void)snprintf(sqlstate_r, 6, "%s", sqlstate);
}

static bool settle(const struct pg_session *session, const char *sql, PGresult *result,
		   struct err *err, char *sqlstate_r, PGresult **result_r)
{
	ExecStatusType status = PQresultStatus(result);
	bool good = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK ||
		    status == PGRES_EMPTY_QUERY;
	if (!good)
		explain(result, session, sql, err, sqlstate_r);
	if (good && result_r)
		*result_r = result;
	else
		PQclear(result);
	return good;
}

bool pg_session_query(struct pg_session *session, const char *sql, const struct pg_params *params,
		      struct err *err, char *sqlstate_r, PGresult **result_r)
{
	struct pg_arguments arguments = { 0 };
	pg_arguments(params, &arguments);
	PGresult *result = PQexecParams(session->conn, sql, arguments.count, arguments.types,
					arguments.values, arguments.lengths, arguments.formats, 1);
	return settle(session, sql, result, err, sqlstate_r, result_r);
}

bool pg_session_script(struct pg_session *session, const char *sql, struct err *err,
		       char *sqlstate_r)
{
	return settle(session, sql, PQexec(session->conn, sql), err, sqlstate_r, NULL);
}
