/* Reads chosen places out of a JSON text by yajl's callbacks.
 *
 * The reader keeps one frame for each open container and one record for each wanted place, so its
 * memory is bounded by the depth and by what was asked for, whatever is sent. What yajl hands over
 * is decoded, with a lone surrogate already replaced; so the raw token is looked at as well. It is
 * found from the end of the token before: nothing but blanks, commas and colons can stand between.
 */
#include "json.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "json_paths.h"
#include "mem.h"
#include "utf8.h"

/* What was found at a node. */
struct found {
	bool seen;
	bool stored; /* start counts in the storage, not in the data */
	enum json_type type;
	size_t start;
	size_t length;
};

struct frame {
	size_t node; /* of this container, or JSON_NONE off every wanted path */
	bool array;
	size_t element; /* of an array: the index of its next value */
	size_t member;  /* of an object: the node of the value that comes next, or JSON_NONE */
	size_t start;
};

struct reader {
	const struct json_paths *paths;
	const char *data;
	size_t length;
	struct err *err;
	struct buf *storage;
	struct found *found; /* by node */
	yajl_handle yajl;
	size_t token_end;       /* of the token before */
	json_member_fn *member; /* takes the members of the outermost object, or NULL */
	void *arg;
	struct buf name; /* of the member in hand */
	size_t depth;
	struct frame frames[JSON_DEPTH_MAX];
};

/* What json_members() wants: whatever stands one step below the root. */
enum { NODE_ROOT, NODE_MEMBER };

/* --- raw tokens --- */

struct raw {
	bool escaped;
	bool nul;
	bool lone; /* half of a surrogate pair */
};

/* The value of four hexadecimal digits, which yajl has already checked. */
static unsigned hex4(const char *text)
{
	char digits[5] = { text[0], text[1], text[2], text[3] };

	return (unsigned)strtoul(digits, NULL, 16);
}

/* What the inside of a string token holds. */
static struct raw raw_scan(const char *text, size_t length)
{
	struct raw raw = { 0 };
	const char *end = text + length;
	const char *p = text;

	while ((p = memchr(p, '\\', (size_t)(end - p)))) {
		raw.escaped = true;
		bool unicode = end - p >= 6 && p[1] == 'u';
		unsigned unit = unicode ? hex4(p + 2) : 'x';
		p += unicode ? 6 : 2;
		if (unit == 0)
			raw.nul = true;
		if (unit >= 0xd800 && unit <= 0xdbff && end - p >= 6 && p[0] == '\\' &&
		    p[1] == 'u' && hex4(p + 2) >= 0xdc00 && hex4(p + 2) <= 0xdfff)
			p += 6;
		else if (unit >= 0xd800 && unit <= 0xdfff)
			raw.lone = true;
	}
	return raw;
}

static size_t token_start(const struct reader *reader)
{
	size_t at = reader->token_end;

	while (at < reader->length && strchr(" \t\r\n,:", reader->data[at]) && reader->data[at])
		at++;
	return at;
}

static bool fail(const struct reader *reader, size_t at, const char *what, size_t node)
{
	return err_set(reader->err, "byte %zu: %s%s%s", at, what, node == JSON_NONE ? "" : " at ",
		       node == JSON_NONE ? "" : reader->paths->nodes[node].path);
}

static bool string_check(const struct reader *reader, size_t start, struct raw raw, size_t node)
{
	if (raw.nul)
		return fail(reader, start, "\\u0000 is not allowed in a value that is used", node);
	if (raw.lone)
		return fail(reader, start, "half of a surrogate pair", node);
	return true;
}

/* --- values --- */

/* The node of the value that begins now. */
static size_t value_node(struct reader *reader)
{
	if (!reader->depth)
		return 0;
	struct frame *frame = &reader->frames[reader->depth - 1];
	if (!frame->array)
		return frame->member;
	size_t element = frame->element++;
	if (frame->node == JSON_NONE)
		return JSON_NONE;
	return json_child_element(reader->paths, frame->node, element);
}

static struct json_value value_of(const struct reader *reader, const struct found *found)
{
	const char *base = found->stored ? buf_text(reader->storage) : reader->data;

	return (struct json_value){ found->type, base + found->start, found->length };
}

static int hand_out(const struct reader *reader)
{
	struct json_value value = value_of(reader, &reader->found[NODE_MEMBER]);

	return reader->member(reader->arg, buf_text(&reader->name), reader->name.length, &value,
			      reader->err);
}

/* The value is complete. */
static int record(struct reader *reader, size_t node, enum json_type type, size_t start,
		  size_t length)
{
	if (node == JSON_NONE)
		return 1;
	struct found *found = &reader->found[node];
	found->type = type;
	found->start = start;
	found->length = length;
	return reader->member && node == NODE_MEMBER ? hand_out(reader) : 1;
}

