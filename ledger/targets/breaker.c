/* The circuit breaker. */
#include "breaker.h"

static void set_state(struct breaker *breaker, enum breaker_state state)
{
	breaker->state = state;
}

/* --- what an attempt says --- */

/* 501 and 505 refuse the key for good, and yet count: a target that says so of everything is out of
 * order, and what waits would die of it. A stored answer is an old one. */
static bool is_unwell(const struct verdict *verdict)
{
	return verdict->outcome == OUTCOME_NO_ANSWER ||
	       (!verdict->replayed && (verdict->status >= 500 || verdict->status == 408));
}

enum breaker_sign breaker_sign(const struct verdict *verdict)
{
	switch (verdict->outcome) {
	case OUTCOME_NOT_SENT:
		return BREAKER_UNREACHABLE;
	case OUTCOME_ABORTED:
	case OUTCOME_LOST:
	case OUTCOME_UNRENDERED:
	case OUTCOME_SHADOW:
	case OUTCOME_COUNT:
		return BREAKER_NOTHING;
	case OUTCOME_APPLIED:
	case OUTCOME_NO_ANSWER:
	case OUTCOME_SERVER_ERROR:
	case OUTCOME_THROTTLED:
	case OUTCOME_TRY_LATER:
	case OUTCOME_IN_PROGRESS:
	case OUTCOME_REFUSED:
	case OUTCOME_MISMATCH:
	case OUTCOME_CREDENTIALS:
	case OUTCOME_FORBIDDEN:
	case OUTCOME_UNREADABLE:
		break;
	}
	return is_unwell(verdict) ? BREAKER_UNWELL : BREAKER_WELL;
}

/* --- counting --- */

static void count(struct breaker *breaker, enum breaker_sign sign)
{
	breaker->failures = sign == BREAKER_UNREACHABLE ? breaker->failures + 1 : 0;
	breaker->unwell[breaker->next] = sign != BREAKER_WELL;
	breaker->next = (breaker->next + 1) % BREAKER_WINDOW;
	if (breaker->count < BREAKER_WINDOW)
		breaker->count++;
}

static bool row_reached(const struct breaker *breaker)
{
	return breaker->conf.failures > 0 && breaker->failures >= breaker->conf.failures;
}

static bool share_reached(const struct breaker *breaker)
{
	int64_t unwell = 0;
	for (size_t i = 0; i < breaker->count; i++)
		unwell += breaker->unwell[i];
	return breaker->conf.ratio > 0 && breaker->count >= BREAKER_LEAST &&
	       unwell * 100 >= breaker->conf.ratio * (int64_t)breaker->count;
}

/* --- moves --- */

static void forget(struct breaker *breaker)
{
	breaker->failures = 0;
	breaker->count = 0;
	breaker->next = 0;
}

static void open_until(struct breaker *breaker, usec_t until)
{
	forget(breaker);
	breaker->until = until;
	set_state(breaker, BREAKER_OPEN);
}

static void close_at(struct breaker *breaker, usec_t now)
{
	forget(breaker);
	breaker->since = now;
	set_state(breaker, BREAKER_CLOSED);
}

static enum breaker_news judge_closed(struct breaker *breaker, enum breaker_sign sign,
				      usec_t started, usec_t now)
{
	if (sign == BREAKER_NOTHING || started < breaker->since)
		return BREAKER_SAME;
	count(breaker, sign);
	if (sign == BREAKER_WELL || !(row_reached(breaker) || share_reached(breaker)))
		return BREAKER_SAME;
	open_until(breaker, now + breaker->conf.open);
	return BREAKER_OPENED;
}

static enum breaker_news judge_trial(struct breaker *breaker, enum breaker_sign sign, usec_t now)
{
	switch (sign) {
	case BREAKER_NOTHING:
		set_state(breaker, BREAKER_TRIAL);
		return BREAKER_SAME;
	case BREAKER_WELL:
		close_at(breaker, now);
		return BREAKER_HEALED;
	case BREAKER_UNWELL:
	case BREAKER_UNREACHABLE:
		break;
	}
	open_until(breaker, now + breaker->conf.open);
	return BREAKER_REOPENED;
}

/* --- publics --- */

void breaker_init(struct breaker *breaker, const struct conf_breaker *conf)
{
	*breaker = (struct breaker){ .conf = *conf, .state = BREAKER_CLOSED };
}

enum breaker_news breaker_judge(struct breaker *breaker, enum breaker_sign sign, bool probe,
				usec_t started, usec_t now)
{
	switch (breaker->state) {
	case BREAKER_CLOSED:
		return judge_closed(breaker, sign, started, now);
	case BREAKER_TRYING:
		if (probe)
			return judge_trial(breaker, sign, now);
		break;
	case BREAKER_OPEN:
	case BREAKER_TRIAL:
		break;
	}
	return BREAKER_SAME; /* it was sent before */
}

void breaker_see_open(struct breaker *breaker, usec_t until)
{
	open_until(breaker, until);
}

void breaker_see_closed(struct breaker *breaker, usec_t now)
{
	if (breaker->state != BREAKER_CLOSED)
		close_at(breaker, now);
}

bool breaker_wants_trial(const struct breaker *breaker, usec_t now)
{
	return (breaker->state == BREAKER_OPEN || breaker->state == BREAKER_TRIAL) &&
	       now >= breaker->until;
}

void breaker_grant(struct breaker *breaker, usec_t until)
{
	breaker->until = until;
	set_state(breaker, BREAKER_TRIAL);
}

void breaker_try(struct breaker *breaker)
{
	if (breaker->state == BREAKER_TRIAL)
		set_state(breaker, BREAKER_TRYING);
}

void breaker_untry(struct breaker *breaker)
{
	if (breaker->state == BREAKER_TRYING)
		set_state(breaker, BREAKER_TRIAL);
}

bool breaker_closed(const struct breaker *breaker)
{
	return breaker->state == BREAKER_CLOSED;
}

bool breaker_lets_one(const struct breaker *breaker, usec_t now)
{
	return breaker->state == BREAKER_TRIAL && now < breaker->until;
}
