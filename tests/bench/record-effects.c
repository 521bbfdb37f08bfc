/* How fast PostgreSQL takes the ledger's writes when nothing is sent in between: intake, claim and
 * result, by the ledger's own statements on as many connections, each with a thread that waits for
 * its answers. What was claimed is completed at once.
 *
 *   record-effects CONNINFO COUNT INTAKE CLAIM RESULT
 *
 * The last three are rows of a statement; the ledger reaches them when it has enough to do. Prints
 * "EFFECTS SECONDS". */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "database.h"
#include "effect.h"
#include "execution/sql_claim.h"
#include "intake/sql_intake.h"
#include "mem.h"
#include "order.h"
#include "pg.h"
#include "pg_session.h"
#include "rules/key.h"

#define TARGET      "payments"
#define TOPIC       "bench"
#define IN_HAND_MAX 1000 /* ledger.in_flight: claimed, and not recorded yet */
#define KEY_SIZE    64
#define WINDOW      (24 * USEC_HOUR)
#define MARGIN      (20 * USEC_MIN)
#define DEADLINE    (43 * USEC_SEC)
#define LEASE       (10 * USEC_MIN)

struct claimed {
	int64_t id;
	int32_t epoch;
	char key[KEY_SIZE];
};

struct bench {
	const char *conninfo;
	int64_t count;
	size_t intake, claim, result; /* rows of a statement */
	int64_t owner;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	int64_t recorded; /* by intake */
	int64_t taken;    /* by claims */
	int64_t settled;  /* by results */
	struct claimed *in_hand;
};

_Noreturn static void fail(const char *step, const char *text)
{
	(void)fprintf(stderr, "record-effects: %s: %s\n", step, text);
	exit(1);
}

/* --- statements: with names, as the ledger's connections have them ------------------------------
 */

#define STATEMENTS_MAX 8

struct link {
	PGconn *conn;
	const char *prepared[STATEMENTS_MAX];
};

static struct link *connect_to(const struct bench *bench)
{
	static const char *const names[] = { "dbname", "options", NULL };
	const char *const values[] = { bench->conninfo, DATABASE_BUSY_OPTIONS, NULL };
	struct link *link = mem_zero(sizeof(*link));
	link->conn = PQconnectdbParams(names, values, 1);
	if (PQstatus(link->conn) != CONNECTION_OK)
		fail("connect", PQerrorMessage(link->conn));
	return link;
}

static void disconnect(struct link *link)
{
	PQfinish(link->conn);
	free(link);
}

static PGresult *checked(const struct link *link, const char *step, PGresult *result)
{
	const ExecStatusType status = PQresultStatus(result);
	if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
		fail(step, PQerrorMessage(link->conn));
	return result;
}

static void command(const struct link *link, const char *sql)
{
	PQclear(checked(link, sql, PQexec(link->conn, sql)));
}

static void name_of(char name[16], size_t number)
{
	(void)snprintf(name, 16, "s%zu", number);
}

static size_t prepare(struct link *link, const char *step, const char *sql,
		      const struct pg_params *params)
{
	char name[16];
	size_t i = 0;
	while (i < STATEMENTS_MAX && link->prepared[i] && link->prepared[i] != sql)
		i++;
	if (i == STATEMENTS_MAX)
		fail(step, "too many statements");
	if (link->prepared[i])
		return i;
	link->prepared[i] = sql;
	name_of(name, i);
	PQclear(checked(link, step,
			PQprepare(link->conn, name, sql, params->count, params->types)));
	return i;
}

static PGresult *query(struct link *link, const char *step, const char *sql,
		       const struct pg_params *params)
{
	const char *values[PG_PARAMS_MAX];
	int formats[PG_PARAMS_MAX];
	char name[16];
	name_of(name, prepare(link, step, sql, params));
	for (int i = 0; i < params->count; i++) {
		values[i] = params->lengths[i] < 0 ? NULL : params->data.data + params->offsets[i];
		formats[i] = 1;
	}
	return checked(link, step,
		       PQexecPrepared(link->conn, name, params->count, values, params->lengths,
				      formats, 1));
}

/* --- columns --- */

#define COLUMNS_MAX 32

struct columns {
	struct pg_array items[COLUMNS_MAX];
	size_t count;
};

static void columns_init(struct columns *columns, const enum pg_type *types, size_t count)
{
	columns->count = count;
	for (size_t i = 0; i < count; i++)
		pg_array_init(&columns->items[i], types[i]);
}

#define columns_of(columns, types)                                                                 \
	columns_init((columns), (types), sizeof(types) / sizeof((types)[0]))

static void columns_move(struct columns *columns, struct pg_params *params)
{
	for (size_t i = 0; i < columns->count; i++) {
		pg_add_array(params, &columns->items[i]);
		pg_array_done(&columns->items[i]);
	}
}

