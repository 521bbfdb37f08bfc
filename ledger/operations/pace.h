/* How fast a bulk order goes on, and when it stops by itself. Pure. */
#ifndef LEDGER_PACE_H
#define LEDGER_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "usec.h"

struct pace {
	/* What was ordered. */
	double rate;        /* keys a second; 0: as fast as there is room */
	bool canary;        /* one first, the others when it is completed */
	int64_t stop_after; /* failures; 0: never */

	/* Keys that may be ordered by now; a zeroed pace may order one at once. */
	double tokens;
	usec_t at; /* when they were counted */
};

/* Where the order stands. */
struct pace_figures {
	int64_t done;
	int64_t failed;
	int64_t running; /* ordered, and not ended yet */
	bool left;       /* some are not ordered yet */
	int64_t room;    /* how many may run beside those that do */
};

enum pace_step {
	PACE_ORDER,  /* `count` further keys */
	PACE_WAIT,   /* for `wait`, or for keys to end when that is USEC_NEVER */
	PACE_DONE,   /* all have ended */
	PACE_CANARY, /* stop: the canary failed */
	PACE_FAILED, /* stop: too many failed */
};

struct pace_next {
	enum pace_step step;
	int64_t count;
	usec_t wait;
};

struct pace_next pace_next(struct pace *pace, const struct pace_figures *figures, usec_t now);
void pace_spend(struct pace *pace, int64_t count); /* so many were ordered */

#endif
