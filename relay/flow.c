/* Reading, publishing and deleting, tied together. */
#include "flow.h"

#include <stdlib.h>

#include "graveyard.h"
#include "inquest.h"
#include "mem.h"
#include "outbox.h"
#include "publisher.h"
#include "reader.h"
#include "report.h"
#include "row.h"
#include "source.h"
#include "window.h"

#define GAPS_MAX      10000
#define DELETE_AFTER  (3 * USEC_MS) /* the first acknowledgement, at the latest */
#define POLL_FAILED   USEC_SEC
#define POLL_STALLED  USEC_SEC /* between polls while nothing arrives */
#define BUSY_PAUSE    (10 * USEC_MS)
#define FULL_PAUSE    (100 * USEC_MS)
#define PROBE_BYTES   ((size_t)64 * 1024)
#define LOOK_EVERY    (250 * USEC_MS) /* at the topics */
#define GIVE_UP_AFTER USEC_SEC        /* for what is in flight of other topics */
#define EXPIRE_EVERY  USEC_MIN
#define EXPIRE_MORE   (200 * USEC_MS)
#define EXPIRE_ROWS   500

enum flow_state {
	FLOW_IDLE,     /* the outbox is not ours */
	FLOW_LOADING,  /* learns which ordering keys have a dead row; what is in flight goes on */
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

	struct source *source;
	struct outbox *outbox;
	struct publisher *publisher;
	struct reader *reader;
	struct window *window;
	struct graveyard *graveyard;
	struct inquest *inquest;
	struct report *report; /* also a standby's */
	struct topic *probe;   /* of the second cursor's job */
	usec_t giving_up; /* since when nothing is read, to drop what stalls; 0: it is not so */
	size_t batch;     /* rows of the last poll that found any */
	usec_t polled_at;
	struct topic **asked; /* memory for those of a poll */
	size_t asked_room;

