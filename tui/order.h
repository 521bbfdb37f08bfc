/* An operator's order about one key: its operation id, made once, so that it is carried out at most
 * once however often it is asked for; and who asks, as far as we know. */
#ifndef COUNTERFOIL_ORDER_H
#define COUNTERFOIL_ORDER_H

#include "buf.h"
#include "pg.h"

#define ORDER_OPERATION 37

/* What orders of any kind carry: an operation id, and who asks. These are claims: the database
 * knows who its session_user is, the rest is hearsay. */
void order_operation(char *text); /* ORDER_OPERATION bytes */
void order_claims(struct buf *out);

struct order {
	int64_t id; /* of the effect */
	int32_t epoch;
	char state[16]; /* as it was shown: the database refuses when it is another by now */
	char operation[ORDER_OPERATION];
};

/* The result's words, and what they mean for whoever asked. */
enum order_result { ORDER_DONE, ORDER_ALREADY, ORDER_CHANGED, ORDER_REFUSED, ORDER_MISSING };

void order_init(struct order *order, int64_t id, int32_t epoch, const char *state);
/* For SQL_REPLAY; reason "": none. */
void order_params(const struct order *order, const char *reason, bool dry_run,
		  struct pg_params *params);
enum order_result order_result(const PGresult *verdict);

#endif
