/* HTTP requests by curl's multi on the loop. A request is sent once or not at all: libcurl's own
 * second try on a reused connection is stopped before a byte of it leaves. Redirects are never
 * followed, the answer's body is capped while it is read, HTTP/1.1 only. */
#ifndef LEDGER_HTTP_H
#define LEDGER_HTTP_H

#include "buf.h"
#include "err.h"
#include "loop.h"
#include "outcome/outcome.h"

struct http;
struct http_transfer;

struct http_request { /* borrowed until http_start() returns */
	const char *method;
	const char *url;
	const char *const *headers; /* "Name: value" lines, NULL-terminated; secrets among them */
	const char *body;           /* NULL: none */
	size_t body_length;
	usec_t connect_timeout;
	usec_t timeout; /* total */
	/* Boot clock: no byte leaves later, 0: whenever. libcurl counts its timeouts by a clock
	 * that stands still in a suspend; whoever may send no longer must be stopped at the first
	 * byte. */
	usec_t send_before;
	size_t answer_max; /* bytes of the body kept; the rest is cut and `truncated` is set */
	const char *ca_file, *cert_file, *key_file; /* "" : the system's, none, none */
};

/* Error classes when there was no answer. Nothing was sent: "dns", "connect", "tls", "certificate",
 * "url", "request". Bytes may have left: "timeout", "reset", "empty answer", "resend blocked",
 * "cut headers", "headers too large", "garbage". Taken back: "aborted". */

struct http_answer { /* borrowed for the callback */
	enum transfer_end end;
	int status;
	int curl_code;
	const char *transport; /* an error class; "" when there was an answer */
	const char *error;     /* one line for the attempt's record; "" when there is none */
	const char *head;      /* status line and headers of the final answer */
	size_t head_length;
	const char *body;
	size_t body_length;
	bool truncated;
	bool replayed;
	const char *retry_after;
	const char *date;
	usec_t took;
};

typedef void http_done_fn(void *arg, const struct http_answer *answer);

struct http *http_new(struct loop *loop);
void http_free(struct http *http); /* no transfer may be left */

/* Always calls done exactly once, from the loop, never inside this call. */
struct http_transfer *http_start(struct http *http, const struct http_request *request,
				 http_done_fn *done, void *arg);

/* Takes a transfer back: done runs (from inside this call) with TRANSFER_ABORTED if no byte can
 * have left, else TRANSFER_CUT; TRANSFER_DONE if the answer's headers were complete by then. */
void http_cancel(struct http_transfer *transfer);

#endif
