/* What becomes of a row that was read. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "crash.h"
#include "mem.h"
#include "publisher_private.h"
#include "source/row.h"

#define ORDER_BYTES 4000 /* the poll leaves at least so many */
#define BYTES_MAX   UINT32_MAX
#define PARKED_WHY  "waits behind a dead row of its ordering key"

enum fate {
	FATE_DONE, /* with this row; on to the next */
	FATE_LAST, /* with this row and all behind it */
	FATE_STOP, /* not this row, not yet */
	FATE_FULL, /* the same; no other row can be condemned */
};

/* --- what a row is about --- */

/* Order holds within an ordering key of a topic. A row that is too large comes without the end of
 * its ordering key and must still hold back those behind it: of all rows no more is looked at than
 * such a row has. */
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

static bool is_named(const struct topic *topic, struct row_bytes name)
{
	return topic && topic->length == name.length &&
	       memcmp(topic->name, name.data, name.length) == 0;
}

static bool is_wanted(const struct publisher *publisher, struct row_bytes name)
{
	const struct conf_texts *wanted = &publisher->conf->topics;
	for (size_t i = 0; i < wanted->count; i++)
		if (strlen(wanted->items[i]) == name.length &&
		    memcmp(wanted->items[i], name.data, name.length) == 0)
			return true;
	return wanted->count == 0;
}

/* NULL: no row can go there, as err says. */
static struct topic *new_topic(struct publisher *publisher, struct row_bytes name, uint32_t hash,
			       struct err *err)
{
	if (!encode_topic(name, err))
		return NULL;
	if (!is_wanted(publisher, name)) {
		err_set(err, "the topic is not among relay.topics");
		return NULL;
	}
	struct topic *topic = topics_make(publisher->topics, name, hash);
	if (topic)
		topic->meter = meter_topic(publisher->meter, name, hash);
	else
		err_set(err, "more than %d topics", TOPICS_MAX);
	return topic;
}

static struct topic *topic_of(struct publisher *publisher, struct row_bytes name, struct err *err)
{
	if (is_named(publisher->last, name))
		return publisher->last;
	uint32_t hash = (uint32_t)XXH3_64bits(name.data, name.length);
	struct topic *topic = topics_find(publisher->topics, name, hash);
	if (!topic)
		topic = new_topic(publisher, name, hash, err);
	if (topic)
		publisher->last = topic;
	return topic;
}

/* --- sending --- */

static enum fate condemn_row(struct publisher *publisher, const struct row *row,
			     const struct window_claim *claim, const char *reason,
			     const char *remedy)
{
	const struct sentence sentence = {
		.claim = *claim,
		.size = row->size,
		.topic = row->topic.data ? row->topic.data : "",
		.no_event_id = !row->event_id,
		.reason = reason,
		.remedy = remedy,
	};
	return publisher_sentence(publisher, &sentence, !remedy) ? FATE_DONE : FATE_FULL;
}

static enum fate known_row(struct publisher *publisher, const struct window_row *known,
			   const struct row *row)
{
	if (!row->event_id || memcmp(known->event_id, row->event_id, WINDOW_UUID) == 0)
		return FATE_DONE;
	publisher->events.foreign_id(publisher->events.arg, row->id);
	return FATE_STOP;
}

static void note_dropped(struct publisher *publisher, const struct row *row, size_t dropped)
{
	uint64_t held;
	publisher->totals.headers_dropped += dropped;
	series_add(publisher->meter->headers_dropped, dropped);
	if (log_limit_pass(&publisher->header_said, usec_boot(), PUBLISHER_SAY_EVERY, &held))
		log_warn(publisher->log,
			 "headers dropped: null, reserved (ce_...), or a name of 0 or over 249 "
			 "bytes",
			 LOG_INT("id", row->id), LOG_INT("headers", dropped),
			 LOG_INT("held_back", held));
}

