/* librdkafka's side of the relay. Its threads call only choose_partition(); everything else runs on
 * the loop. */
#include "producer.h"

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "kafka.h"
#include "mem.h"
#include "partition.h"

#define POLL_EVERY   (100 * USEC_MS) /* the wake-up is only written for an empty queue */
#define RENEW_FIRST  (100 * USEC_MS) /* between two new producers; doubled until one delivers */
#define RENEW_LAST   (500 * USEC_MS)
#define SAY_EVERY    USEC_MIN        /* that brokers cannot be reached */
#define POLL_ROUNDS  16              /* before the loop has its turn again */
#define FAILS_EVERY  (45 * USEC_SEC) /* while no broker is there librdkafka says so more often */
#define BROKEN_GRACE (50 * USEC_MS)  /* for the reports that say which rows broke it */

enum producer_state {
	STATE_READY,   /* takes rows */
	STATE_BROKEN,  /* a fatal error; reports still come in, and `renew` tells of it then */
	STATE_DROPPED, /* purged; `renew` destroys it and makes a new one */
};

struct producer_topic {
	struct producer_topic *next;
	struct topic *owner;
	rd_kafka_topic_t *topic;
	/* The number of partitions by which rows are sent, 0 until the first one; and another one
	 * that the partitioner met since, or 0. Written by librdkafka's threads. */
	_Atomic int32_t pinned;
	_Atomic int32_t changed;
	_Atomic bool *any_changed;
};

struct producer {
	struct log *log;    /* first, so that kafka.h finds it */
	_Atomic bool quiet; /* dropped: what its threads still say is of our own making */
	enum producer_state state;
	struct loop *loop;
	const struct conf *conf;
	struct producer_events events;
	rd_kafka_t *client;
	rd_kafka_queue_t *queue;
	struct kafka_wakeup *wakeup;
	struct loop_timer *poll;
	struct loop_timer *renew;
	usec_t made_at;
	usec_t renew_wait;
	int64_t size_limit;
	bool unreachable;  /* no broker at all, since the last delivery */
	usec_t failed;     /* the last error of a connection */
	struct err reason; /* of a fatal error */
	struct log_limit connection_said;
	struct log_limit trouble_said;

	struct producer_topic *topics;
	_Atomic bool any_changed;
};

static void set_state(struct producer *producer, enum producer_state state)
{
	producer->state = state;
}

/* --- partitions --- */

/* Called by librdkafka's threads as well as by ours, and may call nothing of librdkafka. Rows go by
 * the first number of partitions that was seen, whatever `count` says later, until the relay has
 * let everything in flight come home: order per key must not change under way. */
static int32_t choose_partition(const rd_kafka_topic_t *topic, const void *key, size_t length,
				int32_t count, void *topic_opaque, void *message_opaque)
{
	(void)topic;
	(void)key;
	(void)length;
	struct producer_topic *ours = topic_opaque;
	const struct window_row *row = message_opaque;
	int32_t pinned = 0;
	if (atomic_compare_exchange_strong(&ours->pinned, &pinned, count))
		pinned = count;
	if (pinned != count && atomic_exchange(&ours->changed, count) != count)
		atomic_store(ours->any_changed, true);
	return partition_of(row->hash, pinned);
}

int32_t producer_partition(const struct producer_topic *topic, int32_t wanted, uint32_t hash)
{
	if (wanted >= 0)
		return wanted;
	int32_t pinned = atomic_load(&topic->pinned);
	return pinned > 0 ? partition_of(hash, pinned) : -1;
}

bool producer_repartitioning(const struct producer *producer)
{
	return atomic_load(&producer->any_changed);
}

void producer_each_changed(struct producer *producer, topics_each_fn *each, void *arg)
{
	bool left = false;
	for (struct producer_topic *t = producer->topics; t; t = t->next) {
		if (atomic_load(&t->changed) != 0)
			each(arg, t->owner);
		left = left || atomic_load(&t->changed) != 0;
	}
	if (!left)
		atomic_store(&producer->any_changed, false);
}

void producer_repartition(struct producer *producer, struct producer_topic *topic)
{
	int32_t changed = atomic_exchange(&topic->changed, 0);
	if (changed == 0)
		return;
	int32_t before = atomic_exchange(&topic->pinned, changed);
	log_warn(producer->log, "the topic's number of partitions changed: keys move",
		 LOG_TEXT("topic", topic->owner->name), LOG_INT("before", before),
		 LOG_INT("now", changed));
}

