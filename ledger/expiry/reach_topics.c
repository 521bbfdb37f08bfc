/* The topics of effects, and what is known of them. */
#include "reach_topics.h"

#include <stdlib.h>

#include "buf.h"
#include "intake/dead_letter.h"
#include "mem.h"

/* A broker looks for what is too old every few minutes, and deletes it a minute later. */
#define LAZINESS (15 * USEC_MIN)

usec_t reach_of_topic(const struct kafka_topic *topic, bool letters)
{
	switch (topic->answer) {
	case KAFKA_TOPIC_TOLD:
		if (topic->compact || topic->retention == USEC_NEVER ||
		    topic->segment > USEC_NEVER - LAZINESS - topic->retention)
			return USEC_NEVER;
		return topic->retention + topic->segment + LAZINESS;
	case KAFKA_TOPIC_MISSING:
		return letters ? 0 : USEC_NEVER;
	case KAFKA_TOPIC_UNTOLD:
		break;
	}
	return USEC_NEVER;
}

const char *reach_why(const struct kafka_topic *topic)
{
	switch (topic->answer) {
	case KAFKA_TOPIC_UNTOLD:
		return topic->why.text;
	case KAFKA_TOPIC_MISSING:
		return "there is no such topic";
	case KAFKA_TOPIC_TOLD:
		break;
	}
	return topic->compact ? "its cleanup.policy is compact: it may keep an event for ever"
			      : "it deletes nothing by age: see its retention.ms and segment.ms";
}

bool reach_is_shorter(const struct conf_effect *effect, const struct kafka_topic *topic)
{
	return topic->answer == KAFKA_TOPIC_TOLD && effect->retention < topic->retention;
}

bool reach_topics_wanted(const struct conf *conf)
{
	for (size_t i = 0; i < conf->effect_count; i++)
		if (conf->effects[i].retention != USEC_NEVER)
			return true;
	return false;
}

void reach_topics_init(struct reach_topics *topics, const struct conf *conf)
{
	topics->count = 2 * conf->effect_count;
	topics->items = mem_zero((topics->count + 1) * sizeof(*topics->items));
	topics->letters = mem_zero((conf->effect_count + 1) * sizeof(*topics->letters));
	for (size_t i = 0; i < conf->effect_count; i++) {
		struct buf name BUF_AUTO = { 0 };
		dead_letter_topic(&conf->effects[i], conf->effects[i].topic, &name);
		topics->letters[i] = buf_take(&name);
		topics->items[2 * i].name = conf->effects[i].topic;
		topics->items[2 * i + 1].name = topics->letters[i];
	}
}

void reach_topics_done(struct reach_topics *topics)
{
	for (size_t i = 0; i < topics->count / 2; i++)
		free(topics->letters[i]);
	free(topics->letters);
	free(topics->items);
}
