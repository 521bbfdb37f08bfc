/* Parameters, arrays and results in binary: through a real server and back. */
#include "common/pg_server.h"
#include "pg.h"
#include "pg_session.h"

static struct pg_session *session; /* one for all tests */

static PGresult *ask(const char *sql, const struct pg_params *params)
{
	struct err err;
	char sqlstate[6];
	PGresult *result = NULL;
	if (!pg_session_query(session, sql, params, &err, sqlstate, &result))
		fail_msg("%s: %s %s", sql, sqlstate, err.text);
	return result;
}

/* What the server makes of the parameters, as text. */
static void expect_text(const char *sql, struct pg_params *params, const char *expected)
{
	PGresult *result = ask(sql, params);
	const char *text = pg_get_text(result, 0, 0);
	if (expected)
		assert_string_equal(text, expected);
	else
		assert_null(text);
	PQclear(result);
	pg_params_clear(params);
}

static void scalars_mean_the_same_to_the_server(void **state)
{
	(void)state;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	const char *digits = "1234567890123456789012345678901234567890";
	pg_add_bool(&params, true);
	expect_text("SELECT $1::text", &params, "true");
	pg_add_bool(&params, false);
	expect_text("SELECT $1::text", &params, "false");
	pg_add_int4(&params, INT32_MIN);
	expect_text("SELECT $1::text", &params, "-2147483648");
	pg_add_int8(&params, INT64_MIN);
	expect_text("SELECT $1::text", &params, "-9223372036854775808");
	pg_add_int8(&params, INT64_MAX);
	expect_text("SELECT $1::text", &params, "9223372036854775807");
	pg_add_text(&params, "");
	expect_text("SELECT '<' || $1 || '>'", &params, "<>");
	pg_add_text(&params, "it's \\ \"ä\" \n 漢");
	expect_text("SELECT $1", &params, "it's \\ \"ä\" \n 漢");
	pg_add_text(&params, digits);
	expect_text("SELECT ($1::numeric + 1)::text", &params,
		    "1234567890123456789012345678901234567891");
	pg_add_text_n(&params, "abcdef", 3);
	expect_text("SELECT $1", &params, "abc");
	pg_add_bytea(&params, "a\0b\xff", 4);
	expect_text("SELECT encode($1, 'hex')", &params, "610062ff");
	pg_add_bytea(&params, "", 0);
	expect_text("SELECT '<' || encode($1, 'hex') || '>'", &params, "<>");
	pg_add_interval(&params, 90 * USEC_MIN + 1);
	expect_text("SELECT $1::text", &params, "01:30:00.000001");
	pg_add_interval(&params, -USEC_SEC);
	expect_text("SELECT $1::text", &params, "-00:00:01");
	pg_add_time(&params, 0);
	expect_text("SELECT ($1 AT TIME ZONE 'UTC')::text", &params, "1970-01-01 00:00:00");
	pg_add_time(&params, 1767323045000006);
	expect_text("SELECT ($1 AT TIME ZONE 'UTC')::text", &params, "2026-01-02 03:04:05.000006");
}

static void nulls_are_nulls_of_their_type(void **state)
{
	(void)state;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_text(&params, NULL);
	pg_add_bytea(&params, NULL, 0);
	pg_add_interval(&params, USEC_NEVER);
	pg_add_time(&params, USEC_NEVER);
	expect_text("SELECT concat_ws(',', $1 IS NULL, $2 IS NULL, $3 IS NULL, $4 IS NULL, "
		    "pg_typeof($1), pg_typeof($2), pg_typeof($3), pg_typeof($4))",
		    &params, "t,t,t,t,text,bytea,interval,timestamp with time zone");
	pg_add_text(&params, NULL);
	expect_text("SELECT $1", &params, NULL);
}

static void as_many_parameters_as_there_may_be(void **state)
{
	(void)state;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	BUF_AUTO struct buf sql = { 0 };
	buf_add_text(&sql, "SELECT (0");
	for (int i = 1; i <= PG_PARAMS_MAX; i++) {
		buf_addf(&sql, " + $%d", i);
		pg_add_int8(&params, i);
	}
	buf_add_text(&sql, ")::text");
	expect_text(buf_text(&sql), &params, "1176");
}

