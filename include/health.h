/* A service's health over HTTP, for supervisors and for Prometheus:
 *
 *   /livez    200: that it is answered shows that the loop turns; knows nothing of the database,
 *             so that an outage of it restarts nobody
 *   /readyz   200 when every check of the service is good, else 503; JSON, with each check
 *   /metrics  its numbers */
#ifndef COUNTERFOIL_HEALTH_H
#define COUNTERFOIL_HEALTH_H

#include <stdbool.h>

#include "err.h"
#include "loop.h"
#include "metrics.h"
#include "usec.h"

struct health;
struct health_report; /* what one /readyz says */

struct health_events {
	void (*check)(void *arg, struct health_report *report); /* says how each check stands */
	void (*measure)(void *arg); /* sets the numbers that nobody keeps up to date */
	void *arg;
};

/* metrics are borrowed. address: see http_server.h. */
MUST_USE bool health_new(struct loop *loop, const char *address, const struct metrics *metrics,
			 const struct health_events *events, struct err *err,
			 struct health **health_r);
void health_free(struct health *health);                 /* NULL is fine */
const char *health_address(const struct health *health); /* where it listens */

/* One check, under a fixed name; the detail is in our own words, never an error's text. */
void health_say(struct health_report *report, const char *check, bool good, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* The oldest of what waits to be done, as it was when somebody last looked. */
struct health_wait {
	usec_t seen_at; /* boot clock; 0: nobody has looked yet */
	usec_t age;     /* then; 0: nothing was waiting */
};

/* How long to wait before looking again, when the last look took so long. */
usec_t health_look_again(usec_t limit, usec_t took);

/* The check "progress": is the oldest younger than the limit, and has somebody looked of late? */
void health_say_progress(struct health_report *report, const struct health_wait *wait,
			 const char *what, usec_t limit, usec_t now);

#endif
