/* How a mapped table is mapped: which columns it must have, whether theirs are of types that can
 * be published, and the statements that follow. Pure. */
#ifndef COUNTERFOIL_RELAY_SOURCE_MAP_H
#define COUNTERFOIL_RELAY_SOURCE_MAP_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"
#include "conf.h"
#include "source.h"

#define SOURCE_MAP_COLUMNS 32

struct source_map_role; /* what a column is used for */

/* What the catalog says of a column. */
struct source_map_found {
	bool there;
	const char *type;  /* its short name: "int8"; of a domain, that of its values */
	const char *shown; /* as people write it: "bigint" */
	bool generated;
	bool readable;
};

struct source_map_column {
	const struct source_map_role *role;
	char *name;
	char *type; /* once it was found */
};

struct source_map {
	const struct conf_relay *conf; /* borrowed */
	char *schema;
	char *table;
	struct buf relation; /* quoted */
	struct source_map_column columns[SOURCE_MAP_COLUMNS];
	size_t count;
};

struct source_map *source_map_new(const struct conf_relay *conf);
void source_map_free(struct source_map *map); /* NULL is fine */

/* The answer for one of the columns. What does not fit is added to the faults, a line each. */
void source_map_found(struct source_map *map, size_t column, const struct source_map_found *found,
		      struct buf *faults);
/* The id was found and can be an index's first column. */
bool source_map_ordered(const struct source_map *map);
/* All columns were found to fit: gives the source its statements. */
void source_map_fill(const struct source_map *map, struct source *source);

/* CREATE INDEX ... that serves the polls; of a partitioned table it cannot be made concurrently. */
void source_map_index(const struct source_map *map, bool partitioned, struct buf *out);

#endif
