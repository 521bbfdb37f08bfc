/* Does a source fit what the configuration says of it? Asked of the catalog and of the planner once
 * connected; all that does not fit is told at once. Of a mapped table the statements are made here.
 *
 * The questions are asked one after the other, each a statement of its own: by the loop, or by
 * whoever has a blocking session. */
#ifndef COUNTERFOIL_RELAY_SOURCE_CHECK_H
#define COUNTERFOIL_RELAY_SOURCE_CHECK_H

#include <libpq-fe.h>
#include <stdbool.h>

#include "conf.h"
#include "pg.h"
#include "pg_session.h"
#include "source.h"

struct source_check;

/* text: what does not fit, each with its remedy; or, where it fits, what should be known all the
 * same, "" when nothing should. */
typedef void source_check_fn(void *arg, bool fits, const char *text);

/* conf and source are borrowed. add: a table that fits is registered in counterfoil.outbox_source.
 */
struct source_check *source_check_new(const struct conf_relay *conf, struct source *source,
				      bool add);
void source_check_free(struct source_check *check); /* NULL is fine */

/* Asks everything, from the beginning. Nothing of the source may be on its way to the server.
 * `done` runs once, unless the connection is lost before: then never, and down() tells of it. */
void source_check_start(struct source_check *check, struct pg *pg, source_check_fn *done,
			void *arg);

/* The same at once. False: it does not fit, or it could not be asked. */
MUST_USE bool source_check_run(struct source_check *check, struct pg_session *session,
			       struct err *err);
/* After the run: all of the text, of which err holds the beginning; or what should be known. */
const char *source_check_text(const struct source_check *check);

#endif
