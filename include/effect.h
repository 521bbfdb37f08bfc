/* The effect contract: the words that stand in the database, the log and on the screen. A key is
 * two rows, effect (written once at intake) and effect_state (moved at every step);
 * ledger/outcome/life.h says who may move it where. */
#ifndef COUNTERFOIL_EFFECT_H
#define COUNTERFOIL_EFFECT_H

#include <stdbool.h>
#include <stddef.h>

/* X(symbol, name in the database, what it means) */
#define EFFECT_STATES(X)                                                                           \
	X(PENDING, "pending", "recorded; nothing of this try was sent")                            \
	X(IN_FLIGHT, "in_flight",                                                                  \
	  "claimed by a process; stale once its lease or deadline has run out")                    \
	X(RETRY_WAIT, "retry_wait", "will be sent again with the same key when it is due")         \
	X(COMPLETED, "completed", "an answer was recorded, or a person signed for it")             \
	X(UNCERTAIN, "uncertain",                                                                  \
	  "may have been applied, and cannot safely be repeated: a person decides")                \
	X(DEAD, "dead", "certainly not applied, and given up")                                     \
	X(CANCELLED, "cancelled", "certainly not applied, and withdrawn by a person")              \
	X(PRUNED, "pruned", "finished long ago; only the key is kept")

enum effect_state {
#define X(symbol, name, meaning) EFFECT_##symbol,
	EFFECT_STATES(X)
#undef X
		EFFECT_STATE_COUNT
};

#define EFFECT_MODES(X)                                                                            \
	X(IDEMPOTENT, "idempotent",                                                                \
	  "the provider honours the key: resent with it inside its window")                        \
	X(AT_MOST_ONCE, "at_most_once", "never resent by the machine once bytes may have left")    \
	X(NATURAL, "natural", "PUT or DELETE of a fixed URL: repeating changes nothing")

enum effect_mode {
#define X(symbol, name, meaning) EFFECT_##symbol,
	EFFECT_MODES(X)
#undef X
		EFFECT_MODE_COUNT
};

#define EFFECT_KEY_MAX          512 /* bytes of an idempotency key, before the profile's own limit */
#define EFFECT_TENANT_MAX       128
#define EFFECT_SERIAL_MAX       512
#define EFFECT_FINGERPRINT_SIZE 16
#define EFFECT_HASH_SIZE        16

const char *effect_state_name(enum effect_state state);
bool effect_state_parse(const char *name, size_t length, enum effect_state *state_r);
const char *effect_mode_name(enum effect_mode mode);
bool effect_mode_parse(const char *name, size_t length, enum effect_mode *mode_r);

#endif
