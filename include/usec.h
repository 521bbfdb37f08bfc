/* Time: microseconds in an int64. Pure code takes `now` as a parameter; only these functions read a
 * clock. Leases are counted on the boot clock (it runs on through suspend and is never set). */
#ifndef COUNTERFOIL_USEC_H
#define COUNTERFOIL_USEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

typedef int64_t usec_t;

#define USEC_MS    ((usec_t)1000)
#define USEC_SEC   ((usec_t)1000000)
#define USEC_MIN   (60 * USEC_SEC)
#define USEC_HOUR  (60 * USEC_MIN)
#define USEC_DAY   (24 * USEC_HOUR)
#define USEC_NEVER INT64_MAX

usec_t usec_boot(void); /* CLOCK_BOOTTIME */
usec_t usec_wall(void); /* CLOCK_REALTIME, since 1970 */

/* "20ms", "30s", "10m", "6h", "7d", "2y" (365 days); one number, one unit, no sign. */
MUST_USE bool usec_parse(const char *text, struct err *err, usec_t *usec_r);

/* The shortest exact form that usec_parse reads back, into a buffer of at least 32 bytes. */
const char *usec_format(usec_t usec, char *buffer, size_t size);

/* RFC 3339 in UTC with microseconds, "2026-01-02T03:04:05.000006Z"; buffer of at least 32 bytes. */
const char *usec_rfc3339(usec_t wall, char *buffer, size_t size);

#endif
