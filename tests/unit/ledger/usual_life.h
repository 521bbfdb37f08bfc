/* What the tests of a key's life begin with. */
#ifndef TEST_USUAL_LIFE_H
#define TEST_USUAL_LIFE_H

#include "outcome/life.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define NOW          (1000 * USEC_DAY)

static const struct life_policy usual = {
	.retry = { .strategy = CONF_RETRY_EXPONENTIAL,
		   .first = 2 * USEC_SEC,
		   .max = 10 * USEC_MIN,
		   .attempts = 12 },
	.margin = 3 * USEC_HOUR,
	.stores_errors = true,
};

#endif
