/* Events and dead letters that a key still owes: a person ended it, or the outbox did not take them
 * with its result. */
#ifndef LEDGER_EMITTER_H
#define LEDGER_EMITTER_H

#include "log.h"
#include "meter.h"
#include "pg.h"
#include "rules/rules.h"

struct emitter;

/* error NULL: the walk is done, or will go on in the next round. */
typedef void emitter_done_fn(void *arg, const struct pg_error *error);

/* All borrowed. */
struct emitter *emitter_new(struct log *log, struct pg *pg, const struct rules *rules,
			    struct meter *meter, emitter_done_fn *done, void *arg);
void emitter_free(struct emitter *emitter); /* after its pg */

/* One round over what is owed; ends with done(), perhaps at once. What is refused stays owed. */
void emitter_round(struct emitter *emitter);

#endif
