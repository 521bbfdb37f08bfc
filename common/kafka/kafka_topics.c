/* One DescribeConfigs, and its answer. */
#include "kafka_topics.h"

#include <stdlib.h>
#include <string.h>

#include "kafka.h"
#include "mem.h"

#define PATIENCE (10 * USEC_SEC)

struct kafka_topics {
	struct loop *loop;
	const struct conf_kafka *kafka;
	kafka_topics_fn *done;
	void *arg;

	struct kafka_topic *items; /* NULL: nothing is asked */
	size_t count;
	rd_kafka_t *client;
	rd_kafka_queue_t *queue;
	struct kafka_wakeup *wakeup;
	struct loop_timer *timer; /* for a question that could not even be sent */
};

/* --- the client --- */

/* Whether brokers are there is said by those that live with them. */
static void log_nothing(const rd_kafka_t *client, int level, const char *facility, const char *text)
{
	(void)client;
	(void)level;
	(void)facility;
	(void)text;
}

static bool client_new(struct kafka_topics *topics, struct err *err)
{
	rd_kafka_conf_t *conf;
	char text[512];
	if (!kafka_conf_new(topics->kafka, NULL, err, &conf))
		return false;
	rd_kafka_conf_set_log_cb(conf, log_nothing);
	if (kafka_conf_set(conf, "allow.auto.create.topics", "false", err)) {
		topics->client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text, sizeof(text));
		if (topics->client)
			return true; /* it has taken them */
		err_set(err, "librdkafka refuses these settings: %s", text);
	}
	rd_kafka_conf_destroy(conf);
	return false;
}

