/* The gate before one target. */
#include "gate.h"

static bool probe_allowed(const struct gate *gate, usec_t now)
{
	return gate->by_system && now < gate->probe_until;
}

int64_t gate_room(const struct gate *gate, int64_t concurrency, usec_t now)
{
	const int64_t room = concurrency > gate->busy ? concurrency - gate->busy : 0;
	if (!gate->known || now < gate->paused_until)
		return 0;
	if (!gate->held)
		return room;
	return room > 0 && probe_allowed(gate, now) ? 1 : 0;
}

void gate_take(struct gate *gate, int64_t slots)
{
	gate->busy += slots;
}

void gate_put(struct gate *gate, int64_t slots)
{
	gate->busy -= slots;
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
	gate->by_system = true;
	gate->probe_until = 0;
	return GATE_HELD;
}

static enum gate_news answered(struct gate *gate, bool probe)
{
	if (!probe || !gate->held || !gate->by_system)
		return GATE_SAME;
	gate->held = false;
	gate->by_system = false;
	gate->forbidden_count = 0;
	return GATE_OPENED;
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
	case OUTCOME_REFUSED:
	case OUTCOME_MISMATCH:
		return answered(gate, probe);
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
