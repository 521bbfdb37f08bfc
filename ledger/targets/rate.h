/* How often a target may be called: a token bucket. Pure.
 *
 * The configured rate is that of all ledgers together, and each takes an equal share of it. Whoever
 * comes anew waits until the others must have seen it, and begins with an empty bucket: together
 * they never pass the rate by more than what their buckets hold, each a token or the twentieth part
 * of a second's worth. */
#ifndef LEDGER_RATE_H
#define LEDGER_RATE_H

#include "conf.h"

struct rate {
	int64_t events; /* a period, of all ledgers; 0: no limit */
	usec_t period;
	int64_t ledgers; /* that share it */
	int64_t credit;  /* microseconds times events */
	usec_t at;       /* of credit; later than now: no token before */
};

void rate_init(struct rate *rate, const struct conf_rate *conf);
/* The bucket is empty, and stays so for `grace`, while others may not know of us yet. */
void rate_join(struct rate *rate, usec_t now, usec_t grace);
void rate_share(struct rate *rate, int64_t ledgers, usec_t now); /* so many live, we included */

int64_t rate_tokens(const struct rate *rate, usec_t now); /* INT64_MAX: no limit */
void rate_take(struct rate *rate, int64_t tokens, usec_t now);
void rate_put_back(struct rate *rate, int64_t tokens, usec_t now);
usec_t rate_wait(const struct rate *rate, usec_t now); /* until there is a token; 0: there is one */

#endif
