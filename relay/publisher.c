/* What becomes of a row that was read, and of one that was reported. */
#include "publisher.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "crash.h"
#include "encode.h"
#include "mem.h"
#include "producer.h"
#include "refused.h"
#include "row.h"

#define ORDER_BYTES 4000 /* sql.h leaves at least so many */
#define REFUSED_MAX 100000
#define SAY_EVERY   (10 * USEC_SEC)
#define BYTES_MAX   UINT32_MAX
#define ROW_COST    200 /* bytes that a row in flight takes beside its own */

struct publisher {
	struct log *log;
	struct publisher_events events;
	struct window *window;
	struct meter *meter;
	struct refused *refused;
	struct encoder *encoder;
	struct producer *producer;
	struct publisher_totals totals;
	struct log_limit refusal_said;
	struct log_limit full_said;
	struct log_limit header_said;
	struct log_limit settled_said;
	struct log_limit broken_said;
};

enum fate {
	FATE_DONE, /* with this row; on to the next */
	FATE_LAST, /* this row is under way, and must be alone */
	FATE_STOP, /* not this row, not yet */
	FATE_FULL,
};

/* What the log says of a refused row. */
struct refusal {
	int64_t id;
	const unsigned char *event_id;
	uint64_t order;
	int64_t bytes;
	enum refused_cause cause;
	const char *reason;
	const char *remedy;
};

/* --- refusing --- */

static void say_refused(struct publisher *publisher, const struct refusal *refusal)
{
	char event_id[ENCODE_UUID_TEXT];
	uint64_t held;
	if (!log_limit_pass(&publisher->refusal_said, usec_boot(), SAY_EVERY, &held))
		return;
	log_error(publisher->log,
		  refusal->cause == REFUSED_ITSELF
			  ? "row refused: it stays in the outbox, and so do those of its key "
			    "behind it"
			  : "row refused in company: it is tried again alone",
		  LOG_INT("id", refusal->id),
		  LOG_TEXT("event_id", encode_uuid(refusal->event_id, event_id)),
		  LOG_INT("bytes", refusal->bytes), LOG_TEXT("reason", refusal->reason),
		  LOG_TEXT("remedy", refusal->remedy), LOG_INT("held_back", held));
}

static bool refuse(struct publisher *publisher, const struct refusal *refusal)
{
	uint64_t held;
	say_refused(publisher, refusal);
	publisher->totals.refused++;
	if (refused_add(publisher->refused, refusal->id, refusal->order, refusal->cause,
			usec_boot()))
		return true;
	if (log_limit_pass(&publisher->full_said, usec_boot(), SAY_EVERY, &held))
		log_error(publisher->log,
			  "too many rows are refused: nothing is read until they are fewer",
			  LOG_INT("refused", refused_count(publisher->refused)));
	return false;
}

static enum fate refuse_row(struct publisher *publisher, const struct row *row, uint64_t order,
			    const char *reason, const char *remedy)
{
	const struct refusal refusal = {
		.id = row->id,
		.event_id = row->event_id,
		.order = order,
		.bytes = row->size,
		.cause = REFUSED_ITSELF,
		.reason = reason,
		.remedy = remedy,
	};
	return refuse(publisher, &refusal) ? FATE_DONE : FATE_FULL;
}

static void refuse_reported(struct publisher *publisher, const struct window_row *row,
			    enum refused_cause cause, const char *reason, const char *remedy)
{
	const struct refusal refusal = {
		.id = row->id,
		.event_id = row->event_id,
		.order = row->order,
		.bytes = row->bytes,
		.cause = cause,
		.reason = reason,
		.remedy = remedy,
	};
	/* with no room for it the row is not remembered, but it is the first to be read again */
	bool remembered = refuse(publisher, &refusal);
	if (!remembered || cause == REFUSED_IN_COMPANY)
		publisher->events.read_again(publisher->events.arg, row->id);
}

/* --- sending --- */

/* Order holds within an ordering key of a topic. A row that is too large comes without the end of
 * its ordering key, see sql.h, and must still hold back those behind it: of all rows no more is
 * looked at than such a row has. */
static uint64_t order_of(const struct row *row)
{
	size_t length = row->ordering_key.length;
	if (!row->ordering_key.data)
		return 0;
	if (length > ORDER_BYTES)
		length = ORDER_BYTES;
	uint64_t topic = XXH3_64bits(row->topic.data, row->topic.length);
	uint64_t order = XXH3_64bits_withSeed(row->ordering_key.data, length, topic);
	return order ? order : 1;
}

