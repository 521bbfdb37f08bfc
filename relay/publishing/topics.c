/* The states of topics. */
#include "topics.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"

#define BUCKETS     1024
#define SAY_AFTER   USEC_SEC       /* that a topic is full; it is a daily affair for moments */
#define STILL_AFTER (2 * USEC_SEC) /* without a delivery; one that is slow must not be dropped */
#define YOUNGER_BY                                                                                 \
	USEC_SEC /* than the oldest in flight: what is delivered meanwhile shows progress */
#define REASON_AGE                                                                                 \
	"not acknowledged for 10 s while others are: a partition without leader, or too few "      \
	"in-sync replicas"
#define REASON_FULL       "one of its partitions takes no more"
#define REASON_PARTITIONS "its number of partitions changed"

struct topics {
	struct topics_events events;
	size_t count;
	struct topic *made; /* the last one, then by next_made */
	struct topic **shut;
	size_t shut_count;
	size_t shut_room;
	struct topic *buckets[BUCKETS];
};

/* --- states --- */

static void shut(struct topics *topics, struct topic *topic)
{
	if (topics->shut_count == topics->shut_room) {
		topics->shut_room = topics->shut_room ? topics->shut_room * 2 : 16;
		topics->shut = mem_grow(topics->shut, topics->shut_room, sizeof(*topics->shut));
	}
	topic->place = topics->shut_count;
	topics->shut[topics->shut_count++] = topic;
}

static void unshut(struct topics *topics, struct topic *topic)
{
	struct topic *last = topics->shut[--topics->shut_count];
	topics->shut[topic->place] = last;
	last->place = topic->place;
}

static void set_state(struct topics *topics, struct topic *topic, enum topic_state state)
{
	if (topic->state == TOPIC_OPEN && state != TOPIC_OPEN)
		shut(topics, topic);
	else if (topic->state != TOPIC_OPEN && state == TOPIC_OPEN)
		unshut(topics, topic);
	topic->state = state;
	topic->probed = false;
	if (state != TOPIC_CATCHING_UP)
		topic->joined = false;
}

static void set_reason(struct topic *topic, const char *reason)
{
	if (topic->reason && strcmp(topic->reason, reason) == 0)
		return;
	free(topic->reason);
	topic->reason = mem_text(reason);
}

static void say(struct topics *topics, struct topic *topic)
{
	if (topic->said)
		return;
	topic->said = true;
	topics->events.blocked(topics->events.arg, topic);
}

static void block(struct topics *topics, struct topic *topic, enum topic_cause cause,
		  const char *reason, usec_t now)
{
	bool was_open = topic->state == TOPIC_OPEN;
	set_state(topics, topic, TOPIC_BLOCKED);
	topic->cause = cause;
	set_reason(topic, reason);
	if (was_open)
		topic->since = now;
	if (cause != TOPIC_FULL)
		say(topics, topic);
}

static void open_up(struct topics *topics, struct topic *topic, usec_t now)
{
	set_state(topics, topic, TOPIC_OPEN);
	topic->from = TOPIC_NOTHING;
	topic->alone_to = INT64_MIN;
	if (topic->said)
		topics->events.opened(topics->events.arg, topic, now - topic->since);
	topic->said = false;
}

/* What held it up is over. Rows that were rejected in company are tried alone first. */
static void go_on(struct topics *topics, struct topic *topic)
{
	bool suspects = topic->from <= topic->alone_to;
	if (suspects)
		topic->cause = TOPIC_SUSPECTS;
	set_state(topics, topic, suspects ? TOPIC_BLOCKED : TOPIC_CATCHING_UP);
}

/* The next probe, ever later. */
static void put_off(struct topic *topic, usec_t now)
{
	usec_t longer = topic->backoff * 2;
	if (topic->backoff == 0)
		longer = TOPIC_PROBE_FIRST;
	topic->backoff = longer < TOPIC_PROBE_LAST ? longer : TOPIC_PROBE_LAST;
	topic->retry_at = now + topic->backoff;
}

/* --- rows --- */

void topic_withheld(struct topic *topic, int64_t id)
{
	if (id < topic->met)
		topic->met = id;
	if (id >= topic->from)
		return;
	topic->from = id;
	topic->joined = false; /* the cursor is past it */
	topic->probed = false;
}

/* The reading for a probe came past this id; but not past a row that others met meanwhile. */
static void go_past(struct topic *topic, int64_t id)
{
	topic->from = topic->met <= id ? topic->met : id + 1;
}

