/* What only the build for the tests of the screens does: F12 tells through the terminal's title
 * that everything typed before it is on the screen, and the clock may be stopped. */
#ifndef COUNTERFOIL_TESTING_H
#define COUNTERFOIL_TESTING_H

#include <stdbool.h>

#include "terminal/key.h"
#include "usec.h"

bool testing_is_sync(const struct key *key);
void testing_sync(unsigned number, int height, int width);
usec_t testing_elapsed(usec_t elapsed); /* 0 when the clock is stopped */

#endif
