/* How fast PostgreSQL gives and deletes the rows of the outbox when nothing else is done with them:
 * the relay's own statements in its own batches, straight on libpq's pipeline.
 *
 *   drain-outbox CONNINFO LEASE TOKEN
 *   drain-outbox CONNINFO
 *
 * The second form takes the shortest statements that would do instead of the relay's. Prints
 * "ROWS SECONDS". */
#include <endian.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "source/source.h"
#include "usec.h"

#define BATCH      1000
#define BATCH_SIZE (8 * 1024 * 1024)
#define SIZE_LIMIT 1000000
#define UUID       16

enum {
	OID_INT8 = 20,
	OID_INT4 = 23,
	OID_TEXT = 25,
	OID_INT8S = 1016,
	OID_UUIDS = 2951,
	OID_TEXTS = 1009
};
enum { OID_UUID = 2950, OID_BOOL = 16 };

static const char plain_poll[] =
	"SELECT id, event_id, topic, type, ordering_key, partition, message_key, payload, headers,"
	" created_at FROM counterfoil.outbox WHERE id > $1 ORDER BY id LIMIT $2";

static const char plain_delete[] =
	"DELETE FROM counterfoil.outbox o USING unnest($1, $2) d(id, event_id)"
	" WHERE o.id = d.id AND o.event_id = d.event_id"
	" AND (SELECT set_config('synchronous_commit', 'off', true)) = 'off'";

struct drain {
	PGconn *conn;
	const char *lease; /* NULL: the plain statements */
	struct source *source;
	int64_t token;
	int64_t after;
	struct buf ids, event_ids;
};

_Noreturn static void fail(const struct drain *drain, const char *step)
{
	(void)fprintf(stderr, "drain-outbox: %s: %s", step, PQerrorMessage(drain->conn));
	exit(1);
}

/* --- sending --- */

struct parameters {
	int count;
	Oid types[9];
	const char *values[9];
	int lengths[9];
	int formats[9];
};

static void add(struct parameters *parameters, Oid type, const void *value, size_t length)
{
	int n = parameters->count++;
	parameters->types[n] = type;
	parameters->values[n] = value;
	parameters->lengths[n] = (int)length;
	parameters->formats[n] = 1;
}

static void send(const struct drain *drain, const char *sql, const struct parameters *parameters)
{
	if (!PQsendQueryParams(drain->conn, sql, parameters->count, parameters->types,
			       parameters->values, parameters->lengths, parameters->formats, 1) ||
	    !PQpipelineSync(drain->conn))
		fail(drain, "send");
}

static void send_poll(const struct drain *drain)
{
	struct parameters parameters = { 0 };
	const int64_t after = (int64_t)htobe64((uint64_t)drain->after);
	const uint32_t rows = htobe32(BATCH), no_gaps[3] = { 0, 0, htobe32(OID_INT8) },
		       no_topics[3] = { 0, 0, htobe32(OID_TEXT) };
	const uint64_t rows8 = htobe64(BATCH), size = htobe64(BATCH_SIZE);
	const uint64_t limit = htobe64(SIZE_LIMIT);
	add(&parameters, OID_INT8, &after, sizeof(after));
	if (!drain->lease) {
		add(&parameters, OID_INT8, &rows8, sizeof(rows8));
		send(drain, plain_poll, &parameters);
		return;
	}
	add(&parameters, OID_INT8S, no_gaps, sizeof(no_gaps));
	add(&parameters, OID_INT8S, no_gaps, sizeof(no_gaps));
	add(&parameters, OID_INT4, &rows, sizeof(rows));
	add(&parameters, OID_INT8, &size, sizeof(size));
	add(&parameters, OID_INT8, &limit, sizeof(limit));
	add(&parameters, OID_TEXTS, no_topics, sizeof(no_topics));
	add(&parameters, OID_BOOL, "", 1);
	add(&parameters, OID_TEXT, drain->source->name, strlen(drain->source->name));
	send(drain, drain->source->poll, &parameters);
}