void topic_sent(struct topic *topic)
{
	topic->in_flight++;
}

/* The first of those that wait is settled. */
static void probe_over(struct topics *topics, struct topic *topic, int64_t id)
{
	go_past(topic, id);
	go_on(topics, topic);
}

static void blocked_delivered(struct topics *topics, struct topic *topic, usec_t now)
{
	switch (topic->cause) {
	case TOPIC_AGE:
	case TOPIC_FULL:
		if (topic->in_flight == 0)
			go_on(topics, topic);
		break;
	case TOPIC_ERROR:
		topic->retry_at = now; /* it works again */
		break;
	case TOPIC_SUSPECTS:
	case TOPIC_PARTITIONS:
		break;
	}
}

void topics_delivered(struct topics *topics, struct topic *topic, int64_t id, usec_t now)
{
	topic->in_flight--;
	topic->delivered++;
	topic->moved = now;
	topic->still = false;
	topic->rejected = 0;
	topic->backoff = 0;
	switch (topic->state) {
	case TOPIC_BLOCKED:
		blocked_delivered(topics, topic, now);
		break;
	case TOPIC_PROBING:
		probe_over(topics, topic, id);
		break;
	case TOPIC_OPEN:
	case TOPIC_CATCHING_UP:
		break;
	}
}

/* What to wait for once nothing of a blocked topic is in flight any more. */
static void blocked_forgot(struct topics *topics, struct topic *topic, usec_t now)
{
	switch (topic->cause) {
	case TOPIC_AGE:
		topic->cause = TOPIC_ERROR;
		topic->retry_at = now;
		break;
	case TOPIC_FULL:
	case TOPIC_PARTITIONS: /* a new producer goes by the new number */
		go_on(topics, topic);
		break;
	case TOPIC_ERROR:
	case TOPIC_SUSPECTS:
		break;
	}
}

void topics_forgot(struct topics *topics, struct topic *topic, int64_t id, usec_t now)
{
	topic->in_flight--;
	if (topic->state == TOPIC_OPEN)
		return; /* all are read again */
	topic_withheld(topic, id);
	if (topic->state == TOPIC_PROBING) {
		set_state(topics, topic, TOPIC_BLOCKED);
		topic->retry_at = now;
	} else if (topic->state == TOPIC_BLOCKED && topic->in_flight == 0) {
		blocked_forgot(topics, topic, now);
	}
}

void topics_failed(struct topics *topics, struct topic *topic, int64_t id, bool sent,
		   const char *reason, usec_t now)
{
	bool waits = topic->state == TOPIC_BLOCKED && topic->cause == TOPIC_ERROR &&
		     topic->retry_at > now;
	topic->in_flight -= sent;
	topic_withheld(topic, id);
	block(topics, topic, TOPIC_ERROR, reason, now);
	if (!waits)
		put_off(topic, now);
}

static bool condemn(struct topics *topics, struct topic *topic, int64_t id, const char *reason,
		    usec_t now)
{
	bool same = topic->reason && strcmp(topic->reason, reason) == 0;
	topic->rejected = same ? topic->rejected + 1 : 1;
	set_reason(topic, reason);
	if (topic->rejected >= TOPIC_REJECTED_MAX) {
		topics_failed(topics, topic, id, false, reason, now);
		return false;
	}
	probe_over(topics, topic, id);
	return true;
}

bool topics_rejected(struct topics *topics, struct topic *topic, int64_t id, bool sent, bool alone,
		     const char *reason, usec_t now)
{
	topic->in_flight -= sent;
	if (alone)
		return condemn(topics, topic, id, reason, now);
	topic_withheld(topic, id);
	if (id > topic->alone_to)
		topic->alone_to = id;
	block(topics, topic, TOPIC_SUSPECTS, reason, now);
	return false;
}

void topics_full(struct topics *topics, struct topic *topic, int64_t id, uint64_t lane, usec_t now)
{
	topic_withheld(topic, id);
	topic->lane = lane;
	block(topics, topic, TOPIC_FULL, REASON_FULL, now);
}

/* --- from time to time --- */

void topics_look_begin(struct topics *topics)
{
	for (struct topic *topic = topics->made; topic; topic = topic->next_made)
		topic->oldest = USEC_NEVER;
}

void topic_look(struct topic *topic, usec_t fetched)
{
	if (fetched < topic->oldest)
		topic->oldest = fetched;
}

