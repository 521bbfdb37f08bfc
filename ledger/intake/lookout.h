/* Looks at what others may do to what we read by, while we read: positions that were moved back,
 * and poison that piles up or is settled. */
#ifndef LEDGER_LOOKOUT_H
#define LEDGER_LOOKOUT_H

#include "log.h"
#include "pg.h"
#include "positions.h"

struct lookout;

/* Something is not as it was read: all is to be read anew. */
typedef void lookout_changed_fn(void *arg, const char *what);
typedef void lookout_counted_fn(void *arg, bool good);

/* Open poison of a topic up to `limit`: then it is full. */
struct lookout *lookout_new(struct log *log, struct pg *pg, int64_t limit,
			    lookout_changed_fn *changed, void *arg);
void lookout_free(struct lookout *lookout); /* after its pg */

/* Counts open poison, and says which positions are of a full topic. */
void lookout_count(struct lookout *lookout, struct positions *positions, lookout_counted_fn *done);
/* Looks whether all is as it was. Never inside a transaction. One look at a time. */
void lookout_look(struct lookout *lookout, struct positions *positions);

/* So much poison was recorded. True: a topic may be full by now, so count before reading on. */
MUST_USE bool lookout_wrote(struct lookout *lookout, int64_t poison);

#endif
