/* What is written by hand where there is no ledger, as well as such a consumer is usually written:
 * a row under a unique key first, then the call with that key, then the row is marked done; so many
 * at once, each with a connection and a client of its own, and statements that are prepared.
 *
 *   rival-effects CONNINFO BOOTSTRAP TOPIC URL COUNT WORKERS
 *
 * Reads the topic from its beginning until COUNT events are done; prints "EFFECTS SECONDS". What it
 * does not do: a crash between the row and its mark leaves a key that nobody knows anything of. It
 * keeps no request and no answer, has no retries, and no order. It knows its one application. */
#include <curl/curl.h>
#include <libpq-fe.h>
#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "order.h"
#include "usec.h"

#define QUEUE_MAX   1000
#define WORKERS_MAX 150
#define KEY_SIZE    64
#define AUTHORITY   "Authorization: Bearer sk_test_of_the_bench"

static const char insert_key[] =
	"INSERT INTO done (key, event) VALUES ($1, $2) ON CONFLICT DO NOTHING";
static const char mark_key[] =
	"UPDATE done SET state = 'completed', provider_id = $2, done_at = now() WHERE key = $1";

struct rival {
	const char *conninfo, *url;
	int64_t count;

	pthread_mutex_t lock;
	pthread_cond_t some, room;            /* in the queue */
	rd_kafka_message_t *queue[QUEUE_MAX]; /* a ring */
	size_t first, queued;
	int64_t done;
};

struct worker {
	struct rival *rival;
	PGconn *conn;
	CURL *curl;
	char answer[256];
	size_t answer_length;
};

_Noreturn static void fail(const char *step, const char *why)
{
	(void)fprintf(stderr, "rival-effects: %s: %s\n", step, why);
	exit(1);
}

/* --- one effect --- */

static long run(const struct worker *worker, const char *name, const char *const values[2])
{
	PGresult *result = PQexecPrepared(worker->conn, name, 2, values, NULL, NULL, 0);
	if (PQresultStatus(result) != PGRES_COMMAND_OK)
		fail(name, PQerrorMessage(worker->conn));
	const long rows = strtol(PQcmdTuples(result), NULL, 10);
	PQclear(result);
	return rows;
}

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
	struct worker *worker = arg;
	size_t room = sizeof(worker->answer) - 1 - worker->answer_length, got = size * count;
	got = got < room ? got : room;
	memcpy(worker->answer + worker->answer_length, data, got);
	worker->answer_length += got;
	worker->answer[worker->answer_length] = '\0';
	return size * count;
}

