/* Asks as the service does, once. */
#include "reach_connect.h"

#include "loop.h"
#include "reach_topics.h"

static void on_answer(void *arg)
{
	loop_stop(arg);
}

static void judge(struct findings *findings, const struct conf_effect *effect,
		  const struct kafka_topic *topic, bool letters)
{
	char retention[32], kept[32], segment[32];
	if (reach_of_topic(topic, letters) == USEC_NEVER)
		findings_say(findings, FINDING_WARNING,
			     "effect \"%s\": its finished keys are not pruned, because of topic "
			     "\"%s\": %s",
			     effect->name, topic->name, reach_why(topic));
	else if (reach_is_shorter(effect, topic))
		findings_say(findings, FINDING_ERROR,
			     "effect \"%s\": its retention, \"%s\", is shorter than that of topic "
			     "\"%s\": retention.ms is %s, segment.ms %s; write a longer one",
			     effect->name,
			     usec_format(effect->retention, retention, sizeof(retention)),
			     topic->name, usec_format(topic->retention, kept, sizeof(kept)),
			     usec_format(topic->segment, segment, sizeof(segment)));
}

static void ask(const struct conf *conf, struct reach_topics *topics)
{
	struct loop *loop = loop_new();
	struct kafka_topics *asker = kafka_topics_new(loop, &conf->kafka, on_answer, loop);
	kafka_topics_ask(asker, topics->items, topics->count);
	loop_run(loop);
	kafka_topics_free(asker);
	loop_free(loop);
}

void reach_connect(struct findings *findings, const struct conf *conf)
{
	struct reach_topics topics;
	if (!reach_topics_wanted(conf))
		return;
	reach_topics_init(&topics, conf);
	ask(conf, &topics);
	for (size_t i = 0; i < conf->effect_count; i++) {
		if (conf->effects[i].retention == USEC_NEVER)
			continue;
		judge(findings, &conf->effects[i], &topics.items[2 * i], false);
		judge(findings, &conf->effects[i], &topics.items[2 * i + 1], true);
	}
	reach_topics_done(&topics);
}