/* Whatever else it was blocked for, what is in flight of it holds it up, and takes room. */
static void judge_age(struct topics *topics, struct topic *topic, usec_t now)
{
	if (topic->state != TOPIC_PROBING)
		block(topics, topic, TOPIC_AGE, REASON_AGE, now);
}

/* It waits for reports of its rows, or of those that it shares a lane with, and none are to come:
 * they went another way. */
static bool waits_in_vain(const struct topic *topic)
{
	return topic->state == TOPIC_BLOCKED && topic->in_flight == 0 &&
	       topic->cause != TOPIC_ERROR && topic->cause != TOPIC_SUSPECTS;
}

static bool is_still(const struct topic *topic, usec_t now)
{
	usec_t since = topic->moved > topic->since ? topic->moved : topic->since;
	return topic->state == TOPIC_BLOCKED && topic->cause == TOPIC_FULL &&
	       now - since >= STILL_AFTER;
}

static void look_at(struct topics *topics, struct topic *topic, usec_t youngest_delivered,
		    usec_t now)
{
	topic->still = is_still(topic, now);
	if (topic->oldest != USEC_NEVER && now - topic->oldest >= TOPIC_AGE_MAX &&
	    youngest_delivered - topic->oldest >= YOUNGER_BY)
		judge_age(topics, topic, now);
	else if (waits_in_vain(topic))
		go_on(topics, topic);
	else if (topic->state != TOPIC_OPEN && now - topic->since >= SAY_AFTER)
		say(topics, topic);
}

void topics_look_end(struct topics *topics, usec_t youngest_delivered, usec_t now)
{
	for (struct topic *topic = topics->made; topic; topic = topic->next_made)
		look_at(topics, topic, youngest_delivered, now);
}

static bool stalls(const struct topic *topic)
{
	return topic->state == TOPIC_PROBING ||
	       (topic->state == TOPIC_BLOCKED &&
		(topic->cause == TOPIC_AGE || topic->cause == TOPIC_FULL));
}

bool topic_stands(const struct topic *topic)
{
	bool moves = topic->state == TOPIC_BLOCKED && topic->cause == TOPIC_FULL && !topic->still;
	return stalls(topic) && !moves;
}

size_t topics_stalled(const struct topics *topics)
{
	size_t rows = 0;
	for (size_t i = 0; i < topics->shut_count; i++)
		rows += stalls(topics->shut[i]) ? topics->shut[i]->in_flight : 0;
	return rows;
}

size_t topics_standing(const struct topics *topics)
{
	size_t rows = 0;
	for (size_t i = 0; i < topics->shut_count; i++)
		rows += topic_stands(topics->shut[i]) ? topics->shut[i]->in_flight : 0;
	return rows;
}

void topics_give_up_standing(struct topics *topics, usec_t now)
{
	for (size_t i = 0; i < topics->shut_count; i++) {
		struct topic *topic = topics->shut[i];
		if (topic->state != TOPIC_BLOCKED || !topic_stands(topic))
			continue;
		topic->cause = TOPIC_ERROR;
		put_off(topic, now);
		say(topics, topic);
	}
}

uint64_t topic_lane(const struct topic *topic, uint64_t lane)
{
	bool waits = topic->state == TOPIC_BLOCKED && topic->cause == TOPIC_FULL;
	return waits ? topic->lane : lane;
}

void topics_room(struct topics *topics, uint64_t lane)
{
	for (size_t i = 0; i < topics->shut_count; i++) {
		struct topic *topic = topics->shut[i];
		if (topic->state == TOPIC_BLOCKED && topic->cause == TOPIC_FULL &&
		    topic->lane == lane)
			go_on(topics, topic);
	}
}

bool topics_repartition(struct topics *topics, struct topic *topic, usec_t now)
{
	if (topic->state == TOPIC_OPEN || topic->state == TOPIC_CATCHING_UP)
		block(topics, topic, TOPIC_PARTITIONS, REASON_PARTITIONS, now);
	if (topic->in_flight > 0)
		return false;
	if (topic->state == TOPIC_BLOCKED && topic->cause == TOPIC_PARTITIONS)
		go_on(topics, topic);
	return true;
}

/* --- what to read --- */

static bool due(const struct topic *topic, usec_t now)
{
	return topic->state == TOPIC_BLOCKED && topic->in_flight == 0 &&
	       (topic->cause == TOPIC_SUSPECTS ||
		(topic->cause == TOPIC_ERROR && topic->retry_at <= now));
}

