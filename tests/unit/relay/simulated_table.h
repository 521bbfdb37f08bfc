/* What is simulated, all in one, and the table: its writers, and the server that runs statements in
 * the order in which they were sent. */
#ifndef COUNTERFOIL_SIMULATED_TABLE_H
#define COUNTERFOIL_SIMULATED_TABLE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dead/burial.h"
#include "dead/keys.h"
#include "mem.h"
#include "publishing/topics.h"
#include "publishing/window.h"
#include "reading/reader.h"

enum {
	TOPICS = 4,
	KEYS = 6, /* of a topic; 0: no key, no order */
	PARTITIONS = 3,
	ROWS = 500,
	BATCH = 16,
	WINDOW = 64,
	GAPS = 600,   /* more than there can be */
	GAPS_FEW = 8, /* so that they are merged */
	BYTES_FEW = 3000,
	BYTES_MANY = 1000000,
	ROW_COST = 200, /* of each row, beside its own bytes */
	WRITERS = 8,    /* transactions that are open at once */
	STATEMENTS = 16,
};

enum fault { FAULT_NONE, FAULT_POISON, FAULT_LARGE };

struct model_row {
	int topic;
	int key;
	enum fault fault;
	uint32_t bytes;
	int64_t writer; /* the first row of its transaction */
	usec_t commit_at;
	bool commits; /* or is rolled back */
	bool committed;
	bool there; /* in the table */
	bool written;
	bool dead;
	bool parked;
	bool passed; /* it was condemned, and holds up nobody */
};

enum statement_kind { POLL, DELETE, BURY, LIST, LOAD };

struct statement {
	enum statement_kind kind;
	bool run;
	bool failed;
	uint64_t epoch; /* of the owner that sent it */
	struct reader_poll poll;
	struct gap gaps[GAPS];
	bool asked[TOPICS];
	bool only;
	int64_t generation;
	size_t count;
	int64_t ids[ROWS];
	bool withheld[BATCH];
	bool parked[ROWS];
	struct window_row *rows[WINDOW * 2];
	int64_t dead[TOPICS * KEYS]; /* by order: the first dead row, 0: none */
};

/* What Kafka does with a topic's rows. */
enum mode { MODE_WELL, MODE_UNKNOWN, MODE_COMPANY, MODE_STALLED, MODE_SLOW };

struct sim {
	uint64_t chance;
	usec_t now;
	bool block_key;
	bool ordered; /* order is promised: no gap is given up before its time, and none merged */
	size_t batch_bytes;

	struct model_row rows[ROWS + 1]; /* by id */
	int64_t drawn;
	int64_t writing[TOPICS][KEYS]; /* the first row of the transaction that is at it; 0: none */
	int64_t open[WRITERS];         /* the first rows of those that are open; 0: none */
	int64_t server_generation;
	struct statement *statements[STATEMENTS];
	size_t statement_count;

	enum mode mode[TOPICS];
	usec_t mode_until[TOPICS];
	bool changed[TOPICS]; /* its number of partitions */
	struct window_row *flights[WINDOW];
	size_t flight_count;
	bool torn[TOPICS][PARTITIONS]; /* since a rejection */
	usec_t lost_at;                /* the producer, for that; 0: it works */
	usec_t ready_at;

	struct reader *reader;
	struct topics *topics;
	struct window *window;
	struct keys *keys;
	struct burial *burial;
	struct topic *topic[TOPICS];
	struct topic *probe;
	int64_t generation;
	uint64_t epoch;
	bool loading;
	bool polling;
	bool burying;
	size_t deleting;
	usec_t giving_up;
	usec_t youngest;
	usec_t look_at;
	size_t seen[5]; /* what happened, so that the runs are known to be worth something */
};

enum { SEEN_WRITTEN, SEEN_BLOCKED, SEEN_DEAD, SEEN_PARKED, SEEN_LOST };

static uint64_t any(struct sim *sim, uint64_t below)
{
	sim->chance = sim->chance * 6364136223846793005ULL + 1442695040888963407ULL;
	return (sim->chance >> 33) % below;
}

static bool one_in(struct sim *sim, uint64_t times)
{
	return any(sim, times) == 0;
}

static uint64_t order_of(const struct model_row *row)
{
	return row->key ? (uint64_t)(row->topic * KEYS + row->key) : 0;
}

static int partition_of(const struct model_row *row)
{
	return row->key % PARTITIONS;
}

/* Another row of the transaction, of any topic and key. The writers of a key take turns, and other
 * writers' rows may lie between. */
static void draw_row(struct sim *sim, int64_t *writer)
{
	struct model_row row = { .topic = (int)any(sim, TOPICS), .key = (int)any(sim, KEYS) };
	int64_t *writing = &sim->writing[row.topic][row.key];
	if (sim->drawn == ROWS || (row.key && *writing && *writing != *writer))
		return;
	int64_t id = ++sim->drawn;
	row.bytes = (uint32_t)any(sim, 800);
	row.fault = one_in(sim, 60) ? FAULT_POISON : one_in(sim, 60) ? FAULT_LARGE : FAULT_NONE;
	row.writer = *writer ? *writer : id;
	row.commit_at = sim->now + (one_in(sim, 3) ? (usec_t)any(sim, 300 * USEC_MS) : 0);
	row.commits = !one_in(sim, 10);
	if (*writer) {
		row.commit_at = sim->rows[*writer].commit_at;
		row.commits = sim->rows[*writer].commits;
	}
	*writer = *writing = row.writer;
	sim->rows[id] = row;
}

