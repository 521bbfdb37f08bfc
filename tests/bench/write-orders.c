/* The application: writers that emit orders, each in a transaction of its own.
 *
 *   write-orders CONNINFO TOPIC FIRST WRITERS SECONDS
 *   write-orders CONNINFO TOPIC FIRST WRITERS SECONDS RATE
 *
 * Orders from number FIRST on. As fast as they can: prints "COUNT SECONDS". RATE a second, all
 * together, at random moments: prints for each order "N TIME".
 *
 * TIME: microseconds of the wall clock when the writer heard that order N is committed. Others may
 * see the row a moment before: from when the server has made it visible, which is while the answer
 * is on its way. */
#include <inttypes.h>
#include <libpq-fe.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "buf.h"
#include "mem.h"
#include "order.h"
#include "usec.h"

static const char emit[] =
	"SELECT counterfoil.emit(topic => $1, type => $2, payload => $3, ordering_key => $4,"
	" headers => $5)";

enum { OID_BYTEA = 17, OID_TEXT = 25, OID_JSONB = 3802 };
enum { TOPIC, TYPE, PAYLOAD, KEY, HEADERS, PARAMETERS };

struct commit {
	int64_t order;
	usec_t at;
};

struct team {
	const char *conninfo;
	const char *topic;
	double pace; /* of one writer, a second; 0: as fast as it can */
	usec_t began, until;
	int64_t first;
	_Atomic int64_t next; /* number of an order */
};

struct writer {
	struct team *team;
	pthread_t thread;
	PGconn *conn;
	struct drand48_data random;
	struct buf payload, key, headers;
	struct buf commits; /* struct commit */
};

_Noreturn static void fail(const struct writer *writer, const char *step)
{
	(void)fprintf(stderr, "write-orders: %s: %s", step, PQerrorMessage(writer->conn));
	exit(1);
}

static void open_writer(struct writer *writer, struct team *team, long seed)
{
	const Oid types[PARAMETERS] = { OID_TEXT, OID_TEXT, OID_BYTEA, OID_TEXT, OID_JSONB };
	writer->team = team;
	(void)srand48_r(seed, &writer->random);
	writer->conn = PQconnectdb(team->conninfo);
	if (PQstatus(writer->conn) != CONNECTION_OK)
		fail(writer, "connect");
	PGresult *result = PQprepare(writer->conn, "emit", emit, PARAMETERS, types);
	if (PQresultStatus(result) != PGRES_COMMAND_OK)
		fail(writer, "prepare");
	PQclear(result);
}

static void close_writer(struct writer *writer)
{
	PQfinish(writer->conn);
	buf_done(&writer->payload);
	buf_done(&writer->key);
	buf_done(&writer->headers);
	buf_done(&writer->commits);
}

static void make_order(struct writer *writer, int64_t n)
{
	buf_clear(&writer->payload);
	buf_clear(&writer->key);
	buf_clear(&writer->headers);
	order_payload(&writer->payload, n);
	buf_addf(&writer->key, "order-%" PRId64, n);
	buf_addf(&writer->headers,
		 "{\"tenant\":\"tenant-%" PRId64 "\",\"cf-idempotency-key\":\"order:%" PRId64
		 ":charge\"}",
		 n % 31, n);
}

static void commit_order(struct writer *writer, int64_t n)
{
	make_order(writer, n);
	const char *values[PARAMETERS] = { writer->team->topic, ORDER_TYPE, writer->payload.data,
					   buf_text(&writer->key), buf_text(&writer->headers) };
	const int lengths[PARAMETERS] = { [PAYLOAD] = (int)writer->payload.length };
	const int formats[PARAMETERS] = { [PAYLOAD] = 1 };
	PGresult *result =
		PQexecPrepared(writer->conn, "emit", PARAMETERS, values, lengths, formats, 1);
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		fail(writer, "emit");
	const struct commit commit = { .order = n, .at = usec_wall() };
	PQclear(result);
	buf_add(&writer->commits, &commit, sizeof(commit));
}

/* Moments that do not know of each other, as customers' do not: no rhythm that a poll could fall
 * in with. */
static usec_t next_moment(struct writer *writer, usec_t last)
{
	double drawn;
	if (writer->team->pace <= 0)
		return last;
	(void)drand48_r(&writer->random, &drawn);
	return last + (usec_t)(-log(1 - drawn) / writer->team->pace * (double)USEC_SEC);
}

static void wait_for(usec_t moment)
{
	const struct timespec at = { .tv_sec = moment / USEC_SEC,
				     .tv_nsec = moment % USEC_SEC * 1000 };
	while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &at, NULL) != 0)
		;
}

static void *write_on(void *arg)
{
	struct writer *writer = arg;
	struct team *team = writer->team;
	usec_t moment = next_moment(writer, team->began);
	while (moment < team->until && usec_boot() < team->until) {
		if (team->pace > 0)
			wait_for(moment);
		commit_order(writer, atomic_fetch_add(&team->next, 1));
		moment = next_moment(writer, moment);
	}
	return NULL;
}

static void print_commits(const struct writer *writer)
{
	struct commit commit;
	for (size_t at = 0; at < writer->commits.length; at += sizeof(commit)) {
		memcpy(&commit, writer->commits.data + at, sizeof(commit));
		(void)printf("%" PRId64 " %" PRId64 "\n", commit.order, commit.at);
	}
}

static void run(struct team *team, long count, usec_t length)
{
	struct writer *writers = mem_zero((size_t)count * sizeof(*writers));
	for (long i = 0; i < count; i++)
		open_writer(&writers[i], team, i + 1);
	team->began = usec_boot();
	team->until = team->began + length;
	for (long i = 0; i < count; i++)
		if (pthread_create(&writers[i].thread, NULL, write_on, &writers[i]) != 0)
			fail(&writers[i], "thread");
	for (long i = 0; i < count; i++)
		(void)pthread_join(writers[i].thread, NULL);
	const usec_t took = usec_boot() - team->began;
	if (team->pace <= 0)
		(void)printf("%" PRId64 " %.6f\n", team->next - team->first,
			     (double)took / (double)USEC_SEC);
	for (long i = 0; i < count; i++) {
		if (team->pace > 0)
			print_commits(&writers[i]);
		close_writer(&writers[i]);
	}
	free(writers);
}

int main(int argc, char **argv)
{
	static struct team team;
	if (argc != 6 && argc != 7) {
		(void)fputs("usage: write-orders CONNINFO TOPIC FIRST WRITERS SECONDS [RATE]\n",
			    stderr);
		return 2;
	}
	const long writers = strtol(argv[4], NULL, 10);
	team.conninfo = argv[1];
	team.topic = argv[2];
	team.first = strtoll(argv[3], NULL, 10);
	team.next = team.first;
	if (argc == 7)
		team.pace = strtod(argv[6], NULL) / (double)writers;
	run(&team, writers, (usec_t)(strtod(argv[5], NULL) * (double)USEC_SEC));
	return 0;
}
