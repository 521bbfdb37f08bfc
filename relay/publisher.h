/* From fetched rows to messages and from reports to acknowledged rows: the window, the refused
 * rows, the encoder and the producer together. */
#ifndef COUNTERFOIL_RELAY_PUBLISHER_H
#define COUNTERFOIL_RELAY_PUBLISHER_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf.h"
#include "err.h"
#include "log.h"
#include "loop.h"
#include "meter.h"
#include "window.h"

/* read_again: this row and all behind it (a row that was refused is settled, and those of its key
 * that waited behind it must come before newer ones). progress: after a number of reports. lost:
 * the producer is gone, and with it all that was in flight. ready: there is a new one. foreign_id:
 * an id in flight now belongs to another event. All come from the loop. */
struct publisher_events {
	void (*read_again)(void *arg, int64_t id);
	void (*progress)(void *arg);
	void (*lost)(void *arg);
	void (*ready)(void *arg);
	void (*foreign_id)(void *arg, int64_t id);
	void *arg;
};

/* How far publisher_rows() came. */
enum publisher_result {
	PUBLISHER_ALL,
	PUBLISHER_STOPPED, /* this row and all behind it once nothing is in flight */
	PUBLISHER_FULL,    /* the same, but not soon: no more refused rows can be remembered */
};

struct publisher_totals {
	uint64_t published;
	uint64_t refused;
	uint64_t headers_dropped;
};

struct publisher;

MUST_USE bool publisher_new(struct loop *loop, struct log *log, const struct conf *conf,
			    struct window *window, struct meter *meter,
			    const struct publisher_events *events, struct err *err,
			    struct publisher **publisher_r);
void publisher_free(struct publisher *publisher);

/* May rows be handed over? Not while a new producer is being made. */
bool publisher_ready(const struct publisher *publisher);
int64_t publisher_size_limit(const struct publisher *publisher);

/* Sends the rows of a result, taken in the order of `numbers`, which is that of their ids.
 * *stopped_r is set unless all were taken: to the id of the first row that was not. */
enum publisher_result publisher_rows(struct publisher *publisher, const PGresult *result,
				     const int *numbers, size_t count, int64_t *stopped_r);

/* Nothing that has not left yet will, from this moment on; how many rows were in flight. */
size_t publisher_drop(struct publisher *publisher);
/* The ids mean other rows now: nothing that is remembered of them holds. */
void publisher_forget(struct publisher *publisher);

/* Nothing more may be sent until nothing is in flight: a topic's partitions changed. */
bool publisher_must_drain(const struct publisher *publisher);
void publisher_drained(struct publisher *publisher); /* nothing is in flight */

/* The whole table is read between the two. */
void publisher_sweep_begin(struct publisher *publisher);
void publisher_sweep_end(struct publisher *publisher);

const struct publisher_totals *publisher_totals(const struct publisher *publisher);

#endif
