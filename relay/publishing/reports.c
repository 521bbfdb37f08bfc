/* What becomes of a row that was reported, and of all of them when their producer is gone. */
#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "publisher_private.h"

/* A row whose partition was named is not among those of its key. */
static void check_order(struct publisher *publisher, const struct window_row *row)
{
	int64_t later;
	uint64_t held;
	if (row->placed || !order_delivered(publisher->order, row->order, row->id, &later))
		return;
	publisher->totals.violations++;
	series_add(publisher->meter->violations, 1);
	if (log_limit_pass(&publisher->order_said, usec_boot(), PUBLISHER_SAY_EVERY, &held))
		log_warn(publisher->log,
			 "a row was published behind a later one of its ordering key: its writers "
			 "do not take turns",
			 LOG_INT("id", row->id), LOG_INT("behind", later),
			 LOG_TEXT("topic", row->topic->name), LOG_INT("held_back", held));
}

static void delivered(struct publisher *publisher, struct window_row *row)
{
	usec_t now = usec_boot();
	struct topic *topic = row->topic;
	size_t shut;
	publisher->totals.published++;
	publisher->reported = now;
	if (row->fetched > publisher->youngest_delivered)
		publisher->youngest_delivered = row->fetched;
	lately_add(&publisher->lately, now - row->fetched);
	meter_published(publisher->meter, topic->meter, now - row->fetched);
	check_order(publisher, row);
	topics_delivered(publisher->topics, topic, row->id, now);
	window_ack(publisher->window, row, now);
	(void)topics_shut(publisher->topics, &shut);
	uint64_t lane = topic_lane(topic, row->lane);
	if (shut > 0 && window_eased(publisher->window, lane, topic, now))
		topics_room(publisher->topics, lane);
}

/* The row's place is given back before anything takes it again; what it says is read before. */
static void not_delivered(struct publisher *publisher, struct window_row *row,
			  enum producer_report report, const char *reason, usec_t now)
{
	struct window_row was = *row;
	window_drop(publisher->window, row);
	switch (report) {
	case PRODUCER_TOPIC:
		topics_failed(publisher->topics, was.topic, was.id, true, reason, now);
		break;
	case PRODUCER_PARTITION:
		/* a topic that is made anew has none for a moment */
		if (!was.placed)
			topics_failed(publisher->topics, was.topic, was.id, true, reason, now);
		else if (topics_rejected(publisher->topics, was.topic, was.id, true, was.alone,
					 PUBLISHER_NO_PARTITION, now))
			publisher_condemn_reported(publisher, &was, PUBLISHER_NO_PARTITION,
						   "correct the row's partition, or discard it");
		break;
	case PRODUCER_REJECTED:
		if (topics_rejected(publisher->topics, was.topic, was.id, true, was.alone, reason,
				    now))
			publisher_condemn_reported(
				publisher, &was, reason,
				"see the broker's reason and the topic's settings, then "
				"requeue it; or discard it");
		break;
	case PRODUCER_DELIVERED:
		break;
	}
}

void publisher_on_report(void *arg, struct window_row *row, enum producer_report report,
			 const char *reason)
{
	struct publisher *publisher = arg;
	if (report == PRODUCER_DELIVERED) {
		crash_point("row.delivered");
		delivered(publisher, row);
		return;
	}
	not_delivered(publisher, row, report, reason, usec_boot());
}

static void on_changed(void *arg, struct topic *topic)
{
	struct publisher *publisher = arg;
	if (topics_repartition(publisher->topics, topic, usec_boot()))
		producer_repartition(publisher->producer, topic->sender);
}

void publisher_on_progress(void *arg)
{
	struct publisher *publisher = arg;
	if (producer_repartitioning(publisher->producer))
		producer_each_changed(publisher->producer, on_changed, publisher);
	publisher->events.progress(publisher->events.arg);
}

void publisher_on_broken(void *arg, const char *reason)
{
	struct publisher *publisher = arg;
	uint64_t held;
	size_t in_flight = publisher_drop(publisher);
	series_add(publisher->meter->possible_duplicates, in_flight);
	if (log_limit_pass(&publisher->broken_said, usec_boot(), PUBLISHER_SAY_EVERY, &held))
		log_warn(publisher->log, "the producer failed: a new one takes its place",
			 LOG_TEXT("reason", reason), LOG_INT("in_flight", in_flight),
			 LOG_INT("held_back", held));
	publisher->events.lost(publisher->events.arg, publisher->lowest_dropped);
}

void publisher_on_ready(void *arg)
{
	struct publisher *publisher = arg;
	publisher->events.ready(publisher->events.arg);
}
