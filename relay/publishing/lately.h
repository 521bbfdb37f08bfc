/* Quantiles of how long something took, since they were asked for last; to about a fifth. Pure. */
#ifndef COUNTERFOIL_RELAY_LATELY_H
#define COUNTERFOIL_RELAY_LATELY_H

#include <stdint.h>

#include "usec.h"

#define LATELY_BUCKETS 128

struct lately {
	uint64_t count;
	uint32_t buckets[LATELY_BUCKETS];
};

void lately_add(struct lately *lately, usec_t took);
usec_t lately_quantile(const struct lately *lately, unsigned percent); /* 0: there was nothing */
void lately_clear(struct lately *lately);

#endif
