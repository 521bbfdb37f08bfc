/* The gate before one target, as one process sees it: slots, hold, pause, probe. Pure.
 *
 * A target that refuses our credentials or certificate is held, for no key is at fault; so is one
 * that forbids several different keys with nothing accepted between them. A held target is probed
 * with one key from time to time, and any answer but these opens it again. */
#ifndef LEDGER_GATE_H
#define LEDGER_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "outcome.h"
#include "usec.h"

#define GATE_FORBIDDEN_MAX 5 /* different keys */

struct gate {
	bool known; /* what the database says of it has been read */
	bool held;
	bool by_system;      /* held by an answer, not by a person: only then is it probed */
	usec_t probe_until;  /* one key may pass until then, although it is held; 0: none may */
	usec_t paused_until; /* boot clock */
	int64_t busy;        /* slots taken: keys claimed or asked for, until they are answered */
	int64_t forbidden[GATE_FORBIDDEN_MAX];
	size_t forbidden_count;
};

/* How many keys may be claimed now. */
int64_t gate_room(const struct gate *gate, int64_t concurrency, usec_t now);
void gate_take(struct gate *gate, int64_t slots);
void gate_put(struct gate *gate, int64_t slots);

enum gate_news { GATE_SAME, GATE_HELD, GATE_OPENED };

/* What an answer says of the target. A 403 that is the target's matter and not the key's becomes
 * CREDENTIALS in the verdict. `probe`: of the key that was let through. */
enum gate_news gate_judge(struct gate *gate, int64_t key, bool probe, struct verdict *verdict);

#endif
