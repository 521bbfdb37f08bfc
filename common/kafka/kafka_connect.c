/* A client of our own settings that asks, and sends nothing. What the brokers have to say comes in
 * three ways: answers, errors of the client, and its statistics, which tell whether it was given a
 * producer id. */
#include "kafka_connect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kafka.h"
#include "mem.h"

#define PATIENCE (8 * USEC_SEC)
#define SLICE    (2 * USEC_SEC) /* of one question */
#define STATS    "200"          /* ms */

/* What is known of a topic. */
struct topic {
	const char *name;
	int partitions;
	int leaderless;  /* partitions */
	int in_sync;     /* replicas, of the partition that has fewest */
	int replicas;    /* likewise */
	bool good;       /* it exists, and may be described */
	bool configured; /* what follows is known */
	bool compact;
	int64_t min_in_sync;
	int64_t max_bytes;
};

struct asker {
	struct log *log; /* NULL, and first: see kafka_conf_set_owner() */
	struct findings *findings;
	const struct kafka_connect *question;
	rd_kafka_t *client;
	usec_t until;
	int64_t max_bytes;  /* ours */
	struct err trouble; /* the last one */
	struct err denied;  /* what will not mend by itself; "": nothing */
	bool has_id;        /* as an idempotent producer */
};

/* --- the client --- */

static void log_nothing(const rd_kafka_t *client, int level, const char *facility, const char *text)
{
	(void)client;
	(void)level;
	(void)facility;
	(void)text;
}

static void on_error(rd_kafka_t *client, int code, const char *reason, void *opaque)
{
	struct asker *asker = opaque;
	char text[512];
	switch (code) {
	case RD_KAFKA_RESP_ERR__AUTHENTICATION:
	case RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED:
	case RD_KAFKA_RESP_ERR_UNSUPPORTED_SASL_MECHANISM:
	case RD_KAFKA_RESP_ERR__SSL:
		err_set(&asker->denied, "%s", reason);
		break;
	case RD_KAFKA_RESP_ERR__FATAL:
		(void)rd_kafka_fatal_error(client, text, sizeof(text));
		err_set(&asker->denied, "%s", text);
		break;
	default:
		err_set(&asker->trouble, "%s", reason);
	}
}

static int on_stats(rd_kafka_t *client, char *json, size_t length, void *opaque)
{
	static const char assigned[] = "\"idemp_state\": \"Assigned\"";
	struct asker *asker = opaque;
	(void)client;
	if (memmem(json, length, assigned, sizeof(assigned) - 1))
		asker->has_id = true;
	return 0; /* the library frees it */
}

static bool set_ours(rd_kafka_conf_t *conf, enum kafka_connect_use use, struct err *err)
{
	if (use == KAFKA_CONNECT_READS)
		return kafka_conf_set(conf, "enable.auto.commit", "false", err);
	return kafka_conf_set(conf, "enable.idempotence", "true", err) &&
	       kafka_conf_set(conf, "acks", "all", err) &&
	       kafka_conf_set(conf, "statistics.interval.ms", STATS, err);
}

static const char *setting(const struct asker *asker, const char *name, char *buffer, size_t size)
{
	size_t length = size;
	if (rd_kafka_conf_get(rd_kafka_conf(asker->client), name, buffer, &length) !=
	    RD_KAFKA_CONF_OK)
		buffer[0] = '\0';
	return buffer;
}

static bool make_client(struct asker *asker, struct err *err)
{
	const struct kafka_connect *question = asker->question;
	rd_kafka_type_t type =
		question->use == KAFKA_CONNECT_WRITES ? RD_KAFKA_PRODUCER : RD_KAFKA_CONSUMER;
	rd_kafka_conf_t *conf;
	char text[512];
	if (!kafka_conf_new(question->kafka, NULL, err, &conf))
		return false;
	kafka_conf_set_owner(conf, asker);
	rd_kafka_conf_set_log_cb(conf, log_nothing);
	rd_kafka_conf_set_error_cb(conf, on_error);
	rd_kafka_conf_set_stats_cb(conf, on_stats);
	if (set_ours(conf, question->use, err) &&
	    kafka_conf_set(conf, "allow.auto.create.topics", "false", err)) {
		asker->client = rd_kafka_new(type, conf, text, sizeof(text));
		if (asker->client)
			conf = NULL; /* it has taken them */
		else
			err_set(err, "librdkafka refuses these settings: %s", text);
	}
	if (conf)
		rd_kafka_conf_destroy(conf);
	return asker->client != NULL;
}

