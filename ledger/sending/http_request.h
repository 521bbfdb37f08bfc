/* What a request is to libcurl: one handle's options. */
#ifndef LEDGER_HTTP_REQUEST_H
#define LEDGER_HTTP_REQUEST_H

#include <curl/curl.h>

#include "http.h"

/* The first thing that is wrong with the request, or CURLE_OK. The list of headers is the caller's
 * to free after the handle, in either case. */
CURLcode http_request_set(CURL *easy, const struct http_request *request,
			  struct curl_slist **headers_r);

#endif
