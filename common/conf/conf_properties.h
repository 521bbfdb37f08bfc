/* librdkafka's properties: which are the user's to set, and files of them. */
#ifndef COMMON_CONF_PROPERTIES_H
#define COMMON_CONF_PROPERTIES_H

#include <stddef.h>

#include "err.h"

struct property {
	char *name;
	char *value;
	unsigned line;
};

struct properties {
	struct property *items;
	size_t count;
};

/* Why this property is not the user's to set, or NULL. */
const char *properties_owned(const char *name);
/* It is a secret: not in the configuration, only in a file of its own. */
bool properties_secret(const char *name);

/* Reads a Java-style file: name=value, name:value or "name value"; # and ! begin a comment, \ at
 * the end continues a line. */
MUST_USE bool properties_read(const char *path, struct err *err, struct properties *properties_r);
void properties_done(struct properties *properties);

#endif
