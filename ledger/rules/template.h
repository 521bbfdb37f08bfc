/* Templates: text with places that are filled from an event. Pure: the same template and event give
 * the same bytes, for ever.
 *
 *   ${/a/b}  ${/a|default}       a JSON pointer into the event's value (RFC 6901)
 *   ${type} ${topic} ${event_id} ${subject}  ${header:NAME}      each with |default if wanted
 *   ${sha256:/a,/b}              SHA-256, in hexadecimal, over the values, each with its length
 *   ${provider_id}               in what is emitted: the provider's id, from its answer
 *   $$                           a dollar sign
 *
 * What finds nothing or null fails, unless it has a default; an object or array fails everywhere
 * but in a JSON body. Each value is escaped for the place where it lands; the template's own text
 * stands as it is written (in a query it is encoded too: name and value are given apart there). */
#ifndef LEDGER_TEMPLATE_H
#define LEDGER_TEMPLATE_H

#include "buf.h"
#include "err.h"
#include "event.h"
#include "json.h"

enum template_context {
	TEMPLATE_KEY,    /* escape_key(): see there */
	TEMPLATE_TENANT, /* the same, and no ':' of its own, which would divide tenant from key */
	TEMPLATE_PATH,   /* of a URL; a value stays within its segment, and an empty one fails */
	TEMPLATE_QUERY,  /* the value of a query parameter */
	TEMPLATE_FORM,   /* an application/x-www-form-urlencoded body */
	TEMPLATE_JSON,   /* inside quotes: as text; outside: a value with its own JSON spelling */
	TEMPLATE_TEXT,   /* any other body: as it is */
	TEMPLATE_HEADER, /* a header's value; CR, LF, NUL and other controls fail */
	TEMPLATE_SECRET, /* a header's value that may use ${secret}, and nothing of the event */
	TEMPLATE_EMIT,   /* as TEMPLATE_JSON; may use ${provider_id}, which is not known yet */
};

enum template_source {
	SOURCE_LITERAL,
	SOURCE_POINTER,
	SOURCE_TYPE,
	SOURCE_TOPIC,
	SOURCE_EVENT_ID,
	SOURCE_SUBJECT,
	SOURCE_HEADER,
	SOURCE_SHA256,
	SOURCE_SECRET,
	SOURCE_PROVIDER_ID,
};

/* What is rendered where the provider's id will stand, inside quotes and outside. No JSON text
 * holds such a byte. */
#define TEMPLATE_ID_QUOTED '\x01'
#define TEMPLATE_ID_BARE   '\x02'

struct template_code;

struct template_input {
	const struct event *event;
	const struct json_value *values; /* by the index that `pointers` gave at the compilation */
	const char *secret;
};

/* Pointers are added to `pointers`. The error names the position, what is wrong and the remedy. */
MUST_USE bool template_compile(const char *text, enum template_context context,
			       struct json_paths *pointers, struct err *err,
			       struct template_code **template_r);
void template_free(struct template_code *template); /* NULL is fine */

/* Appends to `out`, which is as before on failure. The error names the place, never its value. */
MUST_USE bool template_render(const struct template_code *template,
			      const struct template_input *input, struct err *err, struct buf *out);

bool template_uses(const struct template_code *template, enum template_source source);
bool template_has_default(const struct template_code *template);
/* Appends the template with a harmless value in each place. */
void template_sample(const struct template_code *template, struct buf *out);
/* The pointers of a template, one by one: NULL behind the last. */
const char *template_pointer(const struct template_code *template, size_t at, size_t *index_r);
/* The first place whose value holds a NUL, CR or LF ("${/a}"), or NULL. */
const char *template_line_break(const struct template_code *template,
				const struct template_input *input);

#endif
