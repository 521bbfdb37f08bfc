/* Kept connections, by descriptor, so that one can be looked at before it is used again. libcurl
 * asks only whether the peer has closed it. Bytes that came while it was idle (a 408 for a client
 * that was too slow, a second answer) would be taken for the answer to the next request. */
#ifndef LEDGER_HTTP_SOCKETS_H
#define LEDGER_HTTP_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>

struct http_ports {
	int own, peer; /* 0: not known */
};

struct http_sockets {             /* zeroed: none */
	struct http_ports *ports; /* by descriptor */
	size_t count;
};

void http_sockets_done(struct http_sockets *sockets);
void http_sockets_keep(struct http_sockets *sockets, int fd, int own_port, int peer_port);
void http_sockets_forget(struct http_sockets *sockets, int fd);

/* Whether nothing waits to be read on any kept connection with these ports. Addresses are not
 * compared: a mistake costs a new connection. */
bool http_sockets_quiet(const struct http_sockets *sockets, int own_port, int peer_port);

#endif
