/* One request, one send: against a server that misbehaves in every way, on the same loop. */
#include "sending/http.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "scripted_server.h"

/* The clock that libcurl reads is ours: a test may set it forward between two requests. */
static time_t clock_ahead;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	const int status = (int)syscall(SYS_clock_gettime, clock, now);
	if (clock == CLOCK_MONOTONIC)
		now->tv_sec += clock_ahead;
	return status;
}

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
static void post(struct world *world, const char *path, usec_t timeout, struct told *told)
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

static void connections_are_kept(void **state)
{
	struct world *world = *state;
	struct told told = { 0 };
	for (int i = 0; i < 5; i++) {
		post(world, "/ok", 30 * USEC_SEC, &told);
		assert_int_equal(told.end, TRANSFER_DONE);
		assert_int_equal(told.status, 200);
		assert_string_equal(told.transport, "");
		assert_string_equal(told.error, "");
		assert_string_equal(buf_text(&told.body), "ok");
		assert_string_equal(buf_text(&told.head),
				    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
		assert_false(told.truncated);
	}
	assert_int_equal(world->server->accepted, 1);
	assert_int_equal(world->server->requests, 5);
	told_clear(&told);
}

/* L27: a connection that is kept in use is left for a new one, so that a name's new address is
 * found, and so is one that was idle. */
static void old_connections_are_left(void **state)
{
	struct world *world = *state;
	struct told told = { 0 };
	const time_t step = 25;
	post(world, "/ok", 30 * USEC_SEC, &told);
	for (time_t age = step; age <= 300; age += step) {
		clock_ahead += step;
		post(world, "/ok", 30 * USEC_SEC, &told);
		assert_int_equal(world->server->accepted, 1);
	}
	clock_ahead += step;
	post(world, "/ok", 30 * USEC_SEC, &told);
	assert_int_equal(world->server->accepted, 2);
	clock_ahead += 32;
	post(world, "/ok", 30 * USEC_SEC, &told);
	assert_int_equal(world->server->accepted, 3);
	assert_int_equal(told.status, 200);
	told_clear(&told);
}

/* Each fault, on a fresh connection and on a reused one: sent once, and known for what it is. */
static void faults_after_sending(void **state)
{
	struct world *world = *state;
	static const struct {
		const char *path;
		const char *fresh, *reused; /* error classes */
	} rows[] = {
		{ "/reset", "reset", "resend blocked" },
		{ "/close", "empty answer", "resend blocked" },
		{ "/cut", "cut headers", "cut headers" },
		{ "/cut-at-line", "cut headers", "cut headers" },
		{ "/garbage", "garbage", "garbage" },
		{ "/four-digits", "garbage", "garbage" },
		{ "/interim-only", "cut headers", "cut headers" },
		{ "/interim-endless", "headers too large", "headers too large" },
		{ "/headers-endless", "headers too large", "headers too large" },
	};
	struct told told = { 0 };
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (int reused = 0; reused <= 1; reused++) {
			if (reused)
				post(world, "/ok", 30 * USEC_SEC, &told);
			const int before = world->server->requests;
			const int accepted = world->server->accepted;
			post(world, rows[i].path, 30 * USEC_SEC, &told);
			const char *expected = reused ? rows[i].reused : rows[i].fresh;
			if (told.end != TRANSFER_CUT || strcmp(told.transport, expected) != 0)
				fail_msg("%s, reused %d: end %d, %s (%d, %s)", rows[i].path, reused,
					 told.end, told.transport, told.curl_code, told.error);
			assert_int_equal(told.status, 0);
			assert_true(strlen(told.error) > 0);
			assert_int_equal(world->server->requests, before + 1);
			if (reused && strcmp(rows[i].reused, "resend blocked") != 0)
				assert_int_equal(world->server->accepted, accepted);
		}
	}
	told_clear(&told);
}

