/* The producer: idempotent, acks=all, no message timeout, the partition chosen by our own hash.
 *
 * A producer that met a fatal error, or whose rows are no longer ours to send, is dropped whole and
 * a new one takes its place: what was in flight is neither known to be written nor known not to be,
 * and is read from the table again. */
#ifndef COUNTERFOIL_RELAY_PRODUCER_H
#define COUNTERFOIL_RELAY_PRODUCER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf.h"
#include "encode.h"
#include "err.h"
#include "log.h"
#include "loop.h"
#include "topics.h"
#include "window.h"

enum producer_report {
	PRODUCER_DELIVERED, /* written by all in-sync replicas */
	PRODUCER_TOPIC,     /* its topic does not do: it is unknown, or not ours to write to */
	PRODUCER_PARTITION, /* it names a partition that there is not */
	PRODUCER_REJECTED,  /* the broker did not take the batch that it was in */
};

/* report: the end of one row that was sent; never for rows of a dropped producer. progress: after
 * a number of reports. broken: a fatal error; producer_drop() is expected. ready: a new producer
 * stands in for a dropped one. All come from the loop, none from inside producer_send(). */
struct producer_events {
	void (*report)(void *arg, struct window_row *row, enum producer_report report,
		       const char *reason);
	void (*progress)(void *arg);
	void (*broken)(void *arg, const char *reason);
	void (*ready)(void *arg);
	void *arg;
};

struct producer;
struct producer_topic;

/* conf is borrowed and must outlive the producer. False: the configuration does not make one. */
MUST_USE bool producer_new(struct loop *loop, struct log *log, const struct conf *conf,
			   const struct producer_events *events, struct err *err,
			   struct producer **producer_r);
void producer_free(struct producer *producer);
/* Whether librdkafka would take our settings and the user's together; no server is asked. */
MUST_USE bool producer_check(const struct conf *conf, struct err *err);

/* Purges at once: nothing that has not left yet will. The rest follows on the next turns of the
 * loop, until ready(). */
void producer_drop(struct producer *producer);
bool producer_ready(const struct producer *producer);
bool producer_connected(const struct producer *producer);   /* a broker has answered it */
bool producer_unreachable(const struct producer *producer); /* no broker since the last report */

int64_t producer_size_limit(const struct producer *producer); /* bytes of a message */

/* Where rows to this topic are handed over; NULL: err says why not. Valid until the producer is
 * dropped. */
struct producer_topic *producer_topic(struct producer *producer, struct topic *topic,
				      struct err *err);
/* Where a row with this hash will go; -1: nobody knows the number of partitions yet. */
int32_t producer_partition(const struct producer_topic *topic, int32_t wanted, uint32_t hash);

enum producer_sent {
	PRODUCER_SENT,     /* will be reported */
	PRODUCER_BUSY,     /* not now; this row and all behind it must be read again */
	PRODUCER_NO_TOPIC, /* as PRODUCER_TOPIC, PRODUCER_PARTITION and PRODUCER_REJECTED, but at
			      once */
	PRODUCER_NO_PARTITION,
	PRODUCER_REFUSED, /* by itself: err says why */
};

/* Hands a row over; the message is copied. The row, whose hash must be set, must stay where it is
 * until it is reported or the producer was dropped. partition: -1 by hash. */
enum producer_sent producer_send(struct producer *producer, struct producer_topic *topic,
				 int32_t partition, const struct encode_message *message,
				 struct window_row *row, struct err *err);

/* Topics have another number of partitions than their rows in flight were sent by. Each one goes
 * over to the new number by producer_repartition(), once nothing of it is in flight. */
bool producer_repartitioning(const struct producer *producer);
void producer_each_changed(struct producer *producer, topics_each_fn *each, void *arg);
void producer_repartition(struct producer *producer, struct producer_topic *topic);

#endif
