/* What the ledger checks of its configuration before it begins. */
#ifndef LEDGER_CHECK_H
#define LEDGER_CHECK_H

#include "buf.h"
#include "conf.h"
#include "err.h"

struct rules;

/* Everything that can be seen without a server: the rules with their secrets, libpq's and
 * librdkafka's settings. All faults at once, one a line, each with its place; warnings likewise. */
MUST_USE bool check_configuration(const struct conf *conf, struct buf *faults, struct buf *warnings,
				  struct rules **rules_r);

#endif