static int patience(const struct asker *asker, usec_t slice)
{
	usec_t left = asker->until - usec_boot();
	if (left > slice)
		left = slice;
	return left > 0 ? (int)(left / USEC_MS) : 0;
}

/* --- the brokers --- */

static void say_reached(const struct asker *asker, const struct rd_kafka_metadata *metadata)
{
	char protocol[64], user[256];
	bool login =
		strstr(setting(asker, "security.protocol", protocol, sizeof(protocol)), "sasl");
	(void)setting(asker, "sasl.username", user, sizeof(user));
	findings_say(asker->findings, FINDING_OK, "Kafka: reached %s over %s%s%s%s, brokers: %d",
		     metadata->orig_broker_name, protocol, login && *user ? " as \"" : "",
		     login ? user : "", login && *user ? "\"" : "", metadata->broker_cnt);
}

static void say_not_reached(const struct asker *asker)
{
	char servers[512];
	(void)setting(asker, "bootstrap.servers", servers, sizeof(servers));
	if (*asker->denied.text)
		findings_say(asker->findings, FINDING_ERROR,
			     "Kafka: %s refuses us: %s: see kafka.properties and password_file",
			     servers, asker->denied.text);
	else
		findings_say(asker->findings, FINDING_UNREACHABLE,
			     "Kafka: %s cannot be reached: %s: see bootstrap.servers and "
			     "security.protocol",
			     servers, *asker->trouble.text ? asker->trouble.text : "no answer");
}

static bool reach(struct asker *asker)
{
	const struct rd_kafka_metadata *metadata;
	while (!*asker->denied.text && patience(asker, SLICE) > 0) {
		rd_kafka_resp_err_t code = rd_kafka_metadata(asker->client, 0, NULL, &metadata,
							     patience(asker, SLICE));
		(void)rd_kafka_poll(asker->client, 0);
		if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
			say_reached(asker, metadata);
			rd_kafka_metadata_destroy(metadata);
			return true;
		}
	}
	say_not_reached(asker);
	return false;
}

/* The client asks for it by itself. */
static void judge_producer_id(struct asker *asker)
{
	while (!asker->has_id && !*asker->denied.text && patience(asker, SLICE) > 0)
		(void)rd_kafka_poll(asker->client, patience(asker, 100 * USEC_MS));
	if (asker->has_id)
		findings_say(asker->findings, FINDING_OK, "Kafka: we are given a producer id");
	else if (*asker->denied.text)
		findings_say(asker->findings, FINDING_ERROR,
			     "Kafka: no producer id: %s: allow Write on a topic, or "
			     "IdempotentWrite on the cluster",
			     asker->denied.text);
	else
		findings_say(asker->findings, FINDING_UNREACHABLE,
			     "Kafka: no producer id was given in time: see the brokers' logs");
}

/* --- topics: do they exist? --- */

static int min_int(int one, int other)
{
	return one < other ? one : other;
}

static void count_partitions(const struct rd_kafka_metadata_topic *from, struct topic *topic)
{
	topic->good = true;
	topic->partitions = from->partition_cnt;
	topic->in_sync = topic->replicas = INT32_MAX;
	for (int i = 0; i < from->partition_cnt; i++) {
		const struct rd_kafka_metadata_partition *partition = &from->partitions[i];
		topic->leaderless += partition->leader < 0;
		topic->in_sync = min_int(topic->in_sync, partition->isr_cnt);
		topic->replicas = min_int(topic->replicas, partition->replica_cnt);
	}
}

static void say_unfit(struct asker *asker, const char *topic, rd_kafka_resp_err_t code)
{
	bool writes = asker->question->use == KAFKA_CONNECT_WRITES;
	switch (code) {
	case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
	case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
		findings_say(asker->findings, FINDING_ERROR,
			     "topic \"%s\": it does not exist: create it, or correct its name",
			     topic);
		break;
	case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
		findings_say(asker->findings, FINDING_ERROR,
			     "topic \"%s\": not authorised: allow Describe and %s on it", topic,
			     writes ? "Write" : "Read");
		break;
	case RD_KAFKA_RESP_ERR__TIMED_OUT:
	case RD_KAFKA_RESP_ERR__TRANSPORT:
		findings_say(asker->findings, FINDING_UNREACHABLE,
			     "topic \"%s\": no answer in time", topic);
		break;
	default:
		findings_say(asker->findings, FINDING_ERROR, "topic \"%s\": %s", topic,
			     rd_kafka_err2str(code));
	}
}

