/* "did you mean ...": the known word that is nearest to a mistyped one. */
#ifndef COMMON_CONF_NEAR_H
#define COMMON_CONF_NEAR_H

#include <stddef.h>

struct conf_near {
	const char *word;
	const char *best;
	size_t distance;
};

void conf_near_init(struct conf_near *near, const char *word);
void conf_near_try(struct conf_near *near, const char *known);
const char *conf_near_best(const struct conf_near *near); /* NULL: none is close */

#endif
