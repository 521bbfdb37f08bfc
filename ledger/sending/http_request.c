/* Sets a handle up for a request. */
#include "http_request.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "http_multi.h"
#include "mem.h"
#include "version.h"

/* Idle shorter than servers keep a connection, and no longer than a change in the DNS may wait. */
#define IDLE_SECONDS     30L
#define LIFETIME_SECONDS 300L
#define READ_SIZE        1024L /* a buffer for each transfer; answers are short */

struct setup {
	CURL *easy;
	struct curl_slist *headers;
	CURLcode code;
};

/* Only what the request's own data may spoil can fail here; the first failure is kept. */
static void check(struct setup *setup, CURLcode code)
{
	if (setup->code == CURLE_OK)
		setup->code = code;
}

/* libcurl would send a line break as it stands, and with it headers of somebody else's making. */
static bool has_control(const char *text)
{
	for (; *text; text++) {
		if (((unsigned char)*text < ' ' && *text != '\t') || *text == 0x7f)
			return true;
	}
	return false;
}

static void append_header(struct setup *setup, const char *line)
{
	struct curl_slist *list = curl_slist_append(setup->headers, line);
	if (!list)
		abort();
	setup->headers = list;
}

/* To libcurl "Name:" means to leave a header out, and "Name;" one without a value. */
static void append_request_header(struct setup *setup, const char *line)
{
	const char *colon = strchr(line, ':');
	if (!colon || has_control(line))
		return check(setup, CURLE_BAD_FUNCTION_ARGUMENT);
	if (colon[1 + strspn(colon + 1, " \t")])
		return append_header(setup, line);
	char *copy = mem_text(line);
	copy[colon - line] = ';';
	copy[colon - line + 1] = '\0';
	append_header(setup, copy);
	free(copy);
}

static void set_headers(struct setup *setup, const struct http_request *request)
{
	bool typed = false;
	for (const char *const *line = request->headers; line && *line; line++) {
		typed = typed || !strncasecmp(*line, "content-type:", 13);
		append_request_header(setup, *line);
	}
	if (!typed)
		append_header(setup, "Content-Type:"); /* none of libcurl's choice */
	append_header(setup, "Expect:");               /* a 417 would make libcurl send again */
	check(setup, curl_easy_setopt(setup->easy, CURLOPT_HTTPHEADER, setup->headers));
}

/* The body is copied. POST, PUT and PATCH without one say so by their length. */
static void set_body(struct setup *setup, const struct http_request *request)
{
	CURL *easy = setup->easy;
	const bool measured = request->body || !strcmp(request->method, "POST") ||
			      !strcmp(request->method, "PUT") || !strcmp(request->method, "PATCH");
	if (has_control(request->method))
		check(setup, CURLE_BAD_FUNCTION_ARGUMENT);
	if (measured) {
		const size_t length = request->body ? request->body_length : 0;
		check(setup,
		      curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)length));
		check(setup, curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS,
					      request->body ? request->body : ""));
	}
	check(setup, curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method));
}

static void set_wire(struct setup *setup, const struct http_request *request)
{
	CURL *easy = setup->easy;
	check(setup, curl_easy_setopt(easy, CURLOPT_URL, request->url));
	check(setup, curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https"));
	check(setup, curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1));
	check(setup, curl_easy_setopt(easy, CURLOPT_USERAGENT, "counterfoil/" COUNTERFOIL_VERSION));
	check(setup, curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L));
	check(setup, curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L));
	check(setup, curl_easy_setopt(easy, CURLOPT_PROXY, ""));
	check(setup, curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, READ_SIZE));
	check(setup, curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L));
	check(setup, curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, IDLE_SECONDS));
	check(setup, curl_easy_setopt(easy, CURLOPT_MAXLIFETIME_CONN, LIFETIME_SECONDS));
	check(setup, curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L));
	/* else giving up on a name waits, and the loop with it, for the resolver's thread */
	check(setup, curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L));
	check(setup, curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
				      http_milliseconds(request->connect_timeout)));
	check(setup,
	      curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, http_milliseconds(request->timeout)));
}

static void set_tls(struct setup *setup, const struct http_request *request)
{
	CURL *easy = setup->easy;
	if (request->ca_file[0])
		check(setup, curl_easy_setopt(easy, CURLOPT_CAINFO, request->ca_file));
	if (request->cert_file[0])
		check(setup, curl_easy_setopt(easy, CURLOPT_SSLCERT, request->cert_file));
	if (request->key_file[0])
		check(setup, curl_easy_setopt(easy, CURLOPT_SSLKEY, request->key_file));
}

CURLcode http_request_set(CURL *easy, const struct http_request *request,
			  struct curl_slist **headers_r)
{
	struct setup setup = { .easy = easy, .code = CURLE_OK };
	set_wire(&setup, request);
	set_tls(&setup, request);
	set_body(&setup, request);
	set_headers(&setup, request);
	*headers_r = setup.headers;
	return setup.code;
}
