/* What becomes of a row that was read, and of one that was reported. */
#include "publisher.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "crash.h"
#include "encode.h"
#include "lately.h"
#include "mem.h"
#include "order.h"
#include "producer.h"
#include "row.h"

#define ORDER_BYTES  4000 /* the poll leaves at least so many */
#define SAY_EVERY    (10 * USEC_SEC)
#define BYTES_MAX    UINT32_MAX
#define ROW_COST     200 /* bytes that a row in flight takes beside its own */
#define STALLED      USEC_SEC
#define NO_PARTITION "its topic has no such partition"
#define PARKED_WHY   "waits behind a dead row of its ordering key"

struct publisher {
	struct log *log;
	const struct conf_relay *conf;
	struct publisher_events events;
	struct window *window;
	struct meter *meter;
	struct topics *topics;
	struct topic *last; /* rows of one topic come in a row */
	struct keys *keys;
	struct burial *burial;
	struct order *order;
	struct encoder *encoder;
	struct producer *producer;
	usec_t reported;           /* the last delivery, or when there was something to deliver */
	usec_t youngest_delivered; /* of all delivered rows the latest fetch */
	int64_t lowest_dropped;    /* id of what was forgotten last */
	struct publisher_totals totals;
	struct lately lately;
	struct log_limit dead_said;
	struct log_limit parked_said;
	struct log_limit full_said;
	struct log_limit header_said;
	struct log_limit broken_said;
	struct log_limit order_said;
};

enum fate {
	FATE_DONE, /* with this row; on to the next */
	FATE_LAST, /* with this row and all behind it */
	FATE_STOP, /* not this row, not yet */
	FATE_FULL, /* the same; no other row can be condemned */
};

/* A row that will never be sent, and why. */
struct sentence {
	struct window_claim claim;
	int64_t size;
	const char *topic;
	bool no_event_id;
	const char *reason;
	const char *remedy;
};

/* --- dead and parked rows --- */

static void say_dead(struct publisher *publisher, const struct sentence *sentence)
{
	char event_id[ENCODE_UUID_TEXT];
	uint64_t held;
	publisher->totals.dead++;
	if (log_limit_pass(&publisher->dead_said, usec_boot(), USEC_SEC, &held))
		log_error(publisher->log, "row is dead: moved to outbox_dead",
			  LOG_INT("id", sentence->claim.id),
			  LOG_TEXT("event_id", encode_uuid(sentence->claim.event_id, event_id)),
			  LOG_TEXT("topic", sentence->topic), LOG_INT("bytes", sentence->size),
			  LOG_TEXT("reason", sentence->reason),
			  LOG_TEXT("remedy", sentence->remedy), LOG_INT("held_back", held));
}

static void say_parked(struct publisher *publisher, int64_t id)
{
	uint64_t held;
	publisher->totals.parked++;
	if (log_limit_pass(&publisher->parked_said, usec_boot(), SAY_EVERY, &held))
		log_info(publisher->log, "row parked behind a dead one of its key",
			 LOG_INT("id", id), LOG_INT("held_back", held));
}

static void say_full(struct publisher *publisher)
{
	uint64_t held;
	if (keys_count(publisher->keys) < KEYS_MAX)
		return; /* they are being moved, and there will be room in a moment */
	if (log_limit_pass(&publisher->full_said, usec_boot(), SAY_EVERY, &held))
		log_error(publisher->log,
			  "too many ordering keys have a dead row: nothing is read until they "
			  "are fewer",
			  LOG_INT("keys", keys_count(publisher->keys)),
			  LOG_TEXT("remedy", "requeue or discard dead rows"));
}

static bool blocks_its_key(const struct publisher *publisher, uint64_t order)
{
	return order && publisher->conf->on_dead == CONF_DEAD_BLOCK_KEY;
}

static bool has_room(const struct publisher *publisher, uint64_t order)
{
	return !burial_full(publisher->burial) &&
	       (!blocks_its_key(publisher, order) || keys_count(publisher->keys) < KEYS_MAX ||
		keys_has(publisher->keys, order));
}

