/* PostgreSQL's errors in words of one line. */
#include "pg/pg_private.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

void pg_one_line(const char *text, char *buffer, size_t size)
{
	size_t length = 0;
	bool gap = false;
	for (; *text && length + 2 < size; text++) {
		if (isspace((unsigned char)*text) || iscntrl((unsigned char)*text)) {
			gap = length > 0;
			continue;
		}
		if (gap)
			buffer[length++] = ' ';
		gap = false;
		buffer[length++] = *text;
	}
	buffer[length] = '\0';
}

static bool ends_connection(const PGresult *result)
{
	const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
	if (!severity) /* a pooler's error; libpq's own ones have none at all */
		severity = PQresultErrorField(result, PG_DIAG_SEVERITY);
	return !severity || strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0;
}

void pg_error_from(const PGresult *result, struct pg_error *error_r)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	error_r->kind = ends_connection(result) ? PG_LOST : PG_REFUSED;
	(void)snprintf(error_r->sqlstate, sizeof(error_r->sqlstate), "%s",
		       sqlstate ? sqlstate : "");
	pg_one_line(text ? text : PQresultErrorMessage(result), error_r->text,
		    sizeof(error_r->text));
}

void pg_error_remedy(const char *sql, const PGconn *conn, struct pg_error *error)
{
	const char *role = PQuser(conn);
	const size_t length = strlen(error->text);
	char remedy[320];
	if (strcmp(error->sqlstate, PG_DENIED) == 0 &&
	    pg_denied_remedy(error->text, sql, role ? role : "?", remedy, sizeof(remedy)))
		(void)snprintf(error->text + length, sizeof(error->text) - length, ": %s", remedy);
}

bool pg_error_of_server(const char *sqlstate)
{
	static const char *const states[] = {
		"25006", /* read_only_sql_transaction: after a failover this is a standby */
		"57P01", /* admin_shutdown */
		"57P02", /* crash_shutdown */
		"57P03", /* cannot_connect_now */
	};
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		if (strcmp(sqlstate, states[i]) == 0)
			return true;
	return strncmp(sqlstate, "08", 2) == 0; /* connection_exception */
}
