/* How the ledger's connections are made: each part that needs one has its own. */
#ifndef LEDGER_DATABASE_H
#define LEDGER_DATABASE_H

#include "conf.h"
#include "meter.h"
#include "pg.h"

/* Borrows from both. */
struct pg_settings database_settings(const struct conf *conf, const struct meter *meter);

/* Of a connection that sends the same few statements all the time: they get names. A plan that was
 * made while a table was empty is kept until somebody analyses it, so none may read a whole table;
 * see that each row is looked up by its id (LATERAL with OFFSET 0), for not all of that can be
 * asked for here. */
#define DATABASE_BUSY_OPTIONS "-c enable_seqscan=off -c enable_mergejoin=off -c jit=off"
struct pg_settings database_busy_settings(const struct conf *conf, const struct meter *meter);

#endif
