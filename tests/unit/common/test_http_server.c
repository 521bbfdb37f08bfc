/* The health port's server, by what its clients see. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "http_server.h"
#include "mem.h"

#define LOOK_EVERY USEC_MS
#define PATIENCE   (20 * USEC_SEC)
#define LARGE      ((size_t)8 * 1024 * 1024)

/* A server, and a client on the same loop. */
struct fixture {
	struct loop *loop;
	struct loop_timer *look;
	struct http_server *server;
	int fd;
	bool reads; /* the client does */
	bool ended; /* the other side has closed */
	usec_t until;
	struct buf got;
};

static bool serve(void *arg, const char *path, struct http_reply *reply)
{
	(void)arg;
	if (strcmp(path, "/large") == 0) {
		char *text = mem_zero(LARGE);
		memset(text, 'x', LARGE);
		buf_add(&reply->body, text, LARGE);
		free(text);
		return true;
	}
	if (strcmp(path, "/no") == 0)
		reply->status = 503;
	else if (strcmp(path, "/yes") != 0)
		return false;
	buf_addf(&reply->body, "%s said", path);
	return true;
}

static void on_look(void *arg)
{
	struct fixture *fixture = arg;
	char data[4096];
	ssize_t got = 1;
	while (fixture->reads && got > 0) {
		got = recv(fixture->fd, data, sizeof(data), MSG_DONTWAIT);
		if (got > 0)
			buf_add(&fixture->got, data, (size_t)got);
	}
	fixture->ended = got == 0;
	if (fixture->ended || usec_boot() > fixture->until)
		loop_stop(fixture->loop);
	else
		loop_timer_set(fixture->look, LOOK_EVERY);
}

static struct fixture *fixture_new(const char *address)
{
	struct fixture *fixture = mem_zero(sizeof(*fixture));
	struct err err = { "" };
	fixture->loop = loop_new();
	fixture->look = loop_timer_new(fixture->loop, on_look, fixture);
	fixture->fd = -1;
	fixture->reads = true;
	bool made = http_server_new(fixture->loop, address, serve, NULL, &err, &fixture->server);
	assert_string_equal(err.text, "");
	assert_true(made);
	return fixture;
}

static void hang_up(struct fixture *fixture)
{
	if (fixture->fd >= 0)
		(void)close(fixture->fd);
	fixture->fd = -1;
}

static void fixture_free(struct fixture *fixture)
{
	hang_up(fixture);
	http_server_free(fixture->server);
	loop_timer_free(fixture->look);
	loop_free(fixture->loop);
	buf_done(&fixture->got);
	free(fixture);
}

static int port_of(const struct fixture *fixture)
{
	return (int)strtol(strrchr(http_server_address(fixture->server), ':') + 1, NULL, 10);
}

static void attach(struct fixture *fixture, int fd)
{
	const struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port_of(fixture)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
}

static int dial(struct fixture *fixture)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_true(fd >= 0);
	attach(fixture, fd);
	return fd;
}

static void run(struct fixture *fixture, usec_t patience)
{
	fixture->until = usec_boot() + patience;
	loop_timer_set(fixture->look, 0);
	loop_run(fixture->loop);
}

