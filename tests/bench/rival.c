/* What is written by hand where there is no relay, as well as such a loop is usually written: lock
 * a batch, hand it to an idempotent producer, wait for every acknowledgement, delete, commit.
 *
 *   rival CONNINFO BOOTSTRAP drain     for each line on stdin: until the outbox is empty; then
 *                                      prints "empty" and waits outside of any transaction
 *   rival CONNINFO BOOTSTRAP follow    for ever, a look every 2 ms while there is nothing
 *
 * Values, headers and the place of a row are those of the relay; the key is the ordering key, as is
 * usual. The row's own headers are known to the loop, which is written for one application. */
#include <endian.h>
#include <libpq-fe.h>
#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "buf.h"
#include "usec.h"

#define BATCH       1000
#define IDLE        (2 * USEC_MS)
#define FLUSH_MS    60000
#define SINCE_2000  (INT64_C(946684800) * USEC_SEC) /* PostgreSQL counts from there */
#define HEADERS_MAX 9

enum { OID_INT8 = 20, OID_INT8S = 1016 };

static const char fetch[] =
	"SELECT id, event_id::text, topic, type, ordering_key, payload, headers ->> 'tenant',"
	" headers ->> 'cf-idempotency-key', created_at FROM counterfoil.outbox"
	" ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED";
static const char remove_rows[] = "DELETE FROM counterfoil.outbox WHERE id = ANY ($1)";

enum column { ID, EVENT_ID, TOPIC, TYPE, ORDERING_KEY, PAYLOAD, TENANT, IDEMPOTENCY_KEY, CREATED };

struct rival {
	PGconn *conn;
	rd_kafka_t *client;
	rd_kafka_topic_t *topic; /* of the last row */
	int delivered;
	struct buf ids;
};

_Noreturn static void fail(const char *step, const char *why)
{
	(void)fprintf(stderr, "rival: %s: %s\n", step, why);
	exit(1);
}

/* --- PostgreSQL --- */

static PGresult *checked(const struct rival *rival, const char *step, PGresult *result)
{
	const ExecStatusType status = PQresultStatus(result);
	if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
		fail(step, PQerrorMessage(rival->conn));
	return result;
}

static void run(const struct rival *rival, const char *sql)
{
	PQclear(checked(rival, sql, PQexec(rival->conn, sql)));
}

static void connect_database(struct rival *rival, const char *conninfo)
{
	const Oid ids = OID_INT8S;
	rival->conn = PQconnectdb(conninfo);
	if (PQstatus(rival->conn) != CONNECTION_OK)
		fail("connect", PQerrorMessage(rival->conn));
	PQclear(checked(rival, "prepare", PQprepare(rival->conn, "fetch", fetch, 0, NULL)));
	PQclear(checked(rival, "prepare", PQprepare(rival->conn, "remove", remove_rows, 1, &ids)));
}

static PGresult *fetch_rows(const struct rival *rival)
{
	return checked(rival, "fetch",
		       PQexecPrepared(rival->conn, "fetch", 0, NULL, NULL, NULL, 1));
}

static void add_int4(struct buf *out, uint32_t value)
{
	value = htobe32(value);
	buf_add(out, &value, sizeof(value));
}

static void delete_rows(struct rival *rival, const PGresult *rows)
{
	const uint32_t head[] = { 1, 0, OID_INT8, (uint32_t)PQntuples(rows), 1 };
	const int binary = 1;
	buf_clear(&rival->ids);
	for (size_t i = 0; i < sizeof(head) / sizeof(head[0]); i++)
		add_int4(&rival->ids, head[i]);
	for (int row = 0; row < PQntuples(rows); row++) {
		add_int4(&rival->ids, sizeof(int64_t));
		buf_add(&rival->ids, PQgetvalue(rows, row, ID), sizeof(int64_t));
	}
	const char *ids = rival->ids.data;
	const int length = (int)rival->ids.length;
	PQclear(checked(rival, "delete",
			PQexecPrepared(rival->conn, "remove", 1, &ids, &length, &binary, 1)));
}

/* --- Kafka --- */

static void on_report(rd_kafka_t *client, const rd_kafka_message_t *message, void *arg)
{
	struct rival *rival = arg;
	(void)client;
	if (message->err)
		fail("deliver", rd_kafka_err2str(message->err));
	rival->delivered++;
}

static void connect_kafka(struct rival *rival, const char *bootstrap)
{
	/* lz4 and no linger to speak of: flush() ends any; the partitioner of the Java client */
	const char *const settings[][2] = {
		{ "bootstrap.servers", bootstrap },  { "enable.idempotence", "true" },
		{ "compression.codec", "lz4" },      { "linger.ms", "5" },
		{ "partitioner", "murmur2_random" }, { "socket.nagle.disable", "true" },
	};
	char why[400];
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		if (rd_kafka_conf_set(conf, settings[i][0], settings[i][1], why, sizeof(why)) !=
		    RD_KAFKA_CONF_OK)
			fail("settings", why);
	rd_kafka_conf_set_opaque(conf, rival);
	rd_kafka_conf_set_dr_msg_cb(conf, on_report);
	rival->client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
	if (!rival->client)
		fail("producer", why);
}