/* --- topics --- */

static rd_kafka_topic_t *topic_handle(struct producer *producer, struct producer_topic *ours)
{
	rd_kafka_topic_conf_t *conf = rd_kafka_default_topic_conf_dup(producer->client);
	rd_kafka_topic_conf_set_partitioner_cb(conf, choose_partition);
	rd_kafka_topic_conf_set_opaque(conf, ours);
	return rd_kafka_topic_new(producer->client, ours->owner->name, conf); /* takes conf */
}

struct producer_topic *producer_topic(struct producer *producer, struct topic *owner,
				      struct err *err)
{
	struct producer_topic *topic = mem_zero(sizeof(*topic));
	topic->owner = owner;
	topic->any_changed = &producer->any_changed;
	topic->topic = topic_handle(producer, topic);
	if (!topic->topic) {
		err_set(err, "%s", rd_kafka_err2str(rd_kafka_last_error()));
		free(topic);
		return NULL;
	}
	topic->next = producer->topics;
	producer->topics = topic;
	return topic;
}

static void close_topics(struct producer *producer)
{
	for (struct producer_topic *t = producer->topics; t; t = t->next)
		rd_kafka_topic_destroy(t->topic);
}

/* unused: the client is gone, so nobody chooses a partition any more. */
static void forget_topics(struct producer *producer, bool unused)
{
	while (unused && producer->topics) {
		struct producer_topic *topic = producer->topics;
		producer->topics = topic->next;
		free(topic);
	}
	producer->topics = NULL;
	atomic_store(&producer->any_changed, false);
}

/* --- what librdkafka tells --- */

static void break_down(struct producer *producer, const char *reason)
{
	if (producer->state != STATE_READY)
		return;
	set_state(producer, STATE_BROKEN);
	err_set(&producer->reason, "%s", reason);
	loop_timer_set(producer->renew, BROKEN_GRACE);
}

/* Called by librdkafka's threads. That brokers come and go, and that the client is dead, is told by
 * on_error() and its followers. */
static void on_log(const rd_kafka_t *client, int level, const char *facility, const char *text)
{
	const struct producer *producer = rd_kafka_opaque(client);
	bool known = strcmp(facility, "FAIL") == 0 || strcmp(facility, "FATAL") == 0 ||
		     strcmp(facility, "CONFWARN") == 0 || atomic_load(&producer->quiet);
	enum log_level ours = level <= 3 ? LOG_ERROR : level == 4 ? LOG_WARN : LOG_INFO;
	log_write(producer->log, known || level > 6 ? LOG_DEBUG : ours, "librdkafka",
		  LOG_FIELDS(LOG_TEXT("facility", facility), LOG_TEXT("text", text)));
}

static bool is_of_topic(rd_kafka_resp_err_t code)
{
	return code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
	       code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
	       code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED ||
	       code == RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION;
}

/* librdkafka retries for ever whatever may pass; what it reports is final. */
static void on_report(rd_kafka_t *client, const rd_kafka_message_t *message, void *arg)
{
	(void)client;
	struct producer *producer = arg;
	const struct producer_events *events = &producer->events;
	struct window_row *row = message->_private;
	const char *reason = rd_kafka_err2str(message->err);
	if (producer->state == STATE_DROPPED)
		return;
	switch ((int)message->err) {
	case RD_KAFKA_RESP_ERR_NO_ERROR:
		producer->renew_wait = RENEW_FIRST;
		producer->unreachable = false;
		events->report(events->arg, row, PRODUCER_DELIVERED, reason);
		break;
	case RD_KAFKA_RESP_ERR__PURGE_QUEUE:
	case RD_KAFKA_RESP_ERR__PURGE_INFLIGHT:
	case RD_KAFKA_RESP_ERR__FATAL:
	case RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE:
	case RD_KAFKA_RESP_ERR__MSG_TIMED_OUT:
	case RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER:
	case RD_KAFKA_RESP_ERR_DUPLICATE_SEQUENCE_NUMBER:
	case RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID:
	case RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH:
	case RD_KAFKA_RESP_ERR_INVALID_PRODUCER_ID_MAPPING:
		break_down(producer, reason); /* nothing is known of this row */
		break;
	case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
		events->report(events->arg, row, PRODUCER_PARTITION, reason);
		break;
	default:
		events->report(events->arg, row,
			       is_of_topic(message->err) ? PRODUCER_TOPIC : PRODUCER_REJECTED,
			       reason);
		break;
	}
}

