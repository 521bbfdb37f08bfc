/* An operator's order about one key: what it asks for, its operation id, made once, so that it is
 * carried out at most once however often it is asked for; and who asks, as far as we know. */
#ifndef COUNTERFOIL_ORDER_H
#define COUNTERFOIL_ORDER_H

#include "buf.h"
#include "pg.h"

#define ORDER_OPERATION 37

/* What orders of any kind carry: an operation id, and who asks. These are claims: the database
 * knows who its session_user is, the rest is hearsay. */
void order_operation(char *text); /* ORDER_OPERATION bytes */
void order_claims(struct buf *out);

/* X(symbol, statement, title, button, what is said when it was done, needs a reason) */
#define ORDER_KINDS(X)                                                                             \
	X(REPLAY, SQL_REPLAY, "REPLAY", "Replay", "replayed", false)                               \
	X(RUN_NOW, SQL_REPLAY, "RUN NOW", "Run now", "due now:", false)                            \
	X(NEW_KEY, SQL_NEW_KEY, "REPLAY WITH A NEW KEY", "Replay",                                 \
	  "replayed with a new key:", true)                                                        \
	X(HAPPENED, SQL_HAPPENED, "IT HAPPENED", "It did", "completed:", true)                     \
	X(NOT_HAPPENED, SQL_NOT_HAPPENED, "IT DID NOT HAPPEN", "It did not", "dead:", true)        \
	X(CANCEL, SQL_CANCEL, "WITHDRAW", "Withdraw", "withdrawn:", true)                          \
	X(GIVE_UP, SQL_GIVE_UP, "GIVE UP", "Give up", "given up:", true)                           \
	X(TAKE_OVER, SQL_ORDER_TAKE_OVER, "TAKE OVER", "Take over", "taken over:", false)          \
	X(NOTE, SQL_NOTE, "NOTE", "Keep", "noted at", true)                                        \
	X(ERASE, SQL_ERASE, "ERASE", "Erase", "erased:", true)

enum order_kind {
#define X(symbol, sql, title, button, done, reason) ORDER_##symbol,
	ORDER_KINDS(X)
#undef X
		ORDER_KIND_COUNT
};

struct order_form {
	const char *sql;
	const char *title, *button; /* of its dialog */
	const char *done;           /* what is said, before the key's name */
	bool reason;                /* it needs one */
};

const struct order_form *order_form(enum order_kind kind);

struct order {
	enum order_kind kind;
	int64_t id; /* of the effect */
	int32_t epoch;
	char state[16]; /* as it was shown: the database refuses when it is another by now */
	char operation[ORDER_OPERATION];
};

/* The result's words, and what they mean for whoever asked. */
enum order_result { ORDER_DONE, ORDER_ALREADY, ORDER_CHANGED, ORDER_REFUSED, ORDER_MISSING };

void order_init(struct order *order, enum order_kind kind, int64_t id, int32_t epoch,
		const char *state);
/* For the form's statement; reason "": none. provider_id: what it is called there; NULL: unknown,
 * or not asked for. */
void order_params(const struct order *order, const char *provider_id, const char *reason,
		  bool dry_run, struct pg_params *params);
enum order_result order_result(const PGresult *verdict);

#endif