/* L20: the server reads the second request on a connection and closes it. Its peer must see one. */
static void a_second_send_is_blocked(void **state)
{
	struct world *world = *state;
	struct told told = { 0 };
	post(world, "/close-second", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 200);
	post(world, "/close-second", 30 * USEC_SEC, &told);
	assert_int_equal(told.end, TRANSFER_CUT);
	assert_string_equal(told.transport, "resend blocked");
	assert_int_equal(world->server->requests, 2);
	post(world, "/ok", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 200);
	assert_int_equal(world->server->requests, 3);
	told_clear(&told);
}

static void time_runs_out(void **state)
{
	struct world *world = *state;
	static const char *const paths[] = { "/hang", "/cut-then-hang" };
	struct told told = { 0 };
	for (size_t i = 0; i < 2; i++) {
		post(world, paths[i], 200 * USEC_MS, &told);
		assert_int_equal(told.end, TRANSFER_CUT);
		assert_string_equal(told.transport, "timeout");
	}
	assert_int_equal(world->server->requests, 2);
	told_clear(&told);
}

/* Complete headers are an answer, whatever becomes of the body. */
static void a_spoilt_body_is_an_answer(void **state)
{
	struct world *world = *state;
	static const struct {
		const char *path;
		int status;
		const char *body;
	} rows[] = {
		{ "/body-cut", 200, "half" },
		{ "/body-hang", 201, "half" },
		{ "/chunk-broken", 200, "" },
	};
	struct told told = { 0 };
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		post(world, rows[i].path, 300 * USEC_MS, &told);
		assert_int_equal(told.end, TRANSFER_DONE);
		assert_int_equal(told.status, rows[i].status);
		assert_true(told.truncated);
		assert_string_equal(told.transport, "");
		assert_string_equal(buf_text(&told.body), rows[i].body);
	}
	assert_int_equal(world->server->requests, 3);
	told_clear(&told);
}

/* Ten gigabytes: what is kept is kept, the rest is never read, and the connection is gone. */
static void a_huge_body_is_cut(void **state)
{
	struct world *world = *state;
	static const char *const paths[] = { "/huge-length", "/huge-chunked", "/huge-until-close" };
	struct told told = { 0 };
	for (size_t i = 0; i < 3; i++) {
		post(world, paths[i], 30 * USEC_SEC, &told);
		assert_int_equal(told.end, TRANSFER_DONE);
		assert_int_equal(told.status, 200);
		assert_true(told.truncated);
		assert_int_equal(told.body.length, ANSWER_MAX);
	}
	assert_true(world->server->sent < (size_t)64 * 1024 * 1024);
	assert_int_equal(world->server->accepted, 3);
	post(world, "/ok", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 200);
	told_clear(&told);
}

static void the_cap_is_exact(void **state)
{
	struct world *world = *state;
	char url[256];
	struct told told = { 0 };
	struct http_request request = plain_request("GET", url_of(world, "/ok", url, sizeof(url)));
	for (size_t cap = 0; cap <= 3; cap++) {
		request.answer_max = cap;
		told_clear(&told);
		start(world, &told, &request);
		finish(world);
		assert_int_equal(told.end, TRANSFER_DONE);
		assert_int_equal(told.truncated, cap < 2);
		assert_int_equal(told.body.length, cap < 2 ? cap : 2);
	}
	told_clear(&told);
}

static void headers_are_read(void **state)
{
	struct world *world = *state;
	struct told told = { 0 };
	post(world, "/later", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 503);
	assert_string_equal(told.retry_after, "120");
	assert_string_equal(told.date, "Sun, 06 Nov 1994 08:49:37 GMT");
	assert_true(told.replayed);
	assert_false(told.truncated);
	post(world, "/ok", 30 * USEC_SEC, &told);
	assert_string_equal(told.retry_after, "-");
	assert_false(told.replayed);
	told_clear(&told);
}

