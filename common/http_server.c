/* The connections of the server.
 *
 *   READING --head complete, or too long--> WRITING --all written--> CLOSING --end, or enough-->
 * gone
 *
 * CLOSING reads on and throws away, until the other side closes: a socket closed with bytes unread
 * would take the answer back from those who sent a body. */
#include "http_server.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "mem.h"

#define CONNECTIONS_MAX 32
#define HEAD_MAX        ((size_t)8192)
#define BACKLOG         64
#define LIFETIME        (5 * USEC_SEC) /* of a connection, in all */
#define NO_FILES_WAIT   USEC_SEC       /* before the next try to accept */

enum connection_state {
	STATE_READING, /* the head of the request */
	STATE_WRITING, /* the answer */
	STATE_CLOSING, /* the other side has it, or soon will */
};

struct connection {
	struct connection *next; /* a younger one */
	struct http_server *server;
	enum connection_state state;
	int fd;
	struct loop_fd *watch;
	usec_t ends; /* boot clock */
	struct buf head;
	struct buf answer;
	size_t written;
};

struct http_server {
	struct loop *loop;
	http_server_fn *fn;
	void *arg;
	int fd;
	struct loop_fd *watch;
	struct loop_timer *resume; /* accepting, after there was no descriptor */
	struct loop_timer *expire; /* the oldest connection */
	struct connection *first;  /* the oldest */
	struct connection **end;
	size_t count;
	char address[NI_MAXHOST + NI_MAXSERV + 4];
};

/* --- connections --- */

static void set_state(struct connection *connection, enum connection_state state)
{
	connection->state = state;
}

static void set_expiry(struct http_server *server)
{
	if (server->first)
		loop_timer_set(server->expire, server->first->ends - usec_boot());
	else
		loop_timer_cancel(server->expire);
}

static void connection_free(struct connection *connection)
{
	struct http_server *server = connection->server;
	struct connection **link = &server->first;
	while (*link != connection)
		link = &(*link)->next;
	*link = connection->next;
	if (server->end == &connection->next)
		server->end = link;
	server->count--;
	loop_fd_free(connection->watch);
	(void)close(connection->fd);
	buf_done(&connection->head);
	buf_done(&connection->answer);
	free(connection);
	set_expiry(server);
}

static void on_expired(void *arg)
{
	struct http_server *server = arg;
	usec_t now = usec_boot();
	while (server->first && server->first->ends <= now)
		connection_free(server->first);
	set_expiry(server);
}

/* --- the answer --- */

static const char *reason_of(int status)
{
	static const struct {
		int status;
		const char *reason;
	} reasons[] = {
		{ 200, "OK" },
		{ 400, "Bad Request" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 431, "Request Header Fields Too Large" },
		{ 503, "Service Unavailable" },
		{ 505, "HTTP Version Not Supported" },
	};
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "Other";
}

