/* The consumer of Kafka: membership of the group, and messages.
 *
 * A rebalance is answered at once, with an assignment of nothing: the group never waits for our
 * database. The offsets follow when they are known. */
#include "consumer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "kafka.h"
#include "mem.h"

#define ASK_TIMEOUT_MS  1000 /* of each of the two questions at the beginning of a topic */
#define OFFSET_NONE     (-1) /* the answer for a time after the last message */
#define ERRORS_EVERY    (10 * USEC_SEC)
#define TOPIC_NAME_SIZE 256

struct consumer {
	struct log *log;
	struct consumer_events events;
	rd_kafka_t *client;
	rd_kafka_queue_t *queue;
	rd_kafka_queue_t *leaving; /* takes the place of `queue` while we leave the group */
	struct kafka_wakeup *wakeup;
	struct kafka_wakeup *leaving_wakeup;
	struct loop *loop;
	struct log_limit errors;
};

struct message {
	rd_kafka_event_t *event; /* owns what the source points to */
	struct event_source source;
	struct event_header headers[];
};

/* --- settings --- */

/* Ours whatever the user wrote: the truth is in the database, and an eager group lets go of all
 * that it had before it takes anything. */
static const struct setting {
	const char *name;
	const char *value;
} fixed_settings[] = {
	{ "enable.auto.commit", "false" },
	{ "enable.auto.offset.store", "false" },
	{ "enable.partition.eof", "false" },
	{ "auto.offset.reset", "earliest" },
	{ "partition.assignment.strategy", "range" },
};

/* Ours unless the user chose: the memory that waits for the database stays small, and the
 * partitions of a process that was killed are handed on in seconds. */
static const struct chosen_setting {
	const char *name;
	const char *library_default;
	const char *value;
} chosen_settings[] = {
	{ "queued.max.messages.kbytes", "65536", "8192" },
	{ "queued.min.messages", "100000", "2000" },
	{ "fetch.max.bytes", "52428800", "8388608" },
	{ "session.timeout.ms", "45000", "6000" },
	{ "heartbeat.interval.ms", "3000", "2000" },
	{ "topic.metadata.refresh.interval.ms", "300000", "30000" },
};

static bool is_default(const rd_kafka_conf_t *conf, const struct chosen_setting *setting)
{
	char value[64];
	size_t size = sizeof(value);

	return rd_kafka_conf_get(conf, setting->name, value, &size) == RD_KAFKA_CONF_OK &&
	       strcmp(value, setting->library_default) == 0;
}

static bool add_settings(rd_kafka_conf_t *conf, const char *group, struct err *err)
{
	for (size_t i = 0; i < sizeof(fixed_settings) / sizeof(fixed_settings[0]); i++)
		if (!kafka_conf_set(conf, fixed_settings[i].name, fixed_settings[i].value, err))
			return false;
	for (size_t i = 0; i < sizeof(chosen_settings) / sizeof(chosen_settings[0]); i++)
		if (is_default(conf, &chosen_settings[i]) &&
		    !kafka_conf_set(conf, chosen_settings[i].name, chosen_settings[i].value, err))
			return false;
	return kafka_conf_set(conf, "group.id", group, err);
}

/* --- rebalances --- */

/* NULL: gives all up. */
static bool assign(struct consumer *consumer, const rd_kafka_topic_partition_list_t *list,
		   struct err *err)
{
	rd_kafka_resp_err_t code = rd_kafka_assign(consumer->client, list);

	if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
		return err_set(err, "assign: %s", rd_kafka_err2str(code));
	return true;
}

static void assign_or_say(struct consumer *consumer, const rd_kafka_topic_partition_list_t *list)
{
	struct err err;

	if (!assign(consumer, list, &err))
		log_warn(consumer->log, "kafka consumer", LOG_TEXT("error", err.text));
}

void consumer_rest(struct consumer *consumer)
{
	rd_kafka_topic_partition_list_t *nothing = rd_kafka_topic_partition_list_new(0);

	assign_or_say(consumer, nothing);
	rd_kafka_topic_partition_list_destroy(nothing);
}

static void given(struct consumer *consumer, const rd_kafka_topic_partition_list_t *list)
{
	size_t count = (size_t)list->cnt;
	struct partition *partitions = mem_zero((count + 1) * sizeof(*partitions));

	for (size_t i = 0; i < count; i++) {
		partitions[i].topic = list->elems[i].topic;
		partitions[i].partition = list->elems[i].partition;
	}
	consumer_rest(consumer);
	consumer->events.assigned(consumer->events.arg, partitions, count);
	free(partitions);
}

static void rebalance(struct consumer *consumer, rd_kafka_event_t *event)
{
	if (rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
		given(consumer, rd_kafka_event_topic_partition_list(event));
	} else {
		consumer->events.revoked(consumer->events.arg);
		assign_or_say(consumer, NULL);
	}
}

