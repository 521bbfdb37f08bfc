/* What the relay's producer and the ledger's consumer share of librdkafka: settings from the
 * configuration, its log in ours, and a queue that wakes the loop. */
#ifndef COUNTERFOIL_KAFKA_H
#define COUNTERFOIL_KAFKA_H

#include <librdkafka/rdkafka.h>
#include <stdint.h>

#include "buf.h"
#include "conf.h"
#include "err.h"
#include "log.h"
#include "loop.h"
#include "usec.h"

/* A librdkafka configuration with the user's properties, properties_file and password_file applied
 * in that order and the log directed to `log` (which must outlive the client). The caller adds its
 * own settings and hands it to rd_kafka_new(), or destroys it.
 *
 * librdkafka gives a log callback nothing but the client and its opaque, so the opaque is `log`. A
 * caller whose own callbacks need another one uses kafka_conf_set_owner(), never
 * rd_kafka_conf_set_opaque(). */
MUST_USE bool kafka_conf_new(const struct conf_kafka *kafka, struct log *log, struct err *err,
			     rd_kafka_conf_t **conf_r);

/* Makes `owner` the opaque of the client's callbacks: a struct whose first member is its
 * `struct log *`, set before rd_kafka_new() and valid until the client is destroyed. */
void kafka_conf_set_owner(rd_kafka_conf_t *conf, void *owner);

/* rd_kafka_destroy_flags(), bounded: librdkafka waits for threads of its own, and 2.0.2 does so for
 * ever once a topic was deleted and made again. After KAFKA_DESTROY_TIMEOUT the client is left
 * behind and false is returned: it calls nobody any more but a partitioner, whose opaques must
 * then be left behind too. Wake-ups, queues and topics of the client are freed before. */
#define KAFKA_DESTROY_TIMEOUT (3 * USEC_SEC)
MUST_USE bool kafka_destroy(rd_kafka_t *client, int flags);

/* rd_kafka_conf_set() with our error. */
MUST_USE bool kafka_conf_set(rd_kafka_conf_t *conf, const char *name, const char *value,
			     struct err *err);

/* message.max.bytes, as the configuration has it: what a client counts a message against. */
MUST_USE bool kafka_message_max(const struct conf_kafka *kafka, struct err *err, int64_t *bytes_r);

/* Tries every property of the configuration by itself, and opens its files: all that is wrong, one
 * a line, each with its place. */
void kafka_conf_check(const struct conf *conf, struct buf *faults);
/* Whether rd_kafka_new() would take them: a client is made that knows no server, and so asks none,
 * and is destroyed. What needs a server even for that, to log in, is left out. Takes `conf`. */
MUST_USE bool kafka_client_check(rd_kafka_conf_t *conf, rd_kafka_type_t type, struct err *err);

/* Calls fn on the loop whenever the queue goes from empty to not empty, and once at the beginning
 * for what is there already: drain it to NULL each time. (A timer should poll as well: the wake-up
 * is written only for an empty queue.) The queue is borrowed: it is destroyed after the wake-up. */
struct kafka_wakeup;
struct kafka_wakeup *kafka_wakeup_new(struct loop *loop, rd_kafka_queue_t *queue, loop_fn *fn,
				      void *arg);
/* Before the client is destroyed; NULL is fine. */
void kafka_wakeup_free(struct kafka_wakeup *wakeup);

#endif
