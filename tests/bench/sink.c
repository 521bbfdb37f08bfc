/* A provider that costs next to nothing: answers every request, at once or after so many
 * milliseconds, 200 with an id of its own. Kept connections, one thread, one buffer a connection.
 *
 *   sink [MILLISECONDS]
 *
 * Listens on a free port of the loopback interface, prints "port N", and ends with its stdin. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mem.h"
#include "usec.h"

#define EVENTS       256
#define CLIENTS      4096 /* descriptors below this */
#define BUFFER_SIZE  65536
#define LENGTH_FIELD "content-length:"

struct client {
	struct client *next; /* of those that wait for their answer, the longest first */
	int fd;
	bool waits, gone;
	usec_t due;
	size_t length;
	char buffer[BUFFER_SIZE + 1];
};

struct sink {
	int poll;
	int listener;
	usec_t delay;
	uint64_t answered;
	struct client *first, **end;     /* that wait */
	struct client *clients[CLIENTS]; /* by descriptor */
};

_Noreturn static void fail(const char *step)
{
	perror(step);
	exit(1);
}

static void watch(const struct sink *sink, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
	if (epoll_ctl(sink->poll, EPOLL_CTL_ADD, fd, &event) != 0)
		fail("epoll_ctl");
}

static void take_client(struct sink *sink)
{
	const int one = 1;
	int fd = accept(sink->listener, NULL, NULL);
	if (fd < 0 || fd >= CLIENTS)
		fail("accept");
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	sink->clients[fd] = mem_zero(sizeof(struct client));
	sink->clients[fd]->fd = fd;
	watch(sink, fd);
}

static void drop_client(struct sink *sink, int fd)
{
	struct client *client = sink->clients[fd];
	(void)close(fd);
	sink->clients[fd] = NULL;
	client->gone = true;
	if (!client->waits)
		free(client);
}

/* Bytes of the request at the beginning of the buffer; 0: it is not all there. */
static size_t request_length(const struct client *client)
{
	const char *end = strstr(client->buffer, "\r\n\r\n");
	if (!end)
		return 0;
	const size_t head = (size_t)(end - client->buffer) + 4;
	const char *field = strcasestr(client->buffer, LENGTH_FIELD);
	size_t body = 0;
	if (field && field < end)
		body = strtoul(field + sizeof(LENGTH_FIELD) - 1, NULL, 10);
	return head + body <= client->length ? head + body : 0;
}

static bool answer(struct sink *sink, int fd)
{
	char body[64], text[256];
	int length = snprintf(body, sizeof(body), "{\"id\":\"ch_%012llu\"}",
			      (unsigned long long)++sink->answered);
	length = snprintf(text, sizeof(text),
			  "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
			  "Content-Length: %d\r\n\r\n%s",
			  length, body);
	return send(fd, text, (size_t)length, MSG_NOSIGNAL) == length;
}

static void wait_for_it(struct sink *sink, struct client *client)
{
	client->waits = true;
	client->next = NULL;
	client->due = usec_boot() + sink->delay;
	*sink->end = client;
	sink->end = &client->next;
}

/* Answers whose time has come; milliseconds to the next one, -1: there is none. */
static int answer_due(struct sink *sink)
{
	while (sink->first) {
		struct client *client = sink->first;
		const usec_t left = client->due - usec_boot();
		if (left > 0)
			return (int)((left + USEC_MS - 1) / USEC_MS);
		sink->first = client->next;
		if (!sink->first)
			sink->end = &sink->first;
		client->waits = false;
		if (client->gone)
			free(client);
		else if (!answer(sink, client->fd))
			drop_client(sink, client->fd);
	}
	return -1;
}

static bool serve(struct sink *sink, int fd)
{
	struct client *client = sink->clients[fd];
	size_t used;
	ssize_t got = recv(fd, client->buffer + client->length, BUFFER_SIZE - client->length, 0);
	if (got <= 0)
		return false;
	client->length += (size_t)got;
	client->buffer[client->length] = '\0';
	while ((used = request_length(client)) > 0) {
		client->length -= used;
		memmove(client->buffer, client->buffer + used, client->length + 1);
		if (sink->delay > 0 && !client->waits)
			wait_for_it(sink, client);
		else if (!answer(sink, fd))
			return false;
	}
	return client->length < BUFFER_SIZE;
}

static void listen_on(struct sink *sink)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	sink->listener = socket(AF_INET, SOCK_STREAM, 0);
	if (sink->listener < 0 ||
	    bind(sink->listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    listen(sink->listener, 1024) != 0 ||
	    getsockname(sink->listener, (struct sockaddr *)&address, &length) != 0)
		fail("listen");
	(void)printf("port %u\n", (unsigned)ntohs(address.sin_port));
	(void)fflush(stdout);
}

/* False: stdin has ended. */
static bool turn(struct sink *sink)
{
	struct epoll_event events[EVENTS];
	const int count = epoll_wait(sink->poll, events, EVENTS, answer_due(sink));
	for (int i = 0; i < count; i++) {
		const int fd = events[i].data.fd;
		if (fd == sink->listener)
			take_client(sink);
		else if (fd == STDIN_FILENO)
			return false;
		else if (!serve(sink, fd))
			drop_client(sink, fd);
	}
	return true;
}

int main(int argc, char **argv)
{
	static struct sink sink;
	sink.delay = argc > 1 ? strtol(argv[1], NULL, 10) * USEC_MS : 0;
	sink.end = &sink.first;
	sink.poll = epoll_create1(0);
	if (sink.poll < 0)
		fail("epoll_create1");
	listen_on(&sink);
	watch(&sink, sink.listener);
	watch(&sink, STDIN_FILENO);
	while (turn(&sink))
		;
	return 0;
}
