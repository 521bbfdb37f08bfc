/* What needs a person, in words, the gravest first. Pure. */
#ifndef COUNTERFOIL_ATTENTION_H
#define COUNTERFOIL_ATTENTION_H

#include "buf.h"
#include "data/lists.h"

#define ATTENTION_MAX     24
#define ATTENTION_TARGETS 8
#define ATTENTION_PAUSES  3

struct attention_target {
	const char *name, *reason;
	bool held;
	bool probed;     /* held by the system, which opens it again */
	bool failing;    /* not held: its breaker is open; else paused */
	usec_t since;    /* held */
	usec_t for_more; /* failing or paused */
};

struct attention_pause {
	const char *scope, *name, *who, *reason;
	usec_t since;
	int64_t aside; /* keys that were put aside */
};

struct attention_unmatched {
	const char *topic, *type;
	int64_t count;
};

struct attention_topic {
	const char *topic, *reason;
	usec_t since;
};

/* What is known. Counts beyond `cap` are open. */
struct attention_facts {
	int64_t cap;
	int64_t uncertain, stale, pending, retrying, in_flight, dead;
	int64_t outbox, poison, conflicts, ledgers;
	int64_t dead_rows, parked_rows; /* of the outboxes */
	usec_t next_window;   /* until the first window closes; USEC_NEVER: none is open */
	usec_t outbox_oldest; /* USEC_NEVER: empty */
	bool relay;
	struct attention_target targets[ATTENTION_TARGETS];
	size_t target_count;
	struct attention_pause pauses[ATTENTION_PAUSES];
	size_t pause_count; /* of all, also of those without a place above */
	struct attention_unmatched unmatched[ATTENTION_TARGETS];
	size_t unmatched_count;
	struct attention_topic blocked[ATTENTION_TARGETS];
	size_t blocked_count;
};

struct attention_item {
	const char *glyph;
	enum style style;
	enum list list; /* LIST_COUNT: there is none to open */
	bool relay;     /* the relay's screen tells more */
	char text[240];
};

struct attention {
	struct attention_item items[ATTENTION_MAX];
	size_t count;
};

void attention_judge(const struct attention_facts *facts, struct attention *attention_r);

#endif
