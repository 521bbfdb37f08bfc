/* One request, one send: against a server that misbehaves, on the same loop. */
#include "http_world.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The clock that libcurl reads is ours: a test may set it forward between two requests. */
static time_t clock_ahead;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	const int status = (int)syscall(SYS_clock_gettime, clock, now);
	if (clock == CLOCK_MONOTONIC)
		now->tv_sec += clock_ahead;
	return status;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(connections_are_kept),
		TEST(old_connections_are_left),
		TEST(faults_after_sending),
		TEST(a_second_send_is_blocked),
		TEST(time_runs_out),
		TEST(an_early_answer_ends_the_connection),
		TEST(a_second_answer_ends_the_connection),
		TEST(the_request_is_as_it_was_asked_for),
	};
	return cmocka_run_group_tests(tests, begin, NULL);
}