/* --- messages --- */

static void read_headers(struct message *message, rd_kafka_headers_t *headers, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const void *value;
		struct event_header *header = &message->headers[i];

		if (rd_kafka_header_get_all(headers, i, &header->name, &value, &header->length))
			return;
		header->value = value;
		message->source.header_count = i + 1;
	}
}

static usec_t sent_at(const rd_kafka_message_t *raw)
{
	rd_kafka_timestamp_type_t type;
	int64_t ms = rd_kafka_message_timestamp(raw, &type);

	if (type == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE || ms < 0 || ms > USEC_NEVER / USEC_MS)
		return USEC_NEVER;
	return ms * USEC_MS;
}

static struct message *message_new(rd_kafka_event_t *event, const rd_kafka_message_t *raw)
{
	rd_kafka_headers_t *headers = NULL;
	size_t count = 0;
	struct message *message;

	if (rd_kafka_message_headers(raw, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR)
		count = rd_kafka_header_cnt(headers);
	message = mem_zero(sizeof(*message) + count * sizeof(message->headers[0]));
	message->event = event;
	message->source = (struct event_source){
		.topic = rd_kafka_topic_name(raw->rkt),
		.partition = raw->partition,
		.offset = raw->offset,
		.key = raw->key,
		.key_length = raw->key_len,
		.value = raw->payload,
		.value_length = raw->len,
		.headers = message->headers,
		.sent_at = sent_at(raw),
	};
	if (headers)
		read_headers(message, headers, count);
	return message;
}

void message_free(void *handle)
{
	struct message *message = handle;

	rd_kafka_event_destroy(message->event);
	free(message);
}

const struct event_source *message_source(const struct message *message)
{
	return &message->source;
}

/* --- events --- */

static void complain(struct consumer *consumer, const char *error)
{
	uint64_t held;

	if (log_limit_pass(&consumer->errors, usec_boot(), ERRORS_EVERY, &held))
		log_warn(consumer->log, "kafka consumer", LOG_TEXT("error", error),
			 LOG_INT("more", held));
}

static void committed(struct consumer *consumer, rd_kafka_event_t *event)
{
	if (rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR_NO_ERROR)
		return;
	log_debug(consumer->log, "offsets not committed",
		  LOG_TEXT("error", rd_kafka_event_error_string(event)));
	consumer->events.uncommitted(consumer->events.arg);
}

/* Takes the event over; NULL: it was none of a message. */
static struct message *take_event(struct consumer *consumer, rd_kafka_event_t *event)
{
	const rd_kafka_message_t *raw;

	switch (rd_kafka_event_type(event)) {
	case RD_KAFKA_EVENT_FETCH:
		raw = rd_kafka_event_message_next(event);
		if (raw && raw->err == RD_KAFKA_RESP_ERR_NO_ERROR)
			return message_new(event, raw);
		if (raw)
			complain(consumer, rd_kafka_message_errstr(raw));
		break;
	case RD_KAFKA_EVENT_REBALANCE:
		rebalance(consumer, event);
		break;
	case RD_KAFKA_EVENT_OFFSET_COMMIT:
		crash_point("offset_commit.answered");
		committed(consumer, event);
		break;
	case RD_KAFKA_EVENT_ERROR:
		complain(consumer, rd_kafka_event_error_string(event));
		break;
	}
	rd_kafka_event_destroy(event);
	return NULL;
}

struct message *consumer_next(struct consumer *consumer)
{
	rd_kafka_queue_t *queue = consumer->leaving ? consumer->leaving : consumer->queue;

	for (;;) {
		rd_kafka_event_t *event = rd_kafka_queue_poll(queue, 0);
		struct message *message;

		if (!event)
			return NULL;
		message = take_event(consumer, event);
		if (message)
			return message;
	}
}

/* --- reading and committing --- */

static rd_kafka_topic_partition_list_t *list_of(const struct partition *partitions, size_t count)
{
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)count);

	for (size_t i = 0; i < count; i++)
		rd_kafka_topic_partition_list_add(list, partitions[i].topic,
						  partitions[i].partition)
			->offset = partitions[i].offset;
	return list;
}

bool consumer_fetch(struct consumer *consumer, const struct partition *partitions, size_t count,
		    struct err *err)
{
	rd_kafka_topic_partition_list_t *list = list_of(partitions, count);
	bool good = assign(consumer, list, err);

	rd_kafka_topic_partition_list_destroy(list);
	return good;
}

void consumer_commit(struct consumer *consumer, const struct partition *partitions, size_t count)
{
	rd_kafka_topic_partition_list_t *list = list_of(partitions, count);

	/* Answered to our queue: a failure of what is for displays is then no warning. */
	crash_point("offset_commit.send");
	(void)rd_kafka_commit_queue(consumer->client, list, consumer->queue, NULL, NULL);
	crash_point("offset_commit.sent");
	rd_kafka_topic_partition_list_destroy(list);
}

