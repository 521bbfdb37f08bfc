/* Four buckets an octave. */
#include "lately.h"

#include <string.h>

#define STEPS 4

static unsigned octave_of(uint64_t took)
{
	return 63U - (unsigned)__builtin_clzll(took);
}

static unsigned bucket_of(usec_t took)
{
	if (took < STEPS)
		return took < 0 ? 0 : (unsigned)took;
	unsigned octave = octave_of((uint64_t)took);
	unsigned step = (unsigned)((uint64_t)took >> (octave - 2)) & (STEPS - 1);
	unsigned bucket = (octave - 1) * STEPS + step;
	return bucket < LATELY_BUCKETS ? bucket : LATELY_BUCKETS - 1;
}

/* The upper end of a bucket. */
static usec_t end_of(unsigned bucket)
{
	if (bucket < STEPS)
		return bucket + 1;
	unsigned octave = bucket / STEPS + 1;
	return (usec_t)(STEPS + bucket % STEPS + 1) << (octave - 2);
}

void lately_add(struct lately *lately, usec_t took)
{
	lately->buckets[bucket_of(took)]++;
	lately->count++;
}

usec_t lately_quantile(const struct lately *lately, unsigned percent)
{
	uint64_t wanted = (lately->count * percent + 99) / 100, seen = 0;
	for (unsigned i = 0; i < LATELY_BUCKETS && lately->count > 0; i++) {
		seen += lately->buckets[i];
		if (seen >= wanted)
			return end_of(i);
	}
	return 0;
}

void lately_clear(struct lately *lately)
{
	memset(lately, 0, sizeof(*lately));
}