/* Rows between the head and `from` may have to be sent before: they are yet to be met. */
static bool reached(const struct topic *topic, int64_t head)
{
	return topic->from <= head || topic->from - 1 == head;
}

struct topic *topics_probe(struct topics *topics, int64_t head, usec_t now)
{
	for (size_t i = 0; i < topics->shut_count; i++) {
		struct topic *topic = topics->shut[i];
		if (!due(topic, now) || !reached(topic, head))
			continue;
		topic->met = TOPIC_NOTHING;
		topic->probed = true;
		return topic;
	}
	return NULL;
}

void topics_probe_sent(struct topics *topics, struct topic *topic)
{
	set_state(topics, topic, TOPIC_PROBING);
}

void topics_probe_read(struct topics *topics, struct topic *topic, int64_t last, bool more,
		       usec_t now)
{
	if (!due(topic, now) || !topic->probed)
		return;
	if (more || topic->met != TOPIC_NOTHING)
		go_past(topic, last);
	else
		open_up(topics, topic, now);
}

bool topics_join(struct topics *topics, int64_t *from_r)
{
	int64_t from = TOPIC_NOTHING;
	bool any = false;
	for (size_t i = 0; i < topics->shut_count; i++) {
		struct topic *topic = topics->shut[i];
		if (topic->state != TOPIC_CATCHING_UP)
			continue;
		topic->joined = any = true;
		if (topic->from < from)
			from = topic->from;
	}
	if (any)
		*from_r = from;
	return any;
}

bool topics_caught(struct topics *topics, int64_t last, bool to_the_end, usec_t now)
{
	bool any = false;
	for (size_t i = topics->shut_count; i-- > 0;) {
		struct topic *topic = topics->shut[i];
		if (!topic->joined)
			continue;
		if (to_the_end)
			open_up(topics, topic, now);
		else if (topic->from <= last)
			topic->from = last + 1;
		any = !to_the_end;
	}
	return any;
}

/* --- the table --- */

struct topic *topics_find(const struct topics *topics, struct row_bytes name, uint32_t hash)
{
	struct topic *topic = topics->buckets[hash % BUCKETS];
	while (topic && !(topic->hash == hash && topic->length == name.length &&
			  memcmp(topic->name, name.data, name.length) == 0))
		topic = topic->next;
	return topic;
}

struct topic *topics_make(struct topics *topics, struct row_bytes name, uint32_t hash)
{
	struct topic **bucket = &topics->buckets[hash % BUCKETS];
	if (topics->count == TOPICS_MAX)
		return NULL;
	struct topic *topic = mem_zero(sizeof(*topic) + name.length + 1);
	memcpy(topic->name, name.data, name.length);
	topic->length = name.length;
	topic->hash = hash;
	topic->from = TOPIC_NOTHING;
	topic->met = TOPIC_NOTHING;
	topic->alone_to = INT64_MIN;
	topic->oldest = USEC_NEVER;
	topic->next = *bucket;
	*bucket = topic;
	topic->next_made = topics->made;
	topics->made = topic;
	topics->count++;
	return topic;
}

struct topic *topics_first(const struct topics *topics)
{
	return topics->made;
}

struct topic *const *topics_shut(const struct topics *topics, size_t *count_r)
{
	*count_r = topics->shut_count;
	return topics->shut;
}

void topics_open_all(struct topics *topics)
{
	for (struct topic *topic = topics->made; topic; topic = topic->next_made) {
		set_state(topics, topic, TOPIC_OPEN);
		topic->from = TOPIC_NOTHING;
		topic->alone_to = INT64_MIN;
		topic->backoff = 0;
		topic->rejected = 0;
		topic->said = false;
	}
}

void topics_set_back(struct topics *topics)
{
	for (size_t i = 0; i < topics->shut_count; i++)
		topic_withheld(topics->shut[i], INT64_MIN);
}

struct topics *topics_new(const struct topics_events *events)
{
	struct topics *topics = mem_zero(sizeof(*topics));
	topics->events = *events;
	return topics;
}

void topics_free(struct topics *topics)
{
	if (!topics)
		return;
	while (topics->made) {
		struct topic *topic = topics->made;
		topics->made = topic->next_made;
		free(topic->reason);
		free(topic);
	}
	free(topics->shut);
	free(topics);
}
