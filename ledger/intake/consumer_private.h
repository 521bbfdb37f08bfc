/* What the files of the consumer share. */
#ifndef LEDGER_CONSUMER_PRIVATE_H
#define LEDGER_CONSUMER_PRIVATE_H

#include "consumer.h"
#include "kafka.h"

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

/* Takes the event over, which the message was in. */
struct message *message_new(rd_kafka_event_t *event, const rd_kafka_message_t *raw);

/* NULL: the error says why. ends: the end of a partition is told. */
rd_kafka_conf_t *consumer_settings(const struct conf *conf, bool ends, struct log *log,
				   struct err *err);

#endif
