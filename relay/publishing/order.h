/* Has a row been delivered behind a later one of its ordering key? Cheap and forgetful: it knows
 * the keys that came lately, and never reports a violation that was none. Pure. */
#ifndef COUNTERFOIL_RELAY_ORDER_H
#define COUNTERFOIL_RELAY_ORDER_H

#include <stdbool.h>
#include <stdint.h>

struct order;

struct order *order_new(void);
void order_free(struct order *order);
void order_forget(struct order *order); /* ids mean other rows now */

/* A row was delivered; key: topic and ordering key as one number, 0: none. True: a violation;
 * *later_r is the id that it came behind. */
bool order_delivered(struct order *order, uint64_t key, int64_t id, int64_t *later_r);

#endif
