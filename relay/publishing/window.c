/* The rows in flight: a fixed pool, an index by id (open addressing, at most half full), and the
 * lanes. */
#include "window.h"

#include <stdlib.h>
#include <string.h>

#include "lanes.h"
#include "mem.h"

#define SLOW_FOR (2 * USEC_SEC) /* a topic is taken for that, after the last such row */

/* Rows that lie in slow lanes, by the last look at all lanes, and those that went in since. */
struct slow {
	size_t rows;
	uint64_t bytes;
};

/* The latest fetch of a row that was delivered, and the same of all other topics. */
struct youngest {
	usec_t fetched;
	const struct topic *topic;
};

struct window {
	size_t rows_max;
	size_t bytes_max;
	size_t lane_rows_max;
	size_t lane_bytes_max;
	size_t in_flight;
	size_t bytes;
	size_t acked;
	size_t undeleted;
	size_t condemned;

	size_t pool_size;
	size_t used;
	struct window_row *pool;
	struct window_row *free;
	struct window_row *acked_first;
	struct window_row **acked_end;

	size_t mask;
	struct window_row **index;
	struct lanes *lanes;
	struct slow slow;
	struct youngest youngest[2];
};

/* --- the index --- */

static size_t home_of(const struct window *window, int64_t id)
{
	return (size_t)((uint64_t)id * 0x9e3779b97f4a7c15ULL >> 32) & window->mask;
}

static size_t slot_of(const struct window *window, int64_t id)
{
	size_t slot = home_of(window, id);
	while (window->index[slot] && window->index[slot]->id != id)
		slot = (slot + 1) & window->mask;
	return slot;
}

/* Moves back what was pushed past the hole, so that no search ends there too early. */
static void unindex(struct window *window, int64_t id)
{
	size_t hole = slot_of(window, id);
	for (size_t slot = hole;;) {
		slot = (slot + 1) & window->mask;
		struct window_row *row = window->index[slot];
		if (!row)
			break;
		size_t home = home_of(window, row->id);
		if (((slot - home) & window->mask) < ((slot - hole) & window->mask))
			continue;
		window->index[hole] = row;
		hole = slot;
	}
	window->index[hole] = NULL;
}

/* --- the life of a row --- */

static void set_state(struct window_row *row, enum window_state state)
{
	row->state = (uint8_t)state;
}

static bool is_slow(const struct topic *topic, usec_t now)
{
	return topic && topic->slow_until > now;
}

static void count_in(struct window *window, const struct window_row *row, usec_t now)
{
	window->in_flight++;
	window->bytes += row->bytes;
	lanes_in(window->lanes, row->lane, row->topic, row->bytes, now);
	if (!is_slow(row->topic, now))
		return;
	window->slow.rows++;
	window->slow.bytes += row->bytes;
}

/* It may not have been counted as one of them. */
static void count_slow_out(struct window *window, const struct window_row *row, usec_t now)
{
	if (!is_slow(row->topic, now) || window->slow.rows == 0 || window->slow.bytes < row->bytes)
		return;
	window->slow.rows--;
	window->slow.bytes -= row->bytes;
}

static void count_out(struct window *window, const struct window_row *row)
{
	window->in_flight--;
	window->bytes -= row->bytes;
	lanes_out(window->lanes, row->lane, row->bytes);
}

static void release(struct window *window, struct window_row *row)
{
	unindex(window, row->id);
	set_state(row, WINDOW_FREE);
	row->next = window->free;
	window->free = row;
}

static struct window_row *take_free(struct window *window)
{
	struct window_row *row = window->free;
	if (row)
		window->free = row->next;
	else
		row = &window->pool[window->used++];
	return row;
}

static void append_acked(struct window *window, struct window_row *row)
{
	set_state(row, WINDOW_ACKED);
	row->next = NULL;
	*window->acked_end = row;
	window->acked_end = &row->next;
	window->acked++;
}

static void clear_acked(struct window *window)
{
	window->acked_first = NULL;
	window->acked_end = &window->acked_first;
	window->acked = 0;
}

