/* The topics that rows go to, each with its own fate: trouble of one holds up its own rows only.
 *
 *   OPEN -> BLOCKED -> PROBING -> CATCHING_UP -> OPEN
 *              ^_________|  |_______^
 *
 * The rows of a topic that is not open are passed over by the reading of all others and keep their
 * place: `from` is the lowest id of them that may still have to be sent. When the trouble is over
 * they are read from there on, by a cursor of their own, until it has caught up with the reading of
 * the others. A probe is one row of the topic, with no other of it in flight.
 *
 * What blocks: an error that Kafka reports of the topic; age, which is all that tells of a
 * partition without leader or with too few replicas; a part of the window that is full and does not
 * move; rows that were rejected in company, to be tried alone; a changed number of partitions.
 * Pure: the caller tells the time. */
#ifndef COUNTERFOIL_RELAY_TOPICS_H
#define COUNTERFOIL_RELAY_TOPICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "source/row.h"
#include "usec.h"

#define TOPICS_MAX         10000
#define TOPIC_AGE_MAX      (10 * USEC_SEC) /* of a row in flight, while younger ones arrive */
#define TOPIC_PROBE_FIRST  USEC_SEC        /* between probes; doubled each time */
#define TOPIC_PROBE_LAST   (30 * USEC_SEC)
#define TOPIC_REJECTED_MAX 20 /* rows in a row for one reason: that is the topic, not the rows */

enum topic_state {
	TOPIC_OPEN,
	TOPIC_BLOCKED,     /* for `cause`; probed, or reopened, as that allows */
	TOPIC_PROBING,     /* its first row is alone in flight */
	TOPIC_CATCHING_UP, /* read from `from` on by the second cursor, now or as soon as it is free
			    */
};

enum topic_cause {
	TOPIC_ERROR,      /* probed at `retry_at` */
	TOPIC_AGE,        /* open again when what is in flight has arrived */
	TOPIC_FULL,       /* open again when there is room */
	TOPIC_SUSPECTS,   /* rows up to `alone_to` are tried alone, one after the other */
	TOPIC_PARTITIONS, /* open again when nothing is in flight */
};

struct producer_topic;

#define TOPIC_NOTHING INT64_MAX /* of `from`: no row of it is known to wait */

struct topic {
	enum topic_state state;
	enum topic_cause cause;
	int64_t from;
	int64_t met; /* the lowest row that was not sent since the reading for a probe began */
	int64_t alone_to;
	usec_t retry_at;
	usec_t backoff;
	usec_t since;      /* boot clock: not open */
	bool said;         /* that it is blocked */
	bool joined;       /* is being caught up with right now */
	bool probed;       /* a row of it is looked for right now, from its first one on */
	char *reason;      /* of the last trouble; NULL: there was none */
	uint32_t rejected; /* rows in a row, for the same reason */

	size_t in_flight;
	uint64_t lane;     /* that was full */
	usec_t slow_until; /* its rows were overtaken by far younger ones of others */
	usec_t moved;      /* the last delivery */
	bool still;        /* it is full, and there was none for a while, by the last look */
	usec_t oldest; /* fetch of its oldest row in flight, by the last look; USEC_NEVER: none */
	uint64_t delivered;
	uint64_t reported;             /* of these, when they were last reported of */
	uint8_t meter;                 /* its number in the counts */
	size_t place;                  /* among those that are not open */
	struct producer_topic *sender; /* NULL: none yet, with this producer */

	uint32_t hash;
	size_t length;
	struct topic *next;      /* of its bucket */
	struct topic *next_made; /* of all */
	char name[];
};

struct topics;

/* blocked, opened: a topic stopped being open, or is open again; for the log. That one of its
 * partitions is full for a moment is not worth a word. */
struct topics_events {
	void (*blocked)(void *arg, const struct topic *topic);
	void (*opened)(void *arg, const struct topic *topic, usec_t took);
	void *arg;
};