/* False: there is no room for another one; the row stays where it is. */
static bool condemn(struct publisher *publisher, const struct sentence *sentence, bool parked)
{
	struct burial_row row = {
		.size = sentence->size,
		.parked = parked,
		.no_event_id = sentence->no_event_id,
	};
	uint64_t order = sentence->claim.order;
	if (!has_room(publisher, order)) {
		say_full(publisher);
		return false;
	}
	if (parked)
		say_parked(publisher, sentence->claim.id);
	else
		say_dead(publisher, sentence);
	if (blocks_its_key(publisher, order))
		(void)keys_add(publisher->keys, order, sentence->claim.id);
	row.row = window_condemn(publisher->window, &sentence->claim);
	burial_add(publisher->burial, &row, sentence->reason);
	return true;
}

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
	return condemn(publisher, &sentence, !remedy) ? FATE_DONE : FATE_FULL;
}

/* A row that is in flight no longer; it must have been dropped from the window. */
static void condemn_reported(struct publisher *publisher, const struct window_row *row,
			     const char *reason, const char *remedy)
{
	uint8_t event_id[WINDOW_UUID];
	memcpy(event_id, row->event_id, sizeof(event_id));
	const struct sentence sentence = {
		.claim = { .id = row->id,
			   .event_id = event_id,
			   .order = row->order,
			   .topic = row->topic },
		.size = row->bytes - ROW_COST,
		.topic = row->topic->name,
		.reason = reason,
		.remedy = remedy,
	};
	/* without room it is met again, and fails again */
	if (!condemn(publisher, &sentence, false))
		topics_failed(publisher->topics, row->topic, row->id, false, reason, usec_boot());
}

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
		if (!topics_rejected(publisher->topics, topic, row->id, false, alone, NO_PARTITION,
				     now))
			return FATE_DONE;
		return condemn_row(publisher, row, claim, NO_PARTITION,
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
	if (!alone && !window_fits(publisher->window, claim->lane, now)) {
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
	if (blocks_its_key(publisher, claim.order) &&
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

/* --- reports --- */

/* A row whose partition was named is not among those of its key. */
static void check_order(struct publisher *publisher, const struct window_row *row)
{
	int64_t later;
	uint64_t held;
	if (row->placed || !order_delivered(publisher->order, row->order, row->id, &later))
		return;
	publisher->totals.violations++;
	series_add(publisher->meter->violations, 1);
	if (log_limit_pass(&publisher->order_said, usec_boot(), SAY_EVERY, &held))
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
	if (shut > 0 && window_eased(publisher->window, row->lane))
		topics_room(publisher->topics, row->lane);
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
					 NO_PARTITION, now))
			condemn_reported(publisher, &was, NO_PARTITION,
					 "correct the row's partition, or discard it");
		break;
	case PRODUCER_REJECTED:
		if (topics_rejected(publisher->topics, was.topic, was.id, true, was.alone, reason,
				    now))
			condemn_reported(publisher, &was, reason,
					 "see the broker's reason and the topic's settings, then "
					 "requeue it; or discard it");
		break;
	case PRODUCER_DELIVERED:
		break;
	}
}

static void on_report(void *arg, struct window_row *row, enum producer_report report,
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

static void on_progress(void *arg)
{
	struct publisher *publisher = arg;
	if (producer_repartitioning(publisher->producer))
		producer_each_changed(publisher->producer, on_changed, publisher);
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
	publisher->events.lost(publisher->events.arg, publisher->lowest_dropped);
}

static void on_ready(void *arg)
{
	struct publisher *publisher = arg;
	publisher->events.ready(publisher->events.arg);
}

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

/* Bytes of rows that stall. */
static void look_at(void *arg, struct window_row *row)
{
	size_t *bytes = arg;
	topic_look(row->topic, row->fetched);
	*bytes += topic_stalls(row->topic) ? row->bytes : 0;
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
	return topics_stalled(publisher->topics) * 2 > (size_t)publisher->conf->window_rows ||
	       bytes * 2 > (size_t)publisher->conf->window_bytes;
}

void publisher_give_up(struct publisher *publisher, usec_t now)
{
	topics_give_up_stalled(publisher->topics, now);
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
