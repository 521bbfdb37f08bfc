/* What waits in the outbox, looked at from time to time: for health, for metrics, and for the rows
 * of counterfoil.relay and counterfoil.relay_topic, from which the console tells how relays are. */
#ifndef COUNTERFOIL_RELAY_REPORT_H
#define COUNTERFOIL_RELAY_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "health.h"
#include "loop.h"
#include "meter.h"
#include "publishing/topics.h"
#include "source/outbox.h"

/* What the relay says of itself. */
struct report_figures {
	const char *role;
	bool owner; /* speaks for the topics too */
	size_t in_flight;
	size_t batch; /* rows of the last poll that found any */
	uint64_t published;
	uint64_t violations;
	usec_t median; /* from fetch to acknowledgement, since the last report; 0: none */
	usec_t p99;
};

struct report_settings {
	const char *owner; /* borrowed, as all that follows */
	const char *name;
	usec_t ready_max_age;
	void (*figures)(void *arg, struct report_figures *figures_r);
	void *arg;
};

struct report;

struct report *report_new(struct loop *loop, struct outbox *outbox, struct topics *topics,
			  struct meter *meter, const struct report_settings *settings);
void report_free(struct report *report);

void report_begin(struct report *report); /* the outbox can be asked */
void report_end(struct report *report);   /* it cannot */

struct health_wait report_oldest(const struct report *report); /* row of the outbox */

#endif
