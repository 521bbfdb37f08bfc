/* The hooks of the screens' tests; in any other build they do nothing. */
#include "terminal/testing.h"

#ifdef COUNTERFOIL_SCREEN_TEST

#include <stdio.h>
#include <stdlib.h>

bool testing_is_sync(const struct key *key)
{
	return key->special && key->code == KEY_F(12);
}

void testing_sync(unsigned number, int height, int width)
{
	printf("\033]2;sync-%u %dx%d\033\\", number, width, height);
	fflush(stdout);
}

usec_t testing_elapsed(usec_t elapsed)
{
	return getenv("COUNTERFOIL_TEST_CLOCK") ? 0 : elapsed;
}

#else

bool testing_is_sync(const struct key *key)
{
	(void)key;
	return false;
}

void testing_sync(unsigned number, int height, int width)
{
	(void)number;
	(void)height;
	(void)width;
}

usec_t testing_elapsed(usec_t elapsed)
{
	return elapsed;
}

#endif
