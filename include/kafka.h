/* What the relay's producer and the ledger's consumer share of librdkafka: settings from the
 * configuration, its log in ours, and a queue that wakes the loop. */
#ifndef COUNTERFOIL_KAFKA_H
#define COUNTERFOIL_KAFKA_H

#include <librdkafka/rdkafka.h>

#include "conf.h"
#include "err.h"
#include "log.h"
#include "loop.h"

/* A librdkafka configuration with the user's properties, properties_file and password_file applied
 * in that order and the log directed to `log` (which must outlive the client). The caller adds its
 * own settings and hands it to rd_kafka_new(), or destroys it.
 *
 * The client's opaque is `log`: librdkafka gives a log callback nothing else. So the caller never
 * calls rd_kafka_conf_set_opaque(); it takes delivery reports, rebalances and errors as events from
 * its queue (rd_kafka_conf_set_events()), or finds itself by the message's or the topic's opaque. */
MUST_USE bool kafka_conf_new(const struct conf_kafka *kafka, struct log *log, struct err *err,
			     rd_kafka_conf_t **conf_r);

/* rd_kafka_conf_set() with our error. */
MUST_USE bool kafka_conf_set(rd_kafka_conf_t *conf, const char *name, const char *value,
			     struct err *err);

/* Calls fn on the loop whenever the queue goes from empty to not empty: drain it to NULL each time.
 * (A timer should poll as well: the wake-up is written only for an empty queue.) Takes its own
 * reference on the queue. */
struct kafka_wakeup;
struct kafka_wakeup *kafka_wakeup_new(struct loop *loop, rd_kafka_queue_t *queue, loop_fn *fn,
				      void *arg);
void kafka_wakeup_free(struct kafka_wakeup *wakeup); /* before the client is destroyed */

#endif
