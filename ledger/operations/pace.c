/* The pace of a bulk order: a bucket of tokens that holds what is due in BURST, so that a rate is
 * kept in every second, whatever was waited for before. */
#include "pace.h"

#define PAGE_MAX 50 /* keys of one transaction */
#define BURST    (USEC_SEC / 5)

static double per_second(usec_t time)
{
	return (double)time / (double)USEC_SEC;
}

static void fill(struct pace *pace, usec_t now)
{
	const double due = pace->rate * per_second(BURST);
	const double most = due > 1 ? due : 1;
	if (pace->at)
		pace->tokens += pace->rate * per_second(now - pace->at);
	else
		pace->tokens = 1;
	if (pace->tokens > most)
		pace->tokens = most;
	pace->at = now;
}

static struct pace_next wait_for(usec_t wait)
{
	return (struct pace_next){ .step = PACE_WAIT, .wait = wait };
}

static struct pace_next order(int64_t count)
{
	return (struct pace_next){ .step = PACE_ORDER, .count = count };
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* As many as rate and room let. */
static struct pace_next order_within(struct pace *pace, int64_t most, usec_t now)
{
	if (pace->rate <= 0)
		return order(most);
	fill(pace, now);
	if (pace->tokens >= 1)
		return order(least(most, (int64_t)pace->tokens));
	return wait_for((usec_t)((1 - pace->tokens) / pace->rate * (double)USEC_SEC) + 1);
}

struct pace_next pace_next(struct pace *pace, const struct pace_figures *figures, usec_t now)
{
	const bool proved = !pace->canary || figures->done > 0;
	if (pace->stop_after > 0 && figures->failed >= pace->stop_after)
		return (struct pace_next){ .step = PACE_FAILED };
	if (!proved && figures->failed > 0)
		return (struct pace_next){ .step = PACE_CANARY };
	if (!figures->left && figures->running == 0)
		return (struct pace_next){ .step = PACE_DONE };
	if (!figures->left || figures->room <= 0 || (!proved && figures->running > 0))
		return wait_for(USEC_NEVER);
	return order_within(pace, proved ? least(figures->room, PAGE_MAX) : 1, now);
}

void pace_spend(struct pace *pace, int64_t count)
{
	pace->tokens -= (double)count;
}
