/* The gate before one target, as one process sees it: slots, rate, breaker, hold, pause. Pure.
 *
 * A target that refuses our credentials or certificate is held, for no key is at fault; so is one
 * that forbids several different keys with nothing accepted between them. A held target is probed
 * with one key from time to time, and any answer but these opens it again. What a person holds is
 * never probed, nor is a webhook's endpoint that answered 410: it is gone until a person says
 * otherwise. While a target is held its breaker rests: a probe now and then is all it gets. */
#ifndef LEDGER_GATE_H
#define LEDGER_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "breaker.h"
#include "outcome/outcome.h"
#include "rate.h"
#include "usec.h"

#define GATE_FORBIDDEN_MAX 5 /* different keys */

struct gate {
	bool known; /* what the database says of it has been read */
	bool held;
	bool probed;         /* held by an answer that may change: only then is it probed */
	usec_t probe_until;  /* one key may pass until then, although it is held; 0: none may */
	usec_t paused_until; /* boot clock */
	int64_t busy;        /* slots taken: keys claimed or asked for, until they are answered */
	bool webhook;        /* 410 is the endpoint's matter */
	struct rate rate;
	struct breaker breaker;
	int64_t forbidden[GATE_FORBIDDEN_MAX];
	size_t forbidden_count;
};

/* How many keys may be claimed now. */
int64_t gate_room(const struct gate *gate, int64_t concurrency, usec_t now);
/* What is claimed now is the one key that is let through. */
bool gate_lets_one(const struct gate *gate);
/* What was claimed may still be sent. probe: it is that one key. */
bool gate_lets(const struct gate *gate, bool probe, usec_t now);
/* Of a target that is let alone for now, nothing is late. */
bool gate_open(const struct gate *gate, usec_t now);

void gate_take(struct gate *gate, int64_t slots, usec_t now); /* for a claim */
/* What the claim got of them; the others are free again, and their tokens. */
void gate_claimed(struct gate *gate, int64_t slots, int64_t got, bool probe, usec_t now);
/* For a key that was claimed before, without our knowledge: it is nobody's trial. */
void gate_found(struct gate *gate, usec_t now);
void gate_put(struct gate *gate); /* an attempt has ended */

enum gate_news { GATE_SAME, GATE_HELD, GATE_DISABLED, GATE_OPENED };

/* What an answer says of the target. A 403 that is the target's matter and not the key's becomes
 * CREDENTIALS in the verdict. `probe`: of the key that was let through. */
enum gate_news gate_judge(struct gate *gate, int64_t key, bool probe, struct verdict *verdict);

#endif
