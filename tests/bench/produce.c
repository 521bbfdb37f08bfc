/* How fast the relay's producer sends when it need not ask a database for the rows: the relay's own
 * encoder, producer and settings, and as many in flight. Also fills a topic for the ledger.
 *
 *   produce CONFIG TOPIC FIRST COUNT
 *
 * Orders from number FIRST on; one more before them warms it up and is not counted. Prints
 * "ROWS SECONDS". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf.h"
#include "log.h"
#include "loop.h"
#include "mem.h"
#include "order.h"
#include "publishing/encode.h"
#include "publishing/producer.h"

/* Where the parts of an order begin in `made`. */
struct order {
	size_t payload, key, headers, end;
};

struct bench {
	struct loop *loop;
	struct producer *producer;
	struct encoder *encoder;
	struct topics *topics;
	struct topic *topic;
	struct window_row *rows;
	struct window_row *free;
	struct buf made; /* all orders, so that making them takes no time while it counts */
	struct order *orders;
	int64_t first, last; /* numbers of the orders that count, the last one not included */
	int64_t next, end;   /* those that may be sent now */
	size_t in_flight;
	usec_t began; /* 0: warming up */
};

_Noreturn static void fail(const char *text)
{
	(void)fprintf(stderr, "produce: %s\n", text);
	exit(1);
}

/* As the poll gives them: the text of a jsonb. */
static void add_headers(struct buf *out, int64_t n)
{
	buf_addf(out,
		 "{\"tenant\": \"tenant-%" PRId64 "\", \"cf-idempotency-key\": \"order:%" PRId64
		 ":charge\"}",
		 n % 31, n);
}

static void make_orders(struct bench *bench)
{
	struct buf *made = &bench->made;
	int64_t first = bench->next; /* the one that warms up */
	bench->orders = mem_zero((size_t)(bench->last - first) * sizeof(*bench->orders));
	for (int64_t n = first; n < bench->last; n++) {
		struct order *order = &bench->orders[n - first];
		order->payload = made->length;
		order_payload(made, n);
		order->key = made->length;
		buf_addf(made, "order-%" PRId64, n);
		order->headers = made->length;
		add_headers(made, n);
		order->end = made->length;
	}
}

static struct row_bytes part(const struct bench *bench, size_t from, size_t to)
{
	return (struct row_bytes){ .data = bench->made.data + from, .length = to - from };
}

static void make_row(const struct bench *bench, int64_t n, unsigned char *event_id,
		     struct row *row_r)
{
	const struct order *order = &bench->orders[n - (bench->first - 1)];
	order_event_id(event_id, n);
	*row_r = (struct row){
		.id = n,
		.event_id = event_id,
		.topic = { .data = bench->topic->name, .length = bench->topic->length },
		.type = { .data = ORDER_TYPE, .length = sizeof(ORDER_TYPE) - 1 },
		.ordering_key = part(bench, order->key, order->headers),
		.partition = -1,
		.payload = part(bench, order->payload, order->key),
		.headers = part(bench, order->headers, order->end),
		.created_at = usec_wall(),
		.fetched = true,
	};
}

static bool send_one(struct bench *bench)
{
	unsigned char event_id[WINDOW_UUID];
	struct encode_message message;
	struct row row;
	struct err err;
	struct window_row *entry = bench->free;
	struct producer_topic *topic = producer_topic(bench->producer, bench->topic, &err);
	if (!topic)
		fail(err.text);
	make_row(bench, bench->next, event_id, &row);
	encode_row(bench->encoder, &row, &message);
	if (message.fault || message.dropped > 0)
		fail("an order that is no message");
	entry->hash = message.hash;
	switch (producer_send(bench->producer, topic, -1, &message, entry, &err)) {
	case PRODUCER_SENT:
		bench->free = entry->next;
		bench->next++;
		return true;
	case PRODUCER_BUSY:
		return false;
	case PRODUCER_NO_TOPIC:
	case PRODUCER_NO_PARTITION:
	case PRODUCER_REFUSED:
		break;
	}
	fail(err.text);
}

static void send_on(struct bench *bench)
{
	while (bench->free && bench->next < bench->end && send_one(bench))
		bench->in_flight++;
}

static void on_report(void *arg, struct window_row *row, enum producer_report report,
		      const char *reason)
{
	struct bench *bench = arg;
	if (report != PRODUCER_DELIVERED)
		fail(reason);
	row->next = bench->free;
	bench->free = row;
	bench->in_flight--;
}

static void on_progress(void *arg)
{
	struct bench *bench = arg;
	send_on(bench);
	if (bench->in_flight > 0)
		return;
	if (bench->began) {
		loop_stop(bench->loop);
		return;
	}
	bench->began = usec_boot();
	bench->end = bench->last;
	send_on(bench);
}

static void on_broken(void *arg, const char *reason)
{
	(void)arg;
	fail(reason);
}

static void on_ready(void *arg)
{
	(void)arg;
}

static void add_rows(struct bench *bench, size_t count)
{
	bench->rows = mem_zero(count * sizeof(*bench->rows));
	for (size_t i = 0; i < count; i++) {
		bench->rows[i].next = bench->free;
		bench->free = &bench->rows[i];
	}
}

static void run(struct bench *bench, const struct conf *conf, struct log *log, const char *topic)
{
	const struct row_bytes name = { .data = topic, .length = strlen(topic) };
	const struct topics_events no_events = { 0 };
	const struct producer_events events = {
		.report = on_report,
		.progress = on_progress,
		.broken = on_broken,
		.ready = on_ready,
		.arg = bench,
	};
	struct err err;
	bench->loop = loop_new();
	bench->encoder = encoder_new(&conf->relay);
	bench->topics = topics_new(&no_events);
	bench->topic = topics_make(bench->topics, name, 0);
	add_rows(bench, (size_t)conf->relay.window_rows);
	make_orders(bench);
	if (!producer_new(bench->loop, log, conf, &events, &err, &bench->producer))
		fail(err.text);
	send_on(bench);
	loop_run(bench->loop);
	const usec_t took = usec_boot() - bench->began;
	(void)printf("%" PRId64 " %.6f\n", bench->last - bench->first,
		     (double)took / (double)USEC_SEC);
	producer_free(bench->producer);
	topics_free(bench->topics);
	encoder_free(bench->encoder);
	loop_free(bench->loop);
	free(bench->rows);
	free(bench->orders);
	buf_done(&bench->made);
}

int main(int argc, char **argv)
{
	struct bench bench = { 0 };
	struct buf faults = { 0 };
	struct conf *conf;
	if (argc != 5) {
		(void)fputs("usage: produce CONFIG TOPIC FIRST COUNT\n", stderr);
		return 2;
	}
	bench.first = strtoll(argv[3], NULL, 10);
	bench.last = bench.first + strtoll(argv[4], NULL, 10);
	bench.next = bench.first - 1;
	bench.end = bench.first;
	if (!conf_load(argv[1], CONF_RELAY, &faults, &conf))
		fail(buf_text(&faults));
	struct log *log = log_new("produce", LOG_ERROR, LOG_LOGFMT);
	run(&bench, conf, log, argv[2]);
	log_free(log);
	conf_free(conf);
	return 0;
}