/* --- intake --- */

static const enum pg_type position_types[] = { PG_TEXT, PG_INT4, PG_INT8, PG_INT8 };
static const enum pg_type effect_types[] = {
	PG_TEXT,  PG_TEXT,     PG_TEXT, PG_TEXT,  PG_TEXT,  PG_TEXT, /* key .. provider key */
	PG_BYTEA, PG_BYTEA,                                          /* fingerprint, hash */
	PG_TEXT,  PG_INT4,     PG_INT8,                              /* topic .. offset */
	PG_TEXT,  PG_TEXT,     PG_TEXT,                              /* event id .. subject */
	PG_TIME,  PG_INTERVAL,                                       /* not_after, delay */
	PG_TEXT,  PG_TEXT,     PG_TEXT, PG_BYTEA, PG_BYTEA,          /* why .. body */
	PG_BYTEA, PG_BYTEA,    PG_BOOL, PG_BYTEA, /* event key .. event headers */
	PG_TEXT,  PG_BOOL,     PG_INT8,           /* serial key, resend, event number */
	PG_BYTEA, PG_TEXT,     PG_BOOL, PG_TIME,  /* emit, key header, shadow, not_before */
};

static void add_buf(struct pg_array *column, const struct buf *buf)
{
	pg_array_bytes(column, buf->data, buf->length);
}

static struct pg_array *add_identity(struct pg_array *column, int64_t n)
{
	const XXH128_hash_t hash = XXH3_128bits(&n, sizeof(n));
	char key[KEY_SIZE], event[KEY_SIZE], subject[KEY_SIZE];
	(void)snprintf(key, sizeof(key), "order:%" PRId64 ":charge", n);
	(void)snprintf(event, sizeof(event), "01900000-%04x-7000-%016" PRIx64,
		       (unsigned)(n >> 32) & 0xffff, (uint64_t)n);
	(void)snprintf(subject, sizeof(subject), "order-%" PRId64, n);
	pg_array_text(column++, key);
	pg_array_text(column++, TARGET);
	pg_array_text(column++, "");
	pg_array_text(column++, "charge");
	pg_array_text(column++, effect_mode_name(EFFECT_IDEMPOTENT));
	pg_array_text(column++, key);
	pg_array_bytes(column++, &hash, sizeof(hash));
	pg_array_bytes(column++, &hash, sizeof(hash));
	pg_array_text(column++, TOPIC);
	pg_array_int4(column++, 0);
	pg_array_int8(column++, n);
	pg_array_text(column++, event);
	pg_array_text(column++, ORDER_TYPE);
	pg_array_text(column++, subject);
	pg_array_usec(column++, USEC_NEVER);
	pg_array_usec(column++, 0);
	return column;
}

static void add_request(struct pg_array *column, int64_t n)
{
	BUF_AUTO struct buf body = { 0 }, value = { 0 }, headers = { 0 };
	order_body(&body, n);
	order_payload(&value, n);
	buf_addf(&headers,
		 "{\"ce_id\":\"01900000-0000-7000-%016" PRIx64 "\",\"ce_source\":\"/counterfoil\","
		 "\"ce_type\":\"" ORDER_TYPE "\",\"ce_specversion\":\"1.0\","
		 "\"ce_time\":\"2026-01-02T03:04:05.000006Z\",\"ce_subject\":\"order-%" PRId64
		 "\",\"tenant\":\"tenant-%" PRId64 "\",\"cf-idempotency-key\":\"order:%" PRId64
		 ":charge\",\"content-type\":\"application/json\"}",
		 (uint64_t)n, n, n % 31, n);
	pg_array_null(column++);
	pg_array_text(column++, "POST");
	pg_array_text(column++, "http://127.0.0.1:40000/v1/charges");
	pg_array_text(column++, "Content-Type: application/x-www-form-urlencoded\n");
	add_buf(column++, &body);
	pg_array_bytes(column++, &n, sizeof(n));
	add_buf(column++, &value);
	pg_array_bool(column++, false);
	add_buf(column++, &headers);
	pg_array_null(column++);
	pg_array_bool(column++, false);
	pg_array_int8(column++, 0);
	pg_array_null(column++);
	pg_array_text(column++, "Idempotency-Key: ");
	pg_array_bool(column++, false);
	pg_array_null(column++);
}

static void add_none(struct pg_params *params, enum pg_type type)
{
	PG_ARRAY_AUTO struct pg_array none = { 0 };
	pg_array_init(&none, type);
	pg_add_array(params, &none);
}

static void add_position(struct pg_params *params, int64_t from, int64_t to)
{
	struct columns columns;
	columns_of(&columns, position_types);
	pg_array_text(&columns.items[0], TOPIC);
	pg_array_int4(&columns.items[1], 0);
	pg_array_int8(&columns.items[2], from);
	pg_array_int8(&columns.items[3], to);
	columns_move(&columns, params);
}

