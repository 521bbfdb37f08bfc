/* The headers of a message, out of the JSON object in which they were kept (headers_all()). Pure.
 */
#ifndef LEDGER_KEPT_HEADERS_H
#define LEDGER_KEPT_HEADERS_H

#include "buf.h"
#include "err.h"
#include "rules/event.h"

struct kept_headers {
	struct event_header *items;
	size_t count;
	struct buf text; /* names and values */
};

MUST_USE bool kept_headers_read(const char *json, size_t length, struct err *err,
				struct kept_headers *headers_r);
void kept_headers_done(struct kept_headers *headers);

#endif
