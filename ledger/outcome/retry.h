/* When to try again: the backoff, and what a Retry-After header asks for. Pure. */
#ifndef LEDGER_RETRY_H
#define LEDGER_RETRY_H

#include <stdint.h>

#include "conf.h"
#include "usec.h"

#define RETRY_AFTER_MAX USEC_HOUR

/* The wait before attempt number `attempts` + 1: none 0, fixed `first`, exponential with full
 * jitter: uniform in [0, min(max, first * 2^(attempts-1))]. Never overflows. */
usec_t retry_delay(const struct conf_retry *retry, int32_t attempts, uint64_t random);

/* Retry-After: digits, or one of the three HTTP date forms against the answer's own Date (else
 * now). Past, junk or absent (NULL): 0. At most RETRY_AFTER_MAX. */
usec_t retry_after_parse(const char *value, const char *date, usec_t now_wall);

#endif
