/* The headers of a message as a JSON object in text. Pure. */
#ifndef LEDGER_HEADERS_H
#define LEDGER_HEADERS_H

#include "buf.h"
#include "event.h"

/* What is kept with an effect for its dead letter: not the ce_ names (the relay writes its own),
 * not those that a dead letter sets itself, and nothing that a JSON string in PostgreSQL cannot
 * hold (bytes that are no UTF-8, NUL). Repeated names are kept: of these the last counts. Adds
 * nothing when there is none. */
void headers_keep(const struct event_source *source, struct buf *json);

/* All of them, for a poison message: a value that is no UTF-8, or has a NUL, as {"hex": "..."}. */
void headers_all(const struct event_source *source, struct buf *json);

#endif
