/* The connection on the loop, against a real server that is killed, stopped and silenced. */
#include <arpa/inet.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/pg_client.h"

/* --- statements --- */

static void a_thousand_statements_are_answered_in_order(void **state)
{
	(void)state;
	struct client *client = connected();
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	for (int i = 0; i < 1000; i++) {
		pg_params_clear(&params);
		pg_add_int8(&params, i);
		queue(client, i, "SELECT $1", &params);
	}
	assert_int_equal(pg_queued(client->pg), 1000);
	run_until(client, &client->answers, 1000);
	for (int i = 0; i < 1000; i++) {
		assert_true(client->replies[i].good);
		assert_int_equal(client->replies[i].place, i + 1);
		assert_int_equal(client->replies[i].number, i);
	}
	assert_int_equal(pg_queued(client->pg), 0);
	client_free(client);
}

static void large_statements_and_answers_do_not_block_each_other(void **state)
{
	(void)state;
	struct client *client = connected();
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	size_t size = 1 << 20;
	char *large = calloc(1, size);
	memset(large, 'x', size);
	pg_add_text_n(&params, large, size);
	for (int i = 0; i < 30; i++)
		queue(client, i, "SELECT length($1)::int8, $1", &params);
	run_until(client, &client->answers, 30);
	for (int i = 0; i < 30; i++)
		assert_int_equal(client->replies[i].number, size);
	free(large);
	client_free(client);
}

static void an_error_harms_only_its_own_statement(void **state)
{
	(void)state;
	struct client *client = connected();
	queue(client, 0, "SELECT 1::int8", NULL);
	queue(client, 1, "SELECT 1/0", NULL);
	queue(client, 2, "SELEKT", NULL);
	queue(client, 3, "SELECT 4::int8", NULL);
	queue(client, 4, "SELECT 1; SELECT 2", NULL);
	queue(client, 5, "SELECT 6::int8", NULL);
	run_until(client, &client->answers, 6);
	assert_true(client->replies[0].good);
	expect_error(&client->replies[1], PG_REFUSED, "22012");
	assert_string_equal(client->replies[1].error.text, "division by zero");
	expect_error(&client->replies[2], PG_REFUSED, "42601");
	assert_int_equal(client->replies[3].number, 4);
	expect_error(&client->replies[4], PG_REFUSED, "42601");
	assert_int_equal(client->replies[5].number, 6);
	assert_int_equal(client->downs, 0);
	client_free(client);
}

/* The server says that the INSERT is done before it tries to commit it. */
static void a_commit_that_fails_is_a_refusal(void **state)
{
	(void)state;
	struct client *client = connected();
	psql("CREATE TABLE later (id int PRIMARY KEY); CREATE TABLE "
	     "d "
	     "(id int REFERENCES later DEFERRABLE INITIALLY DEFERRED)");
	queue(client, 0, "INSERT INTO d VALUES (1)", NULL);
	queue(client, 1, "SELECT count(*) FROM d", NULL);
	run_until(client, &client->answers, 2);
	expect_error(&client->replies[0], PG_REFUSED, "23503");
	assert_true(client->replies[1].good);
	assert_int_equal(client->replies[1].number, 0);
	client_free(client);
}

static void a_transaction_may_span_statements(void **state)
{
	(void)state;
	struct client *client = connected();
	struct client *other = connected();
	psql("CREATE TABLE t (n int8)");
	ask(client, 0, "BEGIN");
	ask(client, 1, "INSERT INTO t VALUES (7)");
	ask(other, 0, "SELECT count(*) FROM t");
	assert_int_equal(other->replies[0].number, 0);
	ask(client, 2, "COMMIT");
	assert_true(client->replies[2].good);
	ask(other, 1, "SELECT n FROM t");
	assert_int_equal(other->replies[1].number, 7);
	/* the same without waiting for answers, and given back */
	queue(client, 3, "BEGIN", NULL);
	queue(client, 4, "DELETE FROM t", NULL);
	queue(client, 5, "ROLLBACK", NULL);
	queue(client, 6, "SELECT count(*) FROM t", NULL);
	run_until(client, &client->answers, 7);
	assert_int_equal(client->replies[6].number, 1);
	client_free(client);
	client_free(other);
}

