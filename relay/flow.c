/* Reading, publishing and deleting, tied together. */
#include "flow.h"

#include <stdlib.h>

#include "mem.h"
#include "outbox.h"
#include "publisher.h"
#include "reader.h"
#include "row.h"
#include "window.h"

#define GAPS_MAX     10000
#define DELETE_AFTER (3 * USEC_MS) /* the first acknowledgement, at the latest */
#define POLL_FAILED  USEC_SEC
#define FULL_PAUSE   (5 * USEC_SEC)
#define EXPIRE_EVERY USEC_MIN
#define EXPIRE_MORE  (200 * USEC_MS)
#define EXPIRE_ROWS  500

enum flow_state {
	FLOW_IDLE,     /* the outbox is not ours */
	FLOW_RUNNING,  /* reads, sends, deletes */
	FLOW_DRAINING, /* the same without reading */
};

struct flow {
	enum flow_state state;
	struct log *log;
	const struct conf_relay *conf;
	struct meter *meter;
	struct flow_events events;
	int64_t token;

	struct outbox *outbox;
	struct publisher *publisher;
	struct reader *reader;
	struct window *window;
	bool barrier; /* nothing is read until nothing is in flight */

	struct loop_timer *poll_timer;
	struct loop_timer *delete_timer;
	struct loop_timer *expire_timer;

	struct loop_timer *measure_timer; /* runs while the outbox can be asked, also a standby's */
	usec_t ready_max_age;
	usec_t measured_at; /* the last time that it was asked to be */
	struct health_wait oldest;

	int *numbers; /* of a result's rows, by id */
	size_t numbers_room;
};

static void set_state(struct flow *flow, enum flow_state state)
{
	flow->state = state;
}

static bool own(struct flow *flow)
{
	return flow->state != FLOW_IDLE && flow->events.own(flow->events.arg);
}

/* --- reading --- */

/* So little room is not worth a poll: acknowledgements will make more. */
static bool enough(const struct flow *flow, size_t rows, size_t bytes)
{
	size_t share_bytes;
	size_t share = window_share(flow->window, &share_bytes);
	size_t batch = (size_t)flow->conf->batch;
	size_t batch_bytes = (size_t)flow->conf->batch_bytes;
	return rows > 0 && rows * 4 >= (batch < share ? batch : share) &&
	       bytes * 4 >= (batch_bytes < share_bytes ? batch_bytes : share_bytes);
}

static size_t left(size_t room, size_t used)
{
	return used < room ? room - used : 0;
}

static bool may_read(const struct flow *flow)
{
	return flow->state == FLOW_RUNNING && !flow->barrier && !outbox_polling(flow->outbox) &&
	       outbox_ready(flow->outbox) && publisher_ready(flow->publisher);
}

static void send_poll(struct flow *flow, usec_t now, size_t rows, size_t bytes)
{
	struct reader_poll poll;
	if (reader_next(flow->reader, now, rows, bytes, &poll))
		publisher_sweep_begin(flow->publisher);
	outbox_poll(flow->outbox, &poll, reader_gaps(flow->reader));
}

/* Reads on if it is time and there is room, also for what was fetched and is not sent yet. */
static void read_on(struct flow *flow, size_t pending_rows, size_t pending_bytes)
{
	usec_t now = usec_boot();
	size_t bytes;
	if (!may_read(flow))
		return;
	if (reader_list(flow->reader, now))
		outbox_list_holders(flow->outbox);
	usec_t wait = reader_wait(flow->reader, now);
	if (wait > 0) {
		loop_timer_set(flow->poll_timer, wait);
		return;
	}
	size_t rows = left(window_room(flow->window, &bytes), pending_rows);
	bytes = left(bytes, pending_bytes);
	if (enough(flow, rows, bytes))
		send_poll(flow, now, rows, bytes);
}

/* --- whatever has changed: what is there to do now? --- */

static void check_barrier(struct flow *flow)
{
	if (publisher_must_drain(flow->publisher))
		flow->barrier = true;
	if (!flow->barrier || window_in_flight(flow->window) > 0)
		return;
	publisher_drained(flow->publisher);
	flow->barrier = false;
}

