/* How long after a key's end its event may come again: as long as its topic keeps the event, or the
 * dead-letter topic a copy of it. The brokers are asked at the start and every hour. */
#ifndef LEDGER_REACH_H
#define LEDGER_REACH_H

#include "conf.h"
#include "log.h"
#include "loop.h"

struct reach;

/* All is borrowed. */
struct reach *reach_new(struct loop *loop, struct log *log, const struct conf *conf);
void reach_free(struct reach *reach); /* NULL is fine */

/* By index of the effect in the configuration. USEC_NEVER: for ever, or nobody has said yet. */
usec_t reach_of(const struct reach *reach, size_t effect);

#endif
