/* Which names are asked about. */
#include "strays.h"

#include <stdio.h>

#define TARGETS_MAX 20 /* that are told */

void strays_params(const struct conf *conf, struct pg_params *params)
{
	struct pg_array names PG_ARRAY_AUTO;

	pg_array_init(&names, PG_TEXT);
	for (size_t i = 0; i < conf->target_count; i++) {
		const struct conf_target *target = &conf->targets[i];

		pg_array_text(&names, target->name);
		for (size_t k = 0; k < target->alias.count; k++)
			pg_array_text(&names, target->alias.items[k]);
	}
	pg_add_array(params, &names);
	pg_add_int8(params, STRAYS_COUNT_MAX);
	pg_add_int8(params, TARGETS_MAX);
}

const char *strays_count(const PGresult *result, int row, char *buffer, size_t size)
{
	const int64_t keys = pg_get_int8(result, row, STRAY_KEYS);

	(void)snprintf(buffer, size, "%lld%s", (long long)keys,
		       keys >= STRAYS_COUNT_MAX ? " or more" : "");
	return buffer;
}