/* One broker's connection may come and go: that is worth a line, but no alarm. */
static void say_trouble(struct producer *producer, int code, const char *text)
{
	bool minor = code == RD_KAFKA_RESP_ERR__TRANSPORT || code == RD_KAFKA_RESP_ERR__TIMED_OUT;
	struct log_limit *limit = minor ? &producer->connection_said : &producer->trouble_said;
	uint64_t held;
	if (log_limit_pass(limit, usec_boot(), SAY_EVERY, &held))
		log_write(
			producer->log, minor ? LOG_INFO : LOG_WARN,
			minor ? "a connection to kafka was lost"
			      : "kafka is in trouble: rows wait in the outbox",
			LOG_FIELDS(LOG_TEXT("error", rd_kafka_err2name((rd_kafka_resp_err_t)code)),
				   LOG_TEXT("text", text), LOG_INT("held_back", held)));
}

static void on_error(rd_kafka_t *client, int code, const char *text, void *arg)
{
	struct producer *producer = arg;
	char reason[400];
	if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
		producer->unreachable = true;
	producer->failed = usec_boot();
	if (code != RD_KAFKA_RESP_ERR__FATAL) {
		say_trouble(producer, code, text);
		return;
	}
	(void)rd_kafka_fatal_error(client, reason, sizeof(reason));
	break_down(producer, reason);
}

static void serve(struct producer *producer)
{
	loop_timer_set(producer->poll, POLL_EVERY);
	for (int round = 0; rd_kafka_poll(producer->client, 0) > 0; round++) {
		if (round < POLL_ROUNDS)
			continue;
		loop_timer_set(producer->poll, 0);
		break;
	}
	producer->events.progress(producer->events.arg);
}

static void on_wakeup(void *arg)
{
	struct producer *producer = arg;
	if (producer->state != STATE_DROPPED)
		serve(producer);
}

/* --- sending --- */

static rd_kafka_headers_t *headers_of(const struct encode_message *message)
{
	rd_kafka_headers_t *headers = rd_kafka_headers_new(message->header_count);
	for (size_t i = 0; i < message->header_count; i++) {
		const struct encode_header *header = &message->headers[i];
		rd_kafka_header_add(headers, header->name.data, (ssize_t)header->name.length,
				    header->value.data, (ssize_t)header->value.length);
	}
	return headers;
}

static rd_kafka_vu_t memory(rd_kafka_vtype_t type, struct row_bytes bytes)
{
	/* librdkafka asks for a pointer that it does not write through: the bytes are copied */
	union {
		const char *in;
		void *out;
	} same = { .in = bytes.data };
	return (rd_kafka_vu_t){ .vtype = type, .u.mem = { same.out, bytes.length } };
}

/* After a fatal error everything is refused, by the code of that error. */
static enum producer_sent not_sent(struct producer *producer, rd_kafka_error_t *error,
				   struct err *err)
{
	rd_kafka_resp_err_t code = rd_kafka_error_code(error);
	bool fatal = rd_kafka_fatal_error(producer->client, NULL, 0) != 0;
	err_set(err, "%s", rd_kafka_error_string(error));
	rd_kafka_error_destroy(error);
	if (fatal)
		break_down(producer, err->text);
	if (fatal || code == RD_KAFKA_RESP_ERR__QUEUE_FULL)
		return PRODUCER_BUSY;
	if (code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION)
		return PRODUCER_NO_PARTITION;
	return is_of_topic(code) ? PRODUCER_NO_TOPIC : PRODUCER_REFUSED;
}

enum producer_sent producer_send(struct producer *producer, struct producer_topic *topic,
				 int32_t partition, const struct encode_message *message,
				 struct window_row *row, struct err *err)
{
	if (producer->state != STATE_READY)
		return PRODUCER_BUSY;
	rd_kafka_headers_t *headers = headers_of(message);
	const rd_kafka_vu_t values[] = {
		{ .vtype = RD_KAFKA_VTYPE_RKT, .u.rkt = topic->topic },
		{ .vtype = RD_KAFKA_VTYPE_PARTITION,
		  .u.i32 = partition < 0 ? RD_KAFKA_PARTITION_UA : partition },
		{ .vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY },
		memory(RD_KAFKA_VTYPE_KEY, message->key),
		memory(RD_KAFKA_VTYPE_VALUE, message->value),
		{ .vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers },
		{ .vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = row },
	};
	rd_kafka_error_t *error =
		rd_kafka_produceva(producer->client, values, sizeof(values) / sizeof(values[0]));
	if (!error)
		return PRODUCER_SENT;
	rd_kafka_headers_destroy(headers); /* ours again on failure */
	return not_sent(producer, error, err);
}

