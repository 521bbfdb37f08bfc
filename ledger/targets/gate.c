/* The gate before one target. */
#include "gate.h"

static bool probe_allowed(const struct gate *gate, usec_t now)
{
	return gate->probed && now < gate->probe_until;
}

static bool one_may_pass(const struct gate *gate, usec_t now)
{
	return gate->held ? probe_allowed(gate, now) : breaker_lets_one(&gate->breaker, now);
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t gate_room(const struct gate *gate, int64_t concurrency, usec_t now)
{
	if (!gate->known || now < gate->paused_until)
		return 0;
	const int64_t slots = concurrency > gate->busy ? concurrency - gate->busy : 0;
	const int64_t room = least(slots, rate_tokens(&gate->rate, now));
	if (!gate_lets_one(gate))
		return room;
	return one_may_pass(gate, now) ? least(room, 1) : 0;
}

bool gate_lets_one(const struct gate *gate)
{
	return gate->held || !breaker_closed(&gate->breaker);
}

bool gate_lets(const struct gate *gate, bool probe, usec_t now)
{
	if (now < gate->paused_until || (gate->held && !gate->probed))
		return false;
	return probe || !gate_lets_one(gate);
}

bool gate_open(const struct gate *gate, usec_t now)
{
	return !gate_lets_one(gate) && now >= gate->paused_until;
}

void gate_take(struct gate *gate, int64_t slots, usec_t now)
{
	gate->busy += slots;
	rate_take(&gate->rate, slots, now);
	if (!gate->held)
		breaker_try(&gate->breaker);
}

void gate_claimed(struct gate *gate, int64_t slots, int64_t got, bool probe, usec_t now)
{
	gate->busy -= slots - got;
	rate_put_back(&gate->rate, slots - got, now);
	if (probe && got > 0)
		gate->probe_until = 0;
	else if (probe)
		breaker_untry(&gate->breaker);
}

void gate_found(struct gate *gate, usec_t now)
{
	gate->busy++;
	rate_take(&gate->rate, 1, now);
}

void gate_put(struct gate *gate)
{
	gate->busy--;
}

/* The same key again says nothing more of the target. */
static bool forbidden_enough(struct gate *gate, int64_t key)
{
	for (size_t i = 0; i < gate->forbidden_count; i++) {
		if (gate->forbidden[i] == key)
			return false;
	}
	gate->forbidden[gate->forbidden_count++] = key;
	return gate->forbidden_count == GATE_FORBIDDEN_MAX;
}

static enum gate_news hold(struct gate *gate)
{
	gate->forbidden_count = 0;
	if (gate->held)
		return GATE_SAME;
	gate->held = true;
	gate->probed = true;
	gate->probe_until = 0;
	return GATE_HELD;
}

static enum gate_news disable(struct gate *gate)
{
	if (gate->held && !gate->probed)
		return GATE_SAME;
	gate->held = true;
	gate->probed = false;
	return GATE_DISABLED;
}

static enum gate_news answered(struct gate *gate, bool probe)
{
	if (!probe || !gate->held || !gate->probed)
		return GATE_SAME;
	gate->held = false;
	gate->probed = false;
	gate->forbidden_count = 0;
	return GATE_OPENED;
}

static enum gate_news refused(struct gate *gate, bool probe, const struct verdict *verdict)
{
	return gate->webhook && verdict->status == 410 ? disable(gate) : answered(gate, probe);
}

static enum gate_news forbidden(struct gate *gate, int64_t key, struct verdict *verdict)
{
	if (!gate->held && !forbidden_enough(gate, key))
		return GATE_SAME;
	verdict->outcome = OUTCOME_CREDENTIALS;
	return hold(gate);
}

enum gate_news gate_judge(struct gate *gate, int64_t key, bool probe, struct verdict *verdict)
{
	switch (verdict->outcome) {
	case OUTCOME_CREDENTIALS:
		return hold(gate);
	case OUTCOME_FORBIDDEN:
		return forbidden(gate, key, verdict);
	case OUTCOME_APPLIED:
		gate->forbidden_count = 0;
		return answered(gate, probe);
	case OUTCOME_SERVER_ERROR:
	case OUTCOME_THROTTLED:
	case OUTCOME_TRY_LATER:
	case OUTCOME_IN_PROGRESS:
	case OUTCOME_MISMATCH:
	case OUTCOME_UNREADABLE:
		return answered(gate, probe);
	case OUTCOME_REFUSED:
		return refused(gate, probe, verdict);
	case OUTCOME_SHADOW:
	case OUTCOME_NOT_SENT:
	case OUTCOME_ABORTED:
	case OUTCOME_NO_ANSWER:
	case OUTCOME_LOST:
	case OUTCOME_UNRENDERED:
	case OUTCOME_COUNT:
		break;
	}
	return GATE_SAME;
}