static rd_kafka_topic_t *topic_of(struct rival *rival, const char *name)
{
	if (rival->topic && strcmp(rd_kafka_topic_name(rival->topic), name) == 0)
		return rival->topic;
	if (rival->topic)
		rd_kafka_topic_destroy(rival->topic);
	rival->topic = rd_kafka_topic_new(rival->client, name, NULL);
	return rival->topic;
}

static void add_header(rd_kafka_headers_t *headers, const char *name, const PGresult *rows, int row,
		       enum column column)
{
	if (!PQgetisnull(rows, row, column))
		rd_kafka_header_add(headers, name, -1, PQgetvalue(rows, row, column),
				    PQgetlength(rows, row, column));
}

static rd_kafka_headers_t *headers_of(const PGresult *rows, int row)
{
	char time[32];
	int64_t created;
	rd_kafka_headers_t *headers = rd_kafka_headers_new(HEADERS_MAX);
	memcpy(&created, PQgetvalue(rows, row, CREATED), sizeof(created));
	created = (int64_t)be64toh((uint64_t)created) + SINCE_2000;
	add_header(headers, "ce_id", rows, row, EVENT_ID);
	rd_kafka_header_add(headers, "ce_source", -1, "/rival", -1);
	add_header(headers, "ce_type", rows, row, TYPE);
	rd_kafka_header_add(headers, "ce_specversion", -1, "1.0", -1);
	rd_kafka_header_add(headers, "ce_time", -1, usec_rfc3339(created, time, sizeof(time)), -1);
	add_header(headers, "ce_subject", rows, row, ORDERING_KEY);
	add_header(headers, "tenant", rows, row, TENANT);
	add_header(headers, "cf-idempotency-key", rows, row, IDEMPOTENCY_KEY);
	rd_kafka_header_add(headers, "content-type", -1, "application/json", -1);
	return headers;
}

static void produce(struct rival *rival, const PGresult *rows, int row)
{
	rd_kafka_resp_err_t err = rd_kafka_producev(
		rival->client, RD_KAFKA_V_RKT(topic_of(rival, PQgetvalue(rows, row, TOPIC))),
		RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
		RD_KAFKA_V_KEY(PQgetvalue(rows, row, ORDERING_KEY),
			       (size_t)PQgetlength(rows, row, ORDERING_KEY)),
		RD_KAFKA_V_VALUE(PQgetvalue(rows, row, PAYLOAD),
				 (size_t)PQgetlength(rows, row, PAYLOAD)),
		RD_KAFKA_V_HEADERS(headers_of(rows, row)), RD_KAFKA_V_END);
	if (err)
		fail("produce", rd_kafka_err2str(err));
}

/* --- the loop --- */

static void publish(struct rival *rival, const PGresult *rows)
{
	const int count = PQntuples(rows);
	rival->delivered = 0;
	for (int row = 0; row < count; row++)
		produce(rival, rows, row);
	if (rd_kafka_flush(rival->client, FLUSH_MS) || rival->delivered != count)
		fail("flush", "not every row was acknowledged");
}

/* Rows of one batch; 0: the outbox is empty, or others have locked all of it. */
static int turn(struct rival *rival)
{
	run(rival, "BEGIN");
	PGresult *rows = fetch_rows(rival);
	const int count = PQntuples(rows);
	if (count > 0) {
		publish(rival, rows);
		delete_rows(rival, rows);
	}
	PQclear(rows);
	run(rival, "COMMIT");
	return count;
}

static void drain(struct rival *rival)
{
	char line[16];
	while (fgets(line, sizeof(line), stdin)) {
		while (turn(rival) > 0)
			;
		(void)puts("empty");
		(void)fflush(stdout);
	}
}

_Noreturn static void follow(struct rival *rival)
{
	const struct timespec idle = { .tv_nsec = IDLE * 1000 };
	for (;;)
		if (turn(rival) == 0)
			(void)nanosleep(&idle, NULL);
}

int main(int argc, char **argv)
{
	static struct rival rival;
	if (argc != 4 || (strcmp(argv[3], "drain") != 0 && strcmp(argv[3], "follow") != 0)) {
		(void)fputs("usage: rival CONNINFO BOOTSTRAP drain|follow\n", stderr);
		return 2;
	}
	connect_database(&rival, argv[1]);
	connect_kafka(&rival, argv[2]);
	if (strcmp(argv[3], "follow") == 0)
		follow(&rival);
	drain(&rival);
	if (rival.topic)
		rd_kafka_topic_destroy(rival.topic);
	rd_kafka_destroy(rival.client);
	PQfinish(rival.conn);
	buf_done(&rival.ids);
	return 0;
}
