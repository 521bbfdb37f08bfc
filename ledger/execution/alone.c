/* When a key runs alone. */
#include "alone.h"

#define PHASE      USEC_SEC       /* no key begins later than that */
#define LOOK_AGAIN (5 * USEC_SEC) /* after one could not be claimed though it was due */

static void set_state(struct alone *alone, enum alone_state state)
{
	alone->state = state;
}

static void rest(struct alone *alone, usec_t least, usec_t now)
{
	const usec_t length = now - alone->since;
	set_state(alone, ALONE_OFF);
	alone->rest = now + (length > least ? length : least);
}

bool alone_rests(const struct alone *alone, usec_t now)
{
	return now < alone->rest;
}

void alone_wanted(struct alone *alone, size_t lane, usec_t now)
{
	if (alone->state != ALONE_OFF || alone_rests(alone, now))
		return;
	set_state(alone, ALONE_DRAINING);
	alone->lane = lane;
	alone->since = now;
}

bool alone_next(struct alone *alone, usec_t now)
{
	switch (alone->state) {
	case ALONE_OFF:
		return false;
	case ALONE_DRAINING:
		set_state(alone, ALONE_RUNNING);
		alone->begun = now;
		return true;
	case ALONE_RUNNING:
		break;
	}
	if (now - alone->begun < PHASE)
		return true;
	rest(alone, 0, now);
	return false;
}

void alone_nothing(struct alone *alone, usec_t now)
{
	if (alone->state != ALONE_OFF)
		rest(alone, LOOK_AGAIN, now);
}
