/* Asks the brokers, and says what stands in the way of a configured retention. */
#include "reach.h"

#include <stdlib.h>
#include <string.h>

#include "kafka_topics.h"
#include "mem.h"
#include "reach_topics.h"

#define ASK_EVERY (USEC_HOUR)
#define ASK_AGAIN (10 * USEC_MIN) /* after an answer that was not whole */

struct reach {
	struct log *log;
	const struct conf *conf;
	struct kafka_topics *asker;
	struct loop_timer *timer;
	struct reach_topics topics;
	usec_t *effects; /* by index in the configuration */
	usec_t *said;    /* what was told of them in the log */
};

/* --- what an answer means --- */

static void say_for_ever(const struct reach *reach, const struct conf_effect *effect,
			 const struct kafka_topic *topic)
{
	log_warn(reach->log, "finished keys are not pruned", LOG_TEXT("effect", effect->name),
		 LOG_TEXT("topic", topic->name), LOG_TEXT("reason", reach_why(topic)));
}

static void say_if_shorter(const struct reach *reach, const struct conf_effect *effect,
			   const struct kafka_topic *topic)
{
	char retention[32], kept[32], segment[32];
	if (!reach_is_shorter(effect, topic))
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
	const struct kafka_topic *source = &reach->topics.items[2 * index], *letters = source + 1;
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
		whole &= reach->topics.items[2 * i].answer != KAFKA_TOPIC_UNTOLD &&
			 reach->topics.items[2 * i + 1].answer != KAFKA_TOPIC_UNTOLD;
	}
	loop_timer_set(reach->timer, whole ? ASK_EVERY : ASK_AGAIN);
}

static void ask(void *arg)
{
	struct reach *reach = arg;
	kafka_topics_ask(reach->asker, reach->topics.items, reach->topics.count);
}

usec_t reach_of(const struct reach *reach, size_t effect)
{
	return reach->effects[effect];
}

struct reach *reach_new(struct loop *loop, struct log *log, const struct conf *conf)
{
	struct reach *reach = mem_zero(sizeof(*reach));
	const size_t count = conf->effect_count;
	reach->log = log;
	reach->conf = conf;
	reach->asker = kafka_topics_new(loop, &conf->kafka, on_answer, reach);
	reach->timer = loop_timer_new(loop, ask, reach);
	reach->effects = mem_zero((count + 1) * sizeof(*reach->effects));
	reach->said = mem_zero((count + 1) * sizeof(*reach->said));
	for (size_t i = 0; i < count; i++) {
		reach->effects[i] = USEC_NEVER;
		reach->said[i] = -1;
	}
	reach_topics_init(&reach->topics, conf);
	if (reach_topics_wanted(conf))
		loop_timer_set(reach->timer, 0);
	return reach;
}

void reach_free(struct reach *reach)
{
	if (!reach)
		return;
	kafka_topics_free(reach->asker);
	loop_timer_free(reach->timer);
	reach_topics_done(&reach->topics);
	free(reach->effects);
	free(reach->said);
	free(reach);
}
