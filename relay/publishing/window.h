/* The rows between their fetch and their deletion, by id.
 *
 *   FREE -> IN_FLIGHT -> ACKED -> DELETING -> FREE
 *    |         |           ^__________|  the DELETE did not happen, or nobody knows
 *    |         +-> FREE                  rejected, or forgotten with its producer
 *    +-> CONDEMNED -> FREE               on its way to the dead rows
 *
 * At most `rows` rows and about `bytes` bytes are in flight at once, at most 1/8 of each in one
 * partition; as many rows again may wait for their deletion. What is fetched while a partition
 * moves has room for certain; one that has stood still for a while, or whose topic's rows others
 * overtake, is no longer reckoned with, and may be full. Pure: no clock, no library. */
#ifndef COUNTERFOIL_RELAY_WINDOW_H
#define COUNTERFOIL_RELAY_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "topics.h"
#include "usec.h"

#define WINDOW_UUID  16
#define WINDOW_SHARE 8               /* one partition's part of the window is 1/8 */
#define WINDOW_STILL (200 * USEC_MS) /* a partition without a report for so long stands still */
#define WINDOW_SLOW  (200 * USEC_MS) /* younger are rows of others that were delivered before */

enum window_state {
	WINDOW_FREE,
	WINDOW_IN_FLIGHT,
	WINDOW_ACKED,
	WINDOW_DELETING,
	WINDOW_CONDEMNED,
};

struct window_row {
	uint32_t hash; /* for the partitioner, which reads it on another thread: set before the row
			* is handed over, and the row stays where it is until it is reported */
	uint64_t lane;
	uint32_t bytes;
	uint8_t state; /* enum window_state */
	bool alone;    /* nothing else of its topic is in flight */
	bool placed;   /* its partition was named */
	bool again;    /* deleted before, perhaps: the answer was lost */
	uint8_t event_id[WINDOW_UUID];
	int64_t id;
	uint64_t order;      /* topic and ordering key; 0: no order */
	usec_t fetched;      /* boot clock */
	struct topic *topic; /* NULL: condemned for the name of its topic */
	struct window_row *next;
};

struct window_claim {
	int64_t id;
	const void *event_id;
	uint32_t hash;
	uint64_t lane; /* from window_lane() */
	uint32_t bytes;
	uint64_t order;
	struct topic *topic;
};

struct window *window_new(size_t rows, size_t bytes);
void window_free(struct window *window);

/* The lane of a partition (-1: not known yet). */
uint64_t window_lane(uint32_t topic_hash, int32_t partition);

/* How many rows and bytes may be fetched whatever partition they turn out to go to. now 0: none is
 * taken to stand still. */
size_t window_room(struct window *window, usec_t now, size_t *bytes_r);
/* Is there room for another row in this lane? Always, while it is reckoned with. */
bool window_fits(const struct window *window, uint64_t lane, const struct topic *topic, usec_t now);
/* A lane that was full is half empty again. */
bool window_eased(const struct window *window, uint64_t lane, const struct topic *topic,
		  usec_t now);

/* One partition's part of the window. */
size_t window_share(const struct window *window, size_t *bytes_r);

struct window_row *window_find(const struct window *window, int64_t id); /* NULL: not here */
/* The id must not be here, and there must be room. */
struct window_row *window_add(struct window *window, const struct window_claim *claim, usec_t now);

void window_ack(struct window *window, struct window_row *row, usec_t now);
void window_drop(struct window *window, struct window_row *row); /* in flight: forgotten */

/* A row that is never sent, see burial.h. */
struct window_row *window_condemn(struct window *window, const struct window_claim *claim);
void window_bury(struct window *window, struct window_row *row); /* condemned: gone */

/* Every row that is in flight; it may be dropped meanwhile. */
typedef void window_each_fn(void *arg, struct window_row *row);
void window_each(struct window *window, window_each_fn *each, void *arg);

/* Acknowledged rows, oldest first, on their way to be deleted; how many. */
size_t window_take(struct window *window, struct window_row **rows, size_t max);
void window_deleted(struct window *window, struct window_row *row);
/* Not deleted after all; again: or perhaps it was. */
void window_keep(struct window *window, struct window_row *row, bool again);
/* Others may have deleted the acknowledged rows meanwhile. */
void window_doubt(struct window *window);
/* Acknowledged rows that are waiting for their deletion: forgotten, for the ids mean other rows. */
size_t window_forget_acked(struct window *window);

/* Rows with such ids that are anywhere between their fetch and their end. */
size_t window_within(const struct window *window, int64_t first, int64_t last);

size_t window_in_flight(const struct window *window);
size_t window_acked(const struct window *window);     /* acknowledged, no DELETE sent */
size_t window_undeleted(const struct window *window); /* acknowledged, not known to be deleted */

#endif
