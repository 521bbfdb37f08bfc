/* The ordering keys that have a dead row: their rows behind it are parked. Told by the number that
 * topic and ordering key make, see publisher.c; loaded from counterfoil.outbox_dead, which says it
 * all again. Pure. */
#ifndef COUNTERFOIL_RELAY_KEYS_H
#define COUNTERFOIL_RELAY_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEYS_MAX 1000000

struct keys;

struct keys *keys_new(size_t max);
void keys_free(struct keys *keys);

/* A dead row of the key, which is not 0; false: there is no room. */
bool keys_add(struct keys *keys, uint64_t order, int64_t id);
bool keys_has(const struct keys *keys, uint64_t order);
/* Is this row of the key behind its first dead one? What is before it may go. */
bool keys_behind(const struct keys *keys, uint64_t order, int64_t id);
size_t keys_count(const struct keys *keys);
void keys_forget(struct keys *keys);

#endif
