/* The schema check: what each answer of the database means, in words. */
#include "common/pg_server.h"
#include "pg_session.h"
#include "schema.h"
#include "version.h"

static struct pg_session *session; /* one for all tests */

static void expect(const char *sql, bool good, const char *words)
{
	struct err err = { "" };
	PGresult *result = NULL;
	assert_true(pg_session_query(session, sql, NULL, &err, NULL, &result));
	assert_int_equal(schema_check(result, NULL, &err), good);
	if (words)
		assert_non_null(strstr(err.text, words));
	PQclear(result);
}

static void refuses(const char *sqlstate, const char *words)
{
	struct err err = { "" };
	struct pg_error error = { .kind = PG_REFUSED, .text = "permission denied" };
	snprintf(error.sqlstate, sizeof(error.sqlstate), "%s", sqlstate);
	assert_false(schema_check(NULL, &error, &err));
	assert_non_null(strstr(err.text, words));
}

static void a_missing_schema_says_migrate(void **state)
{
	(void)state;
	struct err err;
	char sqlstate[6] = "";
	assert_false(pg_session_query(session, schema_check_sql, NULL, &err, sqlstate, NULL));
	assert_string_equal(sqlstate, "42P01");
	refuses("42P01", "run `counterfoil migrate`");
	refuses("3F000", "run `counterfoil migrate`");
	refuses("42501", "USAGE on schema counterfoil and SELECT on counterfoil.migration");
	refuses("53300", "permission denied");
}

static void versions_are_compared_both_ways(void **state)
{
	(void)state;
	char sql[300];
	struct err err;
	assert_true(
		pg_session_script(session,
				  "CREATE SCHEMA counterfoil; CREATE TABLE counterfoil.migration "
				  "(version int, name text, oldest_program int)",
				  &err, NULL));
	expect(schema_check_sql, false, "is at migration 0, and");
	for (int version = 1; version <= COUNTERFOIL_SCHEMA + 1; version++) {
		snprintf(sql, sizeof(sql), "INSERT INTO counterfoil.migration VALUES (%d, '', 1)",
			 version);
		assert_true(pg_session_script(session, sql, &err, NULL));
		bool good = version >= COUNTERFOIL_SCHEMA;
		expect(schema_check_sql, good, good ? NULL : "run `counterfoil migrate`");
	}
	/* an older one asks for a newer program, whatever the last one says */
	snprintf(sql, sizeof(sql),
		 "UPDATE counterfoil.migration SET oldest_program = %d WHERE "
		 "version = 1",
		 COUNTERFOIL_PROGRAM + 1);
	assert_true(pg_session_script(session, sql, &err, NULL));
	expect(schema_check_sql, false, "use a newer Counterfoil");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_missing_schema_says_migrate),
		cmocka_unit_test(versions_are_compared_both_ways),
	};
	struct pg_server server;
	struct err err;
	if (!pg_server_make(&server))
		return pg_server_skip();
	pg_server_start(&server);
	const struct pg_settings settings = { .conninfo = server.conninfo,
					      .program = "test",
					      .connect_timeout = 10 * USEC_SEC };
	if (!pg_session_open(&settings, &err, &session)) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	pg_session_free(session);
	pg_server_remove(&server);
	return failed;
}