static enum fate known_row(struct publisher *publisher, const struct window_row *known,
			   const struct row *row)
{
	if (memcmp(known->event_id, row->event_id, WINDOW_UUID) != 0) {
		publisher->events.foreign_id(publisher->events.arg, row->id);
		return FATE_STOP;
	}
	refused_seen(publisher->refused, row->id);
	return FATE_DONE;
}

static void note_dropped(struct publisher *publisher, const struct row *row, size_t dropped)
{
	uint64_t held;
	publisher->totals.headers_dropped += dropped;
	series_add(publisher->meter->headers_dropped, dropped);
	if (log_limit_pass(&publisher->header_said, usec_boot(), SAY_EVERY, &held))
		log_warn(publisher->log,
			 "headers dropped: null, reserved (ce_...), or a name of 0 or over 249 "
			 "bytes",
			 LOG_INT("id", row->id), LOG_INT("headers", dropped),
			 LOG_INT("held_back", held));
}

static uint32_t cost_of(const struct row *row)
{
	return row->size < BYTES_MAX - ROW_COST ? (uint32_t)row->size + ROW_COST : BYTES_MAX;
}

static struct window_row *claim(struct publisher *publisher, const struct row *row, uint64_t order,
				const struct producer_topic *topic, uint32_t hash)
{
	int32_t partition = producer_partition(topic, row->partition, hash);
	const struct window_claim claim = {
		.id = row->id,
		.event_id = row->event_id,
		.hash = hash,
		.lane = window_lane(producer_topic_hash(topic), partition),
		.bytes = cost_of(row),
		.order = order,
	};
	return window_add(publisher->window, &claim);
}

static enum fate send_row(struct publisher *publisher, const struct row *row, uint64_t order,
			  bool alone, usec_t now)
{
	struct encode_message message;
	struct err err;
	struct producer_topic *topic = producer_topic(publisher->producer, row->topic, &err);
	if (!topic)
		return refuse_row(publisher, row, order, err.text,
				  "correct the row's topic, or delete the row");
	encode_row(publisher->encoder, row, &message);
	struct window_row *entry = claim(publisher, row, order, topic, message.hash);
	entry->alone = alone;
	entry->fetched = now;
	entry->topic = meter_topic(publisher->meter, row->topic, producer_topic_hash(topic));
	crash_point("row.produce");
	switch (producer_send(publisher->producer, topic, row->partition, &message, entry, &err)) {
	case PRODUCER_SENT:
		crash_point("row.produced");
		if (message.dropped)
			note_dropped(publisher, row, message.dropped);
		return alone ? FATE_LAST : FATE_DONE;
	case PRODUCER_BUSY:
		window_drop(publisher->window, entry);
		return FATE_STOP;
	case PRODUCER_REFUSED:
		break;
	}
	window_drop(publisher->window, entry);
	return refuse_row(publisher, row, order, err.text,
			  "see the reason; correct the row, the topic or the configuration");
}

static enum fate publish(struct publisher *publisher, const struct row *row, usec_t now)
{
	const struct window_row *known = window_find(publisher->window, row->id);
	if (known)
		return known_row(publisher, known, row);
	uint64_t order = order_of(row);
	enum refused_verdict verdict = refused_check(publisher->refused, row->id, order, now);
	if (verdict == REFUSED_WAIT)
		return FATE_DONE;
	if (verdict == REFUSED_ALONE && window_in_flight(publisher->window) > 0)
		return FATE_STOP;
	if (!row->fetched)
		return refuse_row(
			publisher, row, order, "larger than message.max.bytes",
			"raise message.max.bytes in kafka.properties and on the brokers, or "
			"delete the row");
	return send_row(publisher, row, order, verdict == REFUSED_ALONE, now);
}

enum publisher_result publisher_rows(struct publisher *publisher, const PGresult *result,
				     const int *numbers, size_t count, int64_t *stopped_r)
{
	usec_t now = usec_boot();
	for (size_t i = 0; i < count; i++) {
		struct row row;
		row_read(result, numbers[i], &row);
		enum fate fate = publish(publisher, &row, now);
		if (fate == FATE_DONE)
			continue;
		*stopped_r = fate == FATE_LAST ? row.id + 1 : row.id;
		return fate == FATE_FULL ? PUBLISHER_FULL : PUBLISHER_STOPPED;
	}
	return PUBLISHER_ALL;
}

/* --- reports --- */

