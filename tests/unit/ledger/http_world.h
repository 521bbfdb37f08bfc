/* The world of a test of http.h: one loop with the transfers and the server, which misbehaves in
 * every way. */
#ifndef TEST_HTTP_WORLD_H
#define TEST_HTTP_WORLD_H

#include "sending/http.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "scripted_server.h"

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

#define ANSWER_MAX ((size_t)4096)
#define PATIENCE   (60 * USEC_SEC)

struct world {
	struct loop *loop;
	struct http *http;
	struct server *server;
	struct loop_timer *patience;
	int pending;
	bool impatient;
};

/* What done() was told. */
struct told {
	struct world *world;
	struct http_transfer *transfer;
	int calls;
	enum transfer_end end;
	int status, curl_code;
	char transport[64], error[256], retry_after[64], date[64];
	struct buf head, body;
	bool truncated, replayed;
	void (*then)(struct told *told);
	struct told *next;
};

static void on_impatient(void *arg)
{
	struct world *world = arg;
	world->impatient = true;
	loop_stop(world->loop);
}

static int setup(void **state)
{
	struct world *world = mem_zero(sizeof(*world));
	world->loop = loop_new();
	world->http = http_new(world->loop);
	world->server = server_new(world->loop);
	world->patience = loop_timer_new(world->loop, on_impatient, world);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;
	http_free(world->http);
	server_free(world->server);
	loop_timer_free(world->patience);
	loop_free(world->loop);
	free(world);
	return 0;
}

static void keep_text(char *to, size_t size, const char *text)
{
	snprintf(to, size, "%s", text ? text : "-");
}

static void on_done(void *arg, const struct http_answer *answer)
{
	struct told *told = arg;
	told->calls++;
	told->transfer = NULL;
	told->end = answer->end;
	told->status = answer->status;
	told->curl_code = answer->curl_code;
	told->truncated = answer->truncated;
	told->replayed = answer->replayed;
	keep_text(told->transport, sizeof(told->transport), answer->transport);
	keep_text(told->error, sizeof(told->error), answer->error);
	keep_text(told->retry_after, sizeof(told->retry_after), answer->retry_after);
	keep_text(told->date, sizeof(told->date), answer->date);
	buf_add(&told->head, answer->head, answer->head_length);
	buf_add(&told->body, answer->body, answer->body_length);
	assert_true(answer->took >= 0);
	if (told->then)
		told->then(told);
	if (--told->world->pending == 0)
		loop_stop(told->world->loop);
}

static struct http_request plain_request(const char *method, const char *url)
{
	return (struct http_request){ .method = method,
				      .url = url,
				      .connect_timeout = 30 * USEC_SEC,
				      .timeout = 30 * USEC_SEC,
				      .answer_max = ANSWER_MAX,
				      .ca_file = "",
				      .cert_file = "",
				      .key_file = "" };
}

static void start(struct world *world, struct told *told, const struct http_request *request)
{
	told->world = world;
	world->pending++;
	told->transfer = http_start(world->http, request, on_done, told);
	assert_int_equal(told->calls, 0);
}

/* Turns the loop until every transfer has been told of. */
static void finish(struct world *world)
{
	loop_timer_set(world->patience, PATIENCE);
	if (world->pending)
		loop_run(world->loop);
	loop_timer_cancel(world->patience);
	assert_false(world->impatient);
	assert_int_equal(world->pending, 0);
}

static const char *url_of(const struct world *world, const char *path, char *url, size_t size)
{
	snprintf(url, size, "http://127.0.0.1:%d%s", world->server->port, path);
	return url;
}

static void told_clear(struct told *told)
{
	buf_done(&told->head);
	buf_done(&told->body);
	memset(told, 0, sizeof(*told));
}

/* A POST with a body, to the end. */
static inline void post(struct world *world, const char *path, usec_t timeout, struct told *told)
{
	char url[256];
	struct http_request request = plain_request("POST", url_of(world, path, url, sizeof(url)));
	request.body = "amount=1";
	request.body_length = 8;
	request.timeout = timeout;
	told_clear(told);
	start(world, told, &request);
	finish(world);
	assert_int_equal(told->calls, 1);
}

/* No proxy of the environment is ever asked. */
static int begin(void **state)
{
	(void)state;
	signal(SIGPIPE, SIG_IGN);
	setenv("http_proxy", "http://127.0.0.1:1", 1);
	setenv("https_proxy", "http://127.0.0.1:1", 1);
	return 0;
}

#endif
