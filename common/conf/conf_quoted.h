/* A wrong value, as a fault shows it. */
#ifndef COMMON_CONF_QUOTED_H
#define COMMON_CONF_QUOTED_H

#include "buf.h"

/* `"text"`, safe to print and cut where it is long, added to the buffer; gives the buffer's text.
 */
const char *conf_quoted(struct buf *out, const char *text);

#endif