/* --- making and dropping --- */

static bool set_number(rd_kafka_conf_t *conf, const char *name, int64_t number, struct err *err)
{
	char text[32];
	(void)snprintf(text, sizeof(text), "%lld", (long long)number);
	return kafka_conf_set(conf, name, text, err);
}

/* Our own defaults, where the user left librdkafka's. */
static const struct preset {
	const char *name;
	const char *alias;
	const char *usual;
	const char *value;
} presets[] = {
	{ "compression.codec", "compression.type", "none", "lz4" },
	{ "linger.ms", "queue.buffering.max.ms", "5", "0" },
	{ "client.id", "client.id", "rdkafka", "counterfoil-relay" },
	{ "socket.nagle.disable", "socket.nagle.disable", "false", "true" },
	{ "reconnect.backoff.max.ms", "reconnect.backoff.max.ms", "10000", "2000" },
	/* how long a topic that the brokers do not know may still be on its way to them */
	{ "topic.metadata.propagation.max.ms", "topic.metadata.propagation.max.ms", "30000",
	  "5000" },
};

static bool chosen(const rd_kafka_conf_t *conf, const struct conf_pairs *pairs,
		   const struct preset *preset)
{
	char value[256] = "";
	size_t size = sizeof(value);
	for (size_t i = 0; i < pairs->count; i++)
		if (strcmp(pairs->items[i].name, preset->name) == 0 ||
		    strcmp(pairs->items[i].name, preset->alias) == 0)
			return true;
	return rd_kafka_conf_get(conf, preset->name, value, &size) == RD_KAFKA_CONF_OK &&
	       strcmp(value, preset->usual) != 0;
}

static bool set_presets(rd_kafka_conf_t *conf, const struct conf_pairs *pairs, struct err *err)
{
	for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++)
		if (!chosen(conf, pairs, &presets[i]) &&
		    !kafka_conf_set(conf, presets[i].name, presets[i].value, err))
			return false;
	return true;
}

static bool set_ours(rd_kafka_conf_t *conf, const struct conf_relay *relay, struct err *err)
{
	/* the window bounds what is in flight; librdkafka's own queue must never be the first */
	int64_t messages = relay->window_rows * 2 + 1000;
	int64_t kbytes = relay->window_bytes / 512 + 128 * 1024;
	return kafka_conf_set(conf, "enable.idempotence", "true", err) &&
	       kafka_conf_set(conf, "acks", "all", err) &&
	       kafka_conf_set(conf, "message.timeout.ms", "0", err) &&
	       kafka_conf_set(conf, "enable.gapless.guarantee", "true", err) &&
	       /* else the partitioner is not called for a message without a key */
	       kafka_conf_set(conf, "sticky.partitioning.linger.ms", "0", err) &&
	       set_number(conf, "queue.buffering.max.messages", messages, err) &&
	       set_number(conf, "queue.buffering.max.kbytes", kbytes, err);
}

static int64_t size_limit_of(rd_kafka_t *client)
{
	char text[32] = "";
	size_t size = sizeof(text);
	if (rd_kafka_conf_get(rd_kafka_conf(client), "message.max.bytes", text, &size) !=
	    RD_KAFKA_CONF_OK)
		return 1000000;
	return strtoll(text, NULL, 10);
}

/* NULL: the error says why. */
static rd_kafka_conf_t *make_settings(const struct conf *conf, struct log *log, struct err *err)
{
	rd_kafka_conf_t *settings;
	if (!kafka_conf_new(&conf->kafka, log, err, &settings))
		return NULL;
	if (set_presets(settings, &conf->kafka.properties, err) &&
	    set_ours(settings, &conf->relay, err))
		return settings;
	rd_kafka_conf_destroy(settings);
	return NULL;
}

bool producer_check(const struct conf *conf, struct err *err)
{
	rd_kafka_conf_t *settings = make_settings(conf, NULL, err);
	return settings && kafka_client_check(settings, RD_KAFKA_PRODUCER, err);
}

