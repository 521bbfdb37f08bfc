/* For each key that came lately the highest id; another key with the same place takes it over. */
#include "order.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"

#define PLACES 16384 /* a power of two */

struct place {
	uint64_t key;
	int64_t id;
};

struct order {
	struct place places[PLACES];
};

bool order_delivered(struct order *order, uint64_t key, int64_t id, int64_t *later_r)
{
	struct place *place = &order->places[key & (PLACES - 1)];
	if (key == 0)
		return false;
	if (place->key == key && place->id > id) {
		*later_r = place->id;
		return true;
	}
	*place = (struct place){ .key = key, .id = id };
	return false;
}

void order_forget(struct order *order)
{
	memset(order, 0, sizeof(*order));
}

struct order *order_new(void)
{
	return mem_zero(sizeof(struct order));
}

void order_free(struct order *order)
{
	free(order);
}