	struct loop_timer *poll_timer;
	struct loop_timer *delete_timer;
	struct loop_timer *expire_timer;
	struct loop_timer *look_timer;

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

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t left(size_t room, size_t used)
{
	return used < room ? room - used : 0;
}

static bool may_poll(const struct flow *flow)
{
	return flow->state == FLOW_RUNNING && flow->giving_up == 0 &&
	       !outbox_polling(flow->outbox) && outbox_ready(flow->outbox) &&
	       publisher_ready(flow->publisher);
}

static bool may_read(const struct flow *flow)
{
	return may_poll(flow) && inquest_flow(flow->inquest);
}

/* The second cursor's next job. A sweep that is due comes first: the reader begins it by itself. */
static void find_job(struct flow *flow, usec_t now)
{
	struct topics *topics = publisher_topics(flow->publisher);
	int64_t from;
	if (!reader_idle(flow->reader) || reader_sweep_due(flow->reader, now))
		return;
	flow->probe = topics_probe(topics, reader_head(flow->reader), now);
	if (flow->probe)
		reader_begin(flow->reader, READER_PROBE, flow->probe->from);
	else if (topics_join(topics, &from))
		reader_begin(flow->reader, READER_CATCH_UP, from);
}

/* Those who caught up with the others and those who are about to. */
static size_t joined(struct flow *flow, struct topic *const *shut, size_t count)
{
	size_t found = 0;
	if (count > flow->asked_room) {
		flow->asked = mem_grow(flow->asked, count, sizeof(struct topic *));
		flow->asked_room = count;
	}
	for (size_t i = 0; i < count; i++)
		if (shut[i]->joined)
			flow->asked[found++] = shut[i];
	return found;
}

static void send_poll(struct flow *flow, usec_t now, size_t rows, size_t bytes)
{
	struct reader_poll poll;
	size_t count;
	struct topic *const *topics = topics_shut(publisher_topics(flow->publisher), &count);
	bool only = true;
	reader_next(flow->reader, now, rows, bytes, &poll);
	switch (poll.cursor) {
	case READER_HEAD:
	case READER_SWEEP:
		only = false;
		break;
	case READER_CATCH_UP:
		count = joined(flow, topics, count);
		topics = flow->asked;
		break;
	case READER_PROBE:
		topics = &flow->probe;
		count = 1;
		poll.bytes = least(poll.bytes, PROBE_BYTES);
		break;
	}
	flow->polled_at = now;
	outbox_poll(flow->outbox, &poll, reader_gaps(flow->reader), topics, count, only);
}

/* While nothing arrives, nothing is gained by reading on; but now and then, for rows of topics
 * which are not in trouble. */
static bool held_up(const struct flow *flow, usec_t now)
{
	return publisher_stalled(flow->publisher, now) && now - flow->polled_at < POLL_STALLED;
}

/* Reads on if it is time and there is room, also for what was fetched and is not sent yet. */
static void read_on(struct flow *flow, size_t pending_rows, size_t pending_bytes)
{
	usec_t now = usec_boot();
	size_t bytes;
	if (!may_read(flow) || held_up(flow, now))
		return;
	if (reader_list(flow->reader, now))
		outbox_list_holders(flow->outbox);
	find_job(flow, now);
	usec_t wait = reader_wait(flow->reader, now);
	if (wait > 0) {
		loop_timer_set(flow->poll_timer, wait);
		return;
	}
	bool away = publisher_unreachable(flow->publisher);
	size_t rows = left(window_room(flow->window, away ? 0 : now, &bytes), pending_rows);
	bytes = left(bytes, pending_bytes);
	if (enough(flow, rows, bytes))
		send_poll(flow, now, rows, bytes);
}

/* --- whatever has changed: what is there to do now? --- */

/* What stalls fills the window: once nothing else is in flight, or soon, it is dropped. */
static void give_up_stalled(struct flow *flow, usec_t now)
{
	if (flow->giving_up == 0 ||
	    (publisher_in_flight(flow->publisher) > 0 && now - flow->giving_up < GIVE_UP_AFTER))
		return;
	flow->giving_up = 0;
	publisher_give_up(flow->publisher, now);
}

static void delete_acked(struct flow *flow)
{
	size_t least = flow->state == FLOW_DRAINING ? 1 : OUTBOX_DELETE_ROWS;
	outbox_delete(flow->outbox, flow->token, least);
	if (window_acked(flow->window) > 0 && !loop_timer_pending(flow->delete_timer))
		loop_timer_set(flow->delete_timer, DELETE_AFTER);
}

static bool at_rest(const struct flow *flow)
{
	return window_in_flight(flow->window) + window_undeleted(flow->window) == 0 &&
	       !graveyard_busy(flow->graveyard);
}

static void pump(struct flow *flow)
{
	if (!own(flow))
		return;
	give_up_stalled(flow, usec_boot());
	delete_acked(flow);
	graveyard_bury(flow->graveyard, flow->token);
	if (flow->state != FLOW_DRAINING && outbox_ready(flow->outbox))
		inquest_step(flow->inquest, may_poll(flow));
	read_on(flow, 0, 0);
	if (flow->state == FLOW_DRAINING && at_rest(flow)) {
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
	struct reader_page page = { .rows = count, .last = poll->after };
	for (size_t i = 0; i < count; i++) {
		int number = flow->numbers[i];
		page.last = row_id(result, number);
		page.bytes += row_weight(result, number);
		page.above += page.last > poll->after;
		reader_saw(flow->reader, page.last);
	}
	return page;
}

/* How many of the rows are this cursor's business. */
static size_t within(const struct flow *flow, const struct reader_poll *poll,
		     const PGresult *result, size_t count)
{
	int64_t limit = reader_limit(flow->reader, poll);
	while (count > 0 && row_id(result, flow->numbers[count - 1]) > limit)
		count--;
	return count;
}

/* True: all of the page was taken; else *stopped_r was not, and none behind it. */
static bool publish_page(struct flow *flow, const struct reader_poll *poll, const PGresult *result,
			 size_t count, int64_t *stopped_r)
{
	const struct publisher_page page = {
		.result = result,
		.numbers = flow->numbers,
		.count = count,
		.cursor = poll->cursor,
		.probe = flow->probe,
	};
	usec_t pause = BUSY_PAUSE;
	switch (publisher_rows(flow->publisher, &page, stopped_r)) {
	case PUBLISHER_ALL:
		return true;
	case PUBLISHER_FULL:
		pause = FULL_PAUSE;
		break;
	case PUBLISHER_STOPPED:
		break;
	}
	reader_back(flow->reader, poll->cursor, *stopped_r);
	reader_pause(flow->reader, usec_boot() + pause);
	return false;
}

/* The next poll is sent before these rows are: the server works while we do. */
static void take_head(struct flow *flow, const struct reader_poll *poll, const PGresult *result,
		      size_t count)
{
	struct reader_page page = look_at(flow, poll, result, count);
	int64_t stopped;
	(void)reader_answered(flow->reader, poll, &page, usec_boot());
	if (count > 0)
		read_on(flow, count, page.bytes);
	(void)publish_page(flow, poll, result, count, &stopped);
}

static void end_job(struct flow *flow, const struct reader_poll *poll, int64_t last, bool end)
{
	struct topics *topics = publisher_topics(flow->publisher);
	usec_t now = usec_boot();
	switch (poll->cursor) {
	case READER_CATCH_UP:
		topics_caught(topics, last, end, now);
		break;
	case READER_PROBE: /* if nothing was sent it is probed again, further on */
		topics_probe_read(topics, flow->probe, last, !end, now);
		end = true;
		break;
	case READER_SWEEP:
	case READER_HEAD:
		break;
	}
	if (end)
		reader_end(flow->reader);
}

static void take_second(struct flow *flow, const struct reader_poll *poll, const PGresult *result,
			size_t count)
{
	size_t ours = within(flow, poll, result, count);
	struct reader_page page = look_at(flow, poll, result, ours);
	page.rows = count;
	int64_t stopped;
	bool end = reader_answered(flow->reader, poll, &page, usec_boot());
	if (publish_page(flow, poll, result, ours, &stopped))
		end_job(flow, poll, page.last, end);
	else /* the topics are told how far it came, for what is met below must not be missed */
		end_job(flow, poll, stopped - 1, false);
}

static void reload(struct flow *flow)
{
	set_state(flow, FLOW_LOADING);
	inquest_rewind(flow->inquest);
	graveyard_load(flow->graveyard);
}

/* Rows were put back since the keys were read that have a dead row. */
static bool outdated(struct flow *flow, const PGresult *result)
{
	if (row_generation(result) == graveyard_generation(flow->graveyard))
		return false;
	log_info(flow->log, "rows were put back: the outbox is read afresh");
	reload(flow);
	return true;
}

static void take_rows(struct flow *flow, const struct reader_poll *poll, const PGresult *result)
{
	size_t count = order_rows(flow, result);
	if (outdated(flow, result))
		return;
	if (count > 0)
		flow->batch = count;
	if (poll->cursor == READER_HEAD)
		take_head(flow, poll, result, count);
	else
		take_second(flow, poll, result, count);
}

static void on_polled(void *arg, const struct reader_poll *poll, const PGresult *result)
{
	struct flow *flow = arg;
	bool suspects = inquest_polled(flow->inquest);
	if (!own(flow))
		return;
	bool counts = result && flow->state == FLOW_RUNNING;
	if (suspects)
		inquest_rows(flow->inquest, poll,
			     counts && !outdated(flow, result) ? result : NULL);
	else if (!result)
		reader_pause(flow->reader, usec_boot() + POLL_FAILED);
	else if (counts && reader_accepts(flow->reader, poll))
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
	if (flow->state != FLOW_DRAINING && outbox_ready(flow->outbox))
		outbox_expire_once(flow->outbox, EXPIRE_ROWS);
}

static void on_expired(void *arg, size_t count)
{
	struct flow *flow = arg;
	if (count == EXPIRE_ROWS && own(flow))
		loop_timer_set(flow->expire_timer, EXPIRE_MORE);
}

/* --- topics --- */

static void on_look_timer(void *arg)
{
	struct flow *flow = arg;
	usec_t now = usec_boot();
	size_t rows, bytes;
	if (!own(flow))
		return;
	loop_timer_set(flow->look_timer, LOOK_EVERY);
	rows = window_room(flow->window, now, &bytes);
	if (publisher_look(flow->publisher, !enough(flow, rows, bytes), now) &&
	    flow->giving_up == 0)
		flow->giving_up = now;
	pump(flow);
}

/* --- dead rows --- */

static void on_moved(void *arg, bool vanished)
{
	struct flow *flow = arg;
	if (vanished && flow->state == FLOW_RUNNING) {
		log_info(flow->log, "a dead row was deleted meanwhile: its key goes on");
		reload(flow);
	}
	pump(flow);
}

/* Nothing of these keys is in flight, for their rows were parked; all that was put back is met
 * before what is newer. */
static void on_loaded(void *arg)
{
	struct flow *flow = arg;
	if (!own(flow) || flow->state != FLOW_LOADING)
		return;
	set_state(flow, FLOW_RUNNING);
	topics_set_back(publisher_topics(flow->publisher));
	reader_restart(flow->reader);
	pump(flow);
}

/* --- what the publisher and the outbox tell --- */

static void on_lost(void *arg, int64_t lowest)
{
	struct flow *flow = arg;
	reader_rewind(flow->reader, lowest);
	inquest_rewind(flow->inquest);
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
	reader_set_sequential(flow->reader, flow->source->sequential);
	report_begin(flow->report);
	flow->events.ready(flow->events.arg);
}

static void on_down(void *arg, const char *reason, bool was_ready)
{
	struct flow *flow = arg;
	report_end(flow->report);
	flow->events.down(flow->events.arg, reason, was_ready);
}

/* --- from outside --- */

void flow_start(struct flow *flow, int64_t token, bool unclean)
{
	flow->token = token;
	reload(flow);
	inquest_begin(flow->inquest, token, unclean);
	loop_timer_set(flow->expire_timer, 0);
	loop_timer_set(flow->look_timer, LOOK_EVERY);
}

void flow_drain(struct flow *flow)
{
	if (flow->state != FLOW_RUNNING && flow->state != FLOW_LOADING)
		return;
	set_state(flow, FLOW_DRAINING);
	pump(flow);
}

struct flow_left flow_retire(struct flow *flow)
{
	struct flow_left left_over = { .in_flight = publisher_drop(flow->publisher) };
	set_state(flow, FLOW_IDLE);
	flow->giving_up = 0;
	loop_timer_cancel(flow->poll_timer);
	loop_timer_cancel(flow->delete_timer);
	loop_timer_cancel(flow->expire_timer);
	loop_timer_cancel(flow->look_timer);
	/* a poll on its way is void; the next owner may delete what we meant to */
	graveyard_stop(flow->graveyard);
	inquest_stop(flow->inquest);
	publisher_restart(flow->publisher);
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
	graveyard_stop(flow->graveyard);
	publisher_forget(flow->publisher);
	reader_restart(flow->reader);
	if (flow->state == FLOW_RUNNING || flow->state == FLOW_LOADING) {
		reload(flow);
		inquest_begin(flow->inquest, flow->token, false);
	}
	log_write(flow->log, in_flight + acked > 0 ? LOG_WARN : LOG_INFO,
		  "another run of the server, ids may mean other rows: the outbox is read afresh",
		  LOG_FIELDS(LOG_INT("possible_duplicates", in_flight + acked)));
}

void flow_say_totals(const struct flow *flow)
{
	const struct publisher_totals *totals = publisher_totals(flow->publisher);
	log_info(flow->log, "stopped", LOG_INT("published", totals->published),
		 LOG_INT("dead", totals->dead), LOG_INT("parked", totals->parked),
		 LOG_INT("headers_dropped", totals->headers_dropped),
		 LOG_INT("short_deletes", outbox_short_deletes(flow->outbox)));
}

const char *flow_lease(const struct flow *flow)
{
	return flow->source->lease;
}

bool flow_suspects(const struct flow *flow)
{
	return inquest_suspects(flow->inquest);
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
	return report_oldest(flow->report);
}

void flow_measure(const struct flow *flow)
{
	size_t blocked;
	(void)topics_shut(publisher_topics(flow->publisher), &blocked);
	series_set(flow->meter->gaps, (double)reader_gap_count(flow->reader));
	series_set(flow->meter->blocked_topics, (double)blocked);
}

static void on_figures(void *arg, struct report_figures *figures_r)
{
	struct flow *flow = arg;
	const struct publisher_totals *totals = publisher_totals(flow->publisher);
	*figures_r = (struct report_figures){
		.role = flow->events.role(flow->events.arg),
		.owner = flow->state != FLOW_IDLE,
		.in_flight = window_in_flight(flow->window),
		.batch = flow->batch,
		.published = totals->published,
		.violations = totals->violations,
	};
	publisher_lately(flow->publisher, &figures_r->median, &figures_r->p99);
}

/* --- making --- */

static bool make_publisher(struct flow *flow, struct loop *loop, const struct conf *conf,
			   struct err *err)
{
	const struct publisher_events events = {
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
		.start_after = flow->source->start_after,
	};
	flow->reader = reader_new(&settings);
}

static void make_outbox(struct flow *flow, struct loop *loop, const struct pg_settings *pg,
			const struct conf *conf)
{
	const struct outbox_settings settings = {
		.conf = &conf->relay,
		.source = flow->source,
		.size_limit = publisher_size_limit(flow->publisher),
		.environment = conf->general.environment,
	};
	const struct outbox_events events = {
		.ready = on_ready,
		.down = on_down,
		.polled = on_polled,
		.listed = on_listed,
		.deleted = on_deleted,
		.expired = on_expired,
		.arg = flow,
	};
	flow->outbox =
		outbox_new(loop, flow->log, pg, &settings, flow->window, flow->meter, &events);
}

static void make_graveyard(struct flow *flow, struct loop *loop, const char *owner)
{
	const struct graveyard_events events = {
		.loaded = on_loaded,
		.moved = on_moved,
		.arg = flow,
	};
	flow->graveyard =
		graveyard_new(loop, flow->log, flow->outbox, publisher_burial(flow->publisher),
			      publisher_keys(flow->publisher), owner, &events);
}

static void on_doubt(void *arg)
{
	struct flow *flow = arg;
	flow->events.doubt(flow->events.arg);
}

static void make_inquest(struct flow *flow, struct loop *loop)
{
	const struct inquest_settings settings = {
		.conf = flow->conf,
		.log = flow->log,
		.outbox = flow->outbox,
		.publisher = flow->publisher,
		.window = flow->window,
	};
	const struct inquest_events events = {
		.again = on_pump,
		.doubt = on_doubt,
		.arg = flow,
	};
	flow->inquest = inquest_new(loop, &settings, &events);
}

static void make_report(struct flow *flow, struct loop *loop, const struct conf *conf,
			const char *owner)
{
	const struct report_settings settings = {
		.owner = owner,
		.name = conf->general.instance,
		.ready_max_age = conf->http.ready_max_age,
		.figures = on_figures,
		.arg = flow,
	};
	flow->report = report_new(loop, flow->outbox, publisher_topics(flow->publisher),
				  flow->meter, &settings);
}

bool flow_new(struct loop *loop, struct log *log, const struct conf *conf,
	      const struct pg_settings *pg, const char *owner, struct meter *meter,
	      const struct flow_events *events, struct err *err, struct flow **flow_r)
{
	struct flow *flow = mem_zero(sizeof(*flow));
	flow->log = log;
	flow->conf = &conf->relay;
	flow->meter = meter;
	flow->events = *events;
	flow->poll_timer = loop_timer_new(loop, on_pump, flow);
	flow->delete_timer = loop_timer_new(loop, on_delete_timer, flow);
	flow->expire_timer = loop_timer_new(loop, on_expire_timer, flow);
	flow->look_timer = loop_timer_new(loop, on_look_timer, flow);
	flow->window =
		window_new((size_t)conf->relay.window_rows, (size_t)conf->relay.window_bytes);
	flow->source = source_new(&conf->relay);
	make_reader(flow);
	if (!make_publisher(flow, loop, conf, err)) {
		flow_free(flow);
		return false;
	}
	make_outbox(flow, loop, pg, conf);
	make_graveyard(flow, loop, owner);
	make_inquest(flow, loop);
	make_report(flow, loop, conf, owner);
	*flow_r = flow;
	return true;
}

void flow_free(struct flow *flow)
{
	if (!flow)
		return;
	set_state(flow, FLOW_IDLE); /* what still calls back finds nothing to do */
	if (flow->graveyard)
		graveyard_stop(flow->graveyard);
	outbox_free(flow->outbox);
	report_free(flow->report);
	graveyard_free(flow->graveyard);
	inquest_free(flow->inquest);
	publisher_free(flow->publisher);
	reader_free(flow->reader);
	window_free(flow->window);
	source_free(flow->source);
	loop_timer_free(flow->poll_timer);
	loop_timer_free(flow->delete_timer);
	loop_timer_free(flow->expire_timer);
	loop_timer_free(flow->look_timer);
	free(flow->numbers);
	free(flow->asked);
	free(flow);
}
