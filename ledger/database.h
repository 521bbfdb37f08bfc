/* How the ledger's connections are made: each part that needs one has its own. */
#ifndef LEDGER_DATABASE_H
#define LEDGER_DATABASE_H

#include "conf.h"
#include "meter.h"
#include "pg.h"

/* Borrows from both. */
struct pg_settings database_settings(const struct conf *conf, const struct meter *meter);

#endif
