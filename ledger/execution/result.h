/* Records results in batches: one statement and one transaction each, guarded by epoch, owner and
 * state. Owns its connection. A result is kept until the database has it. */
#ifndef LEDGER_RESULT_H
#define LEDGER_RESULT_H

#include "conf.h"
#include "log.h"
#include "loop.h"
#include "meter.h"
#include "result_batch.h"

struct results;

struct results_events {
	/* Results have left memory. `freed`: followers of a serial key may be claimed now. */
	void (*written)(void *arg, bool freed);
	void *arg;
};

struct results *results_new(struct loop *loop, struct log *log, const struct conf *conf,
			    struct meter *meter, const struct results_events *events);
void results_free(struct results *results);                       /* what is not written is lost */
void results_add(struct results *results, struct result *result); /* takes it */
size_t results_count(const struct results *results);              /* not written yet */
void results_hurry(struct results *results);                      /* no waiting for more */
/* Adds the ids of all results that are not written yet, or never could be. */
void results_ids(const struct results *results, struct pg_array *ids);

#endif
