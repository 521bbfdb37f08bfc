/* An event as a person writes it into a file, for --try. Two forms:
 *
 *   a bare payload, whose topic and type come from the command line
 *   a JSON object that names its topic:
 *     { "topic": "orders", "type": "order.placed", "id": "e1", "key": "42",
 *       "headers": { "tenant": "acme" }, "payload": { "order_id": 42 } }
 *
 * type and id are short for the headers ce_type and ce_id. A payload that is a text stands for its
 * characters, null for a tombstone, anything else for the JSON as it is written;
 * "payload_base64" takes any bytes. */
#ifndef LEDGER_TRY_EVENT_H
#define LEDGER_TRY_EVENT_H

#include "buf.h"
#include "err.h"
#include "rules/event.h"

struct try_event {
	struct event_source source; /* points into what follows, and into the file's bytes */
	struct buf texts;           /* decoded members */
	char **kept;                /* copies */
	size_t kept_count;
	struct event_header *headers;
	size_t header_count;
};

struct try_form {
	const char *topic; /* NULL: the file names it */
	const char *type;  /* NULL: none, or the file's */
};

/* data and form must outlive the event. */
MUST_USE bool try_event_read(const char *data, size_t length, const struct try_form *form,
			     struct err *err, struct try_event *event_r);
void try_event_done(struct try_event *event);

#endif
