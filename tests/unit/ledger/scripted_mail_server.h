/* An SMTP server on the test's own loop, which says at each step what its script has. */
#ifndef TEST_SCRIPTED_MAIL_SERVER_H
#define TEST_SCRIPTED_MAIL_SERVER_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "buf.h"
#include "loop.h"
#include "mem.h"

/* NULL: the server is silent; "": it closes the connection; "!": it resets it. */
struct script {
	const char *greeting, *ehlo, *mail, *rcpt, *data, *end;
	size_t hang_up_after;  /* bytes of a message, then the connection is closed; 0: never */
	const char *interrupt; /* said at the first bytes of a message */
};

#define GOOD_SCRIPT                                                                                \
	.greeting = "220 here\r\n", .ehlo = "250-here\r\n250 SIZE 1000000\r\n",                    \
	.mail = "250 ok\r\n", .rcpt = "250 ok\r\n", .data = "354 go on\r\n",                       \
	.end = "250 2.0.0 queued as 1\r\n"

struct mail_connection {
	int fd;
	struct loop_fd *watch;
	struct buf in;
	bool in_message;
};

struct mail_server {
	struct loop *loop;
	int fd, port;
	struct loop_fd *watch;
	struct script script;
	struct mail_connection connection; /* one at a time */
	struct buf dialog;                 /* the commands that came */
	struct buf message;                /* with its end */
	int ends;                          /* how many messages were whole */
};

static void mail_hang_up(struct mail_server *server)
{
	struct mail_connection *connection = &server->connection;
	if (!connection->watch)
		return;
	loop_fd_free(connection->watch);
	connection->watch = NULL;
	close(connection->fd);
	buf_done(&connection->in);
}

static void mail_say(struct mail_server *server, const char *text)
{
	const struct linger linger = { .l_onoff = 1, .l_linger = 0 };
	if (!text || !server->connection.watch)
		return;
	if (text[0] && text[0] != '!') {
		(void)send(server->connection.fd, text, strlen(text), MSG_NOSIGNAL);
		return;
	}
	if (text[0] == '!')
		setsockopt(server->connection.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	mail_hang_up(server);
}

static void mail_take_line(struct mail_server *server, const char *line)
{
	const struct script *script = &server->script;
	buf_addf(&server->dialog, "%s\n", line);
	if (!strncmp(line, "EHLO", 4) || !strncmp(line, "HELO", 4))
		mail_say(server, script->ehlo);
	else if (!strncmp(line, "MAIL", 4))
		mail_say(server, script->mail);
	else if (!strncmp(line, "RCPT", 4))
		mail_say(server, script->rcpt);
	else if (!strncmp(line, "DATA", 4)) {
		server->connection.in_message = script->data && script->data[0] == '3';
		mail_say(server, script->data);
	}
}

static size_t mail_take_message(struct mail_server *server)
{
	struct buf *in = &server->connection.in;
	const struct script *script = &server->script;
	const char *end = memmem(in->data, in->length, "\r\n.\r\n", 5);
	if (script->interrupt && in->length)
		mail_say(server, script->interrupt);
	if (script->hang_up_after && in->length >= script->hang_up_after)
		mail_hang_up(server);
	if (!end || !server->connection.watch)
		return 0;
	const size_t length = (size_t)(end - in->data) + 5;
	buf_clear(&server->message);
	buf_add(&server->message, in->data, length);
	server->ends++;
	server->connection.in_message = false;
	mail_say(server, script->end);
	return length;
}

/* How much of what has come was taken. */
static size_t mail_take(struct mail_server *server)
{
	struct buf *in = &server->connection.in;
	if (server->connection.in_message)
		return mail_take_message(server);
	char *end = memmem(buf_text(in), in->length, "\r\n", 2);
	if (!end)
		return 0;
	const size_t length = (size_t)(end - in->data) + 2;
	*end = '\0';
	mail_take_line(server, in->data);
	return length;
}

static void on_mail_data(void *arg, bool readable, bool writable)
{
	(void)readable;
	(void)writable;
	struct mail_server *server = arg;
	struct mail_connection *connection = &server->connection;
	char data[16384];
	const ssize_t n = recv(connection->fd, data, sizeof(data), MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0)
		return mail_hang_up(server);
	buf_add(&connection->in, data, (size_t)n);
	for (size_t taken; connection->watch && (taken = mail_take(server));) {
		if (!connection->watch)
			return;
		memmove(connection->in.data, connection->in.data + taken,
			connection->in.length - taken);
		connection->in.length -= taken;
	}
}

static void on_mail_client(void *arg, bool readable, bool writable)
{
	(void)readable;
	(void)writable;
	struct mail_server *server = arg;
	const int fd = accept4(server->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0)
		return;
	mail_hang_up(server);
	server->connection = (struct mail_connection){ .fd = fd };
	server->connection.watch = loop_fd_new(server->loop, fd, on_mail_data, server);
	loop_fd_want(server->connection.watch, true, false);
	mail_say(server, server->script.greeting);
}

static struct mail_server *mail_server_new(struct loop *loop, const struct script *script)
{
	struct mail_server *server = mem_zero(sizeof(*server));
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	server->loop = loop;
	server->script = *script;
	server->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (server->fd < 0 || bind(server->fd, (struct sockaddr *)&address, size) != 0 ||
	    listen(server->fd, 100) != 0 ||
	    getsockname(server->fd, (struct sockaddr *)&address, &size) != 0)
		abort();
	server->port = ntohs(address.sin_port);
	server->watch = loop_fd_new(loop, server->fd, on_mail_client, server);
	loop_fd_want(server->watch, true, false);
	return server;
}

static void mail_server_free(struct mail_server *server)
{
	mail_hang_up(server);
	loop_fd_free(server->watch);
	close(server->fd);
	buf_done(&server->dialog);
	buf_done(&server->message);
	free(server);
}

#endif
