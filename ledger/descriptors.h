/* How many files and sockets the process may have open. */
#ifndef LEDGER_DESCRIPTORS_H
#define LEDGER_DESCRIPTORS_H

#include "conf.h"
#include "log.h"

/* Asks for as many as the requests in flight, the connections that rest and our own need. What the
 * system does not allow is told: requests beyond it would find no socket, and wait. */
void descriptors_raise(const struct conf *conf, struct log *log);

#endif
