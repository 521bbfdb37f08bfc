/* The parts of the publisher, their making and dropping, and the trouble that topics are in. */
#include "publisher.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "publisher_private.h"

#define STALLED USEC_SEC

/* --- trouble --- */

static void on_blocked(void *arg, const struct topic *topic)
{
	struct publisher *publisher = arg;
	log_warn(publisher->log, "topic blocked: its rows wait, all others go on",
		 LOG_TEXT("topic", topic->name), LOG_TEXT("reason", topic->reason));
}

static void on_opened(void *arg, const struct topic *topic, usec_t took)
{
	struct publisher *publisher = arg;
	log_info(publisher->log, "topic open again", LOG_TEXT("topic", topic->name),
		 LOG_INT("took_ms", took / USEC_MS));
}

bool publisher_stalled(const struct publisher *publisher, usec_t now)
{
	return publisher_in_flight(publisher) > 0 && now - publisher->reported > STALLED;
}

size_t publisher_in_flight(const struct publisher *publisher)
{
	return window_in_flight(publisher->window) - topics_stalled(publisher->topics);
}

/* Bytes of rows that stand. */
static void look_at(void *arg, struct window_row *row)
{
	size_t *bytes = arg;
	topic_look(row->topic, row->fetched);
	*bytes += topic_stands(row->topic) ? row->bytes : 0;
}

/* Younger rows cannot show that brokers go on while those that stall have all the room. */
static bool nothing_else_fits(const struct publisher *publisher, bool full, usec_t now)
{
	return full && !producer_unreachable(publisher->producer) &&
	       now - publisher->reported >= TOPIC_AGE_MAX;
}

bool publisher_look(struct publisher *publisher, bool full, usec_t now)
{
	bool alone = nothing_else_fits(publisher, full, now);
	size_t bytes = 0;
	topics_look_begin(publisher->topics);
	window_each(publisher->window, look_at, &bytes);
	topics_look_end(publisher->topics, alone ? now : publisher->youngest_delivered, now);
	return topics_standing(publisher->topics) * 2 > (size_t)publisher->conf->window_rows ||
	       bytes * 2 > (size_t)publisher->conf->window_bytes;
}

void publisher_give_up(struct publisher *publisher, usec_t now)
{
	topics_give_up_standing(publisher->topics, now);
	log_warn(publisher->log,
		 "rows of blocked topics fill the window: they are dropped and will "
		 "be sent again",
		 LOG_INT("in_flight", window_in_flight(publisher->window)));
	series_add(publisher->meter->possible_duplicates, publisher_drop(publisher));
	publisher->events.lost(publisher->events.arg, publisher->lowest_dropped);
}

/* --- the rest --- */

bool publisher_ready(const struct publisher *publisher)
{
	return producer_ready(publisher->producer);
}

bool publisher_connected(const struct publisher *publisher)
{
	return producer_connected(publisher->producer);
}

bool publisher_unreachable(const struct publisher *publisher)
{
	return producer_unreachable(publisher->producer);
}

int64_t publisher_size_limit(const struct publisher *publisher)
{
	return producer_size_limit(publisher->producer);
}

struct topics *publisher_topics(const struct publisher *publisher)
{
	return publisher->topics;
}

struct burial *publisher_burial(const struct publisher *publisher)
{
	return publisher->burial;
}

struct keys *publisher_keys(const struct publisher *publisher)
{
	return publisher->keys;
}

static void forget_row(void *arg, struct window_row *row)
{
	struct publisher *publisher = arg;
	if (row->id < publisher->lowest_dropped)
		publisher->lowest_dropped = row->id;
	topics_forgot(publisher->topics, row->topic, row->id, usec_boot());
	window_drop(publisher->window, row);
}

size_t publisher_drop(struct publisher *publisher)
{
	size_t in_flight = window_in_flight(publisher->window);
	publisher->lowest_dropped = INT64_MAX;
	producer_drop(publisher->producer);
	window_each(publisher->window, forget_row, publisher);
	for (struct topic *t = topics_first(publisher->topics); t; t = t->next_made)
		t->sender = NULL;
	return in_flight;
}

void publisher_restart(struct publisher *publisher)
{
	topics_open_all(publisher->topics);
	burial_forget(publisher->burial);
	keys_forget(publisher->keys);
	order_forget(publisher->order);
}

void publisher_forget(struct publisher *publisher)
{
	publisher_restart(publisher);
	(void)window_forget_acked(publisher->window);
}

const struct publisher_totals *publisher_totals(const struct publisher *publisher)
{
	return &publisher->totals;
}

void publisher_lately(struct publisher *publisher, usec_t *median_r, usec_t *p99_r)
{
	*median_r = lately_quantile(&publisher->lately, 50);
	*p99_r = lately_quantile(&publisher->lately, 99);
	lately_clear(&publisher->lately);
}

static void make_parts(struct publisher *publisher, const struct conf *conf)
{
	const struct topics_events events = {
		.blocked = on_blocked,
		.opened = on_opened,
		.arg = publisher,
	};
	publisher->topics = topics_new(&events);
	publisher->keys = keys_new(KEYS_MAX);
	publisher->burial = burial_new(publisher->window);
	publisher->order = order_new();
	publisher->encoder = encoder_new(&conf->relay);
}

bool publisher_new(struct loop *loop, struct log *log, const struct conf *conf,
		   struct window *window, struct meter *meter,
		   const struct publisher_events *events, struct err *err,
		   struct publisher **publisher_r)
{
	struct publisher *publisher = mem_zero(sizeof(*publisher));
	const struct producer_events producer_events = {
		.report = publisher_on_report,
		.progress = publisher_on_progress,
		.broken = publisher_on_broken,
		.ready = publisher_on_ready,
		.arg = publisher,
	};
	if (!producer_new(loop, log, conf, &producer_events, err, &publisher->producer)) {
		free(publisher);
		return false;
	}
	publisher->log = log;
	publisher->conf = &conf->relay;
	publisher->events = *events;
	publisher->window = window;
	publisher->meter = meter;
	make_parts(publisher, conf);
	*publisher_r = publisher;
	return true;
}

void publisher_free(struct publisher *publisher)
{
	if (!publisher)
		return;
	producer_free(publisher->producer);
	encoder_free(publisher->encoder);
	burial_free(publisher->burial);
	keys_free(publisher->keys);
	order_free(publisher->order);
	topics_free(publisher->topics);
	free(publisher);
}