static bool watermarks(const struct consumer *consumer, const struct partition *partition,
		       int64_t *low_r, int64_t *high_r)
{
	return rd_kafka_get_watermark_offsets(consumer->client, partition->topic,
					      partition->partition, low_r,
					      high_r) == RD_KAFKA_RESP_ERR_NO_ERROR;
}

int64_t consumer_oldest(const struct consumer *consumer, const struct partition *partition)
{
	int64_t low, high;

	return watermarks(consumer, partition, &low, &high) && low >= 0 ? low : OFFSET_NONE;
}

int64_t consumer_end(const struct consumer *consumer, const struct partition *partition)
{
	int64_t low, high;

	return watermarks(consumer, partition, &low, &high) && high >= 0 ? high : OFFSET_NONE;
}

/* --- the beginning of a topic --- */

/* Blocks for up to ASK_TIMEOUT_MS. */
static bool count_partitions(struct consumer *consumer, const char *topic, struct err *err,
			     size_t *count_r)
{
	rd_kafka_topic_t *handle = rd_kafka_topic_new(consumer->client, topic, NULL);
	const struct rd_kafka_metadata *metadata = NULL;
	rd_kafka_resp_err_t code;

	if (!handle)
		return err_set(err, "topic %s: %s", topic, rd_kafka_err2str(rd_kafka_last_error()));
	code = rd_kafka_metadata(consumer->client, 0, handle, &metadata, ASK_TIMEOUT_MS);
	rd_kafka_topic_destroy(handle);
	if (code == RD_KAFKA_RESP_ERR_NO_ERROR && metadata->topic_cnt == 1)
		code = metadata->topics[0].err;
	if (code == RD_KAFKA_RESP_ERR_NO_ERROR && metadata->topic_cnt == 1)
		*count_r = (size_t)metadata->topics[0].partition_cnt;
	if (metadata)
		rd_kafka_metadata_destroy(metadata);
	if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
		return err_set(err, "partitions of topic %s: %s", topic, rd_kafka_err2str(code));
	return true;
}

/* The offsets of the first messages at or after a time in ms; that of the time -1 is the end.
 * Blocks for up to ASK_TIMEOUT_MS. */
static bool ask_offsets(struct consumer *consumer, const char *topic, int64_t time_ms, size_t count,
			struct err *err, int64_t *offsets)
{
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)count);
	rd_kafka_resp_err_t code;

	for (size_t i = 0; i < count; i++)
		rd_kafka_topic_partition_list_add(list, topic, (int32_t)i)->offset = time_ms;
	code = rd_kafka_offsets_for_times(consumer->client, list, ASK_TIMEOUT_MS);
	for (size_t i = 0; code == RD_KAFKA_RESP_ERR_NO_ERROR && i < count; i++) {
		code = list->elems[i].err;
		offsets[i] = list->elems[i].offset;
	}
	rd_kafka_topic_partition_list_destroy(list);
	if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
		return err_set(err, "offsets of topic %s: %s", topic, rd_kafka_err2str(code));
	return true;
}

static bool end_offsets(struct consumer *consumer, const char *topic, size_t count, struct err *err,
			int64_t *offsets)
{
	if (!ask_offsets(consumer, topic, RD_KAFKA_OFFSET_END, count, err, offsets))
		return false;
	for (size_t i = 0; i < count; i++)
		if (offsets[i] < 0)
			return err_set(err, "offsets of topic %s: partition %zu has no end", topic,
				       i);
	return true;
}

/* The end is asked for first: what arrives between the two questions is then read, not skipped. */
static bool time_offsets(struct consumer *consumer, const char *topic, usec_t time, size_t count,
			 struct err *err, int64_t *offsets)
{
	int64_t *found = mem_zero((count + 1) * sizeof(*found));
	bool good = end_offsets(consumer, topic, count, err, offsets) &&
		    ask_offsets(consumer, topic, time / USEC_MS, count, err, found);

	for (size_t i = 0; good && i < count; i++)
		if (found[i] >= 0)
			offsets[i] = found[i];
	free(found);
	return good;
}

bool consumer_start_offsets(struct consumer *consumer, const char *topic, enum conf_start start,
			    usec_t start_time, struct err *err, int64_t **offsets_r,
			    size_t *count_r)
{
	size_t count = 0;
	int64_t *offsets;
	bool good = false;

	if (!count_partitions(consumer, topic, err, &count))
		return false;
	if (count == 0)
		return err_set(err, "topic %s has no partitions", topic);
	offsets = mem_zero(count * sizeof(*offsets));
	switch (start) {
	case CONF_START_UNSET:
		err_set(err, "topic %s: ledger.start is not set", topic);
		break;
	case CONF_START_EARLIEST:
		for (size_t i = 0; i < count; i++)
			offsets[i] = RD_KAFKA_OFFSET_BEGINNING;
		good = true;
		break;
	case CONF_START_LATEST:
		good = end_offsets(consumer, topic, count, err, offsets);
		break;
	case CONF_START_TIME:
		good = time_offsets(consumer, topic, start_time, count, err, offsets);
		break;
	}
	if (!good) {
		free(offsets);
		return false;
	}
	*offsets_r = offsets;
	*count_r = count;
	return true;
}

