/* The relay without its libraries: reader, topics, window, keys and burial as the flow and the
 * publisher drive them, between a table whose writers commit late or not at all and a broker that
 * knows no topic for a while, rejects rows alone or in company, holds partitions up, and loses the
 * producer. Whatever happens: a row of a key is never written before an earlier one that waits,
 * none is removed that was not written, and in the end all were written or lie dead or parked, with
 * every topic open. In half of the runs no sweep comes to the rescue. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "burial.h"
#include "keys.h"
#include "mem.h"
#include "reader.h"
#include "topics.h"
#include "window.h"

#ifndef RUNS
#define RUNS 60
#endif

enum {
	TOPICS = 4,
	KEYS = 6, /* of a topic; 0: no key, no order */
	PARTITIONS = 3,
	ROWS = 500,
	BATCH = 16,
	WINDOW = 64,
	GAPS = 600,
	STATEMENTS = 16,
};

#define TROUBLE_FOR (40 * USEC_SEC)
#define HEALED_IN   (200 * USEC_SEC)

enum fault { FAULT_NONE, FAULT_POISON, FAULT_LARGE };

struct model_row {
	int topic;
	int key;
	enum fault fault;
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
	uint64_t orders[TOPICS * KEYS];
};

/* What Kafka does with a topic's rows. */
enum mode { MODE_WELL, MODE_UNKNOWN, MODE_COMPANY, MODE_STALLED };

struct sim {
	uint64_t chance;
	usec_t now;
	bool block_key;