static void a_commit_after_a_failure_is_a_refusal(void **state)
{
	(void)state;
	struct client *client = connected();
	queue(client, 0, "BEGIN", NULL);
	queue(client, 1, "SELECT 1/0", NULL);
	queue(client, 2, "SELECT 1", NULL);
	queue(client, 3, "COMMIT", NULL);
	queue(client, 4, "SELECT 1::int8", NULL);
	run_until(client, &client->answers, 5);
	assert_true(client->replies[0].good);
	expect_error(&client->replies[1], PG_REFUSED, "22012");
	expect_error(&client->replies[2], PG_REFUSED, "25P02");
	expect_error(&client->replies[3], PG_REFUSED, "25P02");
	assert_int_equal(client->replies[4].number, 1);
	client_free(client);
}

struct chain {
	struct client *client;
	int left;
	int inside;
};

static void on_chain(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct chain *chain = arg;
	assert_non_null(result);
	assert_null(error);
	assert_int_equal(chain->inside++, 0);
	if (--chain->left > 0)
		pg_send(chain->client->pg, "SELECT 1", NULL, on_chain, chain);
	else
		loop_stop(chain->client->loop);
	chain->inside--;
}

static void a_callback_may_send(void **state)
{
	(void)state;
	struct client *client = connected();
	struct chain chain = { .client = client, .left = 200 };
	pg_send(client->pg, "SELECT 1", NULL, on_chain, &chain);
	loop_timer_set(client->late, 30 * USEC_SEC);
	loop_run(client->loop);
	assert_int_equal(chain.left, 0);
	client_free(client);
}

/* --- losing the connection --- */

static void every_statement_of_a_killed_connection_is_lost_once(void **state)
{
	(void)state;
	struct client *client = connected();
	queue(client, 0, "SELECT 1::int8", NULL);
	queue(client, 1, "SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(20)", NULL);
	queue(client, 2, "SELECT 3::int8", NULL);
	run_until(client, &client->downs, 1);
	assert_int_equal(client->answers, 3); /* before down() */
	assert_true(client->replies[0].good);
	expect_error(&client->replies[1], PG_LOST, "57P01");
	expect_error(&client->replies[2], PG_LOST, "57P01");
	assert_non_null(strstr(client->reason, "terminating connection"));
	run_until(client, &client->ups, 2);
	ask(client, 3, "SELECT 4::int8");
	assert_int_equal(client->replies[3].number, 4);
	for (int i = 0; i < 4; i++)
		assert_int_equal(client->replies[i].calls, 1);
	client_free(client);
}

static void a_connection_killed_while_idle_comes_back(void **state)
{
	(void)state;
	struct client *client = connected();
	for (int round = 1; round <= 3; round++) {
		psql(kill_clients);
		run_until(client, &client->downs, round);
		assert_non_null(strstr(client->reason, "terminating connection"));
		run_until(client, &client->ups, round + 1);
	}
	client_free(client);
}

static void a_server_that_stops_and_starts(void **state)
{
	(void)state;
	static const int how[] = { SIGINT, SIGQUIT };
	for (size_t i = 0; i < 2; i++) {
		struct client *client = connected();
		pg_server_stop(&server, how[i]);
		run_until(client, &client->downs, 2); /* the end, and that nobody is there now */
		assert_non_null(strstr(client->reason, "Is the server running"));
		assert_null(strpbrk(client->reason, "\n\t"));
		ask(client, 0, "SELECT 1");
		expect_error(&client->replies[0], PG_UNSENT, "");
		pg_server_start(&server);
		run_until(client, &client->ups, 2);
		ask(client, 1, "SELECT 2::int8");
		assert_int_equal(client->replies[1].number, 2);
		client_free(client);
	}
}

