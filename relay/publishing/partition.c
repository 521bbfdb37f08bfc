/* murmur2 as the Java client has it: little-endian words, a fixed seed, and the sign bit cut off
 * before the remainder is taken. */
#include "partition.h"

#define SEED  0x9747b28cU
#define M     0x5bd1e995U
#define SHIFT 24

static uint32_t word_at(const unsigned char *data)
{
	return (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 |
	       (uint32_t)data[3] << 24;
}

static uint32_t tail_of(const unsigned char *data, size_t length)
{
	uint32_t tail = 0;
	while (length > 0)
		tail = tail << 8 | data[--length];
	return tail;
}

uint32_t partition_hash(const void *key, size_t length)
{
	const unsigned char *data = key;
	uint32_t hash = SEED ^ (uint32_t)length;
	size_t left = length;
	for (; left >= 4; left -= 4, data += 4) {
		uint32_t k = word_at(data) * M;
		k ^= k >> SHIFT;
		hash = hash * M ^ k * M;
	}
	if (left > 0)
		hash = (hash ^ tail_of(data, left)) * M;
	hash ^= hash >> 13;
	hash *= M;
	return hash ^ hash >> 15;
}

int32_t partition_of(uint32_t hash, int32_t count)
{
	return (int32_t)(hash & 0x7fffffffU) % count;
}
