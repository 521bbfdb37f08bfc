/* From fetched rows to messages and from reports to acknowledged rows: the topics, the window, the
 * encoder and the producer together. What becomes of a row that was read:
 *
 *   sent         into the window, until it is reported
 *   passed over  it is in the window already, or its topic is not open
 *   condemned    on its way to the dead rows: it can never be sent
 *   parked       the same, for a dead row of its ordering key is before it
 *   not taken    and none behind it: they are to be read again */
#ifndef COUNTERFOIL_RELAY_PUBLISHER_H
#define COUNTERFOIL_RELAY_PUBLISHER_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf.h"
#include "dead/burial.h"
#include "dead/keys.h"
#include "err.h"
#include "log.h"
#include "loop.h"
#include "meter.h"
#include "reading/reader.h"
#include "topics.h"
#include "window.h"

/* progress: after a number of reports. lost: the producer is gone, and with it all that was in
 * flight, from this row on. ready: there is a new one. foreign_id: an id in flight now belongs to
 * another event. All come from the loop. */
struct publisher_events {
	void (*progress)(void *arg);
	void (*lost)(void *arg, int64_t lowest);
	void (*ready)(void *arg);
	void (*foreign_id)(void *arg, int64_t id);
	void *arg;
};

/* The rows of a poll's answer, in the order of `numbers`, which is that of their ids. */
struct publisher_page {
	const PGresult *result;
	const int *numbers;
	size_t count;
	enum reader_cursor cursor;
	struct topic *probe; /* whose first row is sent alone */
};

/* How far publisher_rows() came. */
enum publisher_result {
	PUBLISHER_ALL,
	PUBLISHER_STOPPED, /* not this row, and none behind it */
	PUBLISHER_FULL,    /* the same, for want of room for another condemned row or key */
};

struct publisher_totals {
	uint64_t published;
	uint64_t dead;
	uint64_t parked;
	uint64_t headers_dropped;
	uint64_t violations;
};

struct publisher;

MUST_USE bool publisher_new(struct loop *loop, struct log *log, const struct conf *conf,
			    struct window *window, struct meter *meter,
			    const struct publisher_events *events, struct err *err,
			    struct publisher **publisher_r);
void publisher_free(struct publisher *publisher);

/* May rows be handed over? Not while a new producer is being made. */
bool publisher_ready(const struct publisher *publisher);
bool publisher_connected(const struct publisher *publisher);   /* a broker has answered */
bool publisher_unreachable(const struct publisher *publisher); /* no broker is there */
int64_t publisher_size_limit(const struct publisher *publisher);
struct topics *publisher_topics(const struct publisher *publisher);
struct burial *publisher_burial(const struct publisher *publisher);
struct keys *publisher_keys(const struct publisher *publisher);

/* *stopped_r is set unless all were taken: to the id of the first row that was not. */
enum publisher_result publisher_rows(struct publisher *publisher, const struct publisher_page *page,
				     int64_t *stopped_r);

/* A row of an answer is given up for what the caller knows of it. False: not now. */
bool publisher_condemn(struct publisher *publisher, const PGresult *result, int number,
		       const char *reason, const char *remedy);

/* Nothing arrives any more: rows are in flight and none was reported for a while. */
bool publisher_stalled(const struct publisher *publisher, usec_t now);
/* From time to time: which topics are in trouble? True: what stalls takes so much of the window
 * that it should be dropped, with publisher_give_up(), once nothing else is in flight. full: the
 * window has no room for other rows. */
bool publisher_look(struct publisher *publisher, bool full, usec_t now);
size_t publisher_in_flight(const struct publisher *publisher);   /* of topics that do not stall */
void publisher_give_up(struct publisher *publisher, usec_t now); /* lost() follows at once */

/* Nothing that has not left yet will, from this moment on; how many rows were in flight. */
size_t publisher_drop(struct publisher *publisher);
/* A new owner: nothing that was found out about topics, rows and keys holds. */
void publisher_restart(struct publisher *publisher);
/* The ids mean other rows now: nothing that is remembered of them holds. */
void publisher_forget(struct publisher *publisher);

const struct publisher_totals *publisher_totals(const struct publisher *publisher);
/* How long rows took to be acknowledged since this was asked last; 0: there were none. */
void publisher_lately(struct publisher *publisher, usec_t *median_r, usec_t *p99_r);

#endif
