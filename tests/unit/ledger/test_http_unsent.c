/* What ends before a byte of it has left. */
#include "http_world.h"

#include <sys/wait.h>
#include <unistd.h>

static void one(struct world *world, const struct http_request *request, struct told *told)
{
	told_clear(told);
	start(world, told, request);
	finish(world);
	assert_int_equal(told->calls, 1);
	assert_int_equal(told->status, 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(too_late_no_byte_leaves),
		TEST(broken_requests_are_not_sent),
		TEST(nobody_listens),
		TEST(connecting_takes_too_long),
		TEST(tls_with_a_port_that_speaks_none),
		TEST(a_certificate_is_checked),
	};
	return cmocka_run_group_tests(tests, begin, NULL);
}
