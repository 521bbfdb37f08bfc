/* --check-config --connect: is any retention shorter than its topics'? */
#ifndef LEDGER_REACH_CONNECT_H
#define LEDGER_REACH_CONNECT_H

#include "conf.h"
#include "findings.h"

/* Blocking; within ten seconds. */
void reach_connect(struct findings *findings, const struct conf *conf);

#endif
