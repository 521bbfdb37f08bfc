/* The ledger's service: intake, executor and lease tied together. */
#ifndef LEDGER_LEDGER_H
#define LEDGER_LEDGER_H

#include "conf.h"
#include "log.h"
#include "rules/rules.h"

struct ledger;

/* conf, log and rules must outlive it. */
struct ledger *ledger_new(struct log *log, const struct conf *conf, struct rules *rules);
/* Until a signal asks for its end, or it cannot go on; the exit code (include/main.h). */
int ledger_run(struct ledger *ledger);
void ledger_free(struct ledger *ledger);

#endif
