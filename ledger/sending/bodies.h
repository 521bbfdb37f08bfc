/* What is read in the bodies of answers: the provider's own id, whose place each target names, and
 * what each effect takes for success. */
#ifndef LEDGER_BODIES_H
#define LEDGER_BODIES_H

#include "http.h"
#include "outcome/predicate.h"
#include "rules/rules.h"

struct bodies;

struct bodies *bodies_new(const struct conf *conf, const struct rules *rules); /* both borrowed */
void bodies_free(struct bodies *bodies);                                       /* NULL is fine */

/* The caller's to free. NULL: an answer that is no JSON, or was cut, has none. */
char *bodies_provider_id(const struct bodies *bodies, const struct target *target,
			 const struct http_answer *answer);
/* NULL: each 2xx means yes; so it is with an effect that has left the configuration. */
const struct predicate *bodies_predicate(const struct bodies *bodies, const char *effect);

#endif
