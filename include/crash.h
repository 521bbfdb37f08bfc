/* Crash points: named places at which a test build kills its own process, so that a test can show
 * what a crash right there leaves behind. Any other build contains nothing of them.
 *
 * The environment chooses one: COUNTERFOIL_CRASH="claim.sent" is its first passing, "claim.sent:3"
 * its third; "row.encode=poison" is the passing of anything that has "poison" in it, where what
 * passes is named. A name is written out at exactly one place;
 * tests/integration/test_crash_points.py has the promise of each. */
#ifndef COUNTERFOIL_CRASH_H
#define COUNTERFOIL_CRASH_H

#include <stddef.h>

#ifdef COUNTERFOIL_CRASH_POINTS
#define crash_point(name)                crash_passed(name, NULL, 0)
#define crash_point_of(name, data, size) crash_passed(name, data, size)
#else
#define crash_point(name)                ((void)0)
#define crash_point_of(name, data, size) ((void)0)
#endif

void crash_passed(const char *name, const void *data, size_t size); /* data: NULL for none */

#endif
