/* Rows that Kafka or our own checks would not take: they stay in the outbox and are tried again
 * with backoff; the rows of the same ordering key behind them wait, all others pass.
 *
 * A broker condemns a batch whole, the innocent rows with the one that it means. So a row that
 * failed in company is only suspected: its next try, due at once, is made while nothing else is in
 * flight. Pure; remembered in memory only, for the table says it all again. */
#ifndef COUNTERFOIL_RELAY_REFUSED_H
#define COUNTERFOIL_RELAY_REFUSED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "usec.h"

#define REFUSED_FIRST (5 * USEC_SEC) /* until the next try; doubled each time */
#define REFUSED_LAST  (5 * USEC_MIN)

enum refused_verdict {
	REFUSED_SEND,  /* nothing speaks against it */
	REFUSED_ALONE, /* while nothing else is in flight */
	REFUSED_WAIT,  /* its time has not come, or a row of its key before it is refused */
};

enum refused_cause {
	REFUSED_ITSELF,     /* a row that fails by itself, whatever its company */
	REFUSED_IN_COMPANY, /* one of its batch failed */
};

struct refused;

struct refused *refused_new(size_t max);
void refused_free(struct refused *refused);

size_t refused_count(const struct refused *refused);
bool refused_full(const struct refused *refused);

/* What to do with a row that was read. order: topic and ordering key as one number, 0: none. */
enum refused_verdict refused_check(struct refused *refused, int64_t id, uint64_t order, usec_t now);
/* Refused, for the first time or again; false: there is no room for another row. */
bool refused_add(struct refused *refused, int64_t id, uint64_t order, enum refused_cause cause,
		 usec_t now);
/* No longer refused, for it was delivered; false: it was not. */
bool refused_settle(struct refused *refused, int64_t id);

void refused_forget(struct refused *refused);

/* Between begin and end every row of the table is read. A refused row that was shown neither to
 * refused_check() nor to refused_seen() meanwhile is gone from the table and settled; *lowest_r is
 * the lowest such id. False: there was none. */
void refused_sweep_begin(struct refused *refused);
void refused_seen(struct refused *refused, int64_t id);
bool refused_sweep_end(struct refused *refused, int64_t *lowest_r);

#endif