static void record(struct link *link, int64_t from, int64_t to)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	struct columns columns;
	add_position(&params, from, to);
	columns_of(&columns, effect_types);
	for (int64_t n = from; n < to; n++)
		add_request(add_identity(columns.items, n), n);
	columns_move(&columns, &params);
	add_none(&params, PG_TEXT); /* other names of targets */
	add_none(&params, PG_TEXT);
	command(link, "BEGIN");
	PG_RESULT_AUTO PGresult *result = query(link, "intake", SQL_RECORD, &params);
	if (!pg_get_bool(result, 0, 0))
		fail("intake", "the position has moved");
	command(link, "COMMIT");
}

static void *intake(void *arg)
{
	struct bench *bench = arg;
	struct link *link = connect_to(bench);
	for (int64_t from = 0, to; from < bench->count; from = to) {
		to = from + (int64_t)bench->intake;
		to = to < bench->count ? to : bench->count;
		record(link, from, to);
		pthread_mutex_lock(&bench->lock);
		bench->recorded = to;
		pthread_cond_broadcast(&bench->changed);
		pthread_mutex_unlock(&bench->lock);
	}
	disconnect(link);
	return NULL;
}

/* --- claims --- */

static PGresult *claim(struct link *link, const struct bench *bench)
{
	static const enum pg_type tenants[] = { PG_TEXT, PG_TEXT, PG_INT8, PG_INT8 };
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_text(&params, TARGET);
	pg_add_int8(&params, bench->owner);
	pg_add_int8(&params, INT64_MAX);
	pg_add_int8(&params, (int64_t)bench->claim);
	pg_add_interval(&params, DEADLINE);
	pg_add_interval(&params, WINDOW);
	pg_add_interval(&params, MARGIN);
	pg_add_text(&params, "");
	pg_add_int8(&params, 1000);
	for (size_t i = 0; i < sizeof(tenants) / sizeof(tenants[0]); i++)
		add_none(&params, tenants[i]);
	pg_add_time(&params, 0); /* no floor */
	return query(link, "claim", SQL_CLAIM, &params);
}

static struct claimed *slot(const struct bench *bench, int64_t number)
{
	return &bench->in_hand[number % IN_HAND_MAX];
}

static void hand_over(struct bench *bench, const PGresult *result)
{
	for (int row = 0; row < pg_rows(result) && !pg_null(result, row, 0); row++) {
		struct claimed *claimed = slot(bench, bench->taken++);
		claimed->id = pg_get_int8(result, row, 0);
		claimed->epoch = pg_get_int4(result, row, 1);
		(void)snprintf(claimed->key, sizeof(claimed->key), "%s",
			       pg_get_text(result, row, KEY_COLUMN_COUNT));
	}
	pthread_cond_broadcast(&bench->changed);
}

/* Like the ledger: again at once after a full claim, else when there is something new. */
static void *claims(void *arg)
{
	struct bench *bench = arg;
	struct link *link = connect_to(bench);
	pthread_mutex_lock(&bench->lock);
	while (bench->taken < bench->count) {
		if (bench->taken == bench->recorded ||
		    bench->taken - bench->settled > IN_HAND_MAX - (int64_t)bench->claim) {
			pthread_cond_wait(&bench->changed, &bench->lock);
			continue;
		}
		pthread_mutex_unlock(&bench->lock);
		PG_RESULT_AUTO PGresult *result = claim(link, bench);
		pthread_mutex_lock(&bench->lock);
		hand_over(bench, result);
	}
	pthread_mutex_unlock(&bench->lock);
	disconnect(link);
	return NULL;
}

/* --- results --- */

static const enum pg_type result_types[] = {
	PG_INT8,  PG_INT4,  PG_INT8, PG_INT4, PG_TEXT, PG_TEXT, /* id .. outcome */
	PG_INT4,  PG_INT4,  PG_TEXT, PG_TIME,                   /* status .. due_at */
	PG_INT4,  PG_INT4,  PG_INT4, PG_INT4, PG_BOOL,          /* unknown .. unsent */
	PG_TEXT,  PG_TIME,  PG_INT8, PG_TEXT, PG_TEXT,          /* provider id .. provider key */
	PG_BYTEA, PG_BYTEA, PG_BOOL, PG_BOOL,                   /* head .. emit_failed */
	PG_UUID,  PG_TEXT,  PG_TEXT, PG_BOOL,                   /* dead letter, stored */
	PG_UUID,  PG_BOOL,                                      /* emit, owed */
};

