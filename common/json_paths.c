/* A set of JSON pointers as a tree of their steps. */
#include "json_paths.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "utf8.h"

static size_t node_add(struct json_paths *paths, const char *path, size_t path_length,
		       const struct buf *name)
{
	size_t at = paths->node_count;
	struct json_node node = {
		.path = mem_text_n(path, path_length),
		.name = mem_text_n(buf_text(name), name->length),
		.length = name->length,
		.element = JSON_NONE,
		.child = JSON_NONE,
		.next = JSON_NONE,
		.value = JSON_NONE,
	};
	/* RFC 6901: digits without a leading zero. Eighteen of them fit everywhere. */
	bool digits = node.length > 0 && node.length <= 18 &&
		      strspn(node.name, "0123456789") == node.length;
	if (digits && (node.length == 1 || node.name[0] != '0'))
		node.element = strtoull(node.name, NULL, 10);
	paths->nodes = mem_grow(paths->nodes, at + 1, sizeof(*paths->nodes));
	paths->nodes[at] = node;
	paths->node_count++;
	return at;
}

static bool pointer_check(const char *pointer, struct err *err)
{
	size_t depth = 0;

	if (*pointer && *pointer != '/')
		return err_set(err, "the pointer must begin with '/'");
	if (!utf8_valid(pointer, strlen(pointer)))
		return err_set(err, "the pointer is not UTF-8");
	for (const char *p = pointer; *p; p++) {
		if (*p == '/')
			depth++;
		if (*p == '~' && p[1] != '0' && p[1] != '1')
			return err_set(
				err, "in the pointer, '~' is written '~0' and '/' is written '~1'");
	}
	if (depth > JSON_DEPTH_MAX)
		return err_set(err, "the pointer has more than %d steps", JSON_DEPTH_MAX);
	return true;
}

/* Takes one step ("/name") off the pointer. */
static const char *pointer_step(const char *pointer, struct buf *name)
{
	const char *p = pointer + 1;

	buf_clear(name);
	for (; *p && *p != '/'; p++) {
		if (*p == '~')
			buf_add_char(name, *++p == '0' ? '~' : '/');
		else
			buf_add_char(name, *p);
	}
	return p;
}

struct json_paths *json_paths_new(void)
{
	struct json_paths *paths = mem_zero(sizeof(*paths));

	node_add(paths, "", 0, &(struct buf){ 0 });
	return paths;
}

void json_paths_free(struct json_paths *paths)
{
	if (!paths)
		return;
	for (size_t i = 0; i < paths->node_count; i++) {
		free(paths->nodes[i].path);
		free(paths->nodes[i].name);
	}
	free(paths->nodes);
	free(paths);
}

size_t json_child_named(const struct json_paths *paths, size_t parent, const char *name,
			size_t length)
{
	size_t at = paths->nodes[parent].child;

	while (at != JSON_NONE) {
		const struct json_node *node = &paths->nodes[at];
		if (node->length == length && !memcmp(node->name, name, length))
			break;
		at = node->next;
	}
	return at;
}

size_t json_child_element(const struct json_paths *paths, size_t parent, size_t element)
{
	size_t at = paths->nodes[parent].child;

	while (at != JSON_NONE && paths->nodes[at].element != element)
		at = paths->nodes[at].next;
	return at;
}

bool json_paths_add(struct json_paths *paths, const char *pointer, struct err *err, size_t *index_r)
{
	struct buf name BUF_AUTO = { 0 };
	size_t at = 0;

	if (!pointer_check(pointer, err))
		return false;
	for (const char *p = pointer; *p;) {
		p = pointer_step(p, &name);
		size_t child = json_child_named(paths, at, buf_text(&name), name.length);
		if (child == JSON_NONE) {
			child = node_add(paths, pointer, (size_t)(p - pointer), &name);
			paths->nodes[child].next = paths->nodes[at].child;
			paths->nodes[at].child = child;
		}
		at = child;
	}
	if (paths->nodes[at].value == JSON_NONE)
		paths->nodes[at].value = paths->count++;
	*index_r = paths->nodes[at].value;
	return true;
}

size_t json_paths_count(const struct json_paths *paths)
{
	return paths->count;
}
