/* How a value is written where it lands. */
#ifndef LEDGER_ESCAPE_H
#define LEDGER_ESCAPE_H

#include <stdbool.h>

#include "buf.h"

/* In an idempotency key: everything but visible ASCII is percent-encoded, and so are '%' (else an
 * encoded value could be forged), ':' (which joins the parts: "a:b" and "c" must not give the key
 * of "a" and "b:c") and '~' (which marks the key of a replay). */
void escape_key(struct buf *out, const char *text, size_t length);

/* In a segment of a path or in a query: all but RFC 3986's unreserved characters. */
void escape_url(struct buf *out, const char *text, size_t length);

/* In an application/x-www-form-urlencoded body. */
void escape_form(struct buf *out, const char *text, size_t length);

/* True if a segment of the path is "." or "..", written out or as %2e: it would be taken away, and
 * the request would go somewhere else. */
bool path_has_dots(const char *path);

/* True if the text holds a NUL, CR or LF. */
bool breaks_line(const char *text, size_t length);

/* True if the text can be the value of an HTTP header: no control character but the tab. */
bool header_value_valid(const char *text, size_t length);

#endif