static void expect_array(enum pg_type type, const char *cast, void (*fill)(struct pg_array *),
			 const char *expected)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	PG_ARRAY_AUTO struct pg_array array;
	char sql[256];
	/* empty, with a NULL alone, and filled; the second parameter sees that the first one ends
	 */
	(void)snprintf(sql, sizeof(sql), "SELECT ($1::%s[])::text || $2", cast);
	pg_array_init(&array, type);
	for (int round = 0; round < 3; round++) {
		if (round == 1)
			pg_array_null(&array);
		if (round == 2)
			fill(&array);
		pg_add_array(&params, &array);
		pg_add_text(&params, "");
		expect_text(sql, &params, round == 0 ? "{}" : round == 1 ? "{NULL}" : expected);
		pg_array_clear(&array);
	}
}

static void fill_bools(struct pg_array *array)
{
	pg_array_bool(array, true);
	pg_array_null(array);
	pg_array_bool(array, false);
}

static void fill_int4(struct pg_array *array)
{
	pg_array_int4(array, -1);
	pg_array_int4(array, INT32_MAX);
}

static void fill_int8(struct pg_array *array)
{
	pg_array_int8(array, INT64_MIN);
	pg_array_int8(array, 0);
	pg_array_null(array);
}

static void fill_texts(struct pg_array *array)
{
	pg_array_text(array, "");
	pg_array_text(array, NULL);
	pg_array_text(array, "NULL");
	pg_array_bytes(array, "a,b\"c\\d", 7);
	pg_array_bytes(array, NULL, 0);
}

static void fill_bytea(struct pg_array *array)
{
	pg_array_bytes(array, "\0\xff", 2);
	pg_array_bytes(array, "", 0);
	pg_array_bytes(array, NULL, 0);
}

static void fill_uuids(struct pg_array *array)
{
	const unsigned char bytes[16] = { 0x01, 0x92, 0x0f, [15] = 0xab };
	pg_array_bytes(array, bytes, 16);
}

static void fill_usecs(struct pg_array *array)
{
	pg_array_usec(array, 1500 * USEC_MS);
	pg_array_usec(array, USEC_NEVER);
}

static void fill_jsonb(struct pg_array *array)
{
	pg_array_text(array, "{\"n\": 1234567890123456789012345678901234567890}");
	pg_array_bytes(array, NULL, 0);
}

static void arrays_mean_the_same_to_the_server(void **state)
{
	(void)state;
	expect_array(PG_BOOL, "bool", fill_bools, "{t,NULL,f}");
	expect_array(PG_INT4, "int4", fill_int4, "{-1,2147483647}");
	expect_array(PG_INT8, "int8", fill_int8, "{-9223372036854775808,0,NULL}");
	expect_array(PG_TEXT, "text", fill_texts, "{\"\",NULL,\"NULL\",\"a,b\\\"c\\\\d\",NULL}");
	expect_array(PG_BYTEA, "bytea", fill_bytea, "{\"\\\\x00ff\",\"\\\\x\",NULL}");
	expect_array(PG_UUID, "uuid", fill_uuids, "{01920f00-0000-0000-0000-0000000000ab}");
	expect_array(PG_INTERVAL, "interval", fill_usecs, "{00:00:01.5,NULL}");
	expect_array(PG_TIME, "timestamptz", fill_usecs, "{\"1970-01-01 00:00:01.5+00\",NULL}");
	expect_array(PG_JSONB, "jsonb", fill_jsonb,
		     "{\"{\\\"n\\\": 1234567890123456789012345678901234567890}\",NULL}");
}

static void results_read_back_what_was_sent(void **state)
{
	(void)state;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	size_t length;
	pg_add_bool(&params, true);
	pg_add_int4(&params, INT32_MIN);
	pg_add_int8(&params, INT64_MIN);
	pg_add_text(&params, "ä");
	pg_add_bytea(&params, "a\0b", 3);
	pg_add_time(&params, 1767323045000006);
	PGresult *result = ask("SELECT $1, $2, $3, $4, $5, $6, '{\"a\": 1}'::jsonb, "
			       "'01920f00-0000-0000-0000-0000000000ab'::uuid, NULL::int8, "
			       "'infinity'::timestamptz, ''::bytea, NULL::bool",
			       &params);
	assert_int_equal(pg_rows(result), 1);
	assert_true(pg_get_bool(result, 0, 0));
	assert_int_equal(pg_get_int4(result, 0, 1), INT32_MIN);
	assert_int_equal(pg_get_int8(result, 0, 1), INT32_MIN);
	assert_int_equal(pg_get_int8(result, 0, 2), INT64_MIN);
	assert_string_equal(pg_get_text(result, 0, 3), "ä");
	const char *bytes = pg_get_bytes(result, 0, 4, &length);
	assert_int_equal(length, 3);
	assert_memory_equal(bytes, "a\0b", 4); /* and the NUL behind */
	assert_int_equal(pg_get_time(result, 0, 5), 1767323045000006);
	assert_string_equal(pg_get_bytes(result, 0, 6, &length), "{\"a\": 1}");
	assert_int_equal(length, 8);
	pg_get_bytes(result, 0, 7, &length);
	assert_int_equal(length, 16);
	assert_true(pg_null(result, 0, 8));
	assert_int_equal(pg_get_int8(result, 0, 8), 0);
	assert_null(pg_get_bytes(result, 0, 8, &length));
	assert_int_equal(pg_get_time(result, 0, 9), USEC_NEVER);
	assert_non_null(pg_get_bytes(result, 0, 10, &length));
	assert_int_equal(length, 0);
	assert_false(pg_get_bool(result, 0, 11));
	PQclear(result);
}

