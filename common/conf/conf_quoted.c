/* A wrong value, as a fault shows it. */
#include "conf/conf_quoted.h"

#include <string.h>

#include "json.h"
#include "utf8.h"

#define SHOWN_MAX 60 /* bytes */

const char *conf_quoted(struct buf *out, const char *text)
{
	size_t length = strlen(text);
	size_t shown = utf8_span(text, length > SHOWN_MAX ? SHOWN_MAX : length);
	buf_add_char(out, '"');
	json_escape(out, text, shown);
	buf_add_text(out, shown < length ? "...\"" : "\"");
	return buf_text(out);
}