static void delivered(struct publisher *publisher, struct window_row *row)
{
	uint64_t held;
	publisher->totals.published++;
	meter_published(publisher->meter, row->topic, usec_boot() - row->fetched);
	window_ack(publisher->window, row);
	if (!refused_settle(publisher->refused, row->id))
		return;
	if (log_limit_pass(&publisher->settled_said, usec_boot(), SAY_EVERY, &held))
		log_info(publisher->log, "refused row delivered after all", LOG_INT("id", row->id),
			 LOG_INT("held_back", held));
	if (row->order)
		publisher->events.read_again(publisher->events.arg, row->id);
}

static void on_report(void *arg, struct window_row *row, enum producer_report report,
		      const char *reason)
{
	struct publisher *publisher = arg;
	switch (report) {
	case PRODUCER_DELIVERED:
		crash_point("row.delivered");
		delivered(publisher, row);
		return;
	case PRODUCER_UNFIT:
		refuse_reported(publisher, row, REFUSED_ITSELF, reason,
				"create the topic, grant access to it, or correct the row");
		break;
	case PRODUCER_REJECTED:
		refuse_reported(publisher, row, row->alone ? REFUSED_ITSELF : REFUSED_IN_COMPANY,
				reason, "see the broker's reason and the topic's settings");
		break;
	}
	window_drop(publisher->window, row);
}

static void on_progress(void *arg)
{
	struct publisher *publisher = arg;
	publisher->events.progress(publisher->events.arg);
}

static void on_broken(void *arg, const char *reason)
{
	struct publisher *publisher = arg;
	uint64_t held;
	size_t in_flight = publisher_drop(publisher);
	series_add(publisher->meter->possible_duplicates, in_flight);
	if (log_limit_pass(&publisher->broken_said, usec_boot(), SAY_EVERY, &held))
		log_warn(publisher->log, "the producer failed: a new one takes its place",
			 LOG_TEXT("reason", reason), LOG_INT("in_flight", in_flight),
			 LOG_INT("held_back", held));
	publisher->events.lost(publisher->events.arg);
}

static void on_ready(void *arg)
{
	struct publisher *publisher = arg;
	publisher->events.ready(publisher->events.arg);
}

/* --- the rest --- */

bool publisher_ready(const struct publisher *publisher)
{
	return producer_ready(publisher->producer);
}

int64_t publisher_size_limit(const struct publisher *publisher)
{
	return producer_size_limit(publisher->producer);
}

size_t publisher_drop(struct publisher *publisher)
{
	producer_drop(publisher->producer);
	return window_forget(publisher->window);
}

void publisher_forget(struct publisher *publisher)
{
	refused_forget(publisher->refused);
	(void)window_forget_acked(publisher->window);
}

bool publisher_must_drain(const struct publisher *publisher)
{
	return producer_repartitioning(publisher->producer);
}

void publisher_drained(struct publisher *publisher)
{
	if (producer_repartitioning(publisher->producer))
		producer_repartition(publisher->producer);
}

void publisher_sweep_begin(struct publisher *publisher)
{
	refused_sweep_begin(publisher->refused);
}

void publisher_sweep_end(struct publisher *publisher)
{
	int64_t lowest;
	if (!refused_sweep_end(publisher->refused, &lowest))
		return;
	log_info(publisher->log, "refused rows are gone from the outbox: their keys go on",
		 LOG_INT("lowest_id", lowest));
	publisher->events.read_again(publisher->events.arg, lowest);
}

const struct publisher_totals *publisher_totals(const struct publisher *publisher)
{
	return &publisher->totals;
}

bool publisher_new(struct loop *loop, struct log *log, const struct conf *conf,
		   struct window *window, struct meter *meter,
		   const struct publisher_events *events, struct err *err,
		   struct publisher **publisher_r)
{
	struct publisher *publisher = mem_zero(sizeof(*publisher));
	const struct producer_events producer_events = {
		.report = on_report,
		.progress = on_progress,
		.broken = on_broken,
		.ready = on_ready,
		.arg = publisher,
	};
	if (!producer_new(loop, log, conf, &producer_events, err, &publisher->producer)) {
		free(publisher);
		return false;
	}
	publisher->log = log;
	publisher->events = *events;
	publisher->window = window;
	publisher->meter = meter;
	publisher->refused = refused_new(REFUSED_MAX);
	publisher->encoder = encoder_new(&conf->relay);
	*publisher_r = publisher;
	return true;
}

void publisher_free(struct publisher *publisher)
{
	if (!publisher)
		return;
	producer_free(publisher->producer);
	encoder_free(publisher->encoder);
	refused_free(publisher->refused);
	free(publisher);
}
