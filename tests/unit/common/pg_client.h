/* A client of a real server, and what came back of what it asked. */
#ifndef TESTS_PG_CLIENT_H
#define TESTS_PG_CLIENT_H

#include "common/pg_server.h"
#include "loop.h"
#include "pg.h"

enum { ANSWERS_MAX = 1100 };

static struct pg_server server; /* one for all tests */

/* What came back for one statement. */
struct reply {
	struct client *client;
	int place; /* in the order of answers, from 1 */
	int calls;
	bool good;
	struct pg_error error;
	int64_t number; /* first column of the first row, when it is an int8 */
};

struct client {
	struct loop *loop;
	struct log *log;
	struct loop_timer *late;
	struct pg *pg;
	int ups, downs, answers;
	char reason[512];
	const int *count; /* run until it reaches `wanted` */
	int wanted;
	struct reply replies[ANSWERS_MAX];
};

static inline void look(struct client *client)
{
	if (client->count && *client->count >= client->wanted)
		loop_stop(client->loop);
}

static inline void on_up(void *arg)
{
	struct client *client = arg;
	assert_true(pg_up(client->pg));
	client->ups++;
	look(client);
}

static inline void on_down(void *arg, const char *reason)
{
	struct client *client = arg;
	assert_false(pg_up(client->pg));
	client->downs++;
	snprintf(client->reason, sizeof(client->reason), "%s", reason);
	look(client);
}

static inline void on_late(void *arg)
{
	struct client *client = arg;
	fail_msg("waited too long: %d up, %d down, %d answers", client->ups, client->downs,
		 client->answers);
}

static inline void on_done(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct reply *reply = arg;
	assert_true((result == NULL) != (error == NULL));
	reply->place = ++reply->client->answers;
	reply->calls++;
	reply->good = result != NULL;
	if (error)
		reply->error = *error;
	else if (pg_rows(result) && PQftype(result, 0) == 20)
		reply->number = pg_get_int8(result, 0, 0);
	look(reply->client);
}

static inline void run_until(struct client *client, const int *count, int wanted)
{
	if (*count >= wanted)
		return;
	client->count = count;
	client->wanted = wanted;
	loop_timer_set(client->late, 30 * USEC_SEC);
	loop_run(client->loop);
	loop_timer_cancel(client->late);
	client->count = NULL;
}

static inline void queue(struct client *client, int n, const char *sql,
			 const struct pg_params *params)
{
	client->replies[n].client = client;
	int before = client->answers;
	pg_send(client->pg, sql, params, on_done, &client->replies[n]);
	assert_int_equal(client->answers, before);
}

static inline void ask(struct client *client, int n, const char *sql)
{
	int answers = client->answers;
	queue(client, n, sql, NULL);
	run_until(client, &client->answers, answers + 1);
}

/* --- a client for each test --- */

static inline struct pg_settings usual(void)
{
	return (struct pg_settings){ .conninfo = server.conninfo,
				     .program = "test_pg",
				     .connect_timeout = 10 * USEC_SEC,
				     .statement_timeout = 20 * USEC_SEC };
}

static inline struct client *client_new(const struct pg_settings *settings)
{
	struct client *client = calloc(1, sizeof(*client));
	const struct pg_events events = { on_up, on_down, client };
	assert_non_null(client);
	client->loop = loop_new();
	client->log = log_new("test_pg", LOG_ERROR, LOG_LOGFMT);
	client->late = loop_timer_new(client->loop, on_late, client);
	client->pg = pg_new(client->loop, client->log, settings, &events);
	return client;
}

static inline struct client *connected(void)
{
	struct pg_settings settings = usual();
	struct client *client = client_new(&settings);
	assert_false(pg_up(client->pg));
	run_until(client, &client->ups, 1);
	return client;
}

static inline void client_free(struct client *client)
{
	pg_free(client->pg);
	loop_timer_free(client->late);
	loop_free(client->loop);
	log_free(client->log);
	free(client);
}

static inline void expect_error(const struct reply *reply, enum pg_error_kind kind,
				const char *sqlstate)
{
	assert_int_equal(reply->calls, 1);
	assert_false(reply->good);
	assert_int_equal(reply->error.kind, kind);
	assert_string_equal(reply->error.sqlstate, sqlstate);
}

static inline void psql(const char *sql)
{
	PGconn *conn = PQconnectdb(server.conninfo);
	PGresult *result = PQexec(conn, sql);
	ExecStatusType status = PQresultStatus(result);
	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		fail_msg("%s", PQerrorMessage(conn));
	PQclear(result);
	PQfinish(conn);
}

static const char kill_clients[] = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
				   " WHERE application_name = 'test_pg'";

#endif