struct topics *topics_new(const struct topics_events *events);
void topics_free(struct topics *topics);

/* hash: of its name, any good one. */
struct topic *topics_find(const struct topics *topics, struct row_bytes name, uint32_t hash);
struct topic *topics_make(struct topics *topics, struct row_bytes name,
			  uint32_t hash); /* NULL: there are too many */
typedef void topics_each_fn(void *arg, struct topic *topic);

/* Nothing is in flight, and everything is about to be read from the beginning: a new owner. */
void topics_open_all(struct topics *topics);
/* Rows were put back in the table: those that are not open are read from its beginning. */
void topics_set_back(struct topics *topics);
struct topic *topics_first(const struct topics *topics); /* of all; then by topic->next_made */

/* Those that are not open, in no order, until the next call that changes one. */
struct topic *const *topics_shut(const struct topics *topics, size_t *count_r);

/* --- rows of a topic ---------------------------------------------------------------------------
 */

/* A row was met and not sent, since its topic is not open. */
void topic_withheld(struct topic *topic, int64_t id);
void topic_sent(struct topic *topic);
void topics_delivered(struct topics *topics, struct topic *topic, int64_t id, usec_t now);
/* What was in flight is forgotten with its producer: not known to be delivered. */
void topics_forgot(struct topics *topics, struct topic *topic, int64_t id, usec_t now);
/* A row failed, or could not be handed over, for what its topic is. sent: it was in flight. */
void topics_failed(struct topics *topics, struct topic *topic, int64_t id, bool sent,
		   const char *reason, usec_t now);
/* A row failed that may itself be the cause. True: it was alone, and is condemned. */
bool topics_rejected(struct topics *topics, struct topic *topic, int64_t id, bool sent, bool alone,
		     const char *reason, usec_t now);
/* A row has no room: its part of the window is full and does not move. */
void topics_full(struct topics *topics, struct topic *topic, int64_t id, uint64_t lane, usec_t now);

/* --- from time to time -------------------------------------------------------------------------
 */

/* A look at what is in flight: begin, then each row, then end, with the fetch of the youngest row
 * that was ever delivered. */
void topics_look_begin(struct topics *topics);
void topic_look(struct topic *topic, usec_t fetched);
void topics_look_end(struct topics *topics, usec_t youngest_delivered, usec_t now);
/* Rows in flight of topics that stall: blocked by age, or for want of room. */
size_t topics_stalled(const struct topics *topics);
/* The same, without those of which something was delivered lately: they are slow, and no more. */
bool topic_stands(const struct topic *topic);
size_t topics_standing(const struct topics *topics);
/* These rows are about to be forgotten: what stands is to be probed from now on. */
void topics_give_up_standing(struct topics *topics, usec_t now);
/* The lane that it waits for; if it waits for none, this one. */
uint64_t topic_lane(const struct topic *topic, uint64_t lane);
/* There is room again in this lane. */
void topics_room(struct topics *topics, uint64_t lane);
/* Its number of partitions changed; true: nothing of it is in flight, so it may be changed now. */
bool topics_repartition(struct topics *topics, struct topic *topic, usec_t now);

/* --- what to read for them ---------------------------------------------------------------------
 */

/* A topic to probe now, from topic->from on; NULL: none. head: how far the others were read. */
struct topic *topics_probe(struct topics *topics, int64_t head, usec_t now);
/* Its first row is in flight now, alone. */
void topics_probe_sent(struct topics *topics, struct topic *topic);
/* The reading came to this id and found no row of it; more: there may be some behind it. */
void topics_probe_read(struct topics *topics, struct topic *topic, int64_t last, bool more,
		       usec_t now);
/* Lets all that wait for it join one catching up; where it begins. False: nobody waits. */
bool topics_join(struct topics *topics, int64_t *from_r);
/* How far the catching up came, for those who joined: up to this id all was handled. False: none of
 * them goes on with it. */
bool topics_caught(struct topics *topics, int64_t last, bool to_the_end, usec_t now);

#endif
