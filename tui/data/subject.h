/* What an action is about: a key, as it was shown when the action was chosen. */
#ifndef COUNTERFOIL_SUBJECT_H
#define COUNTERFOIL_SUBJECT_H

#include <stdint.h>

struct subject {
	int64_t id;
	int32_t epoch;
	const char *state, *key, *target; /* owned in a copy, else borrowed */
};

void subject_copy(const struct subject *from, struct subject *subject_r);
void subject_done(struct subject *subject); /* of a copy */

#endif
