/* How long topics keep what is in them: asked of the brokers with a client of its own, which lives
 * only as long as the question. Nothing waits. */
#ifndef COUNTERFOIL_KAFKA_TOPICS_H
#define COUNTERFOIL_KAFKA_TOPICS_H

#include <stddef.h>

#include "conf.h"
#include "err.h"
#include "loop.h"
#include "usec.h"

enum kafka_topic_answer {
	KAFKA_TOPIC_UNTOLD,  /* `why` says why */
	KAFKA_TOPIC_MISSING, /* there is no such topic */
	KAFKA_TOPIC_TOLD,    /* what follows is known */
};

struct kafka_topic {
	const char *name; /* borrowed */
	enum kafka_topic_answer answer;
	struct err why;
	bool compact;     /* its cleanup.policy, with or without deletion */
	usec_t retention; /* retention.ms; USEC_NEVER: nothing is deleted by age */
	usec_t segment;   /* segment.ms: so much longer a message may lie beside a later one */
};

struct kafka_topics;

/* From the loop, once for each kafka_topics_ask(). */
typedef void kafka_topics_fn(void *arg);

/* All is borrowed. */
struct kafka_topics *kafka_topics_new(struct loop *loop, const struct conf_kafka *kafka,
				      kafka_topics_fn *done, void *arg);
/* While a question is under way it is dropped. NULL is fine. */
void kafka_topics_free(struct kafka_topics *topics);

/* One at a time. The caller's array, filled in before `done`; a topic may stand in it twice. */
void kafka_topics_ask(struct kafka_topics *topics, struct kafka_topic *items, size_t count);
bool kafka_topics_busy(const struct kafka_topics *topics);

#endif
