/* The consumer of Kafka: membership of the group, and messages.
 *
 * A rebalance is answered at once, with an assignment of nothing: the group never waits for our
 * database. The offsets follow when they are known. */
#include "consumer.h"

#include <stdlib.h>

#include "consumer_private.h"
#include "crash.h"
#include "mem.h"

#define ERRORS_EVERY (10 * USEC_SEC)

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

static void ended(struct consumer *consumer, rd_kafka_event_t *event)
{
	rd_kafka_topic_partition_t *where = rd_kafka_event_topic_partition(event);

	if (where && consumer->events.ended)
		consumer->events.ended(consumer->events.arg, where->topic, where->partition);
	if (where)
		rd_kafka_topic_partition_destroy(where);
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
		if (rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR__PARTITION_EOF)
			ended(consumer, event);
		else
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

static rd_kafka_t *client_new(const struct conf *conf, bool ends, struct log *log, struct err *err)
{
	rd_kafka_conf_t *settings = consumer_settings(conf, ends, log, err);
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
	rd_kafka_t *client = client_new(conf, topic_count == 0, log, err);
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
	if (topic_count > 0 && !subscribe(consumer, topics, topic_count, err)) {
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
