/* The next poll, and its answer. */
#include "reading.h"

#include <stdlib.h>

#include "mem.h"
#include "source/row.h"

#define POLL_STALLED USEC_SEC /* between polls while nothing arrives */
#define BUSY_PAUSE   (10 * USEC_MS)
#define FULL_PAUSE   (100 * USEC_MS)
#define PROBE_BYTES  ((size_t)64 * 1024)

struct reading {
	const struct conf_relay *conf;
	struct outbox *outbox;
	struct publisher *publisher;
	struct reader *reader;
	struct window *window;
	struct reading_events events;
	struct loop_timer *timer;
	struct topic *probe; /* of the second cursor's job */
	size_t batch;
	usec_t polled_at;
	struct topic **asked; /* memory for those of a poll */
	size_t asked_room;
	int *numbers; /* of a result's rows, by id */
	size_t numbers_room;
};

/* --- what to read --- */

/* So little room is not worth a poll: acknowledgements will make more. */
static bool enough(const struct reading *reading, size_t rows, size_t bytes)
{
	size_t share_bytes;
	size_t share = window_share(reading->window, &share_bytes);
	size_t batch = (size_t)reading->conf->batch;
	size_t batch_bytes = (size_t)reading->conf->batch_bytes;
	return rows > 0 && rows * 4 >= (batch < share ? batch : share) &&
	       bytes * 4 >= (batch_bytes < share_bytes ? batch_bytes : share_bytes);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t left(size_t room, size_t used)
{
	return used < room ? room - used : 0;
}

/* The second cursor's next job. A sweep that is due comes first: the reader begins it by itself. */
static void find_job(struct reading *reading, usec_t now)
{
	struct topics *topics = publisher_topics(reading->publisher);
	int64_t from;
	if (!reader_idle(reading->reader) || reader_sweep_due(reading->reader, now))
		return;
	reading->probe = topics_probe(topics, reader_head(reading->reader), now);
	if (reading->probe)
		reader_begin(reading->reader, READER_PROBE, reading->probe->from);
	else if (topics_join(topics, &from))
		reader_begin(reading->reader, READER_CATCH_UP, from);
}

/* Those who caught up with the others and those who are about to. */
static size_t joined(struct reading *reading, struct topic *const *shut, size_t count)
{
	size_t found = 0;
	if (count > reading->asked_room) {
		reading->asked = mem_grow(reading->asked, count, sizeof(struct topic *));
		reading->asked_room = count;
	}
	for (size_t i = 0; i < count; i++)
		if (shut[i]->joined)
			reading->asked[found++] = shut[i];
	return found;
}

static void send_poll(struct reading *reading, usec_t now, size_t rows, size_t bytes)
{
	struct reader_poll poll;
	size_t count;
	struct topic *const *topics = topics_shut(publisher_topics(reading->publisher), &count);
	bool only = true;
	reader_next(reading->reader, now, rows, bytes, &poll);
	switch (poll.cursor) {
	case READER_HEAD:
	case READER_SWEEP:
		only = false;
		break;
	case READER_CATCH_UP:
		count = joined(reading, topics, count);
		topics = reading->asked;
		break;
	case READER_PROBE:
		topics = &reading->probe;
		count = 1;
		poll.bytes = least(poll.bytes, PROBE_BYTES);
		break;
	}
	reading->polled_at = now;
	outbox_poll(reading->outbox, &poll, reader_gaps(reading->reader), topics, count, only);
}

/* While nothing arrives, nothing is gained by reading on; but now and then, for rows of topics
 * which are not in trouble. */
static bool held_up(const struct reading *reading, usec_t now)
{
	return publisher_stalled(reading->publisher, now) &&
	       now - reading->polled_at < POLL_STALLED;
}

/* Reads on if it is time and there is room, also for what was fetched and is not sent yet. */
static void read_on(struct reading *reading, size_t pending_rows, size_t pending_bytes)
{
	usec_t now = usec_boot();
	size_t bytes;
	if (!reading->events.may(reading->events.arg) || held_up(reading, now))
		return;
	if (reader_list(reading->reader, now))
		outbox_list_holders(reading->outbox);
	find_job(reading, now);
	usec_t wait = reader_wait(reading->reader, now);
	if (wait > 0) {
		loop_timer_set(reading->timer, wait);
		return;
	}
	bool away = publisher_unreachable(reading->publisher);
	size_t rows = left(window_room(reading->window, away ? 0 : now, &bytes), pending_rows);
	bytes = left(bytes, pending_bytes);
	if (enough(reading, rows, bytes))
		send_poll(reading, now, rows, bytes);
}

void reading_on(struct reading *reading)
{
	read_on(reading, 0, 0);
}

bool reading_is_full(const struct reading *reading, usec_t now)
{
	size_t bytes;
	size_t rows = window_room(reading->window, now, &bytes);
	return !enough(reading, rows, bytes);
}

/* --- a poll's answer --- */

struct numbered {
	int64_t id;
	int number;
};

static int by_id(const void *a, const void *b)
{
	const struct numbered *left_row = a, *right_row = b;
	return (left_row->id > right_row->id) - (left_row->id < right_row->id);
}

static void sort_numbers(int *numbers, const PGresult *result, size_t count)
{
	struct numbered *rows = mem_grow(NULL, count, sizeof(*rows));
	for (size_t i = 0; i < count; i++)
		rows[i] = (struct numbered){ row_id(result, (int)i), (int)i };
	qsort(rows, count, sizeof(*rows), by_id);
	for (size_t i = 0; i < count; i++)
		numbers[i] = rows[i].number;
	free(rows);
}

/* The rows come by id, as long as the server runs the parts of the union one after the other. */
static size_t order_rows(struct reading *reading, const PGresult *result)
{
	size_t count = (size_t)row_count(result);
	bool sorted = true;
	int64_t last = INT64_MIN;
	if (count > reading->numbers_room) {
		reading->numbers = mem_grow(reading->numbers, count, sizeof(*reading->numbers));
		reading->numbers_room = count;
	}
	for (size_t i = 0; i < count; i++) {
		int64_t id = row_id(result, (int)i);
		sorted = sorted && id >= last;
		last = id;
		reading->numbers[i] = (int)i;
	}
	if (!sorted)
		sort_numbers(reading->numbers, result, count);
	return count;
}

/* ours: how many of the rows are this cursor's business. */
static struct reader_page sum_up(const struct reading *reading, const struct reader_poll *poll,
				 const PGresult *result, size_t count, size_t ours)
{
	struct reader_page page = { .rows = count, .beyond = count - ours, .last = poll->after };
	for (size_t i = 0; i < ours; i++) {
		int number = reading->numbers[i];
		int64_t id = row_id(result, number);
		page.bytes += row_weight(result, number);
		if (id <= poll->after)
			continue;
		page.above++;
		page.last = id;
	}
	return page;
}

/* Shows the ids to the reader, up to this one. */
static void show(struct reading *reading, const struct reader_poll *poll, const PGresult *result,
		 size_t count, int64_t upto)
{
	for (size_t i = 0; i < count; i++) {
		int64_t id = row_id(result, reading->numbers[i]);
		if (id > upto)
			break;
		reader_saw(reading->reader, poll, id);
	}
}

/* How many of the rows are this cursor's business. */
static size_t within(const struct reading *reading, const struct reader_poll *poll,
		     const PGresult *result, size_t count)
{
	int64_t limit = reader_limit(reading->reader, poll);
	while (count > 0 && row_id(result, reading->numbers[count - 1]) > limit)
		count--;
	return count;
}

/* True: all of the page was taken; else *stopped_r was not, and none behind it. */
static bool publish_page(struct reading *reading, const struct reader_poll *poll,
			 const PGresult *result, size_t count, int64_t *stopped_r)
{
	const struct publisher_page page = {
		.result = result,
		.numbers = reading->numbers,
		.count = count,
		.cursor = poll->cursor,
		.probe = reading->probe,
	};
	usec_t pause = BUSY_PAUSE;
	switch (publisher_rows(reading->publisher, &page, stopped_r)) {
	case PUBLISHER_ALL:
		return true;
	case PUBLISHER_FULL:
		pause = FULL_PAUSE;
		break;
	case PUBLISHER_STOPPED:
		break;
	}
	reader_back(reading->reader, poll->cursor, *stopped_r);
	reader_pause(reading->reader, usec_boot() + pause);
	return false;
}

/* The next poll is sent before these rows are: the server works while we do. */
static void take_head(struct reading *reading, const struct reader_poll *poll,
		      const PGresult *result, size_t count)
{
	struct reader_page page = sum_up(reading, poll, result, count, count);
	int64_t stopped;
	show(reading, poll, result, count, INT64_MAX);
	(void)reader_answered(reading->reader, poll, &page, usec_boot());
	if (count > 0)
		read_on(reading, count, page.bytes);
	(void)publish_page(reading, poll, result, count, &stopped);
}

static void end_job(struct reading *reading, const struct reader_poll *poll, int64_t last, bool end)
{
	struct topics *topics = publisher_topics(reading->publisher);
	usec_t now = usec_boot();
	switch (poll->cursor) {
	case READER_CATCH_UP:
		end = !topics_caught(topics, last, end, now);
		break;
	case READER_PROBE: /* if nothing was sent it is probed again, further on */
		topics_probe_read(topics, reading->probe, last, !end, now);
		end = true;
		break;
	case READER_SWEEP:
	case READER_HEAD:
		break;
	}
	if (end)
		reader_end(reading->reader);
}

static void take_second(struct reading *reading, const struct reader_poll *poll,
			const PGresult *result, size_t count)
{
	size_t ours = within(reading, poll, result, count);
	struct reader_page page = sum_up(reading, poll, result, count, ours);
	int64_t stopped;
	bool end = reader_answered(reading->reader, poll, &page, usec_boot());
	if (publish_page(reading, poll, result, ours, &stopped)) {
		show(reading, poll, result, ours, INT64_MAX);
		end_job(reading, poll, page.last, end);
	} else { /* the topics are told how far it came, for what is met below must not be missed */
		show(reading, poll, result, ours, stopped - 1);
		end_job(reading, poll, stopped - 1, false);
	}
}

void reading_take(struct reading *reading, const struct reader_poll *poll, const PGresult *result)
{
	size_t count = order_rows(reading, result);
	if (count > 0)
		reading->batch = count;
	if (poll->cursor == READER_HEAD)
		take_head(reading, poll, result, count);
	else
		take_second(reading, poll, result, count);
}

size_t reading_batch(const struct reading *reading)
{
	return reading->batch;
}

/* --- making --- */

void reading_stop(struct reading *reading)
{
	loop_timer_cancel(reading->timer);
}

struct reading *reading_new(struct loop *loop, const struct reading_settings *settings,
			    const struct reading_events *events)
{
	struct reading *reading = mem_zero(sizeof(*reading));
	reading->conf = settings->conf;
	reading->outbox = settings->outbox;
	reading->publisher = settings->publisher;
	reading->reader = settings->reader;
	reading->window = settings->window;
	reading->events = *events;
	reading->timer = loop_timer_new(loop, events->due, events->arg);
	return reading;
}

void reading_free(struct reading *reading)
{
	if (!reading)
		return;
	loop_timer_free(reading->timer);
	free(reading->numbers);
	free(reading->asked);
	free(reading);
}