static void send_delete(const struct drain *drain)
{
	struct parameters parameters = { 0 };
	const uint64_t token = htobe64((uint64_t)drain->token);
	add(&parameters, OID_INT8S, drain->ids.data, drain->ids.length);
	add(&parameters, OID_UUIDS, drain->event_ids.data, drain->event_ids.length);
	if (drain->lease) {
		add(&parameters, OID_TEXT, drain->lease, strlen(drain->lease));
		add(&parameters, OID_INT8, &token, sizeof(token));
	}
	send(drain, drain->lease ? drain->source->remove : plain_delete, &parameters);
}

/* --- reading --- */

static void add_int4(struct buf *out, uint32_t value)
{
	value = htobe32(value);
	buf_add(out, &value, sizeof(value));
}

static void begin_array(struct buf *out, uint32_t type, uint32_t count)
{
	buf_clear(out);
	add_int4(out, 1); /* dimension */
	add_int4(out, 0); /* no NULLs */
	add_int4(out, type);
	add_int4(out, count);
	add_int4(out, 1); /* lower bound */
}

static void add_item(struct buf *out, const char *data, uint32_t length)
{
	add_int4(out, length);
	buf_add(out, data, length);
}

/* The relay's poll gives a row without an id where there is none. */
static int rows_of(const PGresult *result)
{
	const int rows = PQntuples(result);
	return rows == 1 && PQgetisnull(result, 0, 0) ? 0 : rows;
}

static void remember(struct drain *drain, const PGresult *result)
{
	const int rows = PQntuples(result);
	uint64_t last;
	begin_array(&drain->ids, OID_INT8, (uint32_t)rows);
	begin_array(&drain->event_ids, OID_UUID, (uint32_t)rows);
	for (int row = 0; row < rows; row++) {
		add_item(&drain->ids, PQgetvalue(result, row, 0), sizeof(last));
		add_item(&drain->event_ids, PQgetvalue(result, row, 1), UUID);
	}
	memcpy(&last, PQgetvalue(result, rows - 1, 0), sizeof(last));
	drain->after = (int64_t)be64toh(last);
}

/* The answer to the oldest statement, with the end of it and its Sync behind it. */
static PGresult *receive(const struct drain *drain)
{
	PGresult *result = PQgetResult(drain->conn);
	const ExecStatusType status = PQresultStatus(result);
	if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
		fail(drain, "statement");
	PQclear(PQgetResult(drain->conn));
	PGresult *sync = PQgetResult(drain->conn);
	if (PQresultStatus(sync) != PGRES_PIPELINE_SYNC)
		fail(drain, "sync");
	PQclear(sync);
	return result;
}

static void check_deleted(const struct drain *drain, int rows)
{
	PGresult *result = receive(drain);
	if (strtol(PQcmdTuples(result), NULL, 10) != rows)
		fail(drain, "rows were not deleted");
	PQclear(result);
}

/* The next poll is sent before the rows of the last one are deleted, so that the server always has
 * something to do. */
static int64_t drain_all(struct drain *drain)
{
	int64_t total = 0;
	int deleting = 0;
	for (;;) {
		send_poll(drain);
		if (deleting)
			send_delete(drain);
		PGresult *result = receive(drain);
		const int rows = rows_of(result);
		if (deleting)
			check_deleted(drain, deleting);
		if (rows > 0)
			remember(drain, result);
		PQclear(result);
		if (rows == 0)
			return total;
		total += rows;
		deleting = rows;
	}
}

int main(int argc, char **argv)
{
	struct drain drain = { .source = source_new(NULL) };
	if (argc != 2 && argc != 4) {
		(void)fputs("usage: drain-outbox CONNINFO [LEASE TOKEN]\n", stderr);
		return 2;
	}
	if (argc == 4) {
		drain.lease = argv[2];
		drain.token = strtoll(argv[3], NULL, 10);
	}
	drain.conn = PQconnectdb(argv[1]);
	if (PQstatus(drain.conn) != CONNECTION_OK || !PQenterPipelineMode(drain.conn))
		fail(&drain, "connect");
	const usec_t began = usec_boot();
	const int64_t rows = drain_all(&drain);
	(void)printf("%lld %.6f\n", (long long)rows,
		     (double)(usec_boot() - began) / (double)USEC_SEC);
	PQfinish(drain.conn);
	buf_done(&drain.ids);
	buf_done(&drain.event_ids);
	source_free(drain.source);
	return 0;
}