static void say(struct fixture *fixture, const char *text)
{
	assert_int_equal(send(fixture->fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* One request, in two parts so that no read sees all of it, to the end of the connection. */
static const char *ask(struct fixture *fixture, const char *request)
{
	buf_clear(&fixture->got);
	hang_up(fixture);
	fixture->fd = dial(fixture);
	char *half = mem_text_n(request, strlen(request) / 2);
	say(fixture, half);
	run(fixture, 5 * USEC_MS);
	if (!fixture->ended)
		say(fixture, request + strlen(half));
	free(half);
	run(fixture, PATIENCE);
	assert_true(fixture->ended);
	return buf_text(&fixture->got);
}

static void assert_status(const char *got, const char *status)
{
	char line[64];
	(void)snprintf(line, sizeof(line), "HTTP/1.1 %s\r\n", status);
	if (strncmp(got, line, strlen(line)) != 0)
		fail_msg("expected %s, got %s", status, got);
}

static const char *body_of(const char *got)
{
	const char *end = strstr(got, "\r\n\r\n");
	assert_non_null(end);
	return end + 4;
}

static void a_path_is_answered(void **state)
{
	(void)state;
	struct fixture *fixture = fixture_new("127.0.0.1:0");
	const char *got = ask(fixture, "GET /yes HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n");
	assert_status(got, "200 OK");
	assert_non_null(strstr(got, "\r\nContent-Type: text/plain\r\n"));
	assert_non_null(strstr(got, "\r\nContent-Length: 9\r\n"));
	assert_non_null(strstr(got, "\r\nConnection: close\r\n"));
	assert_non_null(strstr(got, "\r\nDate: "));
	assert_string_equal(body_of(got), "/yes said");
	got = ask(fixture, "GET /no?verbose=1 HTTP/1.0\n\n");
	assert_status(got, "503 Service Unavailable");
	assert_string_equal(body_of(got), "/no said");
	fixture_free(fixture);
}

static void head_has_the_length_and_no_body(void **state)
{
	(void)state;
	struct fixture *fixture = fixture_new("127.0.0.1:0");
	const char *got = ask(fixture, "HEAD /yes HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_status(got, "200 OK");
	assert_non_null(strstr(got, "\r\nContent-Length: 9\r\n"));
	assert_string_equal(body_of(got), "");
	got = ask(fixture, "HEAD /other HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_status(got, "404 Not Found");
	assert_string_equal(body_of(got), "");
	fixture_free(fixture);
}

static void what_is_no_request_is_told_so(void **state)
{
	(void)state;
	static const struct {
		const char *request;
		const char *status;
	} cases[] = {
		{ "GET /other HTTP/1.1\r\n\r\n", "404 Not Found" },
		{ "GET /yes/ HTTP/1.1\r\n\r\n", "404 Not Found" },
		{ "POST /yes HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody", "405 Method Not Allowed" },
		{ "DELETE /other HTTP/1.1\r\n\r\n", "405 Method Not Allowed" },
		{ "get /yes HTTP/1.1\r\n\r\n", "405 Method Not Allowed" },
		{ "GET /yes HTTP/2.0\r\n\r\n", "505 HTTP Version Not Supported" },
		{ "GET /yes FTP/1.1\r\n\r\n", "400 Bad Request" },
		{ "GET /yes\r\n\r\n", "400 Bad Request" },
		{ "GET /y es HTTP/1.1\r\n\r\n", "400 Bad Request" },
		{ "GET yes HTTP/1.1\r\n\r\n", "400 Bad Request" },
		{ " /yes HTTP/1.1\r\n\r\n", "400 Bad Request" },
		{ "\r\n\r\n", "400 Bad Request" },
		{ "\x16\x03\x01\x02 hello\r\n\r\n", "400 Bad Request" },
	};
	struct fixture *fixture = fixture_new("127.0.0.1:0");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *got = ask(fixture, cases[i].request);
		assert_status(got, cases[i].status);
		if (strstr(cases[i].status, "405"))
			assert_non_null(strstr(got, "\r\nAllow: GET, HEAD\r\n"));
		assert_memory_equal(body_of(got), cases[i].status, strlen(cases[i].status));
	}
	fixture_free(fixture);
}

static void a_head_without_end_has_one(void **state)
{
	(void)state;
	struct fixture *fixture = fixture_new("127.0.0.1:0");
	struct buf request BUF_AUTO = { 0 };
	buf_add_text(&request, "GET /yes HTTP/1.1\r\nCookie: ");
	while (request.length < 20000)
		buf_add_char(&request, 'x');
	assert_status(ask(fixture, buf_text(&request)), "431 Request Header Fields Too Large");
	fixture_free(fixture);
}

static void a_large_answer_arrives_whole(void **state)
{
	(void)state;
	struct fixture *fixture = fixture_new("127.0.0.1:0");
	const char *got = ask(fixture, "GET /large HTTP/1.1\r\n\r\n");
	assert_status(got, "200 OK");
	assert_int_equal(strlen(body_of(got)), LARGE);
	fixture_free(fixture);
}

/* Neither one that says nothing nor one that does not listen. */
static void no_connection_stays(void **state)
{
	(void)state;
	struct fixture *fixture = fixture_new("127.0.0.1:0");
	usec_t begin = usec_boot();
	int deaf = dial(fixture);
	static const char request[] = "GET /large HTTP/1.1\r\n\r\n";
	assert_int_equal(send(deaf, request, strlen(request), MSG_NOSIGNAL), strlen(request));
	fixture->fd = dial(fixture);
	run(fixture, PATIENCE);
	assert_true(fixture->ended);
	assert_true(usec_boot() - begin >= 4 * USEC_SEC);
	size_t heard = 0;
	char data[4096];
	for (ssize_t got; (got = recv(deaf, data, sizeof(data), 0)) > 0;)
		heard += (size_t)got;
	assert_true(heard > 0 && heard < LARGE);
	(void)close(deaf);
	fixture_free(fixture);
}

static void the_oldest_makes_room(void **state)
{
	(void)state;
	int others[40];
	struct fixture *fixture = fixture_new("127.0.0.1:0");
	fixture->fd = dial(fixture);
	run(fixture, 5 * USEC_MS);
	assert_false(fixture->ended);
	for (size_t i = 0; i < 40; i++)
		others[i] = dial(fixture);
	usec_t begin = usec_boot();
	run(fixture, PATIENCE);
	assert_true(fixture->ended);
	assert_true(usec_boot() - begin < 3 * USEC_SEC); /* and not because of its age */
	assert_status(ask(fixture, "GET /yes HTTP/1.1\r\n\r\n"), "200 OK");
	for (size_t i = 0; i < 40; i++)
		(void)close(others[i]);
	fixture_free(fixture);
}

/* Takes all that there are. */
static size_t take_descriptors(int fd, int **taken_r)
{
	size_t count = 0;
	int *taken = NULL;
	for (int copy; (copy = dup(fd)) >= 0; count++) {
		taken = mem_grow(taken, count + 1, sizeof(*taken));
		taken[count] = copy;
	}
	*taken_r = taken;
	return count;
}

static void a_descriptor_is_waited_for(void **state)
{
	(void)state;
	int *taken;
	struct fixture *fixture = fixture_new("127.0.0.1:0");
	fixture->fd = dial(fixture);
	say(fixture, "GET /yes HTTP/1.1\r\n\r\n");
	size_t count = take_descriptors(fixture->fd, &taken);
	run(fixture, 50 * USEC_MS);
	while (count > 0)
		(void)close(taken[--count]);
	free(taken);
	if (!fixture->ended) { /* valgrind has closed it by itself */
		run(fixture, PATIENCE);
		assert_status(buf_text(&fixture->got), "200 OK");
	}
	assert_status(ask(fixture, "GET /yes HTTP/1.1\r\n\r\n"), "200 OK");
	fixture_free(fixture);
}

static void an_address_is_named_or_refused(void **state)
{
	(void)state;
	struct fixture *fixture = fixture_new("127.0.0.1:0");
	struct http_server *other = NULL;
	struct err err;
	const char *address = http_server_address(fixture->server);
	assert_memory_equal(address, "127.0.0.1:", 10);
	assert_true(port_of(fixture) > 0);
	assert_false(http_server_new(fixture->loop, address, serve, NULL, &err, &other));
	assert_non_null(strstr(err.text, address));
	assert_non_null(strstr(err.text, "Address already in use"));
	assert_false(
		http_server_new(fixture->loop, "no-such.invalid:1", serve, NULL, &err, &other));
	assert_non_null(strstr(err.text, "listen on no-such.invalid:1: "));
	assert_false(http_server_new(fixture->loop, "x", serve, NULL, &err, &other));
	assert_string_equal(err.text, "listen on x: there is no port");
	assert_null(other);
	http_server_free(NULL);
	fixture_free(fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_is_answered),
		cmocka_unit_test(head_has_the_length_and_no_body),
		cmocka_unit_test(what_is_no_request_is_told_so),
		cmocka_unit_test(a_head_without_end_has_one),
		cmocka_unit_test(a_large_answer_arrives_whole),
		cmocka_unit_test(no_connection_stays),
		cmocka_unit_test(the_oldest_makes_room),
		cmocka_unit_test(a_descriptor_is_waited_for),
		cmocka_unit_test(an_address_is_named_or_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