static void interim_answers_and_trailers_are_not_the_answer(void **state)
{
	struct world *world = *state;
	struct told told = { 0 };
	post(world, "/interim", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 200);
	assert_string_equal(told.retry_after, "-");
	assert_string_equal(buf_text(&told.head), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n");
	post(world, "/trailers", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 200);
	assert_string_equal(buf_text(&told.body), "ok");
	assert_string_equal(told.retry_after, "-");
	assert_false(told.replayed);
	post(world, "/empty-body", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 204);
	assert_false(told.truncated);
	assert_int_equal(world->server->accepted, 1);
	told_clear(&told);
}

/* L24: neither the key nor the secret travels. */
static void redirects_are_not_followed(void **state)
{
	struct world *world = *state;
	struct told told = { 0 };
	post(world, "/redirect", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 307);
	assert_int_equal(world->server->requests, 1);
	told_clear(&told);
}

static void a_417_is_not_sent_again(void **state)
{
	struct world *world = *state;
	char url[256];
	char *body = mem_zero(2 * 1024 * 1024); /* large enough for libcurl to wish for an Expect */
	struct told told = { 0 };
	struct http_request request =
		plain_request("POST", url_of(world, "/417", url, sizeof(url)));
	request.body = body;
	request.body_length = 2 * 1024 * 1024;
	start(world, &told, &request);
	free(body);
	finish(world);
	assert_int_equal(told.end, TRANSFER_DONE);
	assert_int_equal(told.status, 417);
	assert_int_equal(world->server->requests, 1);
	assert_null(strcasestr(buf_text(&world->server->last), "expect"));
	told_clear(&told);
}

/* Whoever may send no longer sends nothing, on a new connection and on a kept one. */
static void too_late_no_byte_leaves(void **state)
{
	struct world *world = *state;
	char url[256];
	for (int round = 0; round < 2; round++) {
		struct told told = { 0 };
		struct http_request request =
			plain_request("POST", url_of(world, "/ok", url, sizeof(url)));
		request.send_before = usec_boot() - 1;
		start(world, &told, &request);
		finish(world);
		assert_int_equal(told.end, TRANSFER_ABORTED);
		assert_int_equal(world->server->requests, round);
		told_clear(&told);
		request.send_before = usec_boot() + USEC_MIN;
		start(world, &told, &request);
		finish(world);
		assert_int_equal(told.end, TRANSFER_DONE);
		assert_int_equal(world->server->requests, round + 1);
		told_clear(&told);
	}
}

/* L23: a connection with half a request on it is not used again. */
static void an_early_answer_ends_the_connection(void **state)
{
	struct world *world = *state;
	char url[256];
	char *body = mem_zero(32 * 1024 * 1024);
	struct told told = { 0 };
	struct http_request request =
		plain_request("POST", url_of(world, "/early", url, sizeof(url)));
	request.body = body;
	request.body_length = 32 * 1024 * 1024;
	start(world, &told, &request);
	free(body);
	finish(world);
	assert_int_equal(told.end, TRANSFER_DONE);
	assert_int_equal(told.status, 400);
	post(world, "/ok", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 200);
	assert_int_equal(world->server->accepted, 2);
	told_clear(&told);
}

/* An answer too many must not be taken for the answer to the next request. */
static void a_second_answer_ends_the_connection(void **state)
{
	struct world *world = *state;
	struct told told = { 0 };
	post(world, "/twice", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 200);
	post(world, "/later", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 503);
	assert_int_equal(world->server->accepted, 2);
	/* and one that comes while the connection is idle */
	for (int i = 0; i < SERVER_CONNECTIONS; i++) {
		if (world->server->connections[i])
			(void)send(world->server->connections[i]->fd,
				   "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 38,
				   MSG_NOSIGNAL);
	}
	post(world, "/later", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 503);
	assert_int_equal(world->server->accepted, 3);
	told_clear(&told);
}

static void some_answers_ask_for_a_fresh_connection(void **state)
{
	struct world *world = *state;
	struct told told = { 0 };
	post(world, "/421", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 421);
	post(world, "/425", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 425);
	post(world, "/ok", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 200);
	assert_int_equal(world->server->accepted, 3);
	told_clear(&told);
}

/* Nothing on the wire that was not asked for. */
static void the_request_is_as_it_was_asked_for(void **state)
{
	struct world *world = *state;
	static const char *const headers[] = { "Idempotency-Key: order:1:charge",
					       "Content-Type: application/json",
					       "X-Empty:", "X-Blank: ", NULL };
	static const struct {
		const char *method, *body;
		size_t body_length;
		const char *const *headers;
		const char *wire;
	} rows[] = {
		{ "POST", "a\0b", 3, headers,
		  "Idempotency-Key: order:1:charge\r\nContent-Type: application/json\r\n"
		  "X-Empty:\r\nX-Blank:\r\nContent-Length: 3\r\n\r\n" },
		{ "POST", NULL, 0, NULL, "Content-Length: 0\r\n\r\n" },
		{ "PUT", "x", 1, NULL, "Content-Length: 1\r\n\r\n" },
		{ "PUT", NULL, 0, NULL, "Content-Length: 0\r\n\r\n" },
		{ "PATCH", "xy", 2, NULL, "Content-Length: 2\r\n\r\n" },
		{ "DELETE", NULL, 0, NULL, "\r\n" },
		{ "DELETE", "x", 1, NULL, "Content-Length: 1\r\n\r\n" },
		{ "GET", NULL, 0, NULL, "\r\n" },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char url[256];
		struct told told = { 0 };
		struct http_request request = plain_request(
			rows[i].method, url_of(world, "/a/../b?c=d%20e", url, sizeof(url)));
		request.body = rows[i].body;
		request.body_length = rows[i].body_length;
		request.headers = rows[i].headers;
		start(world, &told, &request);
		finish(world);
		assert_int_equal(told.status, 200);
		struct buf BUF_AUTO wire = { 0 };
		buf_addf(&wire,
			 "%s /a/../b?c=d%%20e HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
			 "User-Agent: counterfoil/0.1.0\r\nAccept: */*\r\n%s",
			 rows[i].method, world->server->port, rows[i].wire);
		buf_add(&wire, rows[i].body ? rows[i].body : "", rows[i].body_length);
		assert_string_equal(buf_text(&world->server->last), buf_text(&wire));
		assert_int_equal(world->server->last.length, wire.length);
		told_clear(&told);
	}
}

static void one(struct world *world, const struct http_request *request, struct told *told)
{
	told_clear(told);
	start(world, told, request);
	finish(world);
	assert_int_equal(told->calls, 1);
	assert_int_equal(told->status, 0);
}

/* L25: what would break out of its line never leaves. */
static void broken_requests_are_not_sent(void **state)
{
	struct world *world = *state;
	static const char *const bad[] = { "X: a\r\nAuthorization: b",
					   "X: a\nb",
					   "X: a\rb",
					   "X\r\n: a",
					   "X: \x01",
					   "X: \x7f",
					   "no colon" };
	char url[256];
	struct told told = { 0 };
	struct http_request request = plain_request("POST", url_of(world, "/ok", url, sizeof(url)));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *headers[] = { bad[i], NULL };
		request.headers = headers;
		one(world, &request, &told);
		assert_int_equal(told.end, TRANSFER_NOT_SENT);
		assert_string_equal(told.transport, "request");
	}
	request.headers = NULL;
	request.method = "GET / HTTP/1.1\r\nX: y\r\n\r\nGET";
	one(world, &request, &told);
	assert_int_equal(told.end, TRANSFER_NOT_SENT);
	request.method = "POST";
	static const char *const urls[] = { "http://127.0.0.1:1/a\r\nb",
					    "http://127.0.0.1:x/",
					    "ftp://127.0.0.1/",
					    "file:///etc/passwd",
					    "",
					    "http://" };
	for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
		request.url = urls[i];
		one(world, &request, &told);
		assert_int_equal(told.end, TRANSFER_NOT_SENT);
		if (strcmp(told.transport, "url") != 0)
			fail_msg("%s: %s (%s)", urls[i], told.transport, told.error);
	}
	assert_int_equal(world->server->requests, 0);
	told_clear(&told);
}

