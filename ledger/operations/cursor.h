/* The numbers of an order's cursor, as text. Pure. */
#ifndef LEDGER_CURSOR_H
#define LEDGER_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "err.h"

/* Takes the number that *text begins with, and one separator behind it. */
MUST_USE bool cursor_number(const char **text, int64_t *number_r);

#endif
