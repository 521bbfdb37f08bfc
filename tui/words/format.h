/* Figures in words: ages, durations, times, counts, sizes. Pure, but for the zone of localtime.
 * Each writes into the caller's buffer of at least FORMAT_SIZE and returns it. */
#ifndef COUNTERFOIL_FORMAT_H
#define COUNTERFOIL_FORMAT_H

#include <stdint.h>

#include "conf.h"
#include "usec.h"

#define FORMAT_SIZE 40

/* "9s", "6m 12s", "2h 10m", "3d 04h", "421d"; never negative; USEC_NEVER: "-". */
const char *format_age(usec_t age, char *buffer);
/* "212 ms", "3.00 s", "30.0 s", "2m 05s"; USEC_NEVER: "-". */
const char *format_took(usec_t took, char *buffer);
/* "2024-05-12 14:02:31 UTC", or with the name of the local zone at that time; USEC_NEVER: "-". */
const char *format_time(usec_t wall, enum conf_zone zone, char *buffer);
/* For columns on the screen, whose first line names the zone: the same in short, "05-12 14:02:31",
 * or of another year than that of `now` "2024-05-12". */
const char *format_time_short(usec_t wall, usec_t now, enum conf_zone zone, char *buffer);
#define FORMAT_TIME_SHORT 14 /* columns */
/* "UTC 14:02:31" */
const char *format_clock(usec_t wall, enum conf_zone zone, char *buffer);
/* "1,284" */
const char *format_count(int64_t count, char *buffer);
/* "8.4 M": of an estimate. */
const char *format_about(int64_t count, char *buffer);
/* "87 B", "1.4 KiB" */
const char *format_size(int64_t bytes, char *buffer);

#endif
