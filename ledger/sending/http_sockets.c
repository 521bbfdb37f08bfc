/* Connections that are kept. */
#include "http_sockets.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "mem.h"

void http_sockets_done(struct http_sockets *sockets)
{
	free(sockets->ports);
	*sockets = (struct http_sockets){ 0 };
}

void http_sockets_keep(struct http_sockets *sockets, int fd, int own_port, int peer_port)
{
	const size_t need = (size_t)fd + 1;
	if (need > sockets->count) {
		sockets->ports = mem_grow(sockets->ports, need, sizeof(*sockets->ports));
		for (size_t i = sockets->count; i < need; i++)
			sockets->ports[i] = (struct http_ports){ 0 };
		sockets->count = need;
	}
	sockets->ports[fd] = (struct http_ports){ .own = own_port, .peer = peer_port };
}

void http_sockets_forget(struct http_sockets *sockets, int fd)
{
	if ((size_t)fd < sockets->count)
		sockets->ports[fd] = (struct http_ports){ 0 };
}

static bool quiet(int fd)
{
	char byte;
	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
	       (errno == EAGAIN || errno == EINTR);
}

bool http_sockets_quiet(const struct http_sockets *sockets, int own_port, int peer_port)
{
	for (size_t fd = 0; fd < sockets->count; fd++) {
		const struct http_ports *ports = &sockets->ports[fd];
		if (ports->own == own_port && ports->peer == peer_port && !quiet((int)fd))
			return false;
	}
	return true;
}