static void delete_acked(struct flow *flow)
{
	size_t least = flow->state == FLOW_DRAINING ? 1 : OUTBOX_DELETE_ROWS;
	outbox_delete(flow->outbox, flow->token, least);
	if (window_acked(flow->window) > 0 && !loop_timer_pending(flow->delete_timer))
		loop_timer_set(flow->delete_timer, DELETE_AFTER);
}

static void pump(struct flow *flow)
{
	if (!own(flow))
		return;
	check_barrier(flow);
	delete_acked(flow);
	read_on(flow, 0, 0);
	if (flow->state == FLOW_DRAINING &&
	    window_in_flight(flow->window) + window_undeleted(flow->window) == 0) {
		set_state(flow, FLOW_IDLE);
		flow->events.drained(flow->events.arg);
	}
}

static void on_pump(void *arg)
{
	pump(arg);
}

static void on_delete_timer(void *arg)
{
	struct flow *flow = arg;
	if (own(flow))
		outbox_delete(flow->outbox, flow->token, 1);
	pump(flow);
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

/* The rows come sorted, but for gaps that were found: they stand behind. */
static size_t order_rows(struct flow *flow, const PGresult *result)
{
	size_t count = (size_t)row_count(result);
	bool sorted = true;
	int64_t last = INT64_MIN;
	if (count > flow->numbers_room) {
		flow->numbers = mem_grow(flow->numbers, count, sizeof(*flow->numbers));
		flow->numbers_room = count;
	}
	for (size_t i = 0; i < count; i++) {
		int64_t id = row_id(result, (int)i);
		sorted = sorted && id >= last;
		last = id;
		flow->numbers[i] = (int)i;
	}
	if (!sorted)
		sort_numbers(flow->numbers, result, count);
	return count;
}

/* Shows the ids to the reader, and sums up. */
static struct reader_page look_at(struct flow *flow, const struct reader_poll *poll,
				  const PGresult *result, size_t count)
{
	struct reader_page page = { .rows = count };
	for (size_t i = 0; i < count; i++) {
		int number = flow->numbers[i];
		page.last = row_id(result, number);
		page.bytes += row_weight(result, number);
		page.above += page.last > poll->after;
		reader_saw(flow->reader, page.last);
	}
	return page;
}

/* The next poll is sent before these rows are: the server works while we do. */
static void take_rows(struct flow *flow, const struct reader_poll *poll, const PGresult *result)
{
	int64_t stopped;
	size_t count = order_rows(flow, result);
	struct reader_page page = look_at(flow, poll, result, count);
	bool swept = reader_answered(flow->reader, poll, &page, usec_boot());
	if (count > 0)
		read_on(flow, count, page.bytes);
	switch (publisher_rows(flow->publisher, result, flow->numbers, count, &stopped)) {
	case PUBLISHER_ALL:
		if (swept)
			publisher_sweep_end(flow->publisher);
		break;
	case PUBLISHER_STOPPED:
		flow->barrier = true;
		reader_rewind(flow->reader, stopped);
		break;
	case PUBLISHER_FULL:
		reader_rewind(flow->reader, stopped);
		reader_pause(flow->reader, usec_boot() + FULL_PAUSE);
		break;
	}
}

static void on_polled(void *arg, const struct reader_poll *poll, const PGresult *result)
{
	struct flow *flow = arg;
	if (!own(flow))
		return;
	if (!result)
		reader_pause(flow->reader, usec_boot() + POLL_FAILED);
	else if (flow->state == FLOW_RUNNING && reader_accepts(flow->reader, poll))
		take_rows(flow, poll, result);
	pump(flow);
}

static void on_listed(void *arg, const uint64_t *holders, size_t count)
{
	struct flow *flow = arg;
	if (holders)
		reader_listed(flow->reader, holders, count);
	else
		reader_unlisted(flow->reader);
}

static void on_deleted(void *arg, bool none)
{
	struct flow *flow = arg;
	if (none && flow->state != FLOW_IDLE)
		flow->events.doubt(flow->events.arg);
	pump(flow);
}

/* --- expired rows of once --- */

static void on_expire_timer(void *arg)
{
	struct flow *flow = arg;
	if (!own(flow))
		return;
	loop_timer_set(flow->expire_timer, EXPIRE_EVERY);
	if (flow->state == FLOW_RUNNING && outbox_ready(flow->outbox))
		outbox_expire_once(flow->outbox, EXPIRE_ROWS);
}

static void on_expired(void *arg, size_t count)
{
	struct flow *flow = arg;
	if (count == EXPIRE_ROWS && flow->state == FLOW_RUNNING)
		loop_timer_set(flow->expire_timer, EXPIRE_MORE);
}

/* --- measuring --- */

static void on_measure_timer(void *arg)
{
	struct flow *flow = arg;
	flow->measured_at = usec_boot();
	outbox_measure(flow->outbox);
}

static void on_measured(void *arg, bool known, usec_t oldest)
{
	struct flow *flow = arg;
	usec_t now = usec_boot();
	if (known)
		flow->oldest = (struct health_wait){ .seen_at = now, .age = oldest };
	if (outbox_ready(flow->outbox))
		loop_timer_set(flow->measure_timer,
			       health_look_again(flow->ready_max_age, now - flow->measured_at));
}

/* --- what the publisher and the outbox tell --- */

static void on_read_again(void *arg, int64_t id)
{
	struct flow *flow = arg;
	reader_rewind(flow->reader, id);
}

static void on_lost(void *arg)
{
	struct flow *flow = arg;
	flow->barrier = false;
	reader_rewind(flow->reader, READER_ALL);
}

static void on_foreign_id(void *arg, int64_t id)
{
	struct flow *flow = arg;
	log_warn(flow->log, "an id in flight belongs to another event now", LOG_INT("id", id));
	flow_forget(flow);
}

static void on_ready(void *arg)
{
	struct flow *flow = arg;
	loop_timer_set(flow->measure_timer, 0);
	flow->events.ready(flow->events.arg);
}

static void on_down(void *arg, const char *reason, bool was_ready)
{
	struct flow *flow = arg;
	loop_timer_cancel(flow->measure_timer);
	flow->events.down(flow->events.arg, reason, was_ready);
}

/* --- from outside --- */

void flow_start(struct flow *flow, int64_t token)
{
	flow->token = token;
	flow->barrier = false;
	set_state(flow, FLOW_RUNNING);
	reader_restart(flow->reader);
	loop_timer_set(flow->expire_timer, 0);
	pump(flow);
}

void flow_drain(struct flow *flow)
{
	if (flow->state != FLOW_RUNNING)
		return;
	set_state(flow, FLOW_DRAINING);
	pump(flow);
}

struct flow_left flow_retire(struct flow *flow)
{
	struct flow_left left_over = { .in_flight = publisher_drop(flow->publisher) };
	set_state(flow, FLOW_IDLE);
	loop_timer_cancel(flow->poll_timer);
	loop_timer_cancel(flow->delete_timer);
	loop_timer_cancel(flow->expire_timer);
	/* a poll on its way is void; the next owner may delete what we meant to */
	reader_restart(flow->reader);
	window_doubt(flow->window);
	left_over.not_deleted = window_undeleted(flow->window);
	return left_over;
}

void flow_forget(struct flow *flow)
{
	size_t in_flight = window_in_flight(flow->window);
	size_t acked = window_acked(flow->window);
	series_add(flow->meter->possible_duplicates, in_flight + acked);
	if (in_flight > 0)
		(void)publisher_drop(flow->publisher);
	publisher_forget(flow->publisher);
	reader_restart(flow->reader);
	log_write(flow->log, in_flight + acked > 0 ? LOG_WARN : LOG_INFO,
		  "another run of the server, ids may mean other rows: the outbox is read afresh",
		  LOG_FIELDS(LOG_INT("possible_duplicates", in_flight + acked)));
}

void flow_say_totals(const struct flow *flow)
{
	const struct publisher_totals *totals = publisher_totals(flow->publisher);
	log_info(flow->log, "stopped", LOG_INT("published", totals->published),
		 LOG_INT("refused", totals->refused),
		 LOG_INT("headers_dropped", totals->headers_dropped),
		 LOG_INT("short_deletes", outbox_short_deletes(flow->outbox)));
}

bool flow_database(const struct flow *flow)
{
	return outbox_connected(flow->outbox);
}

bool flow_schema(const struct flow *flow)
{
	return outbox_ready(flow->outbox);
}

const char *flow_misfit(const struct flow *flow)
{
	return outbox_misfit(flow->outbox);
}

struct health_wait flow_oldest(const struct flow *flow)
{
	return flow->oldest;
}

void flow_measure(const struct flow *flow)
{
	series_set(flow->meter->gaps, (double)reader_gap_count(flow->reader));
}

/* --- making --- */

static bool make_publisher(struct flow *flow, struct loop *loop, const struct conf *conf,
			   struct err *err)
{
	const struct publisher_events events = {
		.read_again = on_read_again,
		.progress = on_pump,
		.lost = on_lost,
		.ready = on_pump,
		.foreign_id = on_foreign_id,
		.arg = flow,
	};
	return publisher_new(loop, flow->log, conf, flow->window, flow->meter, &events, err,
			     &flow->publisher);
}

static void make_reader(struct flow *flow)
{
	const struct reader_settings settings = {
		.batch = (size_t)flow->conf->batch,
		.batch_bytes = (size_t)flow->conf->batch_bytes,
		.poll_busy = flow->conf->poll_busy,
		.poll_idle = flow->conf->poll_idle,
		.sweep = flow->conf->sweep,
		.gaps_max = GAPS_MAX,
	};
	flow->reader = reader_new(&settings);
}

static void make_outbox(struct flow *flow, struct loop *loop, const struct pg_settings *pg,
			const char *lease, const char *environment)
{
	const struct outbox_settings settings = {
		.lease = lease,
		.size_limit = publisher_size_limit(flow->publisher),
		.environment = environment,
	};
	const struct outbox_events events = {
		.ready = on_ready,
		.down = on_down,
		.polled = on_polled,
		.listed = on_listed,
		.deleted = on_deleted,
		.expired = on_expired,
		.measured = on_measured,
		.arg = flow,
	};
	flow->outbox =
		outbox_new(loop, flow->log, pg, &settings, flow->window, flow->meter, &events);
}

bool flow_new(struct loop *loop, struct log *log, const struct conf *conf,
	      const struct pg_settings *pg, const char *lease, struct meter *meter,
	      const struct flow_events *events, struct err *err, struct flow **flow_r)
{
	struct flow *flow = mem_zero(sizeof(*flow));
	flow->log = log;
	flow->conf = &conf->relay;
	flow->meter = meter;
	flow->ready_max_age = conf->http.ready_max_age;
	flow->events = *events;
	flow->poll_timer = loop_timer_new(loop, on_pump, flow);
	flow->delete_timer = loop_timer_new(loop, on_delete_timer, flow);
	flow->expire_timer = loop_timer_new(loop, on_expire_timer, flow);
	flow->measure_timer = loop_timer_new(loop, on_measure_timer, flow);
	flow->window =
		window_new((size_t)conf->relay.window_rows, (size_t)conf->relay.window_bytes);
	make_reader(flow);
	if (!make_publisher(flow, loop, conf, err)) {
		flow_free(flow);
		return false;
	}
	make_outbox(flow, loop, pg, lease, conf->general.environment);
	*flow_r = flow;
	return true;
}

void flow_free(struct flow *flow)
{
	if (!flow)
		return;
	set_state(flow, FLOW_IDLE); /* what still calls back finds nothing to do */
	outbox_free(flow->outbox);
	publisher_free(flow->publisher);
	reader_free(flow->reader);
	window_free(flow->window);
	loop_timer_free(flow->poll_timer);
	loop_timer_free(flow->delete_timer);
	loop_timer_free(flow->expire_timer);
	loop_timer_free(flow->measure_timer);
	free(flow->numbers);
	free(flow);
}