static void a_read_only_server_is_left(void **state)
{
	(void)state;
	struct client *client = connected();
	psql("CREATE TABLE gate (n int)");
	queue(client, 0, "BEGIN READ ONLY", NULL);
	queue(client, 1, "DELETE FROM gate", NULL);
	run_until(client, &client->downs, 1);
	expect_error(&client->replies[1], PG_REFUSED, "25006");
	run_until(client, &client->ups, 2);
	client_free(client);

	char conninfo[200];
	snprintf(conninfo, sizeof(conninfo), "%s dbname=standby", server.conninfo);
	struct pg_settings settings = usual();
	settings.conninfo = conninfo;
	psql("CREATE DATABASE standby");
	psql("ALTER DATABASE standby SET default_transaction_read_only = on");
	client = client_new(&settings);
	run_until(client, &client->downs, 1);
	assert_non_null(strstr(client->reason, "read-only"));
	psql("ALTER DATABASE standby RESET default_transaction_read_only");
	run_until(client, &client->ups, 1);
	client_free(client);
	psql("DROP DATABASE standby WITH (FORCE)");
}

static void on_quiet(void *arg)
{
	loop_stop(((struct client *)arg)->loop);
}

static void a_missing_database_is_said_once(void **state)
{
	(void)state;
	char conninfo[200];
	snprintf(conninfo, sizeof(conninfo), "%s dbname=shop", server.conninfo);
	struct pg_settings settings = usual();
	settings.conninfo = conninfo;
	struct client *client = client_new(&settings);
	run_until(client, &client->downs, 1);
	assert_non_null(strstr(client->reason, "database \"shop\" does not exist"));
	/* some more attempts: 50, 100, 200, 400 ms at most */
	struct loop_timer *quiet = loop_timer_new(client->loop, on_quiet, client);
	loop_timer_set(quiet, 800 * USEC_MS);
	loop_run(client->loop);
	loop_timer_free(quiet);
	assert_int_equal(client->downs, 1);
	psql("CREATE DATABASE shop");
	run_until(client, &client->ups, 1);
	client_free(client);
	psql("DROP DATABASE shop WITH (FORCE)");
}

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");
	if (!file || fputs(text, file) < 0 || fclose(file) != 0)
		abort();
}

/* Before the server starts. */
static void ask_guarded_for_its_password(void)
{
	char path[100];
	snprintf(path, sizeof(path), "%s/data/pg_hba.conf", server.home);
	write_file(path, "local all guarded scram-sha-256\nlocal all all trust\n");
}

static void the_password_comes_from_its_file(void **state)
{
	(void)state;
	char conninfo[200], secret[] = "/tmp/counterfoil-secret.XXXXXX";
	psql("CREATE ROLE guarded LOGIN PASSWORD 'it''s \\ long'");
	snprintf(conninfo, sizeof(conninfo), "%s user=guarded", server.conninfo);
	struct pg_settings settings = usual();
	settings.conninfo = conninfo;
	settings.password_file = secret;
	close(mkstemp(secret));
	unlink(secret);
	struct client *client = client_new(&settings);
	run_until(client, &client->downs, 1);
	assert_non_null(strstr(client->reason, "password_file: "));
	write_file(secret, "wrong\n");
	run_until(client, &client->downs, 2);
	assert_non_null(strstr(client->reason, "password authentication failed"));
	assert_null(strstr(client->reason, "wrong"));
	write_file(secret, "it's \\ long\nsecond line\n");
	run_until(client, &client->ups, 1); /* the file is read at each attempt */
	client_free(client);
	unlink(secret);
}

static void a_reset_is_carried_out_by_the_loop(void **state)
{
	(void)state;
	struct client *client = connected();
	queue(client, 0, "SELECT pg_sleep(20)", NULL);
	queue(client, 1, "SELECT 2", NULL);
	pg_reset(client->pg, "on purpose");
	assert_false(pg_up(client->pg));
	assert_int_equal(client->answers + client->downs, 0);
	queue(client, 2, "SELECT 3", NULL);
	run_until(client, &client->downs, 1);
	assert_string_equal(client->reason, "on purpose");
	expect_error(&client->replies[0], PG_LOST, "");
	expect_error(&client->replies[1], PG_LOST, "");
	expect_error(&client->replies[2], PG_UNSENT, "");
	for (int i = 0; i < 3; i++)
		assert_int_equal(client->replies[i].place, i + 1);
	run_until(client, &client->ups, 2);
	client_free(client);
}

