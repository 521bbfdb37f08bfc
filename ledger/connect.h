/* --check-config --connect of the ledger. */
#ifndef LEDGER_CONNECT_H
#define LEDGER_CONNECT_H

#include <stdbool.h>

#include "conf.h"
#include "main.h"

/* Asks the database and the brokers, no target, and prints what is found. */
enum exit_code connect_ledger(const struct conf *conf, bool strict);

#endif
