/* A table whose rows a relay publishes: our own outbox, or a foreign one that the configuration
 * maps. All statements on it; what does not depend on the table is in sql.h. */
#ifndef COUNTERFOIL_RELAY_SOURCE_H
#define COUNTERFOIL_RELAY_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "conf.h"

/* The texts live as long as the source. Parameters and columns of each statement are named in
 * source_sql.h; the columns of the poll are those of enum row_column in row.h. */
struct source {
	bool own;
	bool sequential;  /* an id is drawn inside its INSERT, one by one: what no holder of the
			   * table's lock can still commit will never come */
	const char *name; /* in counterfoil.outbox_source */
	const char *lease;
	int64_t start_after; /* rows up to this id are not read; INT64_MIN: all are */

	const char *poll;
	const char *holders;
	const char *remove;
	const char *bury;
	const char *measure;
	const char *topics;
	const char *blocked;

	struct source_texts *texts; /* where they are kept */
};

struct source *source_new(const struct conf_relay *conf); /* borrowed */
void source_free(struct source *source);                  /* NULL is fine */

#endif
