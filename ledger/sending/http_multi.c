/* libcurl's multi on the loop. */
#include "http_multi.h"

#include <limits.h>
#include <stdlib.h>

#include "mem.h"

struct http_multi {
	struct loop *loop;
	CURLM *handle;
	struct loop_timer *timer;
	http_multi_done_fn *done;
};

/* A descriptor of libcurl's that is being watched. */
struct http_socket {
	struct http_multi *multi;
	curl_socket_t fd;
	struct loop_fd *watch;
};

static void take_ended(struct http_multi *multi)
{
	CURLMsg *message;
	int left;
	while ((message = curl_multi_info_read(multi->handle, &left))) {
		/* the message is gone once its handle is */
		const CURLcode code = message->data.result;
		multi->done(message->easy_handle, code);
	}
}

static void act(struct http_multi *multi, curl_socket_t fd, int ready)
{
	int running;
	if (curl_multi_socket_action(multi->handle, fd, ready, &running) != CURLM_OK)
		abort();
	take_ended(multi);
}

static void on_socket_ready(void *arg, bool readable, bool writable)
{
	const struct http_socket *socket = arg; /* gone after the call */
	act(socket->multi, socket->fd,
	    (readable ? CURL_CSELECT_IN : 0) | (writable ? CURL_CSELECT_OUT : 0));
}

static void on_time(void *arg)
{
	act(arg, CURL_SOCKET_TIMEOUT, 0);
}

static void socket_free(struct http_socket *socket)
{
	if (!socket)
		return;
	loop_fd_free(socket->watch);
	free(socket);
}

static struct http_socket *socket_new(struct http_multi *multi, curl_socket_t fd)
{
	struct http_socket *socket = mem_zero(sizeof(*socket));
	socket->multi = multi;
	socket->fd = fd;
	socket->watch = loop_fd_new(multi->loop, fd, on_socket_ready, socket);
	curl_multi_assign(multi->handle, fd, socket);
	return socket;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
	(void)easy;
	struct http_multi *multi = arg;
	struct http_socket *socket = socket_arg;
	if (what == CURL_POLL_REMOVE) {
		curl_multi_assign(multi->handle, fd, NULL);
		socket_free(socket);
		return 0;
	}
	if (!socket)
		socket = socket_new(multi, fd);
	loop_fd_want(socket->watch, what & CURL_POLL_IN, what & CURL_POLL_OUT);
	return 0;
}

static int on_timer_wanted(CURLM *handle, long milliseconds, void *arg)
{
	(void)handle;
	struct http_multi *multi = arg;
	if (milliseconds < 0)
		loop_timer_cancel(multi->timer);
	else
		loop_timer_set(multi->timer, milliseconds * USEC_MS);
	return 0;
}

/* --- the public face --- */

struct http_multi *http_multi_new(struct loop *loop, http_multi_done_fn *done)
{
	struct http_multi *multi = mem_zero(sizeof(*multi));
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		abort();
	multi->loop = loop;
	multi->done = done;
	multi->timer = loop_timer_new(loop, on_time, multi);
	multi->handle = curl_multi_init();
	if (!multi->handle)
		abort();
	curl_multi_setopt(multi->handle, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(multi->handle, CURLMOPT_SOCKETDATA, multi);
	curl_multi_setopt(multi->handle, CURLMOPT_TIMERFUNCTION, on_timer_wanted);
	curl_multi_setopt(multi->handle, CURLMOPT_TIMERDATA, multi);
	curl_multi_setopt(multi->handle, CURLMOPT_MAXCONNECTS, (long)HTTP_RESTING_MAX);
	return multi;
}

void http_multi_free(struct http_multi *multi)
{
	if (!multi)
		return;
	curl_multi_cleanup(multi->handle);
	loop_timer_free(multi->timer);
	free(multi);
	curl_global_cleanup();
}

void http_multi_add(struct http_multi *multi, CURL *easy)
{
	if (curl_multi_add_handle(multi->handle, easy) != CURLM_OK)
		abort();
}

void http_multi_remove(struct http_multi *multi, CURL *easy)
{
	curl_multi_remove_handle(multi->handle, easy);
}

bool http_certificate_refused(CURLcode code)
{
	return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
	       code == CURLE_SSL_CERTPROBLEM || code == CURLE_SSL_ISSUER_ERROR ||
	       code == CURLE_SSL_INVALIDCERTSTATUS;
}

long http_milliseconds(usec_t time)
{
	if (time <= 0)
		return 1; /* 0 would be libcurl's own default */
	return time / USEC_MS >= INT_MAX ? INT_MAX : (long)((time + USEC_MS - 1) / USEC_MS);
}
