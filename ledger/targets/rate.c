/* The token bucket. A token costs the period times the ledgers, and every microsecond brings as
 * much as there are events: whole numbers, so that no rate drifts however long it runs. */
#include "rate.h"

#define BURST_FOR (USEC_SEC / 20)

static int64_t cost(const struct rate *rate)
{
	return rate->period * rate->ledgers;
}

static int64_t brim(const struct rate *rate)
{
	const int64_t worth = BURST_FOR * rate->events;
	return worth > cost(rate) ? worth : cost(rate);
}

static int64_t credit_at(const struct rate *rate, usec_t now)
{
	const int64_t most = brim(rate);
	const usec_t passed = now > rate->at ? now - rate->at : 0;
	if (rate->credit >= most || passed > (most - rate->credit) / rate->events)
		return most;
	return rate->credit + passed * rate->events;
}

static void settle(struct rate *rate, usec_t now)
{
	rate->credit = credit_at(rate, now);
	if (now > rate->at)
		rate->at = now;
}

void rate_init(struct rate *rate, const struct conf_rate *conf)
{
	*rate = (struct rate){ .events = conf->events, .period = conf->period, .ledgers = 1 };
}

void rate_join(struct rate *rate, usec_t now, usec_t grace)
{
	rate->credit = 0;
	rate->at = now + grace;
}

void rate_share(struct rate *rate, int64_t ledgers, usec_t now)
{
	if (rate->events == 0)
		return;
	settle(rate, now);
	rate->ledgers = ledgers > 1 ? ledgers : 1;
}

int64_t rate_tokens(const struct rate *rate, usec_t now)
{
	if (rate->events == 0)
		return INT64_MAX;
	if (now < rate->at)
		return 0;
	const int64_t credit = credit_at(rate, now);
	return credit > 0 ? credit / cost(rate) : 0;
}

void rate_take(struct rate *rate, int64_t tokens, usec_t now)
{
	if (rate->events == 0)
		return;
	settle(rate, now);
	rate->credit -= tokens * cost(rate);
}

void rate_put_back(struct rate *rate, int64_t tokens, usec_t now)
{
	rate_take(rate, -tokens, now);
}

usec_t rate_wait(const struct rate *rate, usec_t now)
{
	if (rate_tokens(rate, now) > 0)
		return 0;
	const usec_t grace = rate->at > now ? rate->at - now : 0;
	const int64_t missing = cost(rate) - credit_at(rate, now);
	return grace + (missing > 0 ? (missing + rate->events - 1) / rate->events : 0);
}
