/* An HTTP server on the test's own loop, which does to each request what its path says. One thread,
 * so that what it has seen can be asked at any time. */
#ifndef TEST_SCRIPTED_SERVER_H
#define TEST_SCRIPTED_SERVER_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "buf.h"
#include "loop.h"
#include "mem.h"

#define SERVER_CONNECTIONS 2048

struct server;

struct connection {
	struct server *server;
	int fd;
	struct loop_fd *watch;
	struct buf in, out;
	size_t sent;
	int requests;
	bool endless; /* the piece in `out` is sent again and again */
	bool closing; /* once `out` is sent */
};

struct server {
	struct loop *loop;
	int fd;
	struct loop_fd *watch;
	int port;
	struct connection *connections[SERVER_CONNECTIONS];
	int accepted, closed, requests;
	int at_once;     /* how many requests "/all" waits for */
	int waiting;     /* at "/all" */
	size_t sent;     /* bytes of answers */
	struct buf last; /* the last request as it came */
	bool mute;       /* reads nothing and says nothing */
	bool hasty;      /* answers whatever comes, request or not */
	loop_fn *on_request;
	void *arg;
};

static void connection_close(struct connection *connection)
{
	struct server *server = connection->server;
	for (int i = 0; i < SERVER_CONNECTIONS; i++) {
		if (server->connections[i] == connection)
			server->connections[i] = NULL;
	}
	server->closed++;
	loop_fd_free(connection->watch);
	close(connection->fd);
	buf_done(&connection->in);
	buf_done(&connection->out);
	free(connection);
}

static void connection_reset(struct connection *connection)
{
	const struct linger linger = { .l_onoff = 1, .l_linger = 0 };
	setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	connection_close(connection);
}

static void say(struct connection *connection, const char *text)
{
	buf_add_text(&connection->out, text);
}

static void say_status(struct connection *connection, const char *status)
{
	buf_addf(&connection->out, "HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\nok", status);
}

static void say_endless(struct connection *connection, const char *head)
{
	static const char zeros[65536];
	say(connection, head);
	(void)send(connection->fd, connection->out.data, connection->out.length, MSG_NOSIGNAL);
	buf_clear(&connection->out);
	buf_add(&connection->out, zeros, sizeof(zeros));
	connection->endless = true;
}

static bool goes_to(const struct connection *connection, const char *path)
{
	const char *space = strchr(buf_text(&connection->in), ' ');
	const size_t length = strlen(path);
	return space && !strncmp(space + 1, path, length) && space[1 + length] == ' ';
}

static void answer_all(struct server *server)
{
	for (int i = 0; i < SERVER_CONNECTIONS; i++) {
		struct connection *connection = server->connections[i];
		if (!connection)
			continue;
		say_status(connection, "200 OK");
		loop_fd_want(connection->watch, true, true);
	}
}

