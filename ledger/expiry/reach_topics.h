/* The topics whose times matter to an effect's keys, and what an answer about them means. */
#ifndef LEDGER_REACH_TOPICS_H
#define LEDGER_REACH_TOPICS_H

#include "conf.h"
#include "kafka_topics.h"

struct reach_topics {
	struct kafka_topic *items; /* of effect i: its topic at 2 i, its dead letters' behind it */
	size_t count;
	char **letters; /* names of the latter */
};

/* conf is borrowed. */
void reach_topics_init(struct reach_topics *topics, const struct conf *conf);
void reach_topics_done(struct reach_topics *topics);

/* Is anything to be asked? What is kept for ever by itself needs no answer. */
bool reach_topics_wanted(const struct conf *conf);

/* How long after it was written an event may still be read. A dead-letter topic that does not exist
 * holds no copy. USEC_NEVER: for ever, or nobody has said; reach_why() says why. */
usec_t reach_of_topic(const struct kafka_topic *topic, bool letters);
const char *reach_why(const struct kafka_topic *topic);

/* The effect's keys would go before the topic's events do. */
bool reach_is_shorter(const struct conf_effect *effect, const struct kafka_topic *topic);

#endif
