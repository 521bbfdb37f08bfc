/* Asks the brokers, and says what stands in the way of a configured retention. */
#include "reach.h"

#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "intake/dead_letter.h"
#include "kafka_topics.h"
#include "mem.h"

#define ASK_EVERY (USEC_HOUR)
#define ASK_AGAIN (10 * USEC_MIN) /* after an answer that was not whole */
/* A broker looks for what is too old every few minutes, and deletes it a minute later. */
#define LAZINESS (15 * USEC_MIN)

struct reach {
	struct log *log;
	const struct conf *conf;
	struct kafka_topics *asker;
	struct loop_timer *timer;
	/* Of effect i: its topic at 2 i, that of its dead letters behind it. */
	struct kafka_topic *topics;
	char **letters;  /* names of the latter */
	usec_t *effects; /* by index in the configuration */
	usec_t *said;    /* what was told of them in the log */
};

/* --- what an answer means --- */

static usec_t reach_of_topic(const struct kafka_topic *topic, bool letters)
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

static const char *why_for_ever(const struct kafka_topic *topic)
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

static void say_for_ever(const struct reach *reach, const struct conf_effect *effect,
			 const struct kafka_topic *topic)
{
	log_warn(reach->log, "finished keys are not pruned", LOG_TEXT("effect", effect->name),
		 LOG_TEXT("topic", topic->name), LOG_TEXT("reason", why_for_ever(topic)));
}

static void say_if_shorter(const struct reach *reach, const struct conf_effect *effect,
			   const struct kafka_topic *topic)
{
	char retention[32], kept[32], segment[32];
	if (topic->answer != KAFKA_TOPIC_TOLD || effect->retention >= topic->retention)
		return;
	log_error(
		reach->log, "retention is shorter than a topic's: keys are kept for longer",
		LOG_TEXT("effect", effect->name),
		LOG_TEXT("retention", usec_format(effect->retention, retention, sizeof(retention))),
		LOG_TEXT("topic", topic->name),
		LOG_TEXT("retention.ms", usec_format(topic->retention, kept, sizeof(kept))),
		LOG_TEXT("segment.ms", usec_format(topic->segment, segment, sizeof(segment))));
}

static void take_effect(struct reach *reach, size_t index)
{
	const struct conf_effect *effect = &reach->conf->effects[index];
	const struct kafka_topic *source = &reach->topics[2 * index], *letters = source + 1;
	const usec_t events = reach_of_topic(source, false), copies = reach_of_topic(letters, true);
	const usec_t most = copies > events ? copies : events;
	reach->effects[index] = most;
	if (effect->retention == USEC_NEVER || reach->said[index] == most)
		return;
	reach->said[index] = most;
	if (most == USEC_NEVER) {
		say_for_ever(reach, effect, copies > events ? letters : source);
	} else {
		say_if_shorter(reach, effect, source);
		say_if_shorter(reach, effect, letters);
	}
}

/* --- asking --- */

static void on_answer(void *arg)
{
	struct reach *reach = arg;
	bool whole = true;
	for (size_t i = 0; i < reach->conf->effect_count; i++) {
		take_effect(reach, i);
		whole &= reach->topics[2 * i].answer != KAFKA_TOPIC_UNTOLD &&
			 reach->topics[2 * i + 1].answer != KAFKA_TOPIC_UNTOLD;
	}
	loop_timer_set(reach->timer, whole ? ASK_EVERY : ASK_AGAIN);
}

static void ask(void *arg)
{
	struct reach *reach = arg;
	kafka_topics_ask(reach->asker, reach->topics, 2 * reach->conf->effect_count);
}

static void name_topics(struct reach *reach, size_t index)
{
	const struct conf_effect *effect = &reach->conf->effects[index];
	struct buf name BUF_AUTO = { 0 };
	dead_letter_topic(effect, effect->topic, &name);
	reach->letters[index] = buf_take(&name);
	reach->topics[2 * index].name = effect->topic;
	reach->topics[2 * index + 1].name = reach->letters[index];
}

usec_t reach_of(const struct reach *reach, size_t effect)
{
	return reach->effects[effect];
}

struct reach *reach_new(struct loop *loop, struct log *log, const struct conf *conf)
{
	struct reach *reach = mem_zero(sizeof(*reach));
	const size_t count = conf->effect_count;
	bool wanted = false;
	reach->log = log;
	reach->conf = conf;
	reach->asker = kafka_topics_new(loop, &conf->kafka, on_answer, reach);
	reach->timer = loop_timer_new(loop, ask, reach);
	reach->letters = mem_zero((count + 1) * sizeof(*reach->letters));
	reach->topics = mem_zero((2 * count + 1) * sizeof(*reach->topics));
	reach->effects = mem_zero((count + 1) * sizeof(*reach->effects));
	reach->said = mem_zero((count + 1) * sizeof(*reach->said));
	for (size_t i = 0; i < count; i++) {
		reach->effects[i] = USEC_NEVER;
		reach->said[i] = -1;
		name_topics(reach, i);
		wanted |= conf->effects[i].retention != USEC_NEVER;
	}
	if (wanted)
		loop_timer_set(reach->timer, 0);
	return reach;
}

void reach_free(struct reach *reach)
{
	if (!reach)
		return;
	kafka_topics_free(reach->asker);
	loop_timer_free(reach->timer);
	for (size_t i = 0; i < reach->conf->effect_count; i++)
		free(reach->letters[i]);
	free(reach->letters);
	free(reach->topics);
	free(reach->effects);
	free(reach->said);
	free(reach);
}
