/* Moments as events write them. Pure. */
#ifndef LEDGER_MOMENT_H
#define LEDGER_MOMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "usec.h"

/* RFC 3339: "2026-01-31T08:00:00Z", with a fraction if there is one, or with "+02:00" instead of Z.
 */
bool moment_parse(const char *text, size_t length, usec_t *wall_r);
/* The same, or a whole number since 1970: of seconds, or from 100,000,000,000 on of milliseconds.
 * The text is NUL-terminated. */
bool moment_read(const char *text, size_t length, usec_t *wall_r);

#endif
