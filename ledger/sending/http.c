/* HTTP by libcurl.
 *
 * CURLOPT_PREREQFUNCTION is called when a connection is ready and before the request is written.
 * The first call is the line between "nothing left" and "may have left"; a second one is libcurl
 * about to send again by itself, on a fresh connection after a reused one was closed, and is
 * refused. */
#include "http.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <unistd.h>

#include "crash.h"
#include "http_answer.h"
#include "http_multi.h"
#include "http_request.h"
#include "http_sockets.h"
#include "mem.h"

struct http {
	struct loop *loop;
	struct http_multi *multi;
	struct http_sockets kept;
};

struct http_transfer {
	struct http *http;
	CURL *easy;
	struct curl_slist *headers;
	struct http_reader reader;
	CURLcode refused;           /* why it could not even be set up */
	struct loop_timer *refusal; /* tells so from the loop */
	int sends;                  /* begun or blocked */
	bool fresh;                 /* on no kept connection */
	bool again;                 /* the kept connection was not quiet, nothing was sent */
	bool late;                  /* after send_before: nothing was sent */
	usec_t send_before;
	usec_t started;
	char error[CURL_ERROR_SIZE];
	http_done_fn *done;
	void *arg;
};

/* --- what a transfer came to ---------------------------------------------------------------- */

static enum transfer_end end_of(const struct http_transfer *transfer, CURLcode code)
{
	if (transfer->reader.complete)
		return TRANSFER_DONE;
	if (transfer->sends > 0)
		return TRANSFER_CUT;
	if (transfer->late)
		return TRANSFER_ABORTED;
	return http_certificate_refused(code) ? TRANSFER_CERTIFICATE : TRANSFER_NOT_SENT;
}

static bool was_resolved(const struct http_transfer *transfer)
{
	curl_off_t resolved = 0;
	curl_easy_getinfo(transfer->easy, CURLINFO_NAMELOOKUP_TIME_T, &resolved);
	return resolved > 0;
}

static const char *class_unsent(const struct http_transfer *transfer, CURLcode code)
{
	if (transfer->late)
		return "aborted";
	if (http_certificate_refused(code))
		return "certificate";
	if (code == CURLE_COULDNT_RESOLVE_HOST)
		return "dns";
	if (code == CURLE_COULDNT_CONNECT)
		return "connect";
	if (code == CURLE_SSL_CONNECT_ERROR)
		return "tls";
	if (code == CURLE_OPERATION_TIMEDOUT && !was_resolved(transfer))
		return "dns";
	if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL)
		return "url";
	if (code == CURLE_BAD_FUNCTION_ARGUMENT)
		return "request";
	return "connect";
}

static const char *class_cut(const struct http_transfer *transfer, CURLcode code)
{
	if (transfer->sends > 1)
		return "resend blocked";
	if (code == CURLE_OPERATION_TIMEDOUT)
		return "timeout";
	if (code == CURLE_WRITE_ERROR)
		return "headers too large";
	if (code == CURLE_WEIRD_SERVER_REPLY || code == CURLE_UNSUPPORTED_PROTOCOL)
		return "garbage";
	if (code != CURLE_OK && code != CURLE_GOT_NOTHING && code != CURLE_PARTIAL_FILE)
		return "reset";
	if (!transfer->reader.head.length)
		return "empty answer";
	return transfer->reader.status ? "cut headers" : "garbage";
}

static const char *class_of(const struct http_transfer *transfer, enum transfer_end end,
			    CURLcode code)
{
	switch (end) {
	case TRANSFER_DONE:
		return "";
	case TRANSFER_NOT_SENT:
	case TRANSFER_CERTIFICATE:
		return class_unsent(transfer, code);
	case TRANSFER_CUT:
		return class_cut(transfer, code);
	case TRANSFER_ABORTED:
		break;
	}
	return "aborted";
}

static const char *error_of(const struct http_transfer *transfer, enum transfer_end end,
			    CURLcode code)
{
	if (transfer->sends > 1)
		return "the connection was closed without an answer, and the request is not sent "
		       "twice";
	if (code != CURLE_OK)
		return transfer->error[0] ? transfer->error : curl_easy_strerror(code);
	return end == TRANSFER_CUT ? "the answer ended before its headers did" : "";
}

/* --- the end of a transfer ------------------------------------------------------------------ */

static void transfer_free(struct http_transfer *transfer)
{
	loop_timer_free(transfer->refusal);
	curl_easy_cleanup(transfer->easy);
	curl_slist_free_all(transfer->headers);
	http_reader_done(&transfer->reader);
	free(transfer);
}

/* Off the multi first: its connection is then free for what `done` may start. */
static void transfer_finish(struct http_transfer *transfer, enum transfer_end end, CURLcode code,
			    const char *transport, const char *error)
{
	const struct http_reader *reader = &transfer->reader;
	http_multi_remove(transfer->http->multi, transfer->easy);
	const struct http_answer answer = {
		.end = end,
		.status = end == TRANSFER_DONE ? reader->status : 0,
		.curl_code = (int)code,
		.transport = transport,
		.error = error,
		.head = buf_text(&reader->head),
		.head_length = reader->head.length,
		.body = buf_text(&reader->body),
		.body_length = reader->body.length,
		.truncated = end == TRANSFER_DONE && (reader->truncated || code != CURLE_OK),
		.replayed = reader->replayed,
		.retry_after = reader->retry_after[0] ? reader->retry_after : NULL,
		.date = reader->date[0] ? reader->date : NULL,
		.took = usec_boot() - transfer->started,
	};
	transfer->done(transfer->arg, &answer);
	transfer_free(transfer);
}

