/* Counts the keys in the database, every few seconds, for metrics and readiness. */
#ifndef LEDGER_CENSUS_H
#define LEDGER_CENSUS_H

#include "conf.h"
#include "health.h"
#include "log.h"
#include "loop.h"
#include "meter.h"
#include "pg.h"
#include "rules/rules.h"

struct census;

/* pg is the caller's and outlives the statements: free it first. The rest is borrowed as well. */
struct census *census_new(struct loop *loop, struct log *log, struct pg *pg,
			  const struct conf *conf, const struct rules *rules, struct meter *meter);
void census_free(struct census *census);
void census_start(struct census *census); /* the database can be asked, at once and from now on */
void census_stop(struct census *census);  /* it cannot */

/* The oldest key that is due at a target, by its index. */
struct health_wait census_oldest(const struct census *census, size_t target);

struct census_outbox {
	bool served;   /* by some relay */
	usec_t oldest; /* age of its oldest row; 0: there is none */
};
struct census_outbox census_outbox(const struct census *census);

/* Keys of targets that are not configured, as rows of strays.h; NULL: not known yet. */
const PGresult *census_strays(const struct census *census);

#endif
