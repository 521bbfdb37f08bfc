/* Reading, publishing and deleting, tied together. */
#include "flow.h"

#include <stdlib.h>

#include "dead/graveyard.h"
#include "dead/inquest.h"
#include "mem.h"
#include "publishing/publisher.h"
#include "publishing/window.h"
#include "reading/reader.h"
#include "reading/reading.h"
#include "report.h"
#include "source/outbox.h"
#include "source/row.h"
#include "source/source.h"

#define GAPS_MAX      10000
#define DELETE_AFTER  (3 * USEC_MS) /* the first acknowledgement, at the latest */
#define POLL_FAILED   USEC_SEC
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
	struct reading *reading;
	struct window *window;
	struct graveyard *graveyard;
	struct inquest *inquest;
	struct report *report; /* also a standby's */
	usec_t giving_up; /* since when nothing is read, to drop what stalls; 0: it is not so */

	struct loop_timer *delete_timer;
	struct loop_timer *expire_timer;
	struct loop_timer *look_timer;
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

static bool may_poll(const struct flow *flow)
{
	return flow->state == FLOW_RUNNING && flow->giving_up == 0 &&
	       !outbox_polling(flow->outbox) && outbox_ready(flow->outbox) &&
	       publisher_ready(flow->publisher);
}

static bool may_read(void *arg)
{
	const struct flow *flow = arg;
	return may_poll(flow) && inquest_flow(flow->inquest);
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
	reading_on(flow->reading);
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
	if (!outdated(flow, result))
		reading_take(flow->reading, poll, result);
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
	if (!own(flow))
		return;
	loop_timer_set(flow->look_timer, LOOK_EVERY);
	if (publisher_look(flow->publisher, reading_is_full(flow->reading, now), now) &&
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
	reading_stop(flow->reading);
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
		.batch = reading_batch(flow->reading),
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

static void make_reading(struct flow *flow, struct loop *loop)
{
	const struct reading_settings settings = {
		.conf = flow->conf,
		.outbox = flow->outbox,
		.publisher = flow->publisher,
		.reader = flow->reader,
		.window = flow->window,
	};
	const struct reading_events events = { .may = may_read, .due = on_pump, .arg = flow };
	flow->reading = reading_new(loop, &settings, &events);
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
	make_reading(flow, loop);
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
	reading_free(flow->reading);
	reader_free(flow->reader);
	window_free(flow->window);
	source_free(flow->source);
	loop_timer_free(flow->delete_timer);
	loop_timer_free(flow->expire_timer);
	loop_timer_free(flow->look_timer);
	free(flow);
}