static int scalar(struct reader *reader, enum json_type type, size_t length)
{
	size_t start = token_start(reader);

	reader->token_end = start + length;
	return record(reader, value_node(reader), type, start, length);
}

static int on_null(void *arg)
{
	return scalar(arg, JSON_NULL, strlen("null"));
}

static int on_boolean(void *arg, int value)
{
	return scalar(arg, JSON_BOOL, strlen(value ? "true" : "false"));
}

static int on_number(void *arg, const char *text, size_t length)
{
	(void)text;
	return scalar(arg, JSON_NUMBER, length);
}

static int on_string(void *arg, const unsigned char *text, size_t length)
{
	struct reader *reader = arg;
	size_t start = token_start(reader);
	size_t node = value_node(reader);

	reader->token_end = yajl_get_bytes_consumed(reader->yajl);
	if (node == JSON_NONE || reader->paths->nodes[node].value == JSON_NONE)
		return 1;
	struct raw raw = raw_scan(reader->data + start + 1, reader->token_end - start - 2);
	if (!string_check(reader, start, raw, node))
		return 0;
	if (!raw.escaped)
		return record(reader, node, JSON_STRING, start + 1, length);
	size_t stored = reader->storage->length;
	reader->found[node].stored = true;
	buf_add(reader->storage, text, length);
	return record(reader, node, JSON_STRING, stored, length);
}

/* A name that a reader which stops at NUL would take for a wanted one. */
static bool hidden_name(const struct reader *reader, size_t parent, const char *name, size_t length)
{
	const char *nul = memchr(name, '\0', length);

	return nul &&
	       json_child_named(reader->paths, parent, name, (size_t)(nul - name)) != JSON_NONE;
}

static struct raw name_scan(const struct reader *reader, size_t start)
{
	return raw_scan(reader->data + start + 1, reader->token_end - start - 2);
}

static int begin_member(struct reader *reader, struct frame *frame, const char *name, size_t length,
			size_t start)
{
	if (!string_check(reader, start, name_scan(reader, start), NODE_MEMBER))
		return 0;
	buf_clear(&reader->name);
	buf_add(&reader->name, name, length);
	buf_clear(reader->storage);
	reader->found[NODE_MEMBER] = (struct found){ 0 };
	frame->member = NODE_MEMBER;
	return 1;
}

static int on_key(void *arg, const unsigned char *text, size_t length)
{
	struct reader *reader = arg;
	struct frame *frame = &reader->frames[reader->depth - 1];
	const char *name = (const char *)text;
	size_t start = token_start(reader);

	reader->token_end = yajl_get_bytes_consumed(reader->yajl);
	frame->member = JSON_NONE;
	if (frame->node == JSON_NONE)
		return 1;
	if (reader->member && frame->node == NODE_ROOT)
		return begin_member(reader, frame, name, length, start);
	if (hidden_name(reader, frame->node, name, length))
		return fail(reader, start,
			    "a member's name with \\u0000 beside one that is used in", JSON_NONE);
	size_t node = json_child_named(reader->paths, frame->node, name, length);
	if (node == JSON_NONE)
		return 1;
	if (!string_check(reader, start, name_scan(reader, start), node))
		return 0;
	if (reader->found[node].seen)
		return fail(reader, start, "a second member of this name", node);
	reader->found[node].seen = true;
	frame->member = node;
	return 1;
}

static int container_start(struct reader *reader, bool array)
{
	size_t start = token_start(reader);

	if (reader->depth == JSON_DEPTH_MAX)
		return err_set(reader->err, "byte %zu: nested deeper than %d", start,
			       JSON_DEPTH_MAX);
	size_t node = value_node(reader);
	reader->frames[reader->depth++] =
		(struct frame){ .node = node, .array = array, .member = JSON_NONE, .start = start };
	reader->token_end = start + 1;
	return 1;
}

static int container_end(struct reader *reader)
{
	const struct frame *frame = &reader->frames[--reader->depth];

	reader->token_end = token_start(reader) + 1;
	return record(reader, frame->node, JSON_CONTAINER, frame->start,
		      reader->token_end - frame->start);
}

static int on_map_start(void *arg)
{
	return container_start(arg, false);
}

static int on_array_start(void *arg)
{
	return container_start(arg, true);
}

static int on_end(void *arg)
{
	return container_end(arg);
}

/* --- reading --- */

static void *take_memory(void *arg, size_t size)
{
	(void)arg;
	return mem_grow(NULL, size, 1);
}

