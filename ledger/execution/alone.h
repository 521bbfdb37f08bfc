/* When a key runs alone. Pure.
 *
 * A key that was taken over twice may be what ended its ledgers. It runs with nothing else in
 * flight in this process, so that it takes nothing with it. That costs the others time: at most
 * half of it.
 *
 *   off --such a key is due--> draining --nothing in flight--> running --it has ended--> running,
 * the ^                            |                              |                       next one
 *    \------ nothing to claim ----/------------------------------/
 *    \------ a second has passed since the first: a rest as long as all of it -----------/ */
#ifndef LEDGER_ALONE_H
#define LEDGER_ALONE_H

#include <stdbool.h>
#include <stddef.h>

#include "usec.h"

enum alone_state {
	ALONE_OFF,
	ALONE_DRAINING, /* nothing is claimed until what is in flight has ended */
	ALONE_RUNNING,  /* one key is claimed or in flight */
};

/* A zeroed one is off. Times are of the boot clock. */
struct alone {
	enum alone_state state;
	size_t lane;  /* where such a key was seen */
	usec_t since; /* that it is not off */
	usec_t begun; /* that the first one runs */
	usec_t rest;  /* until then it stays off */
};

bool alone_rests(const struct alone *alone, usec_t now); /* nothing may be wanted */
void alone_wanted(struct alone *alone, size_t lane, usec_t now);
/* Nothing is in flight. True: such a key is to be claimed now; alone_nothing() if it is not. */
bool alone_next(struct alone *alone, usec_t now);
void alone_nothing(struct alone *alone, usec_t now);

#endif