static void post(struct worker *worker, const char *key, const char *body)
{
	char header[KEY_SIZE + 32];
	long status = 0;
	(void)snprintf(header, sizeof(header), "Idempotency-Key: %s", key);
	struct curl_slist *headers = curl_slist_append(NULL, header);
	headers = curl_slist_append(headers, AUTHORITY);
	worker->answer_length = 0;
	curl_easy_setopt(worker->curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(worker->curl, CURLOPT_POSTFIELDS, body);
	const CURLcode code = curl_easy_perform(worker->curl);
	curl_easy_getinfo(worker->curl, CURLINFO_RESPONSE_CODE, &status);
	if (code != CURLE_OK || status != 200)
		fail("post", curl_easy_strerror(code));
	curl_slist_free_all(headers);
}

/* Its payload begins with its number. */
static int64_t number_of(const rd_kafka_message_t *message)
{
	static const char head[] = "{\"order_id\":";
	if (message->len < sizeof(head) || memcmp(message->payload, head, sizeof(head) - 1) != 0)
		fail("event", "not an order");
	return strtoll((const char *)message->payload + sizeof(head) - 1, NULL, 10);
}

/* The value of "id" in {"id":"ch_1"}. */
static const char *id_of(struct worker *worker)
{
	char *id = strstr(worker->answer, "\"id\":\"");
	if (!id)
		fail("answer", "without id");
	id += 6;
	id[strcspn(id, "\"")] = '\0';
	return id;
}

static void carry_out(struct worker *worker, const rd_kafka_message_t *message)
{
	BUF_AUTO struct buf body = { 0 };
	const int64_t n = number_of(message);
	char key[KEY_SIZE], event[KEY_SIZE];
	(void)snprintf(key, sizeof(key), "order:%" PRId64 ":charge", n);
	(void)snprintf(event, sizeof(event), "%.*s", (int)message->key_len,
		       (const char *)message->key);
	if (run(worker, "insert", (const char *const[]){ key, event }) == 0)
		return;
	order_body(&body, n);
	post(worker, key, buf_text(&body));
	(void)run(worker, "mark", (const char *const[]){ key, id_of(worker) });
}

/* --- workers --- */

static void open_worker(struct worker *worker)
{
	const struct rival *rival = worker->rival;
	worker->conn = PQconnectdb(rival->conninfo);
	if (PQstatus(worker->conn) != CONNECTION_OK)
		fail("connect", PQerrorMessage(worker->conn));
	PQclear(PQprepare(worker->conn, "insert", insert_key, 2, NULL));
	PQclear(PQprepare(worker->conn, "mark", mark_key, 2, NULL));
	worker->curl = curl_easy_init();
	curl_easy_setopt(worker->curl, CURLOPT_URL, rival->url);
	curl_easy_setopt(worker->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(worker->curl, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(worker->curl, CURLOPT_WRITEDATA, worker);
}

/* NULL: all is done. */
static rd_kafka_message_t *next_message(struct rival *rival)
{
	rd_kafka_message_t *message = NULL;
	pthread_mutex_lock(&rival->lock);
	while (rival->queued == 0 && rival->done < rival->count)
		pthread_cond_wait(&rival->some, &rival->lock);
	if (rival->queued > 0) {
		message = rival->queue[rival->first];
		rival->first = (rival->first + 1) % QUEUE_MAX;
		rival->queued--;
		pthread_cond_signal(&rival->room);
	}
	pthread_mutex_unlock(&rival->lock);
	return message;
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct rival *rival = worker->rival;
	rd_kafka_message_t *message;
	while ((message = next_message(rival))) {
		carry_out(worker, message);
		rd_kafka_message_destroy(message);
		pthread_mutex_lock(&rival->lock);
		if (++rival->done == rival->count)
			pthread_cond_broadcast(&rival->some);
		pthread_mutex_unlock(&rival->lock);
	}
	PQfinish(worker->conn);
	curl_easy_cleanup(worker->curl);
	return NULL;
}

/* --- the topic --- */

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
	char why[256];
	if (rd_kafka_conf_set(conf, name, value, why, sizeof(why)) != RD_KAFKA_CONF_OK)
		fail(name, why);
}

static rd_kafka_t *subscribe(const char *bootstrap, const char *topic)
{
	char why[256];
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	set(conf, "bootstrap.servers", bootstrap);
	set(conf, "group.id", topic);
	set(conf, "auto.offset.reset", "earliest");
	set(conf, "fetch.wait.max.ms", "1");
	rd_kafka_t *client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof(why));
	if (!client)
		fail("consumer", why);
	rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
	rd_kafka_topic_partition_list_add(topics, topic, RD_KAFKA_PARTITION_UA);
	if (rd_kafka_subscribe(client, topics) != RD_KAFKA_RESP_ERR_NO_ERROR)
		fail("subscribe", topic);
	rd_kafka_topic_partition_list_destroy(topics);
	return client;
}

static void hand_over(struct rival *rival, rd_kafka_message_t *message)
{
	pthread_mutex_lock(&rival->lock);
	while (rival->queued == QUEUE_MAX)
		pthread_cond_wait(&rival->room, &rival->lock);
	rival->queue[(rival->first + rival->queued++) % QUEUE_MAX] = message;
	pthread_cond_signal(&rival->some);
	pthread_mutex_unlock(&rival->lock);
}

/* From the first event on: how long a group takes to begin is not what is asked. */
static usec_t consume(struct rival *rival, rd_kafka_t *client)
{
	usec_t began = 0;
	for (int64_t got = 0; got < rival->count;) {
		rd_kafka_message_t *message = rd_kafka_consumer_poll(client, 1000);
		if (!message)
			continue;
		if (message->err)
			fail("consume", rd_kafka_message_errstr(message));
		if (got++ == 0)
			began = usec_boot();
		hand_over(rival, message);
	}
	return began;
}

int main(int argc, char **argv)
{
	struct rival rival = { .lock = PTHREAD_MUTEX_INITIALIZER,
			       .some = PTHREAD_COND_INITIALIZER,
			       .room = PTHREAD_COND_INITIALIZER };
	static struct worker workers[WORKERS_MAX];
	pthread_t threads[WORKERS_MAX];
	if (argc != 7) {
		(void)fputs("usage: rival-effects CONNINFO BOOTSTRAP TOPIC URL COUNT WORKERS\n",
			    stderr);
		return 2;
	}
	rival.conninfo = argv[1];
	rival.url = argv[4];
	rival.count = strtoll(argv[5], NULL, 10);
	const long count = strtol(argv[6], NULL, 10);
	if (count < 1 || count > WORKERS_MAX)
		fail("workers", "1 to 150");
	curl_global_init(CURL_GLOBAL_DEFAULT);
	for (long i = 0; i < count; i++) {
		workers[i].rival = &rival;
		open_worker(&workers[i]);
		if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
			fail("threads", "none to be had");
	}
	rd_kafka_t *client = subscribe(argv[2], argv[3]);
	const usec_t began = consume(&rival, client);
	for (long i = 0; i < count; i++)
		(void)pthread_join(threads[i], NULL);
	(void)printf("%" PRId64 " %.6f\n", rival.done,
		     (double)(usec_boot() - began) / (double)USEC_SEC);
	rd_kafka_consumer_close(client);
	rd_kafka_destroy(client);
	return 0;
}
