/* A layout by tokens: it works on the beginning of a text as well, where a parser would give up. */
#include "words/pretty.h"

#include <string.h>

#include "json.h"

enum { INDENT = 2, INDENT_MAX = 32 };

struct layout {
	struct buf *out;
	const char *text;
	size_t length;
	size_t at;
	size_t depth;
};

static bool is_json(const char *text, size_t length)
{
	struct json_value values[1];
	BUF_AUTO struct buf storage = { 0 };
	struct err err;
	struct json_paths *none = json_paths_new();
	bool valid = json_read(none, text, length, &err, &storage, values);
	json_paths_free(none);
	return valid;
}

static size_t skip_blanks(const struct layout *layout, size_t at)
{
	while (at < layout->length && strchr(" \t\r\n", layout->text[at]) && layout->text[at])
		at++;
	return at;
}

static void new_line(struct layout *layout)
{
	size_t depth = layout->depth < INDENT_MAX ? layout->depth : INDENT_MAX;
	buf_addf(layout->out, "\n%*s", (int)depth * INDENT, "");
}

static void add_open(struct layout *layout, char bracket)
{
	size_t next = skip_blanks(layout, layout->at);
	buf_add_char(layout->out, bracket);
	if (next < layout->length && (layout->text[next] == '}' || layout->text[next] == ']')) {
		buf_add_char(layout->out, layout->text[next]);
		layout->at = next + 1;
		return;
	}
	layout->depth++;
	new_line(layout);
}

static void add_close(struct layout *layout, char bracket)
{
	layout->depth -= layout->depth > 0;
	new_line(layout);
	buf_add_char(layout->out, bracket);
}

/* The end of the token that begins at `from`: a string, or a number or word. */
static size_t token_end(const struct layout *layout, size_t from)
{
	size_t at = from + 1;
	if (layout->text[from] != '"') {
		while (at < layout->length && !memchr(" \t\r\n,:{}[]\"", layout->text[at], 11))
			at++;
		return at;
	}
	while (at < layout->length && layout->text[at] != '"')
		at += layout->text[at] == '\\' ? 2 : 1;
	return at < layout->length ? at + 1 : layout->length;
}

static void add_token(struct layout *layout, size_t from)
{
	layout->at = token_end(layout, from);
	buf_add(layout->out, layout->text + from, layout->at - from);
}

static void add_next(struct layout *layout)
{
	size_t from = layout->at++;
	char c = layout->text[from];
	if (c == '{' || c == '[') {
		add_open(layout, c);
	} else if (c == '}' || c == ']') {
		add_close(layout, c);
	} else if (c == ',') {
		buf_add_char(layout->out, c);
		new_line(layout);
	} else if (c == ':') {
		buf_add_text(layout->out, ": ");
	} else {
		add_token(layout, from);
	}
}

bool pretty_json(struct buf *out, const char *text, size_t length, bool cut)
{
	struct layout layout = { .out = out, .text = text, .length = length };
	size_t limit = out->length + PRETTY_MAX;
	layout.at = skip_blanks(&layout, 0);
	bool container = layout.at < length && strchr("{[", text[layout.at]) && text[layout.at];
	if (!container || (!cut && !is_json(text, length)))
		return false;
	while ((layout.at = skip_blanks(&layout, layout.at)) < length && out->length < limit)
		add_next(&layout);
	if (out->length > limit) {
		out->length = limit;
		out->data[limit] = '\0';
	}
	return true;
}