static void keep_socket(struct http_transfer *transfer)
{
	curl_socket_t fd = CURL_SOCKET_BAD;
	long own_port = 0, peer_port = 0;
	curl_easy_getinfo(transfer->easy, CURLINFO_ACTIVESOCKET, &fd);
	curl_easy_getinfo(transfer->easy, CURLINFO_LOCAL_PORT, &own_port);
	curl_easy_getinfo(transfer->easy, CURLINFO_PRIMARY_PORT, &peer_port);
	if (fd != CURL_SOCKET_BAD)
		http_sockets_keep(&transfer->http->kept, fd, (int)own_port, (int)peer_port);
}

static void transfer_again(struct http_transfer *transfer)
{
	transfer->again = false;
	transfer->fresh = true;
	http_multi_remove(transfer->http->multi, transfer->easy);
	curl_easy_setopt(transfer->easy, CURLOPT_FRESH_CONNECT, 1L);
	http_multi_add(transfer->http->multi, transfer->easy);
}

static void transfer_ended(struct http_transfer *transfer, CURLcode code)
{
	if (transfer->again)
		return transfer_again(transfer);
	keep_socket(transfer);
	const enum transfer_end end = end_of(transfer, code);
	transfer_finish(transfer, end, code, class_of(transfer, end, code),
			error_of(transfer, end, code));
}

static void on_refusal(void *arg)
{
	struct http_transfer *transfer = arg;
	transfer_ended(transfer, transfer->refused);
}

void http_cancel(struct http_transfer *transfer)
{
	const enum transfer_end end = transfer->reader.complete ? TRANSFER_DONE
				      : transfer->sends > 0     ? TRANSFER_CUT
								: TRANSFER_ABORTED;
	transfer_finish(transfer, end, CURLE_ABORTED_BY_CALLBACK,
			end == TRANSFER_DONE ? "" : "aborted", "taken back");
}

/* --- libcurl's callbacks during a transfer -------------------------------------------------- */

static int on_ready_to_send(void *arg, char *peer_ip, char *own_ip, int peer_port, int own_port)
{
	(void)peer_ip;
	(void)own_ip;
	struct http_transfer *transfer = arg;
	if (!transfer->sends && !transfer->fresh &&
	    !http_sockets_quiet(&transfer->http->kept, own_port, peer_port)) {
		transfer->again = true;
		return CURL_PREREQFUNC_ABORT;
	}
	if (!transfer->sends && transfer->send_before && usec_boot() >= transfer->send_before) {
		transfer->late = true;
		return CURL_PREREQFUNC_ABORT;
	}
	transfer->sends++;
	crash_point("transfer.send");
	return transfer->sends == 1 ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

static int on_close(void *arg, curl_socket_t fd)
{
	struct http *http = arg;
	http_sockets_forget(&http->kept, fd);
	return close(fd);
}

static size_t on_head(char *data, size_t size, size_t count, void *arg)
{
	struct http_transfer *transfer = arg;
	const size_t length = size * count;
	crash_point("transfer.answering");
	if (!http_reader_head(&transfer->reader, data, length))
		return 0;
	/* both ask for another connection */
	if (transfer->reader.status == 421 || transfer->reader.status == 425)
		curl_easy_setopt(transfer->easy, CURLOPT_FORBID_REUSE, 1L);
	return length;
}

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
	struct http_transfer *transfer = arg;
	const size_t length = size * count;
	return http_reader_body(&transfer->reader, data, length) ? length : 0;
}

/* --- the transfers of a loop ---------------------------------------------------------------- */

static void on_ended(CURL *easy, CURLcode code)
{
	void *transfer = NULL;
	curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
	transfer_ended(transfer, code);
}

struct http *http_new(struct loop *loop)
{
	struct http *http = mem_zero(sizeof(*http));
	http->loop = loop;
	http->multi = http_multi_new(loop, on_ended);
	return http;
}

void http_free(struct http *http)
{
	if (!http)
		return;
	http_multi_free(http->multi); /* which forgets its sockets */
	http_sockets_done(&http->kept);
	free(http);
}

/* --- the start of a transfer ---------------------------------------------------------------- */

static void set_callbacks(struct http_transfer *transfer)
{
	CURL *easy = transfer->easy;
	curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->error);
	curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_ready_to_send);
	curl_easy_setopt(easy, CURLOPT_PREREQDATA, transfer);
	curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close);
	curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, transfer->http);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_head);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
}

static struct http_transfer *transfer_new(struct http *http, const struct http_request *request)
{
	struct http_transfer *transfer = mem_zero(sizeof(*transfer));
	transfer->http = http;
	transfer->started = usec_boot();
	transfer->send_before = request->send_before;
	transfer->easy = curl_easy_init();
	if (!transfer->easy)
		abort();
	http_reader_init(&transfer->reader, request->answer_max);
	set_callbacks(transfer);
	transfer->refused = http_request_set(transfer->easy, request, &transfer->headers);
	return transfer;
}

struct http_transfer *http_start(struct http *http, const struct http_request *request,
				 http_done_fn *done, void *arg)
{
	struct http_transfer *transfer = transfer_new(http, request);
	transfer->done = done;
	transfer->arg = arg;
	if (transfer->refused == CURLE_OK) {
		http_multi_add(http->multi, transfer->easy);
		return transfer;
	}
	transfer->refusal = loop_timer_new(http->loop, on_refusal, transfer);
	loop_timer_set(transfer->refusal, 0);
	return transfer;
}
