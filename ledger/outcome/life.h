/* The life of a key: where an outcome, a take-over or the passing of time moves it. Pure: the whole
 * of it is a function of the numbers that the claim returned.
 *
 *   pending | retry_wait --claim--> in_flight --result--> completed | retry_wait | dead | uncertain
 *   in_flight --take-over--> retry_wait | uncertain
 *   pending | retry_wait --time--> dead | uncertain
 *
 * dead means certainly not applied: no step leads there while a send is unaccounted for.
 *
 * The claim holds up its end. While unknown_sends > 0 it takes no key later than window_until less
 * the margin. With unknown_sends = 0 it may take one at any time, but it begins a new window
 * (first_sent_at, window_until) only after a whole window and the margin in which nothing was sent
 * (state_since tells): the provider may have a record of the key that any earlier send began, and
 * would forget it in the middle of a window that began while it stood. */
#ifndef LEDGER_LIFE_H
#define LEDGER_LIFE_H

#include "effect.h"
#include "outcome.h"
#include "retry.h"

/* A key as its claim (and its marker) or the sweeper read it. Times are wall clock of the
 * database. */
struct life {
	enum effect_mode mode;
	bool resend;      /* at_most_once: a second time is fine, so it is sent again like others */
	bool sent;        /* sent_at is set: this claim's bytes may have left */
	int32_t tries;    /* claims so far, this one included */
	int32_t attempts; /* budget used before this attempt */
	int32_t throttled;
	int32_t stalled;        /* answers so far that sending again did not change */
	int32_t unknown_sends;  /* with the current provider key; this attempt's marker included */
	int32_t unknown_before; /* with earlier provider keys */
	usec_t window_until;    /* USEC_NEVER: endless, or never sent */
	usec_t not_after;       /* USEC_NEVER: none */
	usec_t first_sent_at;   /* USEC_NEVER: never */
};

struct life_policy {
	struct conf_retry retry;
	usec_t margin;      /* no resend is planned later than window_until less this */
	bool stores_errors; /* the provider replays stored errors: sending again changes nothing */
};

struct life_step {
	enum effect_state state;
	usec_t due_at; /* wall, for pending and retry_wait */
	int32_t unknown_delta;
	int32_t attempts_delta;
	int32_t throttled_delta;
	int32_t stalled_delta;
	bool unsent; /* this attempt left nothing: sent_at, and first_sent_at if equal, go */
};

/* What a key may meet without using its budget, before a person has to look: "in progress" this
 * often, never more than LIFE_PROGRESS_WAIT apart unless the provider asks for more (ten minutes in
 * all); and this many replays of a stored error. */
#define LIFE_PROGRESS_MAX  20
#define LIFE_PROGRESS_WAIT (30 * USEC_SEC)
#define LIFE_REPLAYS_MAX   3

/* random is a full 64-bit draw. */
void life_result(const struct life *life, const struct life_policy *policy,
		 const struct verdict *verdict, usec_t now, uint64_t random,
		 struct life_step *step_r);
/* Its owner's lease or its deadline has run out. */
void life_takeover(const struct life *life, const struct life_policy *policy, usec_t now,
		   struct life_step *step_r);
/* A waiting key whose window is about to close, or whose not_after has passed. */
void life_expire(const struct life *life, const struct life_policy *policy, usec_t now,
		 struct life_step *step_r);

/* The margin of the contract: greatest backoff + timeouts + 10 % of the window. */
usec_t life_margin(const struct conf_retry *retry, usec_t connect_timeout, usec_t timeout,
		   usec_t window);

#endif