static void add_result(struct pg_array *column, const struct bench *bench,
		       const struct claimed *claimed)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
				   "Content-Length: 24\r\n\r\n";
	char body[64], id[32];
	(void)snprintf(id, sizeof(id), "ch_%012" PRId64, claimed->id);
	int length = snprintf(body, sizeof(body), "{\"id\":\"%s\"}", id);
	pg_array_int8(column++, claimed->id);
	pg_array_int4(column++, claimed->epoch);
	pg_array_int8(column++, bench->owner);
	pg_array_int4(column++, 1);
	pg_array_text(column++, effect_state_name(EFFECT_COMPLETED));
	pg_array_text(column++, "applied");
	pg_array_int4(column++, 200);
	pg_array_null(column++);
	pg_array_text(column++, "");
	pg_array_null(column++);
	pg_array_int4(column++, -1);
	pg_array_int4(column++, 1);
	pg_array_int4(column++, 0);
	pg_array_int4(column++, 0);
	pg_array_bool(column++, false);
	pg_array_text(column++, id);
	pg_array_usec(column++, usec_wall());
	pg_array_int8(column++, 500);
	pg_array_null(column++);
	pg_array_text(column++, claimed->key);
	pg_array_bytes(column++, head, sizeof(head) - 1);
	pg_array_bytes(column++, body, (size_t)length);
	pg_array_bool(column++, false);
	pg_array_bool(column++, false);
	pg_array_null(column++);
	pg_array_null(column++);
	pg_array_text(column++, "applied");
	pg_array_bool(column++, false);
	pg_array_null(column++);
	pg_array_bool(column++, false);
}

static void settle(struct link *link, const struct bench *bench, int64_t from, int64_t to)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	struct columns columns;
	size_t changed;
	columns_of(&columns, result_types);
	for (int64_t i = from; i < to; i++)
		add_result(columns.items, bench, slot(bench, i));
	columns_move(&columns, &params);
	PG_RESULT_AUTO PGresult *result = query(link, "result", SQL_RESULT, &params);
	free(pg_get_int8_array(result, 0, 0, &changed));
	if ((int64_t)changed != to - from)
		fail("result", "a claim was no longer in force");
}

static void *results(void *arg)
{
	struct bench *bench = arg;
	struct link *link = connect_to(bench);
	pthread_mutex_lock(&bench->lock);
	while (bench->settled < bench->count) {
		const int64_t from = bench->settled;
		int64_t to = from + (int64_t)bench->result;
		to = to < bench->count ? to : bench->count;
		if (bench->taken < to) {
			pthread_cond_wait(&bench->changed, &bench->lock);
			continue;
		}
		pthread_mutex_unlock(&bench->lock);
		settle(link, bench, from, to);
		pthread_mutex_lock(&bench->lock);
		bench->settled = to;
		pthread_cond_broadcast(&bench->changed);
	}
	pthread_mutex_unlock(&bench->lock);
	disconnect(link);
	return NULL;
}

/* --- */

static void begin(struct bench *bench)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	struct link *link = connect_to(bench);
	pg_add_text(&params, "record-effects");
	pg_add_text(&params, "");
	pg_add_interval(&params, LEASE);
	PG_RESULT_AUTO PGresult *owner = query(link, "instance", SQL_INSTANCE_NEW, &params);
	bench->owner = pg_get_int8(owner, 0, 0);
	command(link, "INSERT INTO counterfoil.intake_position VALUES ('" TOPIC "', 0, 0)");
	disconnect(link);
}

static size_t rows_of(const char *text)
{
	return (size_t)strtoul(text, NULL, 10);
}

int main(int argc, char **argv)
{
	static void *(*const parts[])(void *) = { intake, claims, results };
	pthread_t threads[sizeof(parts) / sizeof(parts[0])];
	struct bench bench = { .lock = PTHREAD_MUTEX_INITIALIZER,
			       .changed = PTHREAD_COND_INITIALIZER };
	if (argc != 6) {
		(void)fputs("usage: record-effects CONNINFO COUNT INTAKE CLAIM RESULT\n", stderr);
		return 2;
	}
	bench.conninfo = argv[1];
	bench.count = strtoll(argv[2], NULL, 10);
	bench.intake = rows_of(argv[3]);
	bench.claim = rows_of(argv[4]);
	bench.result = rows_of(argv[5]);
	bench.in_hand = mem_zero(IN_HAND_MAX * sizeof(*bench.in_hand));
	begin(&bench);
	const usec_t began = usec_boot();
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (pthread_create(&threads[i], NULL, parts[i], &bench) != 0)
			fail("threads", "none to be had");
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		(void)pthread_join(threads[i], NULL);
	(void)printf("%" PRId64 " %.6f\n", bench.count,
		     (double)(usec_boot() - began) / (double)USEC_SEC);
	free(bench.in_hand);
	return 0;
}
