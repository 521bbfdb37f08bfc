/* Statements that get a name: when, when not, and what happens when a name is lost. */
#include "common/pg_client.h"

#define USES 16 /* before a statement is worth a name */

static const char square[] = "SELECT ($1 * $1)::int8";
static const char names[] = "SELECT count(*) FROM pg_prepared_statements";

static struct client *client_with_names(bool named)
{
	struct pg_settings settings = usual();
	settings.named = named;
	struct client *client = client_new(&settings);
	run_until(client, &client->ups, 1);
	return client;
}

/* Each of them must have its own answer. */
static void ask_squares(struct client *client, int count, bool wide)
{
	client->answers = 0;
	for (int n = 0; n < count; n++) {
		PG_PARAMS_AUTO struct pg_params params = { 0 };
		if (wide)
			pg_add_int8(&params, n);
		else
			pg_add_int4(&params, n);
		queue(client, n, square, &params);
	}
	run_until(client, &client->answers, count);
	for (int n = 0; n < count; n++) {
		assert_true(client->replies[n].good);
		assert_int_equal(client->replies[n].number, n * n);
		assert_int_equal(client->replies[n].place, n + 1);
	}
}

static int64_t names_of(struct client *client)
{
	ask(client, ANSWERS_MAX - 1, names);
	return client->replies[ANSWERS_MAX - 1].number;
}

/* Whose connection it is and the name itself are asked for beside the statement. */
static void use_until_named(struct client *client)
{
	for (int n = 0; n < 3; n++) {
		ask_squares(client, USES, false);
		(void)names_of(client);
	}
	assert_int_equal(names_of(client), 1);
}

static void what_is_sent_often_gets_a_name(void **state)
{
	(void)state;
	struct client *client = client_with_names(true);
	ask_squares(client, USES - 1, false);
	assert_int_equal(names_of(client), 0);
	use_until_named(client);
	ask_squares(client, 100, false);
	ask_squares(client, 100, true); /* other types: not by this name */
	assert_int_equal(names_of(client), 1);
	assert_int_equal(client->downs, 0);
	client_free(client);
}

static void nobody_gets_one_who_does_not_want_it(void **state)
{
	(void)state;
	struct client *client = client_with_names(false);
	ask_squares(client, 200, false);
	assert_int_equal(names_of(client), 0);
	client_free(client);
}

static void an_error_in_it_harms_nobody(void **state)
{
	(void)state;
	static const char divide[] = "SELECT (1 / $1)::int8";
	struct client *client = client_with_names(true);
	for (int n = 0; n < 100; n++) {
		PG_PARAMS_AUTO struct pg_params params = { 0 };
		pg_add_int4(&params, n % 2);
		queue(client, n, divide, &params);
		if (n < USES + 4)
			run_until(client, &client->answers, n + 1);
	}
	run_until(client, &client->answers, 100);
	for (int n = 0; n < 100; n++)
		if (n % 2)
			assert_int_equal(client->replies[n].number, 1);
		else
			expect_error(&client->replies[n], PG_REFUSED, "22012");
	assert_int_equal(names_of(client), 1);
	assert_int_equal(client->downs, 0);
	client_free(client);
}

/* As behind a pooler that nobody knew of: the statement changed nothing, and from then on it goes
 * without names. */
static void names_that_do_not_last_are_given_up(void **state)
{
	(void)state;
	struct client *client = client_with_names(true);
	use_until_named(client);
	ask(client, 0, "DEALLOCATE ALL");
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_int4(&params, 3);
	client->answers = 0;
	client->replies[1] = (struct reply){ 0 };
	queue(client, 1, square, &params);
	run_until(client, &client->answers, 1);
	expect_error(&client->replies[1], PG_REFUSED, "26000");
	run_until(client, &client->ups, 2);
	ask_squares(client, 200, false);
	assert_int_equal(names_of(client), 0);
	client_free(client);
}

/* The table behind a statement is not what it was. */
static void a_changed_result_is_met_by_a_new_connection(void **state)
{
	(void)state;
	static const char all[] = "SELECT * FROM changing";
	psql("CREATE TABLE changing (a int8)");
	struct client *client = client_with_names(true);
	for (int n = 0; n < USES + 4; n++)
		ask(client, n, all);
	assert_int_equal(names_of(client), 1);
	psql("ALTER TABLE changing ADD b int8");
	client->answers = 0;
	client->replies[0] = (struct reply){ 0 };
	queue(client, 0, all, NULL);
	run_until(client, &client->answers, 1);
	expect_error(&client->replies[0], PG_REFUSED, "0A000");
	run_until(client, &client->ups, 2);
	ask(client, 1, all);
	assert_true(client->replies[1].good);
	client_free(client);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_sent_often_gets_a_name),
		cmocka_unit_test(nobody_gets_one_who_does_not_want_it),
		cmocka_unit_test(an_error_in_it_harms_nobody),
		cmocka_unit_test(names_that_do_not_last_are_given_up),
		cmocka_unit_test(a_changed_result_is_met_by_a_new_connection),
	};
	if (!pg_server_make(&server))
		return pg_server_skip();
	pg_server_start(&server);
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	pg_server_remove(&server);
	return failed;
}
