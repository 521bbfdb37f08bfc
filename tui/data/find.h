/* Finding keys: by the beginning of the key, the subject, the event, the provider's id or the place
 * in a topic, topic[partition]@offset, all at once. */
#ifndef COUNTERFOIL_FIND_H
#define COUNTERFOIL_FIND_H

#include "pg.h"

#define FIND_LIMIT 50 /* of each kind */

/* For SQL_FIND. */
void find_params(const char *text, struct pg_params *params);

/* "orders[4]@99120"; the topic's length, and the numbers. */
bool find_place(const char *text, size_t *topic_length_r, int32_t *partition_r, int64_t *offset_r);

#endif