	struct model_row rows[ROWS + 1]; /* by id */
	int64_t drawn;
	bool writing[TOPICS][KEYS];
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

/* --- the table --- */

static void draw(struct sim *sim)
{
	struct model_row row = { .topic = (int)any(sim, TOPICS), .key = (int)any(sim, KEYS) };
	if (sim->drawn == ROWS || (row.key && sim->writing[row.topic][row.key]))
		return; /* the writers of a key take turns */
	row.commit_at = sim->now + (one_in(sim, 4) ? (usec_t)any(sim, 300 * USEC_MS) : 0);
	row.commits = !one_in(sim, 10);
	row.fault = one_in(sim, 60) ? FAULT_POISON : one_in(sim, 60) ? FAULT_LARGE : FAULT_NONE;
	sim->writing[row.topic][row.key] = true;
	sim->rows[++sim->drawn] = row;
}

static void commit(struct sim *sim)
{
	for (int64_t id = 1; id <= sim->drawn; id++) {
		struct model_row *row = &sim->rows[id];
		if (row->committed || row->commit_at > sim->now)
			continue;
		row->committed = true;
		row->there = row->commits;
		sim->writing[row->topic][row->key] = false;
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

static void run_poll(struct sim *sim, struct statement *statement)
{
	size_t most = statement->poll.rows < BATCH ? statement->poll.rows : BATCH;
	statement->generation = sim->server_generation;
	for (int64_t id = 1; id <= sim->drawn && statement->count < most; id++) {
		const struct model_row *row = &sim->rows[id];
		if (!row->there || (id <= statement->poll.after && !in_gaps(statement, id)))
			continue;
		statement->withheld[statement->count] =
			statement->asked[row->topic] != statement->only;
		statement->ids[statement->count++] = id;
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
		if (row->dead && row->key)
			statement->orders[order_of(row)] = order_of(row);
	}
}

static void run_list(struct sim *sim, struct statement *statement)
{
	for (int64_t id = 1; id <= sim->drawn; id++)
		if (!sim->rows[id].committed)
			statement->ids[statement->count++] = id;
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

/* --- the broker --- */

static void write_row(struct sim *sim, int64_t id)
{
	struct model_row *row = &sim->rows[id];
	for (int64_t before = 1; before < id && row->key && !row->written; before++) {
		const struct model_row *other = &sim->rows[before];
		if (order_of(other) != order_of(row) || !other->commits)
			continue;
		if (!other->written && !other->passed)
			fail_msg("row %d before row %d of its key", (int)id, (int)before);
	}
	sim->seen[SEEN_WRITTEN] += !row->written;
	row->written = true;
}

static void take_flight(struct sim *sim, size_t at)
{
	sim->flight_count--;
	memmove(&sim->flights[at], &sim->flights[at + 1],
		(sim->flight_count - at) * sizeof(sim->flights[0]));
}

static void condemn(struct sim *sim, int64_t id, const struct window_claim *claim, bool parked,
		    const char *reason)
{
	struct burial_row row = { .parked = parked };
	if (sim->block_key && claim->order)
		assert_true(keys_add(sim->keys, claim->order));
	sim->rows[id].passed = !sim->block_key;
	row.row = window_condemn(sim->window, claim);
	burial_add(sim->burial, &row, reason);
}

static void delivered(struct sim *sim, struct window_row *row)
{
	struct topic *topic = row->topic;
	write_row(sim, row->id);
	if (row->fetched > sim->youngest)
		sim->youngest = row->fetched;
	topics_delivered(sim->topics, topic, row->id, sim->now);
	window_ack(sim->window, row, sim->now);
	if (window_eased(sim->window, row->lane))
		topics_room(sim->topics, row->lane);
}

static void rejected(struct sim *sim, struct window_row *row)
{
	struct window_row was = *row;
	window_drop(sim->window, row);
	if (!topics_rejected(sim->topics, was.topic, was.id, true, was.alone, "rejected", sim->now))
		return;
	const struct window_claim claim = {
		.id = was.id, .event_id = was.event_id, .order = was.order, .topic = was.topic
	};
	condemn(sim, was.id, &claim, false, "rejected");
}

static void failed(struct sim *sim, struct window_row *row)
{
	struct topic *topic = row->topic;
	int64_t id = row->id;
	window_drop(sim->window, row);
	topics_failed(sim->topics, topic, id, true, "unknown topic", sim->now);
}

/* Rows of this partition, or of all of a topic's (-1), that are reported in the order in which they
 * were sent. */
static void report(struct sim *sim, int topic, int partition, size_t most,
		   void (*how)(struct sim *sim, struct window_row *row))
{
	for (size_t i = 0; i < sim->flight_count && most > 0;) {
		struct window_row *row = sim->flights[i];
		const struct model_row *model = &sim->rows[row->id];
		if (model->topic != topic || (partition >= 0 && partition_of(model) != partition)) {
			i++;
			continue;
		}
		take_flight(sim, i);
		how(sim, row);
		most--;
	}
}

static const struct model_row *first_of(const struct sim *sim, int topic, int partition)
{
	for (size_t i = 0; i < sim->flight_count; i++) {
		const struct model_row *row = &sim->rows[sim->flights[i]->id];
		if (row->topic == topic && partition_of(row) == partition)
			return row;
	}
	return NULL;
}

static void reject(struct sim *sim, int topic, int partition)
{
	report(sim, topic, partition, 1 + any(sim, 3), rejected);
	sim->torn[topic][partition] = true;
	if (sim->lost_at == 0)
		sim->lost_at = sim->now + 50 * USEC_MS;
}

/* Something of one partition, or of a topic. */
static void broker_acts(struct sim *sim)
{
	int topic = (int)any(sim, TOPICS), partition = (int)any(sim, PARTITIONS);
	const struct model_row *row = first_of(sim, topic, partition);
	if (!row || sim->torn[topic][partition])
		return;
	switch (sim->mode[topic]) {
	case MODE_UNKNOWN:
		report(sim, topic, -1, WINDOW, failed);
		return;
	case MODE_STALLED:
		if (partition > 0)
			break;
		return;
	case MODE_COMPANY:
		if (sim->topic[topic]->in_flight == 1)
			break;
		reject(sim, topic, partition);
		return;
	case MODE_WELL:
		break;
	}
	if (row->fault == FAULT_POISON)
		reject(sim, topic, partition);
	else
		report(sim, topic, partition, 1, delivered);
}

static void broker_changes(struct sim *sim, bool well)
{
	for (int i = 0; i < TOPICS; i++) {
		if (!well && sim->mode_until[i] > sim->now)
			continue;
		bool trouble = !well && one_in(sim, 2);
		sim->mode[i] = trouble ? (enum mode)any(sim, MODE_STALLED + 1) : MODE_WELL;
		sim->mode_until[i] = sim->now + (usec_t)any(sim, 15 * USEC_SEC);
		sim->changed[i] = sim->changed[i] || (!well && one_in(sim, 4));
	}
}

/* --- the publisher --- */

static void forget(void *arg, struct window_row *row)
{
	struct sim *sim = arg;
	topics_forgot(sim->topics, row->topic, row->id, sim->now);
	window_drop(sim->window, row);
}

/* Of what is lost some is written all the same: the first rows of a partition. */
static void drop_producer(struct sim *sim)
{
	bool ends[TOPICS][PARTITIONS] = { 0 };
	int64_t lowest = INT64_MAX;
	for (size_t i = 0; i < sim->flight_count; i++) {
		const struct model_row *row = &sim->rows[sim->flights[i]->id];
		bool *end = &ends[row->topic][partition_of(row)];
		*end = *end || sim->torn[row->topic][partition_of(row)] || row->fault ||
		       sim->mode[row->topic] != MODE_WELL || one_in(sim, 3);
		if (!*end)
			write_row(sim, sim->flights[i]->id);
		if (sim->flights[i]->id < lowest)
			lowest = sim->flights[i]->id;
	}
	sim->flight_count = 0;
	memset(sim->torn, 0, sizeof(sim->torn));
	memset(sim->changed, 0, sizeof(sim->changed));
	window_each(sim->window, forget, sim);
	reader_rewind(sim->reader, lowest);
	sim->lost_at = 0;
	sim->ready_at = sim->now + 100 * USEC_MS;
	sim->seen[SEEN_LOST]++;
}

enum fate { FATE_DONE, FATE_LAST, FATE_STOP };

static enum fate hand_over(struct sim *sim, const struct window_claim *claim, bool alone)
{
	struct topic *topic = claim->topic;
	bool unknown = sim->mode[sim->rows[claim->id].topic] == MODE_UNKNOWN;
	if (sim->lost_at || sim->now < sim->ready_at || one_in(sim, 200))
		return FATE_STOP;
	if (unknown && one_in(sim, 2)) {
		topics_failed(sim->topics, topic, claim->id, false, "unknown topic", sim->now);
		return FATE_DONE;
	}
	struct window_row *row = window_add(sim->window, claim, sim->now);
	row->alone = alone;
	row->fetched = sim->now;
	sim->flights[sim->flight_count++] = row;
	topic_sent(topic);
	if (!alone)
		return FATE_DONE;
	assert_int_equal(topic->in_flight, 1);
	topics_probe_sent(sim->topics, topic);
	return FATE_LAST;
}

static bool ask_topic(enum reader_cursor cursor, const struct topic *probe, struct topic *topic,
		      int64_t id, bool came_withheld, enum fate *fate_r)
{
	bool wanted = true, withheld = false;
	switch (cursor) {
	case READER_HEAD:
	case READER_SWEEP:
		withheld = topic->state != TOPIC_OPEN;
		break;
	case READER_CATCH_UP:
		wanted = topic->state != TOPIC_OPEN;
		withheld = wanted && !topic->joined;
		break;
	case READER_PROBE:
		wanted = topic == probe && topic->probed;
		break;
	}
	if (withheld)
		topic_withheld(topic, id);
	*fate_r = wanted && !withheld ? FATE_STOP : FATE_DONE;
	return wanted && !withheld && !came_withheld;
}

static enum fate publish(struct sim *sim, const struct statement *answer, size_t number)
{
	static const uint8_t event_id[WINDOW_UUID];
	int64_t id = answer->ids[number];
	const struct model_row *row = &sim->rows[id];
	bool alone = answer->poll.cursor == READER_PROBE;
	struct topic *topic = sim->topic[row->topic];
	enum fate fate;
	struct window_claim claim = { .id = id,
				      .event_id = event_id,
				      .bytes = 200,
				      .order = order_of(row),
				      .topic = topic,
				      .lane = window_lane(topic->hash, partition_of(row)) };
	if (window_find(sim->window, id))
		return FATE_DONE;
	if (sim->block_key && claim.order && keys_has(sim->keys, claim.order)) {
		condemn(sim, id, &claim, true, "parked");
		return FATE_DONE;
	}
	if (!ask_topic(answer->poll.cursor, sim->probe, topic, id, answer->withheld[number], &fate))
		return fate;
	if (row->fault == FAULT_LARGE) {
		condemn(sim, id, &claim, false, "too large");
		return FATE_DONE;
	}
	if (!alone && !window_fits(sim->window, claim.lane, sim->now)) {
		topics_full(sim->topics, topic, id, claim.lane, sim->now);
		return FATE_DONE;
	}
	return hand_over(sim, &claim, alone);
}

static bool publish_page(struct sim *sim, const struct statement *answer, size_t count,
			 int64_t *stopped_r)
{
	for (size_t i = 0; i < count; i++) {
		switch (publish(sim, answer, i)) {
		case FATE_DONE:
			continue;
		case FATE_LAST:
			return true;
		case FATE_STOP:
			*stopped_r = answer->ids[i];
			reader_back(sim->reader, answer->poll.cursor, answer->ids[i]);
			reader_pause(sim->reader, sim->now + 10 * USEC_MS);
			return false;
		}
	}
	return true;
}

/* --- the flow --- */

static void load(struct sim *sim)
{
	sim->loading = true;
	(void)send(sim, LOAD);
}

static void send_poll(struct sim *sim, size_t rows)
{
	struct statement *statement = send(sim, POLL);
	reader_next(sim->reader, sim->now, rows, 1000000, &statement->poll);
	assert_true(statement->poll.gaps <= GAPS);
	for (size_t i = 0; i < statement->poll.gaps; i++) {
		statement->gaps[i] = reader_gaps(sim->reader)[i];
		if (statement->gaps[i].last > statement->poll.after)
			statement->gaps[i].last = statement->poll.after;
	}
	enum reader_cursor cursor = statement->poll.cursor;
	statement->only = cursor == READER_CATCH_UP || cursor == READER_PROBE;
	for (int i = 0; i < TOPICS; i++) {
		const struct topic *topic = sim->topic[i];
		statement->asked[i] = cursor == READER_PROBE      ? topic == sim->probe
				      : cursor == READER_CATCH_UP ? topic->joined
								  : topic->state != TOPIC_OPEN;
	}
	sim->polling = true;
}

static void find_job(struct sim *sim)
{
	int64_t from;
	if (!reader_idle(sim->reader) || reader_sweep_due(sim->reader, sim->now))
		return;
	sim->probe = topics_probe(sim->topics, reader_head(sim->reader), sim->now);
	if (sim->probe)
		reader_begin(sim->reader, READER_PROBE, sim->probe->from);
	else if (topics_join(sim->topics, &from))
		reader_begin(sim->reader, READER_CATCH_UP, from);
}

static void read_on(struct sim *sim, size_t pending)
{
	size_t bytes;
	if (sim->loading || sim->polling || sim->giving_up || sim->lost_at ||
	    sim->now < sim->ready_at)
		return;
	if (reader_list(sim->reader, sim->now))
		(void)send(sim, LIST);
	find_job(sim);
	size_t room = window_room(sim->window, sim->now, &bytes);
	if (reader_wait(sim->reader, sim->now) == 0 && room >= pending + 2)
		send_poll(sim, room - pending);
}

static void give_up_stalled(struct sim *sim)
{
	size_t others = window_in_flight(sim->window) - topics_stalled(sim->topics);
	if (sim->giving_up == 0 || (others > 0 && sim->now - sim->giving_up < USEC_SEC))
		return;
	sim->giving_up = 0;
	topics_give_up_stalled(sim->topics, sim->now);
	drop_producer(sim);
}

static void delete_acked(struct sim *sim)
{
	if (window_acked(sim->window) == 0 || sim->deleting == 4 || !one_in(sim, 3))
		return;
	struct statement *statement = send(sim, DELETE);
	statement->count = window_take(sim->window, statement->rows, WINDOW * 2);
	statement->failed = one_in(sim, 20);
	sim->deleting++;
}

static void bury(struct sim *sim)
{
	struct burial_row *rows[BURIAL_ROWS];
	if (sim->burying || sim->loading)
		return;
	size_t count = burial_take(sim->burial, rows);
	if (count == 0)
		return;
	struct statement *statement = send(sim, BURY);
	statement->failed = one_in(sim, 20);
	statement->generation = sim->generation;
	statement->count = count;
	for (size_t i = 0; i < count; i++) {
		statement->ids[i] = rows[i]->row->id;
		statement->parked[i] = rows[i]->parked;
	}
	sim->burying = true;
}

static void pump(struct sim *sim)
{
	give_up_stalled(sim);
	delete_acked(sim);
	bury(sim);
	read_on(sim, 0);
}

static struct reader_page look_at(struct sim *sim, const struct statement *answer, size_t count)
{
	struct reader_page page = { .rows = count, .last = answer->poll.after };
	for (size_t i = 0; i < count; i++) {
		page.last = answer->ids[i];
		page.above += page.last > answer->poll.after;
		reader_saw(sim->reader, page.last);
	}
	return page;
}

static void take_head(struct sim *sim, const struct statement *answer)
{
	struct reader_page page = look_at(sim, answer, answer->count);
	int64_t stopped;
	(void)reader_answered(sim->reader, &answer->poll, &page, sim->now);
	if (answer->count > 0)
		read_on(sim, answer->count);
	(void)publish_page(sim, answer, answer->count, &stopped);
}

static void end_job(struct sim *sim, enum reader_cursor cursor, int64_t last, bool end)
{
	switch (cursor) {
	case READER_CATCH_UP:
		topics_caught(sim->topics, last, end, sim->now);
		break;
	case READER_PROBE:
		topics_probe_read(sim->topics, sim->probe, last, !end, sim->now);
		end = true;
		break;
	case READER_SWEEP:
	case READER_HEAD:
		break;
	}
	if (end)
		reader_end(sim->reader);
}

static void take_second(struct sim *sim, const struct statement *answer)
{
	size_t ours = answer->count;
	int64_t limit = reader_limit(sim->reader, &answer->poll);
	while (ours > 0 && answer->ids[ours - 1] > limit)
		ours--;
	struct reader_page page = look_at(sim, answer, ours);
	page.rows = answer->count;
	bool end = reader_answered(sim->reader, &answer->poll, &page, sim->now);
	int64_t stopped;
	if (publish_page(sim, answer, ours, &stopped))
		end_job(sim, answer->poll.cursor, page.last, end);
	else
		end_job(sim, answer->poll.cursor, stopped - 1, false);
}

static void polled(struct sim *sim, const struct statement *answer)
{
	sim->polling = false;
	if (sim->loading || !reader_accepts(sim->reader, &answer->poll))
		return;
	if (answer->generation != sim->generation)
		load(sim);
	else if (answer->poll.cursor == READER_HEAD)
		take_head(sim, answer);
	else
		take_second(sim, answer);
}

static void was_deleted(struct sim *sim, const struct statement *answer)
{
	sim->deleting--;
	for (size_t i = 0; i < answer->count; i++)
		if (answer->failed)
			window_keep(sim->window, answer->rows[i], true);
		else
			window_deleted(sim->window, answer->rows[i]);
}

static void buried(struct sim *sim, const struct statement *answer)
{
	if (answer->epoch != sim->epoch)
		return;
	sim->burying = false;
	if (answer->failed)
		burial_kept(sim->burial);
	else
		(void)burial_moved(sim->burial, answer->ids, answer->count);
}

/* The keys and what is condemned change together. */
static void loaded(struct sim *sim, const struct statement *answer)
{
	if (answer->epoch != sim->epoch)
		return;
	keys_forget(sim->keys);
	for (size_t i = 0; i < TOPICS * KEYS; i++)
		if (answer->orders[i])
			assert_true(keys_add(sim->keys, answer->orders[i]));
	burial_forget(sim->burial);
	sim->generation = answer->generation;
	sim->loading = false;
	topics_set_back(sim->topics);
	reader_restart(sim->reader);
}

static void listed(struct sim *sim, const struct statement *answer)
{
	uint64_t holders[ROWS];
	for (size_t i = 0; i < answer->count; i++)
		holders[i] = (uint64_t)answer->ids[i];
	reader_listed(sim->reader, holders, answer->count);
}

/* Statements are run and answered in the order in which they were sent. */
static void answer_one(struct sim *sim)
{
	struct statement *answer = sim->statements[0];
	memmove(sim->statements, sim->statements + 1,
		--sim->statement_count * sizeof(sim->statements[0]));
	switch (answer->kind) {
	case POLL:
		polled(sim, answer);
		break;
	case DELETE:
		was_deleted(sim, answer);
		break;
	case BURY:
		buried(sim, answer);
		break;
	case LIST:
		listed(sim, answer);
		break;
	case LOAD:
		loaded(sim, answer);
		break;
	}
	free(answer);
}

static void server_acts(struct sim *sim)
{
	for (size_t i = 0; i < sim->statement_count; i++) {
		if (sim->statements[i]->run)
			continue;
		run(sim, sim->statements[i]);
		break;
	}
	if (sim->statement_count > 0 && sim->statements[0]->run && one_in(sim, 2))
		answer_one(sim);
}

/* Another owner may have been there meanwhile. */
static void retire(struct sim *sim)
{
	drop_producer(sim);
	sim->epoch++;
	sim->burying = false;
	sim->giving_up = 0;
	topics_open_all(sim->topics);
	burial_forget(sim->burial);
	keys_forget(sim->keys);
	reader_restart(sim->reader);
	window_doubt(sim->window);
	load(sim);
}

/* --- time --- */

static void look_row(void *arg, struct window_row *row)
{
	(void)arg;
	topic_look(row->topic, row->fetched);
}

static void look(struct sim *sim)
{
	if (sim->now < sim->look_at)
		return;
	sim->look_at = sim->now + 250 * USEC_MS;
	topics_look_begin(sim->topics);
	window_each(sim->window, look_row, sim);
	topics_look_end(sim->topics, sim->youngest, sim->now);
	if (topics_stalled(sim->topics) * 2 > WINDOW / 2 && sim->giving_up == 0)
		sim->giving_up = sim->now;
}

static void check(const struct sim *sim)
{
	size_t in_flight = 0, shut = 0, count;
	struct topic *const *all = topics_shut(sim->topics, &count);
	for (int i = 0; i < TOPICS; i++) {
		const struct topic *topic = sim->topic[i];
		in_flight += topic->in_flight;
		shut += topic->state != TOPIC_OPEN;
		if (topic->state == TOPIC_OPEN)
			assert_true(topic->from == TOPIC_NOTHING);
		if (topic->state == TOPIC_PROBING)
			assert_int_equal(topic->in_flight, 1);
	}
	assert_int_equal(in_flight, window_in_flight(sim->window));
	assert_int_equal(in_flight, sim->flight_count);
	assert_int_equal(shut, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(all[i]->place, i);
}

static void step(struct sim *sim, bool trouble)
{
	sim->now += (usec_t)any(sim, 4 * USEC_MS);
	if (trouble && one_in(sim, 400))
		for (uint64_t rows = any(sim, 60); rows > 0; rows--)
			draw(sim);
	if (trouble && one_in(sim, 40))
		draw(sim);
	commit(sim);
	broker_changes(sim, !trouble);
	if (sim->lost_at && sim->now >= sim->lost_at)
		drop_producer(sim);
	if (trouble && one_in(sim, 5000))
		retire(sim);
	if (trouble && one_in(sim, 10))
		requeue(sim);
	for (int i = 0; i < TOPICS; i++)
		if (sim->changed[i] && topics_repartition(sim->topics, sim->topic[i], sim->now))
			sim->changed[i] = false;
	server_acts(sim);
	broker_acts(sim);
	look(sim);
	pump(sim);
	check(sim);
}

static bool settled(const struct sim *sim)
{
	size_t shut;
	(void)topics_shut(sim->topics, &shut);
	for (int64_t id = 1; id <= sim->drawn; id++)
		if (sim->rows[id].there || !sim->rows[id].committed)
			return false;
	return shut == 0 && burial_count(sim->burial) == 0 && window_undeleted(sim->window) == 0;
}

static void on_blocked(void *arg, const struct topic *topic)
{
	struct sim *sim = arg;
	(void)topic;
	sim->seen[SEEN_BLOCKED]++;
}

static void on_opened(void *arg, const struct topic *topic, usec_t took)
{
	(void)arg;
	(void)topic;
	assert_true(took >= 0);
}

static struct sim *begin(uint64_t seed)
{
	struct sim *sim = mem_zero(sizeof(*sim));
	const struct topics_events events = { on_blocked, on_opened, sim };
	const struct reader_settings settings = {
		.batch = BATCH,
		.batch_bytes = 1000000,
		.poll_busy = 2 * USEC_MS,
		.poll_idle = 25 * USEC_MS,
		.sweep = seed & 1 ? 5 * USEC_SEC : 10000 * USEC_SEC,
		.gaps_max = GAPS,
		.start_after = READER_ALL,
	};
	sim->chance = seed * 0x9e3779b97f4a7c15ULL;
	sim->now = 1000 * USEC_SEC;
	sim->block_key = seed & 2;
	sim->server_generation = 1;
	sim->reader = reader_new(&settings);
	sim->topics = topics_new(&events);
	sim->window = window_new(WINDOW, 1000000);
	sim->keys = keys_new(TOPICS * KEYS);
	sim->burial = burial_new(sim->window);
	for (uint32_t i = 0; i < TOPICS; i++) {
		const char name[] = { (char)('a' + i) };
		sim->topic[i] = topics_make(sim->topics, (struct row_bytes){ name, 1 }, i * 100);
	}
	load(sim);
	return sim;
}

static void finish(struct sim *sim)
{
	for (size_t i = 0; i < sim->statement_count; i++)
		free(sim->statements[i]);
	burial_free(sim->burial);
	keys_free(sim->keys);
	window_free(sim->window);
	topics_free(sim->topics);
	reader_free(sim->reader);
	free(sim);
}

/* Nothing is left, and of what lies parked a dead row of its key lies there. */
static void check_end(const struct sim *sim)
{
	bool dead[TOPICS * KEYS] = { 0 };
	for (int64_t id = 1; id <= sim->drawn; id++)
		if (sim->rows[id].dead)
			dead[order_of(&sim->rows[id])] = true;
	for (int64_t id = 1; id <= sim->drawn; id++) {
		const struct model_row *row = &sim->rows[id];
		assert_true(!row->parked || dead[order_of(row)]);
		assert_true(row->dead || row->parked || row->written || !row->commits);
	}
}

static void simulate(uint64_t seed, size_t *seen)
{
	struct sim *sim = begin(seed);
	usec_t end = sim->now + TROUBLE_FOR;
	while (sim->now < end)
		step(sim, true);
	end += HEALED_IN;
	while (!settled(sim) && sim->now < end)
		step(sim, false);
	if (!settled(sim))
		fail_msg("run %d does not come to its end", (int)seed);
	check_end(sim);
	for (size_t i = 0; i < 5; i++)
		seen[i] += sim->seen[i];
	finish(sim);
}

static void no_row_is_lost_or_overtaken(void **state)
{
	size_t seen[5] = { 0 };
	(void)state;
	for (uint64_t seed = 1; seed <= RUNS; seed++)
		simulate(seed, seen);
	assert_true(seen[SEEN_WRITTEN] > RUNS * 100);
	assert_true(seen[SEEN_BLOCKED] > RUNS);
	assert_true(seen[SEEN_DEAD] > RUNS);
	assert_true(seen[SEEN_PARKED] > RUNS);
	assert_true(seen[SEEN_LOST] > RUNS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_row_is_lost_or_overtaken),
	};
	return cmocka_run_group_tests_name("simulation", tests, NULL, NULL);
}