/* The script. The connection may be gone afterwards: false. */
static bool answer(struct connection *c)
{
	struct server *server = c->server;
	if (goes_to(c, "/hang"))
		return true;
	if (goes_to(c, "/reset"))
		return connection_reset(c), false;
	if (goes_to(c, "/close") || (goes_to(c, "/close-second") && c->requests > 1))
		return connection_close(c), false;
	if (goes_to(c, "/cut"))
		say(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Half: "), c->closing = true;
	else if (goes_to(c, "/cut-at-line"))
		say(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"), c->closing = true;
	else if (goes_to(c, "/cut-then-hang"))
		say(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n");
	else if (goes_to(c, "/garbage"))
		say(c, "once upon a time there was no status\r\n\r\n"), c->closing = true;
	else if (goes_to(c, "/four-digits"))
		say(c, "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n"), c->closing = true;
	else if (goes_to(c, "/interim"))
		say(c, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nRetry-After: 9\r\n"
		       "\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
	else if (goes_to(c, "/interim-only"))
		say(c, "HTTP/1.1 100 Continue\r\n\r\n"), c->closing = true;
	else if (goes_to(c, "/interim-endless"))
		for (int i = 0; i < 20000; i++)
			say(c, "HTTP/1.1 100 Continue\r\nX: yyyyyyyy\r\n\r\n");
	else if (goes_to(c, "/headers-endless")) {
		say(c, "HTTP/1.1 200 OK\r\n");
		for (int i = 0; i < 5000; i++)
			say(c, "X-Long: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n");
	} else if (goes_to(c, "/huge-length"))
		say_endless(c, "HTTP/1.1 200 OK\r\nContent-Length: 10737418240\r\n\r\n");
	else if (goes_to(c, "/huge-chunked"))
		say_endless(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
			       "280000000\r\n");
	else if (goes_to(c, "/huge-until-close"))
		say_endless(c, "HTTP/1.1 200 OK\r\n\r\n");
	else if (goes_to(c, "/body-cut"))
		say(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"), c->closing = true;
	else if (goes_to(c, "/body-hang"))
		say(c, "HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\nhalf");
	else if (goes_to(c, "/chunk-broken"))
		say(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzebra\r\n");
	else if (goes_to(c, "/trailers"))
		say(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"
		       "Retry-After: 8\r\nIdempotent-Replayed: true\r\n\r\n");
	else if (goes_to(c, "/empty-body"))
		say(c, "HTTP/1.1 204 No Content\r\n\r\n");
	else if (goes_to(c, "/redirect"))
		buf_addf(&c->out,
			 "HTTP/1.1 307 There\r\nLocation: http://127.0.0.1:%d/ok\r\n"
			 "Content-Length: 0\r\n\r\n",
			 server->port);
	else if (goes_to(c, "/later"))
		say(c, "HTTP/1.1 503 Busy\r\nrEtRy-aFtEr:  120 \r\nDate: Sun, 06 Nov 1994 08:49:37"
		       " GMT\r\nIdempotent-Replayed: TRUE\r\nContent-Length: 0\r\n\r\n");
	else if (goes_to(c, "/twice"))
		say_status(c, "200 OK"), say_status(c, "200 OK");
	else if (goes_to(c, "/417"))
		say_status(c, "417 Expectation Failed");
	else if (goes_to(c, "/421"))
		say_status(c, "421 Misdirected");
	else if (goes_to(c, "/425"))
		say_status(c, "425 Too Early");
	else if (goes_to(c, "/early"))
		say_status(c, "400 Bad");
	else if (goes_to(c, "/all")) {
		if (++server->waiting == server->at_once)
			answer_all(server);
	} else
		say_status(c, "200 OK");
	return true;
}

/* Length of a complete request at the start of `in`, else 0. "/early" does not wait for the body.
 */
static size_t request_length(const struct connection *connection)
{
	const char *text = buf_text(&connection->in);
	const char *end = strstr(text, "\r\n\r\n");
	if (!end)
		return 0;
	const size_t head = (size_t)(end - text) + 4;
	const char *length = strcasestr(text, "\r\nContent-Length:");
	size_t body = 0;
	if (length && length < end)
		body = (size_t)strtoull(length + 17, NULL, 10);
	if (goes_to(connection, "/early"))
		return head;
	return connection->in.length >= head + body ? head + body : 0;
}

static void connection_write(struct connection *c)
{
	while (c->sent < c->out.length) {
		const ssize_t n = send(c->fd, c->out.data + c->sent, c->out.length - c->sent,
				       MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			return connection_close(c);
		c->sent += (size_t)n;
		c->server->sent += (size_t)n;
		if (c->endless && c->sent == c->out.length) {
			c->sent = 0;
			break; /* let others have their turn */
		}
	}
	const bool all = c->sent == c->out.length && !c->endless;
	if (all && c->closing)
		return connection_close(c);
	if (all) {
		buf_clear(&c->out);
		c->sent = 0;
	}
	loop_fd_want(c->watch, true, !all);
}

/* False: the connection is gone. */
static bool connection_read(struct connection *c)
{
	char data[16384];
	const ssize_t n = recv(c->fd, data, sizeof(data), MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return true;
	if (n <= 0)
		return connection_close(c), false;
	buf_add(&c->in, data, (size_t)n);
	const size_t length = request_length(c);
	if (!length && c->server->hasty)
		say_status(c, "400 Bad"), c->closing = true;
	if (!length)
		return true;
	struct server *server = c->server;
	server->requests++;
	c->requests++;
	buf_clear(&server->last);
	buf_add(&server->last, c->in.data, length);
	const bool alive = answer(c);
	if (alive)
		buf_clear(&c->in);
	if (server->on_request)
		server->on_request(server->arg);
	return alive;
}

static void on_connection(void *arg, bool readable, bool writable)
{
	struct connection *connection = arg;
	(void)writable;
	if (readable && !connection->server->mute && !connection_read(connection))
		return;
	connection_write(connection);
}

static void on_accept(void *arg, bool readable, bool writable)
{
	(void)readable;
	(void)writable;
	struct server *server = arg;
	int fd;
	while ((fd = accept4(server->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		struct connection *connection = mem_zero(sizeof(*connection));
		connection->server = server;
		connection->fd = fd;
		connection->watch = loop_fd_new(server->loop, fd, on_connection, connection);
		loop_fd_want(connection->watch, !server->mute, false);
		server->accepted++;
		int i = 0;
		while (server->connections[i])
			i++;
		server->connections[i] = connection;
	}
}

/* A socket on a free port of the loopback. */
static int listen_on_loopback(int backlog, int *port_r)
{
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 ||
	    listen(fd, backlog) != 0 || getsockname(fd, (struct sockaddr *)&address, &size) != 0)
		abort();
	*port_r = ntohs(address.sin_port);
	return fd;
}

static struct server *server_new(struct loop *loop)
{
	struct server *server = mem_zero(sizeof(*server));
	server->loop = loop;
	server->fd = listen_on_loopback(SERVER_CONNECTIONS, &server->port);
	server->watch = loop_fd_new(loop, server->fd, on_accept, server);
	loop_fd_want(server->watch, true, false);
	return server;
}

static void server_free(struct server *server)
{
	for (int i = 0; i < SERVER_CONNECTIONS; i++) {
		if (server->connections[i])
			connection_close(server->connections[i]);
	}
	loop_fd_free(server->watch);
	close(server->fd);
	buf_done(&server->last);
	free(server);
}

#endif
