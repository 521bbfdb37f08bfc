/* Intake: consumed messages become rows, in one transaction with the position of their partition.
 * Owns the Kafka consumer and one connection. */
#ifndef LEDGER_INTAKE_H
#define LEDGER_INTAKE_H

#include "conf.h"
#include "log.h"
#include "loop.h"
#include "meter.h"
#include "rules/rules.h"

struct intake;

struct intake_events {
	void (*ready)(void *arg); /* once: subscribed, and the database answers */
	void (*recorded)(void *arg, int64_t effects); /* new rows were committed */
	void *arg;
};

MUST_USE bool intake_new(struct loop *loop, struct log *log, const struct conf *conf,
			 struct rules *rules, struct meter *meter,
			 const struct intake_events *events, struct err *err,
			 struct intake **intake_r);
/* For counters kept by instance (unmatched). 0: none yet. */
void intake_instance_set(struct intake *intake, int64_t instance);
/* Back-pressure from the executor: partitions stay assigned and polled, nothing is fetched. */
void intake_pause(struct intake *intake, bool pause);
/* Consumes nothing more; the batch in hand is finished or given up; then leaves the group and calls
 * done. */
void intake_stop(struct intake *intake, loop_fn *done, void *arg);
void intake_free(struct intake *intake);

/* The group has told us what is ours, be it nothing. */
bool intake_joined(const struct intake *intake);
/* Partitions of ours that are not read, since nobody knows from where: see ledger.start. */
size_t intake_unbegun(const struct intake *intake);
/* Partitions of ours that are not read, since too much of a topic is poison; which topic. */
size_t intake_full(const struct intake *intake, const char **topic_r);
void intake_measure(const struct intake *intake); /* into the meter */

#endif
