/* The relay without its libraries: reader, topics, window, keys and burial as the flow and the
 * publisher drive them, between a table whose writers commit late or not at all and a broker that
 * knows no topic for a while, rejects rows alone or in company, holds partitions up, and loses the
 * producer. Whatever happens: a row of a key is never written before an earlier one that waits,
 * none is removed that was not written, and in the end all were written or lie dead or parked, with
 * every topic open. In a third of the runs no sweep comes to the rescue. In others pages and window
 * are bound by bytes; there are so few gaps that they are merged; or ids are drawn long before they
 * are seen: of the last two no order is asked. */
#include "simulated_broker.h"

#ifndef RUNS
#define RUNS 200
#endif

#define TROUBLE_FOR (40 * USEC_SEC)
#define HEALED_IN   (200 * USEC_SEC)
#define NO_SWEEP    (10000 * USEC_SEC)

static void load(struct sim *sim)
{
	sim->loading = true;
	(void)send(sim, LOAD);
}

static void send_poll(struct sim *sim, size_t rows, size_t bytes)
{
	struct statement *statement = send(sim, POLL);
	reader_next(sim->reader, sim->now, rows, bytes, &statement->poll);
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

static size_t left(size_t room, size_t used)
{
	return used < room ? room - used : 0;
}

/* So little room is not worth a poll. */
static bool enough(const struct sim *sim, size_t rows, size_t bytes)
{
	size_t share_bytes, share = window_share(sim->window, &share_bytes);
	size_t most_bytes = sim->batch_bytes < share_bytes ? sim->batch_bytes : share_bytes;
	return rows * 4 >= (BATCH < share ? BATCH : share) && bytes * 4 >= most_bytes;
}

static void read_on(struct sim *sim, size_t pending, size_t pending_bytes)
{
	size_t bytes;
	if (sim->loading || sim->polling || sim->giving_up || sim->lost_at ||
	    sim->now < sim->ready_at)
		return;
	if (reader_list(sim->reader, sim->now))
		(void)send(sim, LIST);
	find_job(sim);
	size_t rows = left(window_room(sim->window, sim->now, &bytes), pending);
	bytes = left(bytes, pending_bytes);
	if (reader_wait(sim->reader, sim->now) == 0 && enough(sim, rows, bytes))
		send_poll(sim, rows, bytes);
}

static void give_up_stalled(struct sim *sim)
{
	size_t others = window_in_flight(sim->window) - topics_stalled(sim->topics);
	if (sim->giving_up == 0 || (others > 0 && sim->now - sim->giving_up < USEC_SEC))
		return;
	sim->giving_up = 0;
	topics_give_up_standing(sim->topics, sim->now);
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
	read_on(sim, 0, 0);
}

static struct reader_page sum_up(const struct sim *sim, const struct statement *answer, size_t ours)
{
	struct reader_page page = { .rows = answer->count,
				    .beyond = answer->count - ours,
				    .last = answer->poll.after };
	for (size_t i = 0; i < ours; i++) {
		page.bytes += weight_of(sim, answer, i);
		if (answer->ids[i] <= answer->poll.after)
			continue;
		page.above++;
		page.last = answer->ids[i];
	}
	return page;
}

static void show(struct sim *sim, const struct statement *answer, size_t count, int64_t upto)
{
	for (size_t i = 0; i < count && answer->ids[i] <= upto; i++)
		reader_saw(sim->reader, &answer->poll, answer->ids[i]);
}

static void take_head(struct sim *sim, const struct statement *answer)
{
	struct reader_page page = sum_up(sim, answer, answer->count);
	int64_t stopped;
	show(sim, answer, answer->count, INT64_MAX);
	(void)reader_answered(sim->reader, &answer->poll, &page, sim->now);
	if (answer->count > 0)
		read_on(sim, answer->count, page.bytes);
	(void)publish_page(sim, answer, answer->count, &stopped);
}

static void end_job(struct sim *sim, enum reader_cursor cursor, int64_t last, bool end)
{
	switch (cursor) {
	case READER_CATCH_UP:
		end = !topics_caught(sim->topics, last, end, sim->now);
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
	struct reader_page page = sum_up(sim, answer, ours);
	bool end = reader_answered(sim->reader, &answer->poll, &page, sim->now);
	int64_t stopped;
	if (publish_page(sim, answer, ours, &stopped)) {
		show(sim, answer, ours, INT64_MAX);
		end_job(sim, answer->poll.cursor, page.last, end);
	} else {
		show(sim, answer, ours, stopped - 1);
		end_job(sim, answer->poll.cursor, stopped - 1, false);
	}
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
	bool vanished = false;
	if (answer->epoch != sim->epoch)
		return;
	sim->burying = false;
	if (answer->failed)
		burial_kept(sim->burial);
	else
		(void)burial_moved(sim->burial, answer->ids, answer->count, &vanished);
}

/* The keys and what is condemned change together. */
static void loaded(struct sim *sim, const struct statement *answer)
{
	if (answer->epoch != sim->epoch)
		return;
	keys_forget(sim->keys);
	for (size_t i = 0; i < TOPICS * KEYS; i++)
		if (answer->dead[i])
			assert_true(keys_add(sim->keys, i, answer->dead[i]));
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
	if (topics_standing(sim->topics) * 2 > WINDOW / 2 && sim->giving_up == 0)
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
	static const usec_t sweeps[] = { 100 * USEC_MS, 5 * USEC_SEC, NO_SWEEP };
	bool sequential = seed % 5 != 4, few_gaps = seed % 4 == 3;
	const struct topics_events events = { on_blocked, on_opened, sim };
	const struct reader_settings settings = {
		.batch = BATCH,
		.batch_bytes = seed % 7 < 4 ? BYTES_MANY : BYTES_FEW,
		.poll_busy = 2 * USEC_MS,
		.poll_idle = 25 * USEC_MS,
		.sweep = sweeps[seed % 3],
		.gaps_max = few_gaps ? GAPS_FEW : GAPS,
		.start_after = READER_ALL,
	};
	sim->chance = seed * 0x9e3779b97f4a7c15ULL;
	sim->now = 1000 * USEC_SEC;
	sim->block_key = seed & 2;
	sim->ordered = !few_gaps && (sequential || settings.sweep == NO_SWEEP);
	sim->batch_bytes = settings.batch_bytes;
	sim->server_generation = 1;
	sim->reader = reader_new(&settings);
	reader_set_sequential(sim->reader, sequential);
	sim->topics = topics_new(&events);
	sim->window = window_new(WINDOW, seed % 7 < 6 ? BYTES_MANY : BYTES_FEW * 7);
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
