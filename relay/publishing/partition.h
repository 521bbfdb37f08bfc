/* Which partition a key belongs to: the Java client's choice, bit for bit, so that a Java producer
 * of the same topic would make the same one. Source: org.apache.kafka.common.utils.Utils.murmur2
 * and BuiltInPartitioner.partitionForKey. */
#ifndef COUNTERFOIL_RELAY_PARTITION_H
#define COUNTERFOIL_RELAY_PARTITION_H

#include <stddef.h>
#include <stdint.h>

uint32_t partition_hash(const void *key, size_t length);

/* count > 0 */
int32_t partition_of(uint32_t hash, int32_t count);

#endif
