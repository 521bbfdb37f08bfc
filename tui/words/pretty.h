/* JSON laid out for reading. Numbers and strings keep their text. */
#ifndef COUNTERFOIL_PRETTY_H
#define COUNTERFOIL_PRETTY_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"

#define PRETTY_MAX ((size_t)64 * 1024) /* of bytes that are shown of a body */

/* cut: text is only the beginning of the whole. False, and nothing is appended: it is not JSON. At
 * most PRETTY_MAX bytes are appended. */
bool pretty_json(struct buf *out, const char *text, size_t length, bool cut);

#endif
