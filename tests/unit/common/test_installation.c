/* Whose database it is: what each answer of the database means, in words. */
#include "common/pg_server.h"
#include "installation.h"
#include "pg_session.h"

static struct pg_session *session; /* one for all tests */

static void expect(const char *row, const char *environment, const char *words)
{
	char sql[400];
	struct err err = { "" };
	PGresult *result = NULL;
	snprintf(sql, sizeof(sql), "SELECT %s, 'shop'::text", row);
	assert_true(pg_session_query(session, sql, NULL, &err, NULL, &result));
	assert_int_equal(installation_check(environment, result, NULL, &err), words == NULL);
	if (words && !strstr(err.text, words))
		fail_msg("\"%s\" is not in: %s", words, err.text);
	PQclear(result);
}

static void ours_is_taken(void **state)
{
	(void)state;
	expect("'7'::text, '7'::text, 'production'::text", "production", NULL);
	expect("'7'::text, '7'::text, ''::text", "", NULL);
}

static void all_else_is_refused_with_the_remedy(void **state)
{
	(void)state;
	static const char adopt[] = "run `counterfoil adopt`";
	expect("'7'::text, NULL::text, NULL::text", "production", "installation is empty");
	expect("'7'::text, NULL::text, NULL::text", "", adopt);
	expect("'8'::text, '7'::text, 'production'::text", "production",
	       "cluster with system identifier 7, environment production, and this one has 8");
	expect("'8'::text, '7'::text, ''::text", "", "system identifier 7, and this one has 8");
	expect("'8'::text, '7'::text, ''::text", "", adopt);
	expect("'7'::text, '7'::text, 'production'::text", "staging",
	       "belongs to environment \"production\", and general.environment is \"staging\"");
	expect("'7'::text, '7'::text, 'production'::text", "staging", adopt);
	expect("'7'::text, '7'::text, 'production'::text", "Production", adopt);
	expect("'7'::text, '7'::text, 'production'::text", "",
	       "general.environment is empty: set it");
	/* somebody else's was taken over meanwhile, or nothing could be */
	expect("'7'::text, '7'::text, ''::text", "staging", adopt);
}

static void what_cannot_be_read_is_said(void **state)
{
	(void)state;
	struct err err = { "" };
	struct pg_error error = { .kind = PG_REFUSED,
				  .sqlstate = "42501",
				  .text = "permission denied for function pg_control_system" };
	assert_false(installation_check("", NULL, &error, &err));
	assert_non_null(strstr(err.text, "EXECUTE on function pg_control_system"));
	snprintf(error.sqlstate, sizeof(error.sqlstate), "42883");
	assert_false(installation_check("", NULL, &error, &err));
	assert_non_null(strstr(err.text, "cannot tell whose database this is"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(ours_is_taken),
		cmocka_unit_test(all_else_is_refused_with_the_remedy),
		cmocka_unit_test(what_cannot_be_read_is_said),
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
