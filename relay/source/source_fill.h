/* The texts of a source: statements with their blanks filled. For the modules that make sources. */
#ifndef COUNTERFOIL_RELAY_SOURCE_FILL_H
#define COUNTERFOIL_RELAY_SOURCE_FILL_H

#include "source.h"

struct source_blank {
	const char *name; /* NULL ends the list */
	const char *text;
};

/* In place of the texts that there were. None of the old ones may be on its way to a server. */
void source_fill(struct source *source, const struct source_blank *blanks);

#endif