static uint32_t cost_of(const struct row *row)
{
	return row->size < BYTES_MAX - PUBLISHER_ROW_COST ? (uint32_t)row->size + PUBLISHER_ROW_COST
							  : BYTES_MAX;
}

/* Where rows of a topic are handed over, with this producer. */
static struct producer_topic *sender_of(struct publisher *publisher, struct topic *topic,
					struct err *err)
{
	if (!topic->sender)
		topic->sender = producer_topic(publisher->producer, topic, err);
	return topic->sender;
}

static enum fate topic_failed(struct publisher *publisher, const struct row *row,
			      struct topic *topic, const char *reason, usec_t now)
{
	topics_failed(publisher->topics, topic, row->id, false, reason, now);
	return FATE_DONE;
}

static enum fate sent(struct publisher *publisher, const struct row *row, struct window_row *entry,
		      size_t dropped, usec_t now)
{
	crash_point("row.produced");
	topic_sent(entry->topic);
	if (window_in_flight(publisher->window) == 1)
		publisher->reported = now;
	if (dropped)
		note_dropped(publisher, row, dropped);
	if (!entry->alone)
		return FATE_DONE;
	topics_probe_sent(publisher->topics, entry->topic);
	return FATE_LAST;
}

static enum fate hand_over(struct publisher *publisher, const struct row *row,
			   const struct window_claim *claim, const struct encode_message *message,
			   bool alone, usec_t now)
{
	struct topic *topic = claim->topic;
	struct err err;
	struct window_row *entry = window_add(publisher->window, claim, now);
	entry->alone = alone;
	entry->placed = row->partition >= 0;
	entry->fetched = now;
	crash_point("row.produce");
	enum producer_sent result = producer_send(publisher->producer, topic->sender,
						  row->partition, message, entry, &err);
	if (result == PRODUCER_SENT)
		return sent(publisher, row, entry, message->dropped, now);
	window_drop(publisher->window, entry);
	switch (result) {
	case PRODUCER_NO_TOPIC:
		return topic_failed(publisher, row, topic, err.text, now);
	case PRODUCER_NO_PARTITION:
		if (row->partition < 0)
			return topic_failed(publisher, row, topic, err.text, now);
		if (!topics_rejected(publisher->topics, topic, row->id, false, alone,
				     PUBLISHER_NO_PARTITION, now))
			return FATE_DONE;
		return condemn_row(publisher, row, claim, PUBLISHER_NO_PARTITION,
				   "correct the row's partition, or discard it");
	case PRODUCER_REFUSED:
		return condemn_row(publisher, row, claim, err.text,
				   "see the reason; correct it, then requeue the row");
	case PRODUCER_SENT:
	case PRODUCER_BUSY:
		break;
	}
	return FATE_STOP;
}

static enum fate send_row(struct publisher *publisher, const struct row *row,
			  struct window_claim *claim, bool alone, usec_t now)
{
	struct encode_message message;
	struct err err;
	struct topic *topic = claim->topic;
	if (!sender_of(publisher, topic, &err))
		return topic_failed(publisher, row, topic, err.text, now);
	crash_point_of("row.encode", row->payload.data, row->payload.length);
	encode_row(publisher->encoder, row, &message);
	if (message.fault)
		return condemn_row(publisher, row, claim, message.fault,
				   "correct the row, then requeue it");
	int32_t partition = producer_partition(topic->sender, row->partition, message.hash);
	claim->hash = message.hash;
	claim->bytes = cost_of(row);
	claim->lane = window_lane(topic->hash, partition);
	if (!alone && !window_fits(publisher->window, claim->lane, topic, now)) {
		topics_full(publisher->topics, topic, row->id, claim->lane, now);
		return FATE_DONE;
	}
	return hand_over(publisher, row, claim, &message, alone, now);
}