/* One to three rows of a transaction. */
static void draw(struct sim *sim)
{
	int64_t *writer = &sim->open[any(sim, WRITERS)];
	for (uint64_t rows = 1 + any(sim, 3); rows > 0; rows--)
		draw_row(sim, writer);
}

static void forget_writer(struct sim *sim, int64_t writer)
{
	for (int i = 0; i < WRITERS; i++)
		if (sim->open[i] == writer)
			sim->open[i] = 0;
	for (int i = 0; i < TOPICS * KEYS; i++)
		if (sim->writing[i / KEYS][i % KEYS] == writer)
			sim->writing[i / KEYS][i % KEYS] = 0;
}

static void commit(struct sim *sim)
{
	for (int64_t id = 1; id <= sim->drawn; id++) {
		struct model_row *row = &sim->rows[id];
		if (row->committed || row->commit_at > sim->now)
			continue;
		row->committed = true;
		row->there = row->commits;
		forget_writer(sim, row->writer);
	}
}

/* All that lies dead or parked of a key of it goes back, repaired. */
static void requeue(struct sim *sim)
{
	int64_t chosen = 1 + (int64_t)any(sim, ROWS);
	if (chosen > sim->drawn || !sim->rows[chosen].dead)
		return;
	uint64_t order = order_of(&sim->rows[chosen]);
	for (int64_t id = 1; id <= sim->drawn; id++) {
		struct model_row *row = &sim->rows[id];
		if ((!row->dead && !row->parked) ||
		    (id != chosen && (order == 0 || order_of(row) != order)))
			continue;
		*row = (struct model_row){ .topic = row->topic,
					   .key = row->key,
					   .bytes = row->bytes,
					   .committed = true,
					   .commits = true,
					   .there = true,
					   .passed = row->passed };
	}
	sim->server_generation++;
}

static bool in_gaps(const struct statement *statement, int64_t id)
{
	for (size_t i = 0; i < statement->poll.gaps; i++)
		if (id >= statement->gaps[i].first && id <= statement->gaps[i].last)
			return true;
	return false;
}

/* What a row weighs in an answer: without what it carries, next to nothing. */
static size_t weight_of(const struct sim *sim, const struct statement *statement, size_t number)
{
	const struct model_row *row = &sim->rows[statement->ids[number]];
	bool fetched = !statement->withheld[number] && row->fault != FAULT_LARGE;
	return ROW_COST + (fetched ? row->bytes : 0);
}

static void run_poll(struct sim *sim, struct statement *statement)
{
	size_t most = statement->poll.rows < BATCH ? statement->poll.rows : BATCH;
	size_t bytes = 0;
	statement->generation = sim->server_generation;
	for (int64_t id = 1; id <= sim->drawn && statement->count < most; id++) {
		const struct model_row *row = &sim->rows[id];
		if (!row->there || (id <= statement->poll.after && !in_gaps(statement, id)))
			continue;
		if (statement->count > 0 && bytes >= statement->poll.bytes)
			break;
		size_t number = statement->count++;
		statement->withheld[number] = statement->asked[row->topic] != statement->only;
		statement->ids[number] = id;
		bytes += weight_of(sim, statement, number);
	}
}

static void run_delete(struct sim *sim, struct statement *statement)
{
	if (statement->failed && one_in(sim, 2))
		return; /* else only its answer is lost */
	for (size_t i = 0; i < statement->count; i++) {
		struct model_row *row = &sim->rows[statement->rows[i]->id];
		assert_true(row->written);
		row->there = false;
	}
}

static void run_bury(struct sim *sim, struct statement *statement)
{
	size_t moved = 0;
	if (statement->generation != sim->server_generation || statement->failed) {
		statement->count = 0;
		return;
	}
	for (size_t i = 0; i < statement->count; i++) {
		struct model_row *row = &sim->rows[statement->ids[i]];
		if (!row->there)
			continue;
		assert_true(!row->written || statement->parked[i]);
		row->there = false;
		row->dead = !statement->parked[i];
		row->parked = statement->parked[i];
		sim->seen[row->dead ? SEEN_DEAD : SEEN_PARKED]++;
		statement->ids[moved++] = statement->ids[i];
	}
	statement->count = moved;
}

static void run_load(struct sim *sim, struct statement *statement)
{
	statement->generation = sim->server_generation;
	for (int64_t id = 1; id <= sim->drawn; id++) {
		const struct model_row *row = &sim->rows[id];
		if (row->dead && row->key && !statement->dead[order_of(row)])
			statement->dead[order_of(row)] = id;
	}
}

static void run_list(struct sim *sim, struct statement *statement)
{
	for (int64_t id = 1; id <= sim->drawn; id++)
		if (!sim->rows[id].committed)
			statement->ids[statement->count++] = sim->rows[id].writer;
}

static void run(struct sim *sim, struct statement *statement)
{
	statement->run = true;
	switch (statement->kind) {
	case POLL:
		run_poll(sim, statement);
		break;
	case DELETE:
		run_delete(sim, statement);
		break;
	case BURY:
		run_bury(sim, statement);
		break;
	case LIST:
		run_list(sim, statement);
		break;
	case LOAD:
		run_load(sim, statement);
		break;
	}
}

static struct statement *send(struct sim *sim, enum statement_kind kind)
{
	struct statement *statement = mem_zero(sizeof(*statement));
	assert_true(sim->statement_count < STATEMENTS);
	statement->kind = kind;
	statement->epoch = sim->epoch;
	sim->statements[sim->statement_count++] = statement;
	return statement;
}

#endif
