/* A small HTTP server for health and numbers: GET and HEAD, one request a connection, on the loop.
 *
 * It must never be the way to take the service down: only so many connections are open at once, the
 * oldest makes room for a new one, none lives longer than a few seconds, and a request has a size.
 * A file descriptor that cannot be had is waited for. */
#ifndef COUNTERFOIL_HTTP_SERVER_H
#define COUNTERFOIL_HTTP_SERVER_H

#include <stdbool.h>

#include "buf.h"
#include "err.h"
#include "loop.h"

struct http_server;

struct http_reply {
	int status; /* 200 unless it is set */
	const char *content_type;
	struct buf body;
};

/* Answers a path (without its query). False: there is none of that name. */
typedef bool http_server_fn(void *arg, const char *path, struct http_reply *reply);

/* address: "HOST:PORT", with an IPv6 address in brackets; of a name its first address. Port 0 takes
 * a free one. */
MUST_USE bool http_server_new(struct loop *loop, const char *address, http_server_fn *fn, void *arg,
			      struct err *err, struct http_server **server_r);
void http_server_free(struct http_server *server); /* NULL is fine */

/* Where it listens, with the port that it has got. */
const char *http_server_address(const struct http_server *server);

#endif
