/* What may go of a finished key, and when. Pure: no clock, no database.
 *
 * A key goes in two steps. Pruned, its request and attempts are gone, and it still answers whoever
 * comes with its event again; forgotten, it is gone, and its event would be a new one. So the first
 * step waits for everything that is known to bring the event again, and the second for all of that
 * once more. */
#ifndef LEDGER_FATE_H
#define LEDGER_FATE_H

#include "effect.h"
#include "usec.h"

/* What holds for a key's effect now. The configuration of today, not that of the key's intake: who
 * asks for more wants it for what is there, and who asks for less must not get less than `reach`.
 */
struct fate_rule {
	usec_t retention; /* USEC_NEVER: for ever */
	usec_t reach;  /* so long after its end its event may come again; USEC_NEVER: for ever, or
			  nobody knows */
	usec_t margin; /* beyond the provider's window */
};

/* Since a key's end; of all effects. */
struct fate_keep {
	usec_t request;
	usec_t attempts;
	usec_t pruned; /* since it was */
};

struct fate_key {
	enum effect_state state;
	usec_t since;        /* it is in this state */
	usec_t finished;     /* of a pruned key: when it was completed, as far as that is known */
	usec_t window_until; /* of its provider; USEC_NEVER: none, or it is endless */
	bool has_request;
	bool has_attempts;
};

struct fate {
	bool prune;
	bool forget;
	bool request;  /* its request goes, alone */
	bool attempts; /* likewise */
};

/* rule NULL: the effect has left the configuration, and nobody says how long its keys are needed.
 */
struct fate fate_of(const struct fate_key *key, const struct fate_rule *rule,
		    const struct fate_keep *keep, usec_t now);

#endif