static void on_done_reset(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct reply *reply = arg;
	on_done(reply, result, error);
	pg_reset(reply->client->pg, "by a callback");
}

static void a_callback_may_reset(void **state)
{
	(void)state;
	struct client *client = connected();
	client->replies[0].client = client;
	pg_send(client->pg, "SELECT 1", NULL, on_done_reset, &client->replies[0]);
	queue(client, 1, "SELECT 2", NULL);
	run_until(client, &client->downs, 1);
	assert_true(client->replies[0].good);
	expect_error(&client->replies[1], PG_LOST, "");
	run_until(client, &client->ups, 2);
	client_free(client);
}

static void freeing_answers_what_waits(void **state)
{
	(void)state;
	struct client *client = connected();
	struct reply first, second;
	queue(client, 0, "SELECT pg_sleep(20)", NULL);
	queue(client, 1, "SELECT 2", NULL);
	pg_free(client->pg);
	client->pg = NULL;
	first = client->replies[0];
	second = client->replies[1];
	assert_int_equal(client->downs, 0);
	client_free(client);
	expect_error(&first, PG_LOST, "");
	expect_error(&second, PG_LOST, "");

	struct pg_settings settings = usual();
	client = client_new(&settings);
	queue(client, 0, "SELECT 1", NULL);
	pg_free(client->pg);
	client->pg = NULL;
	first = client->replies[0];
	client_free(client);
	expect_error(&first, PG_UNSENT, "");
}

/* --- time --- */

static void the_server_ends_a_statement_in_time(void **state)
{
	(void)state;
	struct pg_settings settings = usual();
	settings.statement_timeout = 100 * USEC_MS;
	struct client *client = client_new(&settings);
	run_until(client, &client->ups, 1);
	ask(client, 0, "SELECT pg_sleep(20)");
	expect_error(&client->replies[0], PG_REFUSED, "57014");
	ask(client, 1, "SELECT 2::int8");
	assert_int_equal(client->replies[1].number, 2);
	assert_int_equal(client->downs, 0);
	client_free(client);
}

static void a_silent_server_is_given_up(void **state)
{
	(void)state;
	struct pg_settings settings = usual();
	settings.statement_timeout = 100 * USEC_MS;
	struct client *client = client_new(&settings);
	run_until(client, &client->ups, 1);
	ask(client, 0, "SELECT pg_backend_pid()::int8");
	pid_t backend = (pid_t)client->replies[0].number;
	assert_int_equal(kill(backend, SIGSTOP), 0);
	queue(client, 1, "SELECT 2", NULL);
	queue(client, 2, "SELECT 3", NULL);
	run_until(client, &client->downs, 1);
	expect_error(&client->replies[1], PG_LOST, "");
	expect_error(&client->replies[2], PG_LOST, "");
	assert_non_null(strstr(client->reason, "no answer from "));
	run_until(client, &client->ups, 2); /* another backend serves */
	assert_int_equal(kill(backend, SIGCONT), 0);
	client_free(client);
}

static int silent_listener(int *port_r)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	*port_r = ntohs(address.sin_port);
	return fd;
}

static void a_silent_host_does_not_hide_the_next_one(void **state)
{
	(void)state;
	int port = 0, fd = silent_listener(&port);
	char conninfo[300];
	snprintf(conninfo, sizeof(conninfo),
		 "host=127.0.0.1,%s port=%d,5432 user=postgres dbname=postgres sslmode=disable",
		 server.home, port);
	struct pg_settings settings = usual();
	settings.conninfo = conninfo;
	settings.connect_timeout = 200 * USEC_MS;
	struct client *client = client_new(&settings);
	run_until(client, &client->ups, 1);
	assert_int_equal(client->downs, 1);
	assert_string_equal(client->reason, "no connection from 127.0.0.1 within 200ms");
	client_free(client);
	close(fd);
}

/* --- a pooler --- */

static int connect_to(const char *directory)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/.s.PGSQL.5432", directory);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ? fd : -1;
}

