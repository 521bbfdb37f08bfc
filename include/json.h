/* Reads chosen places out of a JSON text, and checks the whole of it, without building a tree.
 *
 * Numbers keep their text (9223372036854775807123 and 1.10 arrive as written). Depth is at most
 * JSON_DEPTH_MAX; comments, trailing bytes, bad UTF-8 and more than one value are errors. On a
 * wanted path a duplicated member, a NUL or a lone surrogate is an error: two readers could see two
 * different values there. Source of the path syntax: RFC 6901. */
#ifndef COUNTERFOIL_JSON_H
#define COUNTERFOIL_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"
#include "err.h"

#define JSON_DEPTH_MAX 64

enum json_type { JSON_MISSING, JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_CONTAINER };

struct json_value {
	enum json_type type;
	const char *text; /* a string decoded to UTF-8; anything else as it stands in the source */
	size_t length;
};

struct json_paths; /* a set of pointers, made once from the configuration */

struct json_paths *json_paths_new(void);
void json_paths_free(struct json_paths *paths); /* NULL is fine */
/* The index of this pointer in the set (added if it is new). "" is the whole document. */
MUST_USE bool json_paths_add(struct json_paths *paths, const char *pointer, struct err *err,
			     size_t *index_r);
size_t json_paths_count(const struct json_paths *paths);

/* Fills values[0 .. count-1] by index. Their texts live in `data` or `storage`, which must both
 * stay as they are while they are read; storage is cleared first. Pointers may overlap: "/a" and
 * "/a/b" both get their value. The error names the byte, counted from 0 (yajl stops just behind
 * what it objects to), and what is wrong. */
MUST_USE bool json_read(const struct json_paths *paths, const char *data, size_t length,
			struct err *err, struct buf *storage, struct json_value *values);

/* A member of an object: its name, decoded to UTF-8, and its value; borrowed for the call. False
 * ends the reading, with the reason in `err`. */
typedef bool json_member_fn(void *arg, const char *name, size_t name_length,
			    const struct json_value *value, struct err *err);

/* Hands out the members of the object that the text is, in their order, one of a repeated name as
 * often as it comes. False: the text is no JSON, or no object, or fn said so; what came before the
 * fault has then been handed out. */
MUST_USE bool json_members(const char *data, size_t length, struct err *err, json_member_fn *fn,
			   void *arg);

/* Appends text as the inside of a JSON string (no quotes). */
void json_escape(struct buf *out, const char *text, size_t length);

#endif