static void client_drop(struct kafka_topics *topics)
{
	if (!topics->client)
		return;
	kafka_wakeup_free(topics->wakeup);
	rd_kafka_queue_destroy(topics->queue);
	/* one that is left behind has nothing of ours */
	const bool ended = kafka_destroy(topics->client, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
	(void)ended;
	topics->wakeup = NULL;
	topics->queue = NULL;
	topics->client = NULL;
}

/* --- the answer --- */

static void finish(struct kafka_topics *topics)
{
	client_drop(topics);
	topics->items = NULL;
	topics->done(topics->arg);
}

static void tell_none(struct kafka_topics *topics, const char *why)
{
	for (size_t i = 0; i < topics->count; i++) {
		topics->items[i].answer = KAFKA_TOPIC_UNTOLD;
		err_set(&topics->items[i].why, "%s", why);
	}
}

static usec_t read_ms(const char *text)
{
	const long long ms = strtoll(text, NULL, 10);
	return ms < 0 || ms > USEC_NEVER / USEC_MS ? USEC_NEVER : ms * USEC_MS;
}

static void take_setting(struct kafka_topic *topic, const char *name, const char *value)
{
	if (strcmp(name, "retention.ms") == 0)
		topic->retention = read_ms(value);
	else if (strcmp(name, "segment.ms") == 0)
		topic->segment = read_ms(value);
	else if (strcmp(name, "cleanup.policy") == 0)
		topic->compact = strstr(value, "compact") != NULL;
}

/* A setting that is not told is as long as can be. */
static void take_settings(struct kafka_topic *topic, const rd_kafka_ConfigResource_t *resource)
{
	size_t count;
	const rd_kafka_ConfigEntry_t **entries = rd_kafka_ConfigResource_configs(resource, &count);
	topic->answer = KAFKA_TOPIC_TOLD;
	topic->compact = false;
	topic->retention = topic->segment = USEC_NEVER;
	for (size_t i = 0; i < count; i++) {
		const char *value = rd_kafka_ConfigEntry_value(entries[i]);
		if (value)
			take_setting(topic, rd_kafka_ConfigEntry_name(entries[i]), value);
	}
}

static void take_resource(struct kafka_topic *topic, const rd_kafka_ConfigResource_t *resource)
{
	const rd_kafka_resp_err_t code = rd_kafka_ConfigResource_error(resource);
	if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
		take_settings(topic, resource);
	else if (code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
		topic->answer = KAFKA_TOPIC_MISSING;
	else
		err_set(&topic->why, "%s", rd_kafka_err2str(code));
}

static void take_result(struct kafka_topics *topics, rd_kafka_event_t *event)
{
	size_t count;
	const rd_kafka_ConfigResource_t **resources = rd_kafka_DescribeConfigs_result_resources(
		rd_kafka_event_DescribeConfigs_result(event), &count);
	tell_none(topics, "it was not mentioned");
	for (size_t i = 0; i < count; i++) {
		const char *name = rd_kafka_ConfigResource_name(resources[i]);
		for (size_t t = 0; t < topics->count; t++)
			if (strcmp(topics->items[t].name, name) == 0)
				take_resource(&topics->items[t], resources[i]);
	}
}

static void on_wakeup(void *arg)
{
	struct kafka_topics *topics = arg;
	rd_kafka_event_t *event = rd_kafka_queue_poll(topics->queue, 0);
	if (!event)
		return;
	if (rd_kafka_event_type(event) != RD_KAFKA_EVENT_DESCRIBECONFIGS_RESULT) {
		rd_kafka_event_destroy(event);
		return;
	}
	if (rd_kafka_event_error(event))
		tell_none(topics, rd_kafka_event_error_string(event));
	else
		take_result(topics, event);
	rd_kafka_event_destroy(event);
	finish(topics);
}

/* --- the question --- */

static void on_timer(void *arg)
{
	finish(arg);
}

static bool named_before(const struct kafka_topics *topics, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (strcmp(topics->items[i].name, topics->items[index].name) == 0)
			return true;
	return false;
}

static void describe(struct kafka_topics *topics)
{
	char text[64];
	size_t count = 0;
	rd_kafka_ConfigResource_t **resources =
		mem_zero((topics->count + 1) * sizeof(struct rd_kafka_ConfigResource_s *));
	for (size_t i = 0; i < topics->count; i++)
		if (!named_before(topics, i))
			resources[count++] = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC,
									 topics->items[i].name);
	rd_kafka_AdminOptions_t *options =
		rd_kafka_AdminOptions_new(topics->client, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
	(void)rd_kafka_AdminOptions_set_request_timeout(options, (int)(PATIENCE / USEC_MS), text,
							sizeof(text));
	rd_kafka_DescribeConfigs(topics->client, resources, count, options, topics->queue);
	rd_kafka_AdminOptions_destroy(options);
	rd_kafka_ConfigResource_destroy_array(resources, count);
	free(resources);
}

void kafka_topics_ask(struct kafka_topics *topics, struct kafka_topic *items, size_t count)
{
	struct err err;
	topics->items = items;
	topics->count = count;
	if (!client_new(topics, &err)) {
		tell_none(topics, err.text);
		loop_timer_set(topics->timer, 0);
		return;
	}
	topics->queue = rd_kafka_queue_new(topics->client);
	topics->wakeup = kafka_wakeup_new(topics->loop, topics->queue, on_wakeup, topics);
	describe(topics);
}

bool kafka_topics_busy(const struct kafka_topics *topics)
{
	return topics->items != NULL;
}

struct kafka_topics *kafka_topics_new(struct loop *loop, const struct conf_kafka *kafka,
				      kafka_topics_fn *done, void *arg)
{
	struct kafka_topics *topics = mem_zero(sizeof(*topics));
	topics->loop = loop;
	topics->kafka = kafka;
	topics->done = done;
	topics->arg = arg;
	topics->timer = loop_timer_new(loop, on_timer, topics);
	return topics;
}

void kafka_topics_free(struct kafka_topics *topics)
{
	if (!topics)
		return;
	client_drop(topics);
	loop_timer_free(topics->timer);
	free(topics);
}
