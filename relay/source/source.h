/* A table whose rows a relay publishes: our own outbox, or a foreign one that the configuration
 * maps. All statements on it; what does not depend on the table is in sql.h. */
#ifndef COUNTERFOIL_RELAY_SOURCE_H
#define COUNTERFOIL_RELAY_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "conf.h"

/* The texts live as long as the source. Parameters and columns of each statement are named in
 * source_sql.h; the columns of the poll are those of enum row_column in row.h.
 *
 * Those of a mapped table depend on the types of its columns: they are NULL until source_check.h
 * has found it to fit, and made anew by each check. */
struct source {
	bool own;
	bool sequential;  /* an id is drawn inside its INSERT, one by one: what no holder of the
			   * table's lock can still commit will never come */
	const char *name; /* in counterfoil.outbox_source */
	const char *lease;
	int64_t start_after; /* rows up to this id are not read; INT64_MIN: all are */

	const char *poll;
	const char *page; /* the poll of who only looks */
	const char *holders;
	const char *remove;
	const char *bury;
	const char *measure;
	const char *waiting;
	const char *topics;
	const char *blocked;
	const char *add;  /* into counterfoil.outbox_source; of a mapped table */
	const char *plan; /* likewise */
	const char *highest;

	struct source_texts *texts; /* where they are kept */
};

/* NULL: our own. */
struct source *source_new(const struct conf_relay *conf);
void source_free(struct source *source); /* NULL is fine */

/* "Order Events" as a name in a statement; 'it''s' as a literal. */
void source_quote_name(struct buf *out, const char *name);
void source_quote_text(struct buf *out, const char *text);

#endif
