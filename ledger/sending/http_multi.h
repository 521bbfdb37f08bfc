/* libcurl's multi on the loop: descriptors and timers. */
#ifndef LEDGER_HTTP_MULTI_H
#define LEDGER_HTTP_MULTI_H

#include <curl/curl.h>
#include <stdbool.h>

#include "loop.h"

/* Connections that rest. By itself libcurl keeps four for each transfer that runs, which behind a
 * burst is next to none: the next burst would have to make all of them anew. */
#define HTTP_RESTING_MAX 256

struct http_multi;

/* A handle is done: it stays on the multi until it is removed. The multi must outlive the call. */
typedef void http_multi_done_fn(CURL *easy, CURLcode code);

struct http_multi *http_multi_new(struct loop *loop, http_multi_done_fn *done);
void http_multi_free(struct http_multi *multi); /* no handle may be left; NULL is fine */
void http_multi_add(struct http_multi *multi, CURL *easy);
void http_multi_remove(struct http_multi *multi, CURL *easy);

/* The peer's certificate, or our own, is what failed. */
bool http_certificate_refused(CURLcode code);
long http_milliseconds(usec_t time); /* as libcurl takes a timeout */

#endif