static void find_topic(struct asker *asker, struct topic *topic)
{
	const struct rd_kafka_metadata *metadata = NULL;
	rd_kafka_topic_t *handle = rd_kafka_topic_new(asker->client, topic->name, NULL);
	if (!handle) {
		say_unfit(asker, topic->name, rd_kafka_last_error());
		return;
	}
	rd_kafka_resp_err_t code =
		rd_kafka_metadata(asker->client, 0, handle, &metadata, patience(asker, SLICE));
	if (!code && metadata->topic_cnt == 1)
		code = metadata->topics[0].err;
	if (code)
		say_unfit(asker, topic->name, code);
	else
		count_partitions(&metadata->topics[0], topic);
	if (metadata)
		rd_kafka_metadata_destroy(metadata);
	rd_kafka_topic_destroy(handle);
}

/* --- topics: how are they configured? --- */

static void take_setting(struct topic *topic, const char *name, const char *value)
{
	if (strcmp(name, "min.insync.replicas") == 0)
		topic->min_in_sync = strtoll(value, NULL, 10);
	else if (strcmp(name, "max.message.bytes") == 0)
		topic->max_bytes = strtoll(value, NULL, 10);
	else if (strcmp(name, "cleanup.policy") == 0)
		topic->compact = strstr(value, "compact") != NULL;
}

static void take_settings(struct topic *topic, const rd_kafka_ConfigResource_t *resource)
{
	size_t count;
	const rd_kafka_ConfigEntry_t **entries = rd_kafka_ConfigResource_configs(resource, &count);
	topic->configured = true;
	for (size_t i = 0; i < count; i++) {
		const char *value = rd_kafka_ConfigEntry_value(entries[i]);
		take_setting(topic, rd_kafka_ConfigEntry_name(entries[i]), value ? value : "");
	}
}

static void take_resource(struct asker *asker, struct topic *topics,
			  const rd_kafka_ConfigResource_t *resource)
{
	const char *name = rd_kafka_ConfigResource_name(resource);
	rd_kafka_resp_err_t code = rd_kafka_ConfigResource_error(resource);
	for (size_t i = 0; i < asker->question->topic_count; i++)
		if (!code && strcmp(topics[i].name, name) == 0)
			take_settings(&topics[i], resource);
	if (code)
		findings_say(asker->findings, FINDING_WARNING,
			     "topic \"%s\": its settings are not told (%s): allow DescribeConfigs "
			     "on it",
			     name, rd_kafka_err2str(code));
}

static void take_answer(struct asker *asker, struct topic *topics, rd_kafka_event_t *event)
{
	const char *why = "no answer in time";
	if (event && !rd_kafka_event_error(event)) {
		const rd_kafka_DescribeConfigs_result_t *result =
			rd_kafka_event_DescribeConfigs_result(event);
		size_t count;
		const rd_kafka_ConfigResource_t **resources =
			rd_kafka_DescribeConfigs_result_resources(result, &count);
		for (size_t i = 0; i < count; i++)
			take_resource(asker, topics, resources[i]);
		return;
	}
	if (event)
		why = rd_kafka_event_error_string(event);
	findings_say(
		asker->findings, FINDING_WARNING,
		"Kafka: the settings of topics are not told (%s): compare min.insync.replicas, "
		"max.message.bytes and cleanup.policy yourself",
		why);
}

static void describe(struct asker *asker, struct topic *topics)
{
	size_t count = 0;
	rd_kafka_ConfigResource_t **resources =
		mem_zero(asker->question->topic_count * sizeof(struct rd_kafka_ConfigResource_s *));
	for (size_t i = 0; i < asker->question->topic_count; i++)
		if (topics[i].good)
			resources[count++] = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC,
									 topics[i].name);
	int timeout = patience(asker, SLICE) + 1;
	char text[64];
	rd_kafka_queue_t *queue = rd_kafka_queue_new(asker->client);
	rd_kafka_AdminOptions_t *options =
		rd_kafka_AdminOptions_new(asker->client, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
	(void)rd_kafka_AdminOptions_set_request_timeout(options, timeout, text, sizeof(text));
	if (count > 0) {
		rd_kafka_DescribeConfigs(asker->client, resources, count, options, queue);
		rd_kafka_event_t *event = rd_kafka_queue_poll(queue, timeout);
		take_answer(asker, topics, event);
		if (event)
			rd_kafka_event_destroy(event);
	}
	rd_kafka_AdminOptions_destroy(options);
	rd_kafka_queue_destroy(queue);
	rd_kafka_ConfigResource_destroy_array(resources, count);
	free(resources);
}