static void pass_on(int from, int to)
{
	char bytes[4096];
	ssize_t length = read(from, bytes, sizeof(bytes));
	if (length <= 0 || write(to, bytes, (size_t)length) != length)
		_exit(0);
}

/* As pgbouncer answers a startup option that it does not know; else it lets everything pass. */
static void serve_as_pooler(int client)
{
	static const char refusal[] = "SFATAL\0C08P01\0Munsupported startup parameter: options\0";
	char startup[1024];
	ssize_t length = read(client, startup, sizeof(startup));
	if (length <= 0)
		_exit(0);
	if (memmem(startup, (size_t)length, "options", 8)) {
		const uint32_t size = htonl(sizeof(refusal) + 4);
		(void)!write(client, "E", 1);
		(void)!write(client, &size, sizeof(size));
		(void)!write(client, refusal, sizeof(refusal));
		_exit(0);
	}
	int backend = connect_to(server.home);
	(void)!write(backend, startup, (size_t)length);
	for (;;) {
		struct pollfd ready[] = { { client, POLLIN, 0 }, { backend, POLLIN, 0 } };
		poll(ready, 2, -1);
		if (ready[0].revents)
			pass_on(client, backend);
		if (ready[1].revents)
			pass_on(backend, client);
	}
}

static pid_t start_pooler(const char *directory)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/.s.PGSQL.5432", directory);
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listener, 8), 0);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGCHLD, SIG_IGN);
		for (;;) {
			int client = accept(listener, NULL, NULL);
			if (client >= 0 && fork() == 0)
				serve_as_pooler(client);
			close(client);
		}
	}
	close(listener);
	return pid;
}

static void a_pooler_that_refuses_options_is_served_without(void **state)
{
	(void)state;
	char directory[] = "/tmp/counterfoil-pooler.XXXXXX", command[100], conninfo[160];
	assert_non_null(mkdtemp(directory));
	pid_t pooler = start_pooler(directory);
	snprintf(conninfo, sizeof(conninfo), "host=%s port=5432 user=postgres dbname=postgres",
		 directory);
	struct pg_settings settings = usual();
	settings.conninfo = conninfo;
	struct client *client = client_new(&settings);
	run_until(client, &client->ups, 1);
	assert_int_equal(client->downs, 0);
	ask(client, 0, "SELECT setting::int8 FROM pg_settings WHERE name = 'statement_timeout'");
	assert_int_equal(client->replies[0].number, 0);
	client_free(client);
	kill(pooler, SIGTERM);
	waitpid(pooler, NULL, 0);
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	assert_true(pg_server_run(command));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thousand_statements_are_answered_in_order),
		cmocka_unit_test(large_statements_and_answers_do_not_block_each_other),
		cmocka_unit_test(an_error_harms_only_its_own_statement),
		cmocka_unit_test(a_commit_that_fails_is_a_refusal),
		cmocka_unit_test(a_transaction_may_span_statements),
		cmocka_unit_test(a_commit_after_a_failure_is_a_refusal),
		cmocka_unit_test(a_callback_may_send),
		cmocka_unit_test(every_statement_of_a_killed_connection_is_lost_once),
		cmocka_unit_test(a_connection_killed_while_idle_comes_back),
		cmocka_unit_test(a_server_that_stops_and_starts),
		cmocka_unit_test(a_read_only_server_is_left),
		cmocka_unit_test(a_missing_database_is_said_once),
		cmocka_unit_test(the_password_comes_from_its_file),
		cmocka_unit_test(a_reset_is_carried_out_by_the_loop),
		cmocka_unit_test(a_callback_may_reset),
		cmocka_unit_test(freeing_answers_what_waits),
		cmocka_unit_test(the_server_ends_a_statement_in_time),
		cmocka_unit_test(a_silent_server_is_given_up),
		cmocka_unit_test(a_silent_host_does_not_hide_the_next_one),
		cmocka_unit_test(a_pooler_that_refuses_options_is_served_without),
	};
	if (!pg_server_make(&server))
		return pg_server_skip();
	ask_guarded_for_its_password();
	pg_server_start(&server);
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	pg_server_remove(&server);
	return failed;
}
