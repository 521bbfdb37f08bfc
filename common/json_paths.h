/* The inside of a set of JSON pointers, for the reader. */
#ifndef COMMON_JSON_PATHS_H
#define COMMON_JSON_PATHS_H

#include <stdint.h>

#include "json.h"

#define JSON_NONE SIZE_MAX

/* One step of a pointer. The set is a tree: pointers that begin alike share their first nodes. */
struct json_node {
	char *path; /* the pointer up to here, for messages */
	char *name;
	size_t length;
	size_t element; /* what the name is as an array index, or JSON_NONE */
	size_t child;   /* the first one, or JSON_NONE */
	size_t next;    /* the next child of the same parent, or JSON_NONE */
	size_t value;   /* the index of the pointer that ends here, or JSON_NONE */
};

struct json_paths {
	struct json_node *nodes; /* the root first */
	size_t node_count;
	size_t count;
};

/* The child of a node, or JSON_NONE. */
size_t json_child_named(const struct json_paths *paths, size_t parent, const char *name,
			size_t length);
size_t json_child_element(const struct json_paths *paths, size_t parent, size_t element);

#endif
