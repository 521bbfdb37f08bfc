/* What may go of a finished key. */
#include "fate.h"

static bool passed(usec_t since, usec_t length, usec_t now)
{
	return length != USEC_NEVER && now >= since && now - since >= length;
}

static bool window_closed(const struct fate_key *key, const struct fate_rule *rule, usec_t now)
{
	return key->window_until == USEC_NEVER || passed(key->window_until, rule->margin, now);
}

static struct fate of_finished(const struct fate_key *key, const struct fate_rule *rule,
			       const struct fate_keep *keep, usec_t now)
{
	struct fate fate = {
		.request = key->has_request && passed(key->since, keep->request, now),
		.attempts = key->has_attempts && passed(key->since, keep->attempts, now),
	};
	if (rule && passed(key->since, rule->retention, now) &&
	    passed(key->since, rule->reach, now) && window_closed(key, rule, now))
		fate = (struct fate){ .prune = true };
	return fate;
}

/* What held for pruning is asked for again: a retention may have become longer since. */
static struct fate of_pruned(const struct fate_key *key, const struct fate_rule *rule,
			     const struct fate_keep *keep, usec_t now)
{
	return (struct fate){
		.forget = rule && passed(key->since, keep->pruned, now) &&
			  passed(key->since, rule->reach, now) &&
			  passed(key->finished, rule->retention, now),
	};
}

struct fate fate_of(const struct fate_key *key, const struct fate_rule *rule,
		    const struct fate_keep *keep, usec_t now)
{
	switch (key->state) {
	case EFFECT_COMPLETED:
	case EFFECT_CANCELLED:
		return of_finished(key, rule, keep, now);
	case EFFECT_PRUNED:
		return of_pruned(key, rule, keep, now);
	case EFFECT_PENDING:
	case EFFECT_IN_FLIGHT:
	case EFFECT_RETRY_WAIT:
	case EFFECT_UNCERTAIN:
	case EFFECT_DEAD:
	case EFFECT_STATE_COUNT:
		break;
	}
	return (struct fate){ 0 };
}
