/* Expiry: walks round and round over all keys and lets go what is not needed any more; see fate.h.
 * All processes look, one at a time walks. Pending, running, uncertain and dead keys it never
 * touches, whatever their age. */
#ifndef LEDGER_EXPIRY_H
#define LEDGER_EXPIRY_H

#include "conf.h"
#include "log.h"
#include "loop.h"
#include "pg.h"
#include "rules/rules.h"

struct expiry;

/* pg is the caller's and outlives the statements: free it first. The rest is borrowed as well. */
struct expiry *expiry_new(struct loop *loop, struct log *log, struct pg *pg,
			  const struct conf *conf, const struct rules *rules);
void expiry_free(struct expiry *expiry);  /* NULL is fine */
void expiry_start(struct expiry *expiry); /* the database serves, from now on */
void expiry_stop(struct expiry *expiry);  /* it does not, or there is no time any more */

#endif
