/* What the relay counts and measures, for /metrics. Whoever knows a number sets it. */
#ifndef COUNTERFOIL_RELAY_METER_H
#define COUNTERFOIL_RELAY_METER_H

#include <stdint.h>

#include "metrics.h"
#include "source/row.h"
#include "usec.h"

struct meter_topics;

struct meter {
	struct metrics *metrics;
	struct series *rows;
	struct series *oldest_age;
	struct series *publish_seconds;
	struct series *gaps;
	struct series *short_deletes;
	struct series *headers_dropped;
	struct series *owner;
	struct series *possible_duplicates;
	struct series *dead_rows;
	struct series *parked_rows;
	struct series *blocked_topics;
	struct series *violations;
	struct series *db_reconnects;
	struct meter_topics *topics;
};

struct meter *meter_new(void);
void meter_free(struct meter *meter);

/* The number under which a topic's rows are counted. Who writes to the outbox chooses the topics:
 * beyond METER_TOPICS of them, all others are counted as one. hash: of its name. */
#define METER_TOPICS 100
uint8_t meter_topic(struct meter *meter, struct row_bytes name, uint32_t hash);
void meter_published(struct meter *meter, uint8_t topic, usec_t took);

#endif
