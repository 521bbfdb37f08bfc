/* Where each key of a configuration stands, and the faults found there. */
#ifndef COMMON_CONF_PLACES_H
#define COMMON_CONF_PLACES_H

#include <stddef.h>

#include "buf.h"
#include "conf/conf_text.h"

struct conf_place {
	char *key;      /* "targets[1].url" */
	unsigned line;  /* of the text; 0: it does not come from there */
	char *variable; /* of the environment, or the option of the command line, or NULL */
};

struct conf_places {
	char *path; /* the file, as it was named */
	struct conf_text text;
	struct conf_place *items;
	size_t count;
};

/* A later place of the same key replaces the earlier one. */
void conf_places_add(struct conf_places *places, const char *key, unsigned line,
		     const char *variable);
/* The value of `to` is that of `from`: so is its place. */
void conf_places_copy(struct conf_places *places, const char *from, const char *to);
/* NULL: the key stands nowhere, it has its default. */
const struct conf_place *conf_places_find(const struct conf_places *places, const char *key);
void conf_places_done(struct conf_places *places);

struct conf_fault {
	unsigned line; /* of the text, for the order */
	char *text;
};

struct conf_faults {
	const struct conf_places *places;
	struct conf_fault *items;
	size_t count;
};

/* The fault is shown at the key's place, or where the group that should hold it begins. The key ""
 * is the whole file, and is not shown. */
void conf_fault(struct conf_faults *faults, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* All of them, one a line, in the order of the file. */
void conf_faults_print(struct conf_faults *faults, struct buf *out);
void conf_faults_done(struct conf_faults *faults);

#endif
