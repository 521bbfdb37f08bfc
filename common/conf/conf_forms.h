/* Values whose text has a form of its own. Pure. */
#ifndef COMMON_CONF_FORMS_H
#define COMMON_CONF_FORMS_H

#include "buf.h"
#include "conf.h"
#include "err.h"

/* "25/s", "600/m", "100/h". */
MUST_USE bool conf_rate_parse(const char *text, struct err *err, struct conf_rate *rate_r);
/* As conf_rate_parse reads it back. */
void conf_rate_format(const struct conf_rate *rate, struct buf *out);

/* RFC 6901; "" is the whole document. */
MUST_USE bool conf_pointer_check(const char *pointer, struct err *err);

/* "/status = ok", "/error != none", or "" for none. What is at *predicate_r is not freed. */
MUST_USE bool conf_predicate_parse(const char *text, struct err *err,
				   struct conf_predicate *predicate_r);
void conf_predicate_format(const struct conf_predicate *predicate, struct buf *out);
void conf_predicate_done(struct conf_predicate *predicate);

/* The one place of a lookup is ${key}. */
MUST_USE bool conf_lookup_check(const char *lookup, struct err *err);

#endif