static void *grow_memory(void *arg, void *old, size_t size)
{
	(void)arg;
	return mem_grow(old, size, 1);
}

static void free_memory(void *arg, void *memory)
{
	(void)arg;
	free(memory);
}

/* yajl's own words, without its line end. */
static bool fail_yajl(const struct reader *reader, size_t at)
{
	unsigned char *text = yajl_get_error(reader->yajl, 0, NULL, 0);

	err_set(reader->err, "byte %zu: %.*s", at, (int)strcspn((const char *)text, "\n"),
		(const char *)text);
	yajl_free_error(reader->yajl, text);
	return false;
}

static bool parse(const struct reader *reader)
{
	yajl_status status =
		yajl_parse(reader->yajl, (const unsigned char *)reader->data, reader->length);

	if (status == yajl_status_error)
		return fail_yajl(reader, yajl_get_bytes_consumed(reader->yajl));
	if (status == yajl_status_ok)
		status = yajl_complete_parse(reader->yajl);
	if (status == yajl_status_error)
		return fail_yajl(reader, reader->length);
	return status == yajl_status_ok; /* else a callback has said why */
}

static bool reader_run(struct reader *reader)
{
	static const yajl_callbacks callbacks = {
		.yajl_null = on_null,
		.yajl_boolean = on_boolean,
		.yajl_number = on_number,
		.yajl_string = on_string,
		.yajl_start_map = on_map_start,
		.yajl_map_key = on_key,
		.yajl_end_map = on_end,
		.yajl_start_array = on_array_start,
		.yajl_end_array = on_end,
	};
	yajl_alloc_funcs memory = { take_memory, grow_memory, free_memory, NULL };
	size_t valid = utf8_span(reader->data, reader->length);

	if (valid != reader->length)
		return err_set(reader->err, "byte %zu: not UTF-8", valid);
	reader->yajl = yajl_alloc(&callbacks, &memory, reader);
	bool ok = parse(reader);
	yajl_free(reader->yajl);
	return ok;
}

static void fill(const struct reader *reader, struct json_value *values)
{
	for (size_t i = 0; i < reader->paths->node_count; i++) {
		size_t value = reader->paths->nodes[i].value;
		if (value != JSON_NONE)
			values[value] = value_of(reader, &reader->found[i]);
	}
}

bool json_read(const struct json_paths *paths, const char *data, size_t length, struct err *err,
	       struct buf *storage, struct json_value *values)
{
	struct reader reader = {
		.paths = paths,
		.data = length ? data : "",
		.length = length,
		.err = err,
		.storage = storage,
		.found = mem_zero(paths->node_count * sizeof(*reader.found)),
	};

	buf_clear(storage);
	bool ok = reader_run(&reader);
	if (ok)
		fill(&reader, values);
	free(reader.found);
	return ok;
}

static bool is_object(const struct reader *reader)
{
	const struct found *root = &reader->found[NODE_ROOT];

	return root->type == JSON_CONTAINER && reader->data[root->start] == '{';
}

bool json_members(const char *data, size_t length, struct err *err, json_member_fn *fn, void *arg)
{
	static char any[] = "a member";
	struct json_node nodes[] = {
		[NODE_ROOT] = { .child = NODE_MEMBER,
				.element = JSON_NONE,
				.next = JSON_NONE,
				.value = JSON_NONE },
		[NODE_MEMBER] = { .path = any,
				  .child = JSON_NONE,
				  .element = JSON_NONE,
				  .next = JSON_NONE },
	};
	const struct json_paths paths = { .nodes = nodes, .node_count = 2, .count = 1 };
	struct buf storage BUF_AUTO = { 0 };
	struct found found[2] = { 0 };
	struct reader reader = {
		.paths = &paths,
		.data = length ? data : "",
		.length = length,
		.err = err,
		.storage = &storage,
		.found = found,
		.member = fn,
		.arg = arg,
	};

	bool ok = reader_run(&reader);
	buf_done(&reader.name);
	return ok && (is_object(&reader) || err_set(err, "is not a JSON object"));
}

void json_escape(struct buf *out, const char *text, size_t length)
{
	static const char brief[] = "\bb\tt\nn\ff\rr\"\"\\\\";
	size_t plain = 0; /* what was copied so far */

	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];
		if (c >= 0x20 && c != '"' && c != '\\')
			continue;
		buf_add(out, text + plain, i - plain);
		plain = i + 1;
		const char *pair = c ? strchr(brief, c) : NULL;
		if (pair)
			buf_addf(out, "\\%c", pair[1]);
		else
			buf_addf(out, "\\u%04x", c);
	}
	buf_add(out, text + plain, length - plain);
}
