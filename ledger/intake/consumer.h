/* The consumer of Kafka: membership of the group, and messages. It does not decide where to read: a
 * member fetches nothing until it is told the offsets, and nothing again after consumer_rest(). So
 * pausing, going back after a failure and beginning are one and the same step. */
#ifndef LEDGER_CONSUMER_H
#define LEDGER_CONSUMER_H

#include "conf.h"
#include "err.h"
#include "log.h"
#include "loop.h"
#include "rules/event.h"

struct consumer;

struct partition {
	const char *topic;
	int32_t partition;
	int64_t offset; /* where to read from, or what to commit; -2: from the beginning */
};

/* All but wake come from inside consumer_next(), never otherwise. */
struct consumer_events {
	void (*assigned)(void *arg, const struct partition *partitions, size_t count); /* all */
	void (*revoked)(void *arg);
	void (*uncommitted)(void *arg); /* something that was given to consumer_commit() */
	void (*wake)(void *arg);        /* consumer_next() has something to do */
	/* Nothing more stands in it for now; of a consumer outside of the group. */
	void (*ended)(void *arg, const char *topic, int32_t partition);
	void *arg;
};

/* Without topics it stays outside of the group: it reads what it is told to, for itself. */
MUST_USE bool consumer_new(struct loop *loop, struct log *log, const struct conf *conf,
			   const char *const *topics, size_t topic_count,
			   const struct consumer_events *events, struct err *err,
			   struct consumer **consumer_r);
/* Whether librdkafka would take our settings and the user's together; no server is asked. */
MUST_USE bool consumer_check(const struct conf *conf, struct err *err);
void consumer_free(struct consumer *consumer);

struct message; /* everything that its source points to lives as long as it */

/* The next message, which is the caller's to free; NULL: there is none now. */
struct message *consumer_next(struct consumer *consumer);
const struct event_source *message_source(const struct message *message);
void message_free(void *message); /* a struct message */

/* Reads these and no others, each from its offset. What was fetched before is gone. */
MUST_USE bool consumer_fetch(struct consumer *consumer, const struct partition *partitions,
			     size_t count, struct err *err);
/* Reads nothing; the member keeps its partitions. */
void consumer_rest(struct consumer *consumer);
/* Tells the group how far we are, for displays of lag only. Does not wait. */
void consumer_commit(struct consumer *consumer, const struct partition *partitions, size_t count);

/* The oldest offset that the broker still had when it was last heard of; -1: unknown. */
int64_t consumer_oldest(const struct consumer *consumer, const struct partition *partition);
/* The offset that its next message was to have, as of the last fetch; -1: unknown. */
int64_t consumer_end(const struct consumer *consumer, const struct partition *partition);

/* --- offsets, as the brokers say them: each question blocks the loop for up to a second ------- */

#define OFFSET_OF_END   (-1)
#define OFFSET_OF_FIRST (-2)

/* Sets the offset of each: of the first message at or after a time in ms (OFFSET_OF_END: there is
 * none), or, asked for OFFSET_OF_END or OFFSET_OF_FIRST, the number of the end or the beginning. */
MUST_USE bool consumer_ask_offsets(struct consumer *consumer, int64_t time_ms,
				   struct partition *partitions, size_t count, struct err *err);

struct topic_offsets { /* of partitions 0 .. count - 1 */
	bool missing;  /* there is no such topic */
	int64_t *items;
	size_t count;
};

/* The offsets at which a topic is begun: asked once in the life of a topic. The caller frees the
 * items; on failure only `missing` is set. */
MUST_USE bool consumer_start_offsets(struct consumer *consumer, const char *topic,
				     enum conf_start start, usec_t start_time, struct err *err,
				     struct topic_offsets *offsets_r);

/* -------------------------------------------------------------------------------------------- */

/* Leaves the group: consumer_next() must be called until consumer_left(). */
void consumer_leave(struct consumer *consumer);
bool consumer_left(const struct consumer *consumer);

#endif