static void add_date(struct buf *out)
{
	char text[64];
	time_t now = (time_t)(usec_wall() / USEC_SEC);
	struct tm fields;
	if (gmtime_r(&now, &fields) &&
	    strftime(text, sizeof(text), "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &fields) > 0)
		buf_add_text(out, text);
}

static void write_answer(struct connection *connection)
{
	const struct buf *answer = &connection->answer;
	while (connection->written < answer->length) {
		ssize_t sent =
			send(connection->fd, answer->data + connection->written,
			     answer->length - connection->written, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && errno == EAGAIN) {
			loop_fd_want(connection->watch, false, true);
			return;
		}
		if (sent < 0) {
			connection_free(connection);
			return;
		}
		connection->written += (size_t)sent;
	}
	set_state(connection, STATE_CLOSING);
	(void)shutdown(connection->fd, SHUT_WR);
	loop_fd_want(connection->watch, true, false);
}

static void answer(struct connection *connection, const struct http_reply *reply, bool with_body)
{
	struct buf *out = &connection->answer;
	buf_addf(out, "HTTP/1.1 %d %s\r\n", reply->status, reason_of(reply->status));
	add_date(out);
	buf_addf(out, "Content-Type: %s\r\nContent-Length: %zu\r\n", reply->content_type,
		 reply->body.length);
	if (reply->status == 405)
		buf_add_text(out, "Allow: GET, HEAD\r\n");
	buf_add_text(out, "Cache-Control: no-store\r\nConnection: close\r\n\r\n");
	if (with_body)
		buf_add(out, buf_text(&reply->body), reply->body.length);
	set_state(connection, STATE_WRITING);
	write_answer(connection);
}

static void answer_error(struct connection *connection, int status, bool with_body)
{
	struct http_reply reply = { .status = status, .content_type = "text/plain" };
	buf_addf(&reply.body, "%d %s\n", status, reason_of(status));
	answer(connection, &reply, with_body);
	buf_done(&reply.body);
}

/* --- the request --- */

struct request {
	const char *method;
	char *path;
};

/* METHOD SP TARGET SP HTTP/1.x; cuts the line into its parts. The status: 200 when it is one. */
static int read_line(char *line, struct request *request_r)
{
	char *target = strchr(line, ' ');
	char *version = target ? strrchr(target + 1, ' ') : NULL;
	if (!version || target == line || target[1] != '/')
		return 400;
	*target++ = '\0';
	*version++ = '\0';
	if (strncmp(version, "HTTP/", 5) != 0)
		return 400;
	if (strncmp(version, "HTTP/1.", 7) != 0)
		return 505;
	target[strcspn(target, "?")] = '\0';
	if (strpbrk(target, " \t"))
		return 400;
	*request_r = (struct request){ .method = line, .path = target };
	return 200;
}

static void answer_request(struct connection *connection, const struct request *request)
{
	const struct http_server *server = connection->server;
	struct http_reply reply = { .status = 200, .content_type = "text/plain" };
	bool head = strcmp(request->method, "HEAD") == 0;
	if (!head && strcmp(request->method, "GET") != 0)
		answer_error(connection, 405, true);
	else if (server->fn(server->arg, request->path, &reply))
		answer(connection, &reply, !head);
	else
		answer_error(connection, 404, !head);
	buf_done(&reply.body);
}

static bool head_is_complete(const struct buf *head)
{
	return memmem(head->data, head->length, "\r\n\r\n", 4) ||
	       memmem(head->data, head->length, "\n\n", 2);
}

static void take_head(struct connection *connection)
{
	struct buf *head = &connection->head;
	struct request request;
	if (!head_is_complete(head)) {
		if (head->length >= HEAD_MAX)
			answer_error(connection, 431, true);
		return;
	}
	head->data[strcspn(head->data, "\r\n")] = '\0'; /* a NUL before it ends the line as well */
	int status = read_line(head->data, &request);
	if (status == 200)
		answer_request(connection, &request);
	else
		answer_error(connection, status, true);
}

/* --- the socket --- */

/* False: nothing more can come now, or the connection is gone. */
static bool read_some(struct connection *connection)
{
	char data[2048];
	ssize_t got = recv(connection->fd, data, sizeof(data), MSG_DONTWAIT);
	if (got < 0 && errno == EINTR)
		return true;
	if (got < 0 && errno == EAGAIN)
		return false;
	if (got <= 0) {
		connection_free(connection);
		return false;
	}
	if (connection->state != STATE_READING)
		return false; /* thrown away; the loop asks again */
	size_t room = HEAD_MAX - connection->head.length;
	buf_add(&connection->head, data, (size_t)got < room ? (size_t)got : room);
	take_head(connection);
	return false;
}

static void on_ready(void *arg, bool readable, bool writable)
{
	struct connection *connection = arg;
	if (connection->state == STATE_WRITING && writable)
		write_answer(connection);
	else if (readable)
		while (read_some(connection))
			;
}

static void take(struct http_server *server, int fd)
{
	struct connection *connection = mem_zero(sizeof(*connection));
	if (server->count == CONNECTIONS_MAX)
		connection_free(server->first);
	connection->server = server;
	connection->fd = fd;
	connection->ends = usec_boot() + LIFETIME;
	connection->watch = loop_fd_new(server->loop, fd, on_ready, connection);
	*server->end = connection;
	server->end = &connection->next;
	server->count++;
	set_state(connection, STATE_READING);
	loop_fd_want(connection->watch, true, false);
	set_expiry(server);
}

static void on_resume(void *arg)
{
	struct http_server *server = arg;
	loop_fd_want(server->watch, true, false);
}

/* One at a turn of the loop: a flood of connections must not hold the service up. */
static void on_connection(void *arg, bool readable, bool writable)
{
	struct http_server *server = arg;
	(void)readable;
	(void)writable;
	int fd = accept4(server->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0) {
		take(server, fd);
	} else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
		loop_fd_want(server->watch, false, false);
		loop_timer_set(server->resume, NO_FILES_WAIT);
	}
}

/* --- listening --- */

static bool resolve(const char *address, struct err *err, struct addrinfo **found_r)
{
	const struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
	};
	const char *colon = strrchr(address, ':');
	if (!colon) {
		err_set(err, "listen on %s: there is no port", address);
		return false;
	}
	bool bracket = *address == '[' && colon > address + 1 && colon[-1] == ']';
	const char *begin = address + (bracket ? 1 : 0);
	char *host = mem_text_n(begin, (size_t)(colon - begin) - (bracket ? 1 : 0));
	int failure = getaddrinfo(host, colon + 1, &hints, found_r);
	free(host);
	if (failure)
		err_set(err, "listen on %s: %s", address, gai_strerror(failure));
	return failure == 0;
}

