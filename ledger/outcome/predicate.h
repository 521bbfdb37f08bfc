/* What an effect's `success` finds in the body of a 2xx. Pure. */
#ifndef LEDGER_PREDICATE_H
#define LEDGER_PREDICATE_H

#include <stddef.h>

#include "conf.h"
#include "outcome.h"

/* So much of an answer is read at least where a predicate is asked: a longer one is unreadable. */
#define PREDICATE_READ ((size_t)1024 * 1024)

struct predicate;

/* NULL: there is none. */
struct predicate *predicate_new(const struct conf_predicate *conf);
void predicate_free(struct predicate *predicate); /* NULL is fine */

/* whole: the body came to its end, and nothing of it was cut. Half a body might say the same twice,
 * and otherwise the second time. predicate NULL: BODY_UNASKED. */
enum body_says predicate_ask(const struct predicate *predicate, const char *body, size_t length,
			     bool whole);

#endif