static void int8_arrays_are_read(void **state)
{
	(void)state;
	size_t count = 99;
	PGresult *result = ask("SELECT ARRAY[1, -2, 9223372036854775807]::int8[], '{}'::int8[], "
			       "NULL::int8[]",
			       NULL);
	int64_t *items = pg_get_int8_array(result, 0, 0, &count);
	assert_int_equal(count, 3);
	assert_int_equal(items[0], 1);
	assert_int_equal(items[1], -2);
	assert_int_equal(items[2], INT64_MAX);
	free(items);
	for (int column = 1; column < 3; column++) {
		items = pg_get_int8_array(result, 0, column, &count);
		assert_int_equal(count, 0);
		free(items);
	}
	PQclear(result);
	result = ask("CREATE TEMP TABLE t AS SELECT generate_series(1, 7) n", NULL);
	PQclear(result);
	result = ask("UPDATE t SET n = n", NULL);
	assert_int_equal(pg_affected(result), 7);
	PQclear(result);
}

static void a_conninfo_is_checked_without_telling_secrets(void **state)
{
	(void)state;
	struct err err;
	assert_true(pg_conninfo_check("", &err));
	assert_true(pg_conninfo_check("host=a,b dbname=x", &err));
	assert_true(pg_conninfo_check("postgresql://u@h/db", &err));
	assert_false(pg_conninfo_check("hots=a", &err));
	assert_string_equal(err.text, "conninfo: invalid connection option \"hots\"");
	assert_false(pg_conninfo_check("password=s3cret more", &err));
	assert_null(strstr(err.text, "more"));
	assert_false(pg_conninfo_check("postgresql://u:s3cret@[h", &err));
	assert_null(strstr(err.text, "s3cret"));
}

static void a_script_of_comments_only_is_no_error(void **state)
{
	(void)state;
	struct err err;
	assert_true(pg_session_script(session, "-- nothing yet\n", &err, NULL));
}

static void a_session_tells_errors_in_words(void **state)
{
	(void)state;
	struct err err;
	char sqlstate[6] = "";
	assert_false(pg_session_query(session, "SELECT 1/0", NULL, &err, sqlstate, NULL));
	assert_string_equal(sqlstate, "22012");
	assert_string_equal(err.text, "division by zero");
	assert_true(pg_session_script(session, "SELECT 1; SELECT 2", &err, sqlstate));
	assert_false(pg_session_script(session, "SELECT 1; SELEKT 2", &err, sqlstate));
	assert_string_equal(sqlstate, "42601");
	const struct pg_settings nowhere = { .conninfo = "host=/nonexistent dbname=shop",
					     .program = "test",
					     .connect_timeout = USEC_SEC };
	struct pg_session *none = NULL;
	assert_false(pg_session_open(&nowhere, &err, &none));
	assert_null(none);
	assert_non_null(strstr(err.text, "cannot connect to database \"shop\" at /nonexistent: "));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(scalars_mean_the_same_to_the_server),
		cmocka_unit_test(nulls_are_nulls_of_their_type),
		cmocka_unit_test(as_many_parameters_as_there_may_be),
		cmocka_unit_test(arrays_mean_the_same_to_the_server),
		cmocka_unit_test(results_read_back_what_was_sent),
		cmocka_unit_test(int8_arrays_are_read),
		cmocka_unit_test(a_conninfo_is_checked_without_telling_secrets),
		cmocka_unit_test(a_session_tells_errors_in_words),
		cmocka_unit_test(a_script_of_comments_only_is_no_error),
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