static bool open_socket(const struct addrinfo *at, const char *address, struct err *err, int *fd_r)
{
	const int yes = 1;
	int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
	    bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) {
		*fd_r = fd;
		return true;
	}
	err_set(err, "listen on %s: %s", address, strerror(errno));
	if (fd >= 0)
		(void)close(fd);
	return false;
}

static void name_address(struct http_server *server)
{
	struct sockaddr_storage own = { 0 };
	socklen_t length = sizeof(own);
	char host[NI_MAXHOST], port[NI_MAXSERV];
	if (getsockname(server->fd, (struct sockaddr *)&own, &length) != 0 ||
	    getnameinfo((struct sockaddr *)&own, length, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return;
	(void)snprintf(server->address, sizeof(server->address),
		       own.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

bool http_server_new(struct loop *loop, const char *address, http_server_fn *fn, void *arg,
		     struct err *err, struct http_server **server_r)
{
	struct addrinfo *found = NULL;
	int fd = -1;
	if (!resolve(address, err, &found))
		return false;
	bool open = open_socket(found, address, err, &fd);
	freeaddrinfo(found);
	if (!open)
		return false;
	struct http_server *server = mem_zero(sizeof(*server));
	server->loop = loop;
	server->fn = fn;
	server->arg = arg;
	server->fd = fd;
	server->end = &server->first;
	server->resume = loop_timer_new(loop, on_resume, server);
	server->expire = loop_timer_new(loop, on_expired, server);
	server->watch = loop_fd_new(loop, fd, on_connection, server);
	loop_fd_want(server->watch, true, false);
	name_address(server);
	*server_r = server;
	return true;
}

void http_server_free(struct http_server *server)
{
	if (!server)
		return;
	for (struct connection *connection = server->first, *next; connection; connection = next) {
		next = connection->next;
		connection_free(connection);
	}
	loop_fd_free(server->watch);
	(void)close(server->fd);
	loop_timer_free(server->resume);
	loop_timer_free(server->expire);
	free(server);
}

const char *http_server_address(const struct http_server *server)
{
	return server->address;
}
