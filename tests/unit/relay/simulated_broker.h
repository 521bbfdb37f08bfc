/* The broker with its troubles, and rows on their way to it as the publisher sends them. */
#ifndef COUNTERFOIL_SIMULATED_BROKER_H
#define COUNTERFOIL_SIMULATED_BROKER_H

#include "simulated_table.h"

#define SLOW_ANSWER (700 * USEC_MS)

static void write_row(struct sim *sim, int64_t id)
{
	struct model_row *row = &sim->rows[id];
	bool matters = sim->ordered && row->key && !row->written;
	for (int64_t before = 1; before < id && matters; before++) {
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
		assert_true(keys_add(sim->keys, claim->order, id));
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
	uint64_t lane = topic_lane(topic, row->lane);
	if (window_eased(sim->window, lane, topic, sim->now))
		topics_room(sim->topics, lane);
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

static usec_t waits_since(const struct sim *sim, const struct model_row *row)
{
	return window_find(sim->window, row - sim->rows)->fetched;
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
	case MODE_SLOW:
		if (sim->now - waits_since(sim, row) >= SLOW_ANSWER)
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
		sim->mode[i] = trouble ? (enum mode)any(sim, MODE_SLOW + 1) : MODE_WELL;
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
				      .bytes = ROW_COST + row->bytes,
				      .order = order_of(row),
				      .topic = topic,
				      .lane = window_lane(topic->hash, partition_of(row)) };
	if (window_find(sim->window, id))
		return FATE_DONE;
	if (sim->block_key && claim.order && keys_behind(sim->keys, claim.order, id)) {
		condemn(sim, id, &claim, true, "parked");
		return FATE_DONE;
	}
	if (!ask_topic(answer->poll.cursor, sim->probe, topic, id, answer->withheld[number], &fate))
		return fate;
	if (row->fault == FAULT_LARGE) {
		condemn(sim, id, &claim, false, "too large");
		return FATE_DONE;
	}
	if (!alone && !window_fits(sim->window, claim.lane, topic, sim->now)) {
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

#endif
