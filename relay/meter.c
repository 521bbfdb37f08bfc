/* The relay's metrics. */
#include "meter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "version.h"

#define OTHER      METER_TOPICS
#define OTHER_NAME "(other)" /* no topic can have this name */

struct meter_topic {
	uint32_t hash;
	char *name;
	size_t length;
	struct series *published;
};

struct meter_topics {
	struct metric *published;
	struct series *other; /* made when it is needed */
	size_t count;
	size_t last; /* rows of one topic come in a row */
	struct meter_topic items[METER_TOPICS];
};

/* --- by topic --- */

static bool is_named(const struct meter_topic *topic, struct row_bytes name, uint32_t hash)
{
	return topic->hash == hash && topic->length == name.length &&
	       memcmp(topic->name, name.data, name.length) == 0;
}

static uint8_t add_topic(struct meter_topics *topics, struct row_bytes name, uint32_t hash)
{
	if (topics->count == METER_TOPICS) {
		if (!topics->other)
			topics->other = metric_series(topics->published, OTHER_NAME, NULL);
		return OTHER;
	}
	struct meter_topic *topic = &topics->items[topics->count];
	topic->hash = hash;
	topic->name = mem_text_n(name.data, name.length);
	topic->length = name.length;
	topic->published = metric_series(topics->published, topic->name, NULL);
	topics->last = topics->count;
	return (uint8_t)topics->count++;
}

uint8_t meter_topic(struct meter *meter, struct row_bytes name, uint32_t hash)
{
	struct meter_topics *topics = meter->topics;
	if (topics->last < topics->count && is_named(&topics->items[topics->last], name, hash))
		return (uint8_t)topics->last;
	for (size_t i = 0; i < topics->count; i++) {
		if (!is_named(&topics->items[i], name, hash))
			continue;
		topics->last = i;
		return (uint8_t)i;
	}
	return add_topic(topics, name, hash);
}

void meter_published(struct meter *meter, uint8_t topic, usec_t took)
{
	struct meter_topics *topics = meter->topics;
	series_add(topic == OTHER ? topics->other : topics->items[topic].published, 1);
	series_observe(meter->publish_seconds, took);
}

/* --- making --- */

static struct series *counter(struct meter *meter, const char *name, const char *help)
{
	struct metric *metric = metrics_counter(meter->metrics, name, help, NULL, NULL);
	return metric_series(metric, NULL, NULL);
}

static struct series *gauge(struct meter *meter, const char *name, const char *help)
{
	struct metric *metric = metrics_gauge(meter->metrics, name, help, NULL, NULL);
	return metric_series(metric, NULL, NULL);
}

static void add_outbox(struct meter *meter)
{
	meter->rows =
		gauge(meter, "outbox_rows", "Rows that wait in the outbox; counted up to 10000.");
	series_set(meter->rows, (double)NAN);
	meter->oldest_age = gauge(meter, "outbox_oldest_age_seconds",
				  "Age of the oldest row of the outbox, in seconds.");
	series_set(meter->oldest_age, (double)NAN);
	meter->gaps = gauge(meter, "outbox_gaps",
			    "Ranges of ids that were passed and may still be committed.");
	meter->short_deletes =
		counter(meter, "outbox_short_deletes_total",
			"Deletions that did not find all of their published rows: somebody else "
			"had deleted them.");
	meter->headers_dropped = counter(meter, "outbox_headers_dropped_total",
					 "Headers of rows that a message cannot carry.");
	meter->violations = counter(meter, "outbox_order_violations_total",
				    "Rows that were published behind a later row of their "
				    "ordering key, as far as it was noticed.");
}

static void add_trouble(struct meter *meter)
{
	meter->dead_rows = gauge(meter, "outbox_dead_rows",
				 "Rows that could not be published and wait for a person; counted "
				 "up to 10000.");
	series_set(meter->dead_rows, (double)NAN);
	meter->parked_rows =
		gauge(meter, "outbox_parked_rows",
		      "Rows that wait behind a dead row of their ordering key; counted "
		      "up to 10000.");
	series_set(meter->parked_rows, (double)NAN);
	meter->blocked_topics =
		gauge(meter, "outbox_blocked_topics", "Topics whose rows wait for them.");
}

static void add_publishing(struct meter *meter)
{
	meter->topics->published =
		metrics_counter(meter->metrics, "outbox_published_total",
				"Rows that Kafka has acknowledged.", "topic", NULL);
	meter->publish_seconds = metric_series(
		metrics_histogram(meter->metrics, "outbox_publish_seconds",
				  "From the fetch of a row to its acknowledgement by Kafka, in "
				  "seconds.",
				  NULL),
		NULL, NULL);
}

static void add_relay(struct meter *meter)
{
	meter->owner = gauge(meter, "relay_owner", "1 while this relay owns the outbox.");
	meter->possible_duplicates =
		counter(meter, "relay_possible_duplicates_total",
			"Rows, at most, that were sent again without knowing whether they had "
			"been published; after an owner that did not stop cleanly, two whole "
			"windows.");
	meter->db_reconnects =
		counter(meter, "db_reconnects_total", "Connections to PostgreSQL made anew.");
	struct metric *build = metrics_gauge(meter->metrics, "build_info",
					     "1; the labels tell the build.", "version", NULL);
	series_set(metric_series(build, COUNTERFOIL_VERSION, NULL), 1);
}

struct meter *meter_new(void)
{
	struct meter *meter = mem_zero(sizeof(*meter));
	meter->metrics = metrics_new();
	meter->topics = mem_zero(sizeof(*meter->topics));
	add_outbox(meter);
	add_trouble(meter);
	add_publishing(meter);
	add_relay(meter);
	return meter;
}

void meter_free(struct meter *meter)
{
	if (!meter)
		return;
	for (size_t i = 0; i < meter->topics->count; i++)
		free(meter->topics->items[i].name);
	free(meter->topics);
	metrics_free(meter->metrics);
	free(meter);
}
