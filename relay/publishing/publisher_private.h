/* What the files of the publisher share, and nobody else. */
#ifndef COUNTERFOIL_RELAY_PUBLISHER_PRIVATE_H
#define COUNTERFOIL_RELAY_PUBLISHER_PRIVATE_H

#include "encode.h"
#include "lately.h"
#include "order.h"
#include "producer.h"
#include "publisher.h"

#define PUBLISHER_SAY_EVERY    (10 * USEC_SEC)
#define PUBLISHER_ROW_COST     200 /* bytes that a row in flight takes beside its own */
#define PUBLISHER_NO_PARTITION "its topic has no such partition"

struct publisher {
	struct log *log;
	const struct conf_relay *conf;
	struct publisher_events events;
	struct window *window;
	struct meter *meter;
	struct topics *topics;
	struct topic *last; /* rows of one topic come in a row */
	struct keys *keys;
	struct burial *burial;
	struct order *order;
	struct encoder *encoder;
	struct producer *producer;
	usec_t reported;           /* the last delivery, or when there was something to deliver */
	usec_t youngest_delivered; /* of all delivered rows the latest fetch */
	int64_t lowest_dropped;    /* id of what was forgotten last */
	struct publisher_totals totals;
	struct lately lately;
	struct log_limit dead_said;
	struct log_limit parked_said;
	struct log_limit full_said;
	struct log_limit header_said;
	struct log_limit broken_said;
	struct log_limit order_said;
};

/* A row that will never be sent, and why. */
struct sentence {
	struct window_claim claim;
	int64_t size;
	const char *topic;
	bool no_event_id;
	const char *reason;
	const char *remedy;
};

/* --- dead and parked rows (condemned.c) ---------------------------------------------------------
 */

/* Does a dead row of this ordering key hold back those behind it? */
bool publisher_blocks_key(const struct publisher *publisher, uint64_t order);
/* False: there is no room for another one; the row stays where it is. */
bool publisher_sentence(struct publisher *publisher, const struct sentence *sentence, bool parked);
/* A row that is in flight no longer; it must have been dropped from the window. */
void publisher_condemn_reported(struct publisher *publisher, const struct window_row *row,
				const char *reason, const char *remedy);

/* --- what the producer tells (reports.c) --------------------------------------------------------
 */

void publisher_on_report(void *arg, struct window_row *row, enum producer_report report,
			 const char *reason);
void publisher_on_progress(void *arg);
void publisher_on_broken(void *arg, const char *reason);
void publisher_on_ready(void *arg);

#endif