/* --- topics: do they serve? --- */

static void judge_copies(struct asker *asker, const struct topic *topic)
{
	if (topic->leaderless)
		findings_say(asker->findings, FINDING_ERROR,
			     "topic \"%s\": %d of %d partitions have no leader: see the brokers",
			     topic->name, topic->leaderless, topic->partitions);
	if (asker->question->use == KAFKA_CONNECT_READS || !topic->configured)
		return;
	if (topic->replicas < topic->min_in_sync)
		findings_say(asker->findings, FINDING_ERROR,
			     "topic \"%s\": %d replicas, and min.insync.replicas is %lld: nothing "
			     "can ever be written; add replicas, or lower that",
			     topic->name, topic->replicas, (long long)topic->min_in_sync);
	else if (topic->in_sync < topic->min_in_sync)
		findings_say(asker->findings, FINDING_ERROR,
			     "topic \"%s\": a partition has %d replicas in sync, and "
			     "min.insync.replicas is %lld: nothing can be written; see the brokers",
			     topic->name, topic->in_sync, (long long)topic->min_in_sync);
}

static void judge_settings(struct asker *asker, const struct topic *topic)
{
	if (asker->question->use == KAFKA_CONNECT_READS || !topic->configured)
		return;
	if (topic->max_bytes < asker->max_bytes)
		findings_say(asker->findings, FINDING_WARNING,
			     "topic \"%s\": max.message.bytes is %lld and ours, message.max.bytes, "
			     "%lld: what lies between is refused; make them equal",
			     topic->name, (long long)topic->max_bytes, (long long)asker->max_bytes);
	if (!topic->compact)
		return;
	if (asker->question->key == CONF_KEY_ORDERING_KEY)
		findings_say(asker->findings, FINDING_WARNING,
			     "topic \"%s\": cleanup.policy is compact and the message key the "
			     "ordering key: of each key only the last event is kept; see "
			     "relay.message_key",
			     topic->name);
	if (asker->question->key == CONF_KEY_NONE)
		findings_say(asker->findings, FINDING_ERROR,
			     "topic \"%s\": cleanup.policy is compact, which takes no message "
			     "without a key; see relay.message_key",
			     topic->name);
}

static void say_fine(struct asker *asker, const struct topic *topic)
{
	if (topic->configured)
		findings_say(asker->findings, FINDING_OK,
			     "topic \"%s\": partitions %d, replicas %d, min.insync.replicas %lld, "
			     "max.message.bytes %lld",
			     topic->name, topic->partitions, topic->replicas,
			     (long long)topic->min_in_sync, (long long)topic->max_bytes);
	else
		findings_say(asker->findings, FINDING_OK,
			     "topic \"%s\": partitions %d, replicas %d", topic->name,
			     topic->partitions, topic->replicas);
}

static void judge_topic(struct asker *asker, const struct topic *topic)
{
	const struct findings before = *asker->findings;
	if (!topic->good)
		return;
	judge_copies(asker, topic);
	judge_settings(asker, topic);
	if (asker->findings->errors == before.errors &&
	    asker->findings->warnings == before.warnings)
		say_fine(asker, topic);
}

static void judge_topics(struct asker *asker)
{
	size_t count = asker->question->topic_count;
	struct topic *topics = mem_zero((count + 1) * sizeof(*topics));
	for (size_t i = 0; i < count; i++) {
		topics[i].name = asker->question->topics[i];
		find_topic(asker, &topics[i]);
	}
	if (asker->question->use == KAFKA_CONNECT_WRITES)
		describe(asker, topics);
	for (size_t i = 0; i < count; i++)
		judge_topic(asker, &topics[i]);
	free(topics);
}

void kafka_connect(struct findings *findings, const struct kafka_connect *question)
{
	struct asker *asker = mem_zero(sizeof(*asker));
	char bytes[32];
	struct err err;
	asker->findings = findings;
	asker->question = question;
	asker->until = usec_boot() + PATIENCE;
	if (!make_client(asker, &err)) {
		findings_say(findings, FINDING_ERROR, "Kafka: %s", err.text);
		free(asker);
		return;
	}
	asker->max_bytes =
		strtoll(setting(asker, "message.max.bytes", bytes, sizeof(bytes)), NULL, 10);
	if (reach(asker)) {
		judge_topics(asker);
		if (question->use == KAFKA_CONNECT_WRITES)
			judge_producer_id(asker);
	}
	if (kafka_destroy(asker->client, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE))
		free(asker); /* else its threads may still come by */
}