static bool make_client(struct producer *producer, struct err *err)
{
	char reason[512];
	rd_kafka_conf_t *conf = make_settings(producer->conf, producer->log, err);
	if (!conf)
		return false;
	kafka_conf_set_owner(conf, producer);
	rd_kafka_conf_set_log_cb(conf, on_log);
	rd_kafka_conf_set_dr_msg_cb(conf, on_report);
	rd_kafka_conf_set_error_cb(conf, on_error);
	producer->client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, reason, sizeof(reason));
	if (!producer->client) {
		rd_kafka_conf_destroy(conf);
		return err_set(err, "kafka.properties: %s", reason);
	}
	return true;
}

static bool make(struct producer *producer, struct err *err)
{
	atomic_store(&producer->quiet, false);
	producer->unreachable = false;
	if (!make_client(producer, err))
		return false;
	producer->queue = rd_kafka_queue_get_main(producer->client);
	producer->wakeup = kafka_wakeup_new(producer->loop, producer->queue, on_wakeup, producer);
	producer->size_limit = size_limit_of(producer->client);
	producer->made_at = usec_boot();
	loop_timer_set(producer->poll, POLL_EVERY);
	set_state(producer, STATE_READY);
	return true;
}

static void destroy(struct producer *producer)
{
	if (!producer->client)
		return;
	kafka_wakeup_free(producer->wakeup);
	producer->wakeup = NULL;
	rd_kafka_queue_destroy(producer->queue);
	close_topics(producer);
	bool gone = kafka_destroy(producer->client, 0);
	if (!gone)
		log_warn(producer->log, "a Kafka client that does not end is left behind");
	forget_topics(producer, gone);
	producer->client = NULL;
}

static void renew(struct producer *producer)
{
	struct err err;
	destroy(producer);
	usec_t early = producer->made_at + producer->renew_wait - usec_boot();
	if (early > 0) {
		loop_timer_set(producer->renew, early);
		return;
	}
	if (producer->renew_wait * 2 <= RENEW_LAST)
		producer->renew_wait *= 2;
	if (make(producer, &err)) {
		crash_point("producer.remade");
		producer->events.ready(producer->events.arg);
		return;
	}
	log_error(producer->log, "no new producer", LOG_TEXT("text", err.text));
	producer->made_at = usec_boot();
	loop_timer_set(producer->renew, RENEW_LAST);
}

static void on_renew(void *arg)
{
	struct producer *producer = arg;
	switch (producer->state) {
	case STATE_BROKEN:
		producer->events.broken(producer->events.arg, producer->reason.text);
		break;
	case STATE_DROPPED:
		renew(producer);
		break;
	case STATE_READY:
		break;
	}
}

static void purge(struct producer *producer)
{
	atomic_store(&producer->quiet, true);
	(void)rd_kafka_purge(producer->client, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
						       RD_KAFKA_PURGE_F_NON_BLOCKING);
}

void producer_drop(struct producer *producer)
{
	if (producer->state == STATE_DROPPED)
		return;
	crash_point("producer.drop");
	purge(producer);
	set_state(producer, STATE_DROPPED);
	loop_timer_cancel(producer->poll);
	loop_timer_set(producer->renew, 0);
}

bool producer_ready(const struct producer *producer)
{
	return producer->state == STATE_READY;
}

bool producer_unreachable(const struct producer *producer)
{
	return producer->unreachable && usec_boot() - producer->failed < FAILS_EVERY;
}

bool producer_connected(const struct producer *producer)
{
	/* known once a broker has answered; asks none */
	return producer->state == STATE_READY && rd_kafka_controllerid(producer->client, 0) >= 0;
}

int64_t producer_size_limit(const struct producer *producer)
{
	return producer->size_limit;
}

bool producer_new(struct loop *loop, struct log *log, const struct conf *conf,
		  const struct producer_events *events, struct err *err,
		  struct producer **producer_r)
{
	struct producer *producer = mem_zero(sizeof(*producer));
	producer->loop = loop;
	producer->log = log;
	producer->conf = conf;
	producer->events = *events;
	producer->renew_wait = RENEW_FIRST;
	producer->poll = loop_timer_new(loop, on_wakeup, producer);
	producer->renew = loop_timer_new(loop, on_renew, producer);
	if (!make(producer, err)) {
		producer_free(producer);
		return false;
	}
	*producer_r = producer;
	return true;
}

void producer_free(struct producer *producer)
{
	if (!producer)
		return;
	if (producer->client)
		purge(producer);
	destroy(producer);
	loop_timer_free(producer->poll);
	loop_timer_free(producer->renew);
	free(producer);
}