uint64_t window_lane(uint32_t topic_hash, int32_t partition)
{
	return (uint64_t)topic_hash << 32 | (uint32_t)(partition + 1);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t left(size_t max, size_t used)
{
	return used < max ? max - used : 0;
}

static bool stands_still(const struct lane *lane, usec_t now)
{
	return now - lane->moved > WINDOW_STILL;
}

/* Of all that are reckoned with the most rows and bytes; those in slow ones. */
static void look_at_lanes(struct window *window, usec_t now, size_t *rows_r, size_t *bytes_r)
{
	size_t count, rows = 0, bytes = 0;
	const struct lane *lanes = lanes_all(window->lanes, &count);
	window->slow = (struct slow){ 0 };
	for (size_t i = 0; i < count; i++) {
		const struct lane *lane = &lanes[i];
		if (now > 0 && is_slow(lane->topic, now)) {
			window->slow.rows += lane->rows;
			window->slow.bytes += lane->bytes;
			continue;
		}
		if ((lane->rows <= rows && lane->bytes <= bytes) || stands_still(lane, now))
			continue;
		rows = lane->rows > rows ? lane->rows : rows;
		bytes = lane->bytes > bytes ? lane->bytes : bytes;
	}
	*rows_r = rows;
	*bytes_r = bytes;
}

size_t window_room(struct window *window, usec_t now, size_t *bytes_r)
{
	size_t rows, bytes;
	look_at_lanes(window, now, &rows, &bytes);
	*bytes_r =
		least(left(window->bytes_max, window->bytes), left(window->lane_bytes_max, bytes));
	size_t room =
		least(left(window->rows_max, window->in_flight), left(window->lane_rows_max, rows));
	return least(room,
		     window->pool_size - window->in_flight - window->undeleted - window->condemned);
}

/* All that is slow leaves more than half of the window to others, whatever it is led by. */
static bool slow_fits(const struct window *window)
{
	return window->slow.rows * 8 < window->rows_max * 3 &&
	       window->slow.bytes * 8 < window->bytes_max * 3;
}

static bool slow_eased(const struct window *window)
{
	return window->slow.rows * 4 <= window->rows_max &&
	       window->slow.bytes * 4 <= window->bytes_max;
}

bool window_fits(const struct window *window, uint64_t lane, const struct topic *topic, usec_t now)
{
	const struct lane *its = lanes_find(window->lanes, lane);
	bool slow = is_slow(topic, now);
	if (slow && !slow_fits(window))
		return false;
	return !its || (!slow && !stands_still(its, now)) ||
	       (its->rows < window->lane_rows_max && its->bytes < window->lane_bytes_max);
}

bool window_eased(const struct window *window, uint64_t lane, const struct topic *topic, usec_t now)
{
	const struct lane *its = lanes_find(window->lanes, lane);
	if (is_slow(topic, now) && !slow_eased(window))
		return false;
	return !its ||
	       (its->rows <= window->lane_rows_max / 2 && its->bytes <= window->lane_bytes_max / 2);
}

size_t window_share(const struct window *window, size_t *bytes_r)
{
	*bytes_r = window->lane_bytes_max;
	return window->lane_rows_max;
}

struct window_row *window_find(const struct window *window, int64_t id)
{
	return window->index[slot_of(window, id)];
}

static struct window_row *enter(struct window *window, const struct window_claim *claim,
				enum window_state state)
{
	struct window_row *row = take_free(window);
	*row = (struct window_row){ .hash = claim->hash,
				    .lane = claim->lane,
				    .bytes = claim->bytes,
				    .id = claim->id,
				    .order = claim->order,
				    .topic = claim->topic };
	memcpy(row->event_id, claim->event_id, WINDOW_UUID);
	set_state(row, state);
	window->index[slot_of(window, row->id)] = row;
	return row;
}

struct window_row *window_add(struct window *window, const struct window_claim *claim, usec_t now)
{
	struct window_row *row = enter(window, claim, WINDOW_IN_FLIGHT);
	count_in(window, row, now);
	return row;
}

static void note_youngest(struct youngest *youngest, const struct window_row *row)
{
	struct youngest its = { .fetched = row->fetched, .topic = row->topic };
	if (its.topic == youngest[0].topic) {
		if (its.fetched > youngest[0].fetched)
			youngest[0] = its;
	} else if (its.fetched > youngest[0].fetched) {
		youngest[1] = youngest[0];
		youngest[0] = its;
	} else if (its.fetched > youngest[1].fetched) {
		youngest[1] = its;
	}
}

/* Slow is a topic whose rows are overtaken by far younger ones of others. That all take long, for
 * the machine or the network is slow, or the window is full, is no reason to pass anyone over. */
static void time_way(struct window *window, const struct window_row *row, usec_t now)
{
	const struct youngest *youngest = window->youngest;
	note_youngest(window->youngest, row);
	usec_t others = youngest[youngest[0].topic == row->topic].fetched;
	if (row->topic && others - row->fetched > WINDOW_SLOW)
		row->topic->slow_until = now + SLOW_FOR;
}

void window_ack(struct window *window, struct window_row *row, usec_t now)
{
	count_out(window, row);
	count_slow_out(window, row, now);
	lanes_moved(window->lanes, row->lane, now);
	time_way(window, row, now);
	window->undeleted++;
	append_acked(window, row);
}

void window_drop(struct window *window, struct window_row *row)
{
	count_out(window, row);
	release(window, row);
}

struct window_row *window_condemn(struct window *window, const struct window_claim *claim)
{
	window->condemned++;
	return enter(window, claim, WINDOW_CONDEMNED);
}

void window_bury(struct window *window, struct window_row *row)
{
	window->condemned--;
	release(window, row);
}

void window_each(struct window *window, window_each_fn *each, void *arg)
{
	size_t rest = window->in_flight;
	for (size_t i = 0; i < window->used && rest > 0; i++) {
		if (window->pool[i].state != WINDOW_IN_FLIGHT)
			continue;
		rest--;
		each(arg, &window->pool[i]);
	}
}

size_t window_take(struct window *window, struct window_row **rows, size_t max)
{
	size_t count = 0;
	while (count < max && window->acked_first) {
		struct window_row *row = window->acked_first;
		window->acked_first = row->next;
		window->acked--;
		set_state(row, WINDOW_DELETING);
		rows[count++] = row;
	}
	if (!window->acked_first)
		clear_acked(window);
	return count;
}

void window_deleted(struct window *window, struct window_row *row)
{
	window->undeleted--;
	release(window, row);
}

void window_keep(struct window *window, struct window_row *row, bool again)
{
	row->again = row->again || again;
	append_acked(window, row);
}

void window_doubt(struct window *window)
{
	for (struct window_row *row = window->acked_first; row; row = row->next)
		row->again = true;
}

size_t window_forget_acked(struct window *window)
{
	size_t forgotten = window->acked;
	struct window_row *row = window->acked_first;
	clear_acked(window);
	while (row) {
		struct window_row *next = row->next;
		window_deleted(window, row);
		row = next;
	}
	return forgotten;
}

size_t window_within(const struct window *window, int64_t first, int64_t last)
{
	size_t count = 0;
	for (size_t i = 0; i < window->used; i++) {
		const struct window_row *row = &window->pool[i];
		count += row->state != WINDOW_FREE && row->id >= first && row->id <= last;
	}
	return count;
}

size_t window_in_flight(const struct window *window)
{
	return window->in_flight;
}

size_t window_acked(const struct window *window)
{
	return window->acked;
}

size_t window_undeleted(const struct window *window)
{
	return window->undeleted;
}

struct window *window_new(size_t rows, size_t bytes)
{
	struct window *window = mem_zero(sizeof(*window));
	window->rows_max = rows;
	window->bytes_max = bytes;
	window->lane_rows_max = (rows + WINDOW_SHARE - 1) / WINDOW_SHARE;
	window->lane_bytes_max = (bytes + WINDOW_SHARE - 1) / WINDOW_SHARE;
	window->pool_size = rows * 2;
	window->pool = mem_zero(window->pool_size * sizeof(*window->pool));
	window->lanes = lanes_new(window->pool_size);
	window->mask = 1;
	while (window->mask < window->pool_size * 2)
		window->mask = window->mask << 1 | 1;
	window->index = mem_zero((window->mask + 1) * sizeof(struct window_row *));
	clear_acked(window);
	return window;
}

void window_free(struct window *window)
{
	if (!window)
		return;
	lanes_free(window->lanes);
	free(window->pool);
	free(window->index);
	free(window);
}
