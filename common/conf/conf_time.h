/* A moment written as RFC 3339. */
#ifndef COMMON_CONF_TIME_H
#define COMMON_CONF_TIME_H

#include "err.h"
#include "usec.h"

/* "2026-01-31T08:00:00Z", with a fraction if there is one, or with "+02:00" instead of Z. */
bool conf_time_parse(const char *text, usec_t *wall_r);

#endif