/* May this row be sent, as far as its topic goes? If not, *fate_r says what becomes of it. */
static bool ask_topic(const struct publisher_page *page, struct topic *topic, const struct row *row,
		      enum fate *fate_r)
{
	bool wanted = true, withheld = false;
	switch (page->cursor) {
	case READER_HEAD:
	case READER_SWEEP:
		withheld = topic->state != TOPIC_OPEN;
		break;
	case READER_CATCH_UP:
		wanted = topic->state != TOPIC_OPEN; /* else the head's business */
		withheld = wanted && !topic->joined;
		break;
	case READER_PROBE:
		wanted = topic == page->probe && topic->probed;
		break;
	}
	if (withheld)
		topic_withheld(topic, row->id);
	/* one that came without what it carries: its topic was opened since the poll was sent */
	*fate_r = wanted && !withheld ? FATE_STOP : FATE_DONE;
	return wanted && !withheld && !row->withheld;
}

static enum fate condemn_too_large(struct publisher *publisher, const struct row *row,
				   const struct window_claim *claim)
{
	char reason[160];
	(void)snprintf(reason, sizeof(reason),
		       "%" PRId64 " bytes, more than message.max.bytes = %" PRId64, row->size,
		       producer_size_limit(publisher->producer));
	return condemn_row(publisher, row, claim, reason,
			   "raise message.max.bytes in kafka.properties and on the brokers, then "
			   "requeue it; or discard it");
}

/* Without a topic err says why. */
static struct window_claim claim_of(struct publisher *publisher, const struct row *row,
				    struct err *err)
{
	static const uint8_t no_event_id[WINDOW_UUID];
	return (struct window_claim){
		.id = row->id,
		.event_id = row->event_id ? row->event_id : no_event_id,
		.order = order_of(row),
		.topic = topic_of(publisher, row->topic, err),
	};
}

static enum fate publish(struct publisher *publisher, const struct publisher_page *page,
			 const struct row *row, usec_t now)
{
	const struct window_row *known = window_find(publisher->window, row->id);
	enum fate fate;
	struct err err;
	if (known)
		return known_row(publisher, known, row);
	struct window_claim claim = claim_of(publisher, row, &err);
	if (!claim.topic)
		return condemn_row(publisher, row, &claim, err.text,
				   "correct the row's topic or relay.topics, then requeue it");
	if (publisher_blocks_key(publisher, claim.order) &&
	    keys_behind(publisher->keys, claim.order, row->id))
		return condemn_row(publisher, row, &claim, PARKED_WHY, NULL);
	if (!ask_topic(page, claim.topic, row, &fate))
		return fate;
	if (!row->event_id)
		return condemn_row(publisher, row, &claim, "it has no event id",
				   "give the row one, then requeue it");
	if (!row->fetched)
		return condemn_too_large(publisher, row, &claim);
	return send_row(publisher, row, &claim, page->cursor == READER_PROBE, now);
}

enum publisher_result publisher_rows(struct publisher *publisher, const struct publisher_page *page,
				     int64_t *stopped_r)
{
	usec_t now = usec_boot();
	for (size_t i = 0; i < page->count; i++) {
		struct row row;
		row_read(page->result, page->numbers[i], &row);
		switch (publish(publisher, page, &row, now)) {
		case FATE_DONE:
			continue;
		case FATE_LAST:
			return PUBLISHER_ALL;
		case FATE_STOP:
			*stopped_r = row.id;
			return PUBLISHER_STOPPED;
		case FATE_FULL:
			*stopped_r = row.id;
			return PUBLISHER_FULL;
		}
	}
	return PUBLISHER_ALL;
}

bool publisher_condemn(struct publisher *publisher, const PGresult *result, int number,
		       const char *reason, const char *remedy)
{
	struct row row;
	struct err err;
	row_read(result, number, &row);
	if (window_find(publisher->window, row.id))
		return true;
	const struct window_claim claim = claim_of(publisher, &row, &err);
	return condemn_row(publisher, &row, &claim, reason, remedy) == FATE_DONE;
}