static void nobody_listens(void **state)
{
	struct world *world = *state;
	int port;
	char url[256];
	struct told told = { 0 };
	close(listen_on_loopback(1, &port));
	snprintf(url, sizeof(url), "http://127.0.0.1:%d/ok", port);
	struct http_request request = plain_request("POST", url);
	one(world, &request, &told);
	assert_int_equal(told.end, TRANSFER_NOT_SENT);
	assert_string_equal(told.transport, "connect");
	request.url = "http://counterfoil.invalid/ok";
	request.connect_timeout = 5 * USEC_SEC;
	one(world, &request, &told);
	assert_int_equal(told.end, TRANSFER_NOT_SENT);
	assert_string_equal(told.transport, "dns");
	told_clear(&told);
}

/* A full backlog: the kernel lets the handshake hang. */
static void connecting_takes_too_long(void **state)
{
	struct world *world = *state;
	int port, fillers[8];
	char url[256];
	struct told told = { 0 };
	const int fd = listen_on_loopback(0, &port);
	const struct sockaddr_in address = { .sin_family = AF_INET,
					     .sin_port = htons((uint16_t)port),
					     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	for (int i = 0; i < 8; i++) {
		fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		(void)connect(fillers[i], (const struct sockaddr *)&address, sizeof(address));
	}
	snprintf(url, sizeof(url), "http://127.0.0.1:%d/ok", port);
	struct http_request request = plain_request("POST", url);
	request.connect_timeout = 200 * USEC_MS;
	one(world, &request, &told);
	assert_int_equal(told.end, TRANSFER_NOT_SENT);
	assert_string_equal(told.transport, "connect");
	for (int i = 0; i < 8; i++)
		close(fillers[i]);
	close(fd);
	told_clear(&told);
}

static void tls_with_a_port_that_speaks_none(void **state)
{
	struct world *world = *state;
	char url[256];
	struct told told = { 0 };
	snprintf(url, sizeof(url), "https://127.0.0.1:%d/ok", world->server->port);
	struct http_request request = plain_request("POST", url);
	world->server->hasty = true;
	one(world, &request, &told);
	assert_int_equal(told.end, TRANSFER_NOT_SENT);
	assert_string_equal(told.transport, "tls");
	world->server->mute = true;
	request.connect_timeout = 300 * USEC_MS;
	one(world, &request, &told);
	assert_int_equal(told.end, TRANSFER_NOT_SENT);
	assert_string_equal(told.transport, "connect");
	told_clear(&told);
}

/* Starts "openssl s_server" with a certificate of its own making; its pid, or 0 where there is no
 * openssl. */
static pid_t tls_server(const char *directory, int *port_r)
{
	char command[1024];
	int pipes[2];
	snprintf(command, sizeof(command),
		 "cd '%s' && openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -addext"
		 " subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem -days 2 2>/dev/null &&"
		 " exec openssl s_server -accept 127.0.0.1:0 -key key.pem -cert cert.pem -www"
		 " 2>/dev/null",
		 directory);
	if (system("command -v openssl >/dev/null") != 0)
		return 0;
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	const pid_t pid = fork();
	if (pid == 0) {
		dup2(pipes[1], STDOUT_FILENO);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	close(pipes[1]);
	FILE *out = fdopen(pipes[0], "r");
	char line[256];
	*port_r = 0;
	static const char accepts[] = "ACCEPT 127.0.0.1:";
	while (!*port_r && fgets(line, sizeof(line), out)) {
		if (!strncmp(line, accepts, strlen(accepts)))
			*port_r = (int)strtol(line + strlen(accepts), NULL, 10);
	}
	fclose(out);
	return pid;
}

static void a_certificate_is_checked(void **state)
{
	struct world *world = *state;
	char directory[] = "/tmp/test_http.XXXXXX";
	char url[256], file[256], command[256];
	struct told told = { 0 };
	int port = 0;
	assert_non_null(mkdtemp(directory));
	const pid_t pid = tls_server(directory, &port);
	if (!pid)
		skip();
	assert_int_not_equal(port, 0);
	snprintf(url, sizeof(url), "https://127.0.0.1:%d/", port);
	struct http_request request = plain_request("GET", url);
	one(world, &request, &told);
	assert_int_equal(told.end, TRANSFER_CERTIFICATE);
	assert_string_equal(told.transport, "certificate");
	/* known to us, but made out to another name */
	snprintf(file, sizeof(file), "%s/cert.pem", directory);
	request.ca_file = file;
	snprintf(url, sizeof(url), "https://localhost:%d/", port);
	one(world, &request, &told);
	assert_int_equal(told.end, TRANSFER_CERTIFICATE);
	/* a file that is not there concerns the target just so */
	request.ca_file = "/nowhere/ca.pem";
	one(world, &request, &told);
	assert_int_equal(told.end, TRANSFER_CERTIFICATE);
	/* and with everything right it is simply an answer */
	request.ca_file = file;
	snprintf(url, sizeof(url), "https://127.0.0.1:%d/", port);
	told_clear(&told);
	start(world, &told, &request);
	finish(world);
	assert_int_equal(told.end, TRANSFER_DONE);
	assert_int_equal(told.status, 200);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	snprintf(command, sizeof(command), "rm -r '%s'", directory);
	assert_int_equal(system(command), 0);
	told_clear(&told);
}

static void cancelled_before_sending(void **state)
{
	struct world *world = *state;
	char url[256];
	struct told told = { 0 };
	struct http_request request = plain_request("POST", url_of(world, "/ok", url, sizeof(url)));
	start(world, &told, &request);
	http_cancel(told.transfer);
	assert_int_equal(told.calls, 1);
	assert_int_equal(told.end, TRANSFER_ABORTED);
	assert_string_equal(told.transport, "aborted");
	/* and one that was refused, before it could say so */
	static const char *const bad[] = { "X: a\nb", NULL };
	request.headers = bad;
	told_clear(&told);
	start(world, &told, &request);
	http_cancel(told.transfer);
	assert_int_equal(told.end, TRANSFER_ABORTED);
	assert_int_equal(world->server->requests, 0);
	told_clear(&told);
}

static void cancel_it(void *arg)
{
	struct told *told = arg;
	if (told->transfer)
		http_cancel(told->transfer);
}

static void cancelled_after_sending(void **state)
{
	struct world *world = *state;
	char url[256];
	struct told told = { 0 };
	const struct http_request request =
		plain_request("POST", url_of(world, "/hang", url, sizeof(url)));
	world->server->on_request = cancel_it;
	world->server->arg = &told;
	start(world, &told, &request);
	finish(world);
	assert_int_equal(told.calls, 1);
	assert_int_equal(told.end, TRANSFER_CUT);
	assert_string_equal(told.transport, "aborted");
	assert_int_equal(world->server->requests, 1);
	world->server->on_request = NULL;
	post(world, "/ok", 30 * USEC_SEC, &told);
	assert_int_equal(told.status, 200);
	told_clear(&told);
}

struct turns {
	struct loop_timer *timer;
	struct told *told;
	int left;
};

static void on_turn(void *arg)
{
	struct turns *turns = arg;
	if (turns->left-- > 0)
		loop_timer_set(turns->timer, USEC_MS);
	else
		cancel_it(turns->told);
}

static void begin_turns(void *arg)
{
	struct turns *turns = arg;
	loop_timer_set(turns->timer, 0);
}

/* An answer that is there is not thrown away. */
static void cancelled_in_the_body(void **state)
{
	struct world *world = *state;
	char url[256];
	struct told told = { 0 };
	struct turns turns = { .told = &told, .left = 20 };
	turns.timer = loop_timer_new(world->loop, on_turn, &turns);
	const struct http_request request =
		plain_request("POST", url_of(world, "/body-hang", url, sizeof(url)));
	world->server->on_request = begin_turns;
	world->server->arg = &turns;
	start(world, &told, &request);
	finish(world);
	assert_int_equal(told.end, TRANSFER_DONE);
	assert_int_equal(told.status, 201);
	assert_true(told.truncated);
	loop_timer_free(turns.timer);
	told_clear(&told);
}

static void start_the_next(struct told *told)
{
	char url[256];
	const struct http_request request =
		plain_request("GET", url_of(told->world, "/ok", url, sizeof(url)));
	if (told->next)
		start(told->world, told->next, &request);
}

/* From inside done(), and on the connection that has just become free. */
static void one_starts_the_next(void **state)
{
	struct world *world = *state;
	struct told told[50] = { 0 };
	for (int i = 0; i < 50; i++) {
		told[i].then = start_the_next;
		told[i].next = i < 49 ? &told[i + 1] : NULL;
	}
	told[0].world = world;
	start_the_next(&(struct told){ .world = world, .next = &told[0] });
	finish(world);
	for (int i = 0; i < 50; i++) {
		assert_int_equal(told[i].calls, 1);
		assert_int_equal(told[i].status, 200);
		told_clear(&told[i]);
	}
	assert_int_equal(world->server->accepted, 1);
}

static void cancel_the_next(struct told *told)
{
	cancel_it(told->next);
}

/* Many end in one turn of the loop; each takes another back, which may have ended as well. */
static void one_cancels_another(void **state)
{
	struct world *world = *state;
	struct told told[40] = { 0 };
	char url[256];
	const struct http_request request =
		plain_request("POST", url_of(world, "/all", url, sizeof(url)));
	world->server->at_once = 40;
	for (int i = 0; i < 40; i++) {
		told[i].then = cancel_the_next;
		told[i].next = &told[39 - i];
		start(world, &told[i], &request);
	}
	finish(world);
	for (int i = 0; i < 40; i++) {
		assert_int_equal(told[i].calls, 1);
		assert_true(told[i].end == TRANSFER_DONE || told[i].end == TRANSFER_CUT);
		told_clear(&told[i]);
	}
	assert_int_equal(world->server->requests, 40);
}

static int many(void)
{
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_cur > 2200 ? 1000 : (int)(limit.rlim_cur - 200) / 2;
}

/* All in flight at the same time: the server answers none before it has them all. */
static void a_thousand_at_once(void **state)
{
	struct world *world = *state;
	const int count = many();
	struct told *told = mem_zero((size_t)count * sizeof(*told));
	char url[256];
	const struct http_request request =
		plain_request("POST", url_of(world, "/all", url, sizeof(url)));
	world->server->at_once = count;
	for (int i = 0; i < count; i++)
		start(world, &told[i], &request);
	finish(world);
	for (int i = 0; i < count; i++) {
		assert_int_equal(told[i].calls, 1);
		assert_int_equal(told[i].end, TRANSFER_DONE);
		assert_int_equal(told[i].status, 200);
		told_clear(&told[i]);
	}
	assert_int_equal(world->server->requests, count);
	free(told);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(connections_are_kept),
		TEST(old_connections_are_left),
		TEST(faults_after_sending),
		TEST(a_second_send_is_blocked),
		TEST(time_runs_out),
		TEST(a_spoilt_body_is_an_answer),
		TEST(a_huge_body_is_cut),
		TEST(the_cap_is_exact),
		TEST(headers_are_read),
		TEST(interim_answers_and_trailers_are_not_the_answer),
		TEST(redirects_are_not_followed),
		TEST(too_late_no_byte_leaves),
		TEST(a_417_is_not_sent_again),
		TEST(an_early_answer_ends_the_connection),
		TEST(a_second_answer_ends_the_connection),
		TEST(some_answers_ask_for_a_fresh_connection),
		TEST(the_request_is_as_it_was_asked_for),
		TEST(broken_requests_are_not_sent),
		TEST(nobody_listens),
		TEST(connecting_takes_too_long),
		TEST(tls_with_a_port_that_speaks_none),
		TEST(a_certificate_is_checked),
		TEST(cancelled_before_sending),
		TEST(cancelled_after_sending),
		TEST(cancelled_in_the_body),
		TEST(one_starts_the_next),
		TEST(one_cancels_another),
		TEST(a_thousand_at_once),
	};
	signal(SIGPIPE, SIG_IGN);
	/* no proxy of the environment is ever asked */
	setenv("http_proxy", "http://127.0.0.1:1", 1);
	setenv("https_proxy", "http://127.0.0.1:1", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