/* --- its life --- */

static bool subscribe(struct consumer *consumer, const char *const *topics, size_t count,
		      struct err *err)
{
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)count);
	rd_kafka_resp_err_t code;

	for (size_t i = 0; i < count; i++)
		rd_kafka_topic_partition_list_add(list, topics[i], RD_KAFKA_PARTITION_UA);
	code = rd_kafka_subscribe(consumer->client, list);
	rd_kafka_topic_partition_list_destroy(list);
	if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
		return err_set(err, "subscribe: %s", rd_kafka_err2str(code));
	return true;
}

static void on_wakeup(void *arg)
{
	struct consumer *consumer = arg;

	consumer->events.wake(consumer->events.arg);
}

/* NULL: the error says why. */
static rd_kafka_conf_t *make_settings(const struct conf *conf, struct log *log, struct err *err)
{
	rd_kafka_conf_t *settings;

	if (!kafka_conf_new(&conf->kafka, log, err, &settings))
		return NULL;
	if (!add_settings(settings, conf->ledger.group, err)) {
		rd_kafka_conf_destroy(settings);
		return NULL;
	}
	rd_kafka_conf_set_events(settings, RD_KAFKA_EVENT_REBALANCE);
	return settings;
}

bool consumer_check(const struct conf *conf, struct err *err)
{
	rd_kafka_conf_t *settings = make_settings(conf, NULL, err);

	return settings && kafka_client_check(settings, RD_KAFKA_CONSUMER, err);
}

static rd_kafka_t *client_new(const struct conf *conf, struct log *log, struct err *err)
{
	rd_kafka_conf_t *settings = make_settings(conf, log, err);
	rd_kafka_t *client;
	char text[512];

	if (!settings)
		return NULL;
	client = rd_kafka_new(RD_KAFKA_CONSUMER, settings, text, sizeof(text));
	if (!client) {
		err_set(err, "kafka consumer: %s", text);
		rd_kafka_conf_destroy(settings);
		return NULL;
	}
	rd_kafka_poll_set_consumer(client);
	return client;
}

bool consumer_new(struct loop *loop, struct log *log, const struct conf *conf,
		  const char *const *topics, size_t topic_count,
		  const struct consumer_events *events, struct err *err,
		  struct consumer **consumer_r)
{
	rd_kafka_t *client = client_new(conf, log, err);
	struct consumer *consumer;

	if (!client)
		return false;
	consumer = mem_zero(sizeof(*consumer));
	consumer->loop = loop;
	consumer->log = log;
	consumer->events = *events;
	consumer->client = client;
	consumer->queue = rd_kafka_queue_get_consumer(client);
	consumer->wakeup = kafka_wakeup_new(loop, consumer->queue, on_wakeup, consumer);
	if (!subscribe(consumer, topics, topic_count, err)) {
		consumer_free(consumer);
		return false;
	}
	*consumer_r = consumer;
	return true;
}

/* A queue of its own, as the library asks for it. */
void consumer_leave(struct consumer *consumer)
{
	rd_kafka_error_t *error;

	if (consumer->leaving)
		return;
	consumer->leaving = rd_kafka_queue_new(consumer->client);
	consumer->leaving_wakeup =
		kafka_wakeup_new(consumer->loop, consumer->leaving, on_wakeup, consumer);
	error = rd_kafka_consumer_close_queue(consumer->client, consumer->leaving);
	if (error) {
		log_warn(consumer->log, "kafka consumer",
			 LOG_TEXT("error", rd_kafka_error_string(error)));
		rd_kafka_error_destroy(error);
	}
}

bool consumer_left(const struct consumer *consumer)
{
	return rd_kafka_consumer_closed(consumer->client) != 0;
}

void consumer_free(struct consumer *consumer)
{
	if (!consumer)
		return;
	kafka_wakeup_free(consumer->leaving_wakeup);
	kafka_wakeup_free(consumer->wakeup);
	if (consumer->leaving)
		rd_kafka_queue_destroy(consumer->leaving);
	rd_kafka_queue_destroy(consumer->queue);
	/* Leaving is done before, or was given up: the broker may be away. */
	if (!kafka_destroy(consumer->client, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE))
		log_warn(consumer->log, "a Kafka client that does not end is left behind");
	free(consumer);
}
