/* Reads from the database where the partitions go on, and begins the topics that have never been
 * read: once in a topic's life, by ledger.start. With "latest" all that are subscribed to begin at
 * the first look, whoever reads them; one that is not there yet with its own beginning. */
#ifndef LEDGER_LOCATOR_H
#define LEDGER_LOCATOR_H

#include "conf.h"
#include "consumer.h"
#include "log.h"
#include "pg.h"
#include "positions.h"
#include "rules/rules.h"

struct locator;

/* Every position that there is or could be made is then `known`; `good` false: the database did not
 * answer. */
typedef void locator_done_fn(void *arg, bool good);

struct locator *locator_new(struct log *log, struct pg *pg, struct consumer *consumer,
			    const struct conf_ledger *conf, const struct rules *rules);
void locator_free(struct locator *locator); /* after its pg */
/* One at a time. The positions may be replaced meanwhile: the answer then goes to those that are
 * still there, and the caller asks again. */
void locator_start(struct locator *locator, struct positions *positions, locator_done_fn *done,
		   void *arg);
bool locator_busy(const struct locator *locator);

/* Of a topic without a position, while ledger.start is not set. */
#define LOCATOR_UNSET                                                                              \
	"it has never been read: set ledger.start to \"earliest\" (its whole history is "          \
	"performed), \"latest\" (only what comes from now on) or a time, "                         \
	"\"2026-01-31T00:00:00Z\""

#endif
