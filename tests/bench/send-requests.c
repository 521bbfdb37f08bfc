/* How fast the ledger's HTTP client sends when there is no database to ask or to tell: the same
 * requests to the same sink, as many at once, by the ledger's own http.c on its loop.
 *
 *   send-requests URL COUNT IN_FLIGHT
 *
 * Prints "REQUESTS SECONDS". */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "loop.h"
#include "order.h"
#include "sending/http.h"

#define ANSWER_MAX 16384

struct bench {
	struct loop *loop;
	struct http *http;
	const char *url;
	int64_t next, end;
	int64_t answered;
};

static void on_answer(void *arg, const struct http_answer *answer);

static void start(struct bench *bench)
{
	char key[96];
	const char *const headers[] = { "Content-Type: application/x-www-form-urlencoded", key,
					"Authorization: Bearer sk_test_of_the_bench", NULL };
	struct buf body BUF_AUTO = { 0 };
	const int64_t n = bench->next++;
	(void)snprintf(key, sizeof(key), "Idempotency-Key: order:%" PRId64 ":charge", n);
	order_body(&body, n);
	const struct http_request request = {
		.method = "POST",
		.url = bench->url,
		.headers = headers,
		.body = body.data,
		.body_length = body.length,
		.connect_timeout = 3 * USEC_SEC,
		.timeout = 30 * USEC_SEC,
		.answer_max = ANSWER_MAX,
		.ca_file = "",
		.cert_file = "",
		.key_file = "",
	};
	(void)http_start(bench->http, &request, on_answer, bench);
}

static void on_answer(void *arg, const struct http_answer *answer)
{
	struct bench *bench = arg;
	if (answer->end != TRANSFER_DONE || answer->status != 200) {
		(void)fprintf(stderr, "send-requests: %s, status %d\n", answer->error,
			      answer->status);
		exit(1);
	}
	if (++bench->answered == bench->end)
		loop_stop(bench->loop);
	else if (bench->next < bench->end)
		start(bench);
}

int main(int argc, char **argv)
{
	struct bench bench = { 0 };
	if (argc != 4) {
		(void)fputs("usage: send-requests URL COUNT IN_FLIGHT\n", stderr);
		return 2;
	}
	bench.url = argv[1];
	bench.end = strtoll(argv[2], NULL, 10);
	bench.loop = loop_new();
	bench.http = http_new(bench.loop);
	const usec_t began = usec_boot();
	for (long i = strtol(argv[3], NULL, 10); i > 0 && bench.next < bench.end; i--)
		start(&bench);
	loop_run(bench.loop);
	(void)printf("%" PRId64 " %.6f\n", bench.answered,
		     (double)(usec_boot() - began) / (double)USEC_SEC);
	http_free(bench.http);
	loop_free(bench.loop);
	return 0;
}
