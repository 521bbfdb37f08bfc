/* Reads a file and what it includes into one text, and knows where each line came from.
 *
 * libconfig 1.5 cannot be given the file itself:
 * - it ends the process when an @include names a directory, and finds included files relative to
 *   the working directory. So includes are resolved here, relative to the file that names them;
 * - it reads 3000000000 as a negative number and 4294967297 as 1. So each whole number gets its L
 *   here, and is read as 64 bits;
 * - a NUL ends its text, and the escape for NUL ends its value, without a word. Both are refused;
 * - a comment that is never closed swallows the rest of the file. Refused, with its first line. */
#include "conf/conf_text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf_file.h"
#include "mem.h"

#define TEXT_MAX      ((size_t)1024 * 1024)
#define INCLUDE_DEPTH 10

struct scan {
	struct conf_text *text;
	struct err *err;
	const char *file;
	const char *at;
	const char *end;
	unsigned line;
	int depth;
	bool line_start; /* nothing but blanks yet on this line */
};

static bool read_file(struct conf_text *text, const char *path, int depth, struct err *err);

static void add_span(struct conf_text *text, const char *file, unsigned line)
{
	text->spans = mem_grow(text->spans, text->span_count + 1, sizeof(*text->spans));
	text->spans[text->span_count++] = (struct conf_span){ .first = text->lines + 1,
							      .line = line,
							      .file = mem_text(file) };
}

static bool refuse(struct scan *scan, unsigned line, const char *why)
{
	return err_set(scan->err, "%s:%u: %s", scan->file, line, why);
}

static bool looking_at(const struct scan *scan, const char *word)
{
	size_t length = strlen(word);
	return (size_t)(scan->end - scan->at) >= length && memcmp(scan->at, word, length) == 0;
}

/* The character that stands `ahead` of the present one; NUL behind the end. */
static char peek(const struct scan *scan, ptrdiff_t ahead)
{
	if (scan->end - scan->at <= ahead)
		return '\0';
	return scan->at[ahead];
}

static void copy(struct scan *scan)
{
	char c = *scan->at++;
	buf_add_char(&scan->text->text, c);
	if (c == '\n') {
		scan->line++;
		scan->text->lines++;
		scan->line_start = true;
	} else if (c != ' ' && c != '\t' && c != '\r') {
		scan->line_start = false;
	}
}

static bool copy_line(struct scan *scan)
{
	while (scan->at < scan->end && *scan->at != '\n')
		copy(scan);
	return true;
}

static bool copy_comment(struct scan *scan)
{
	unsigned line = scan->line;
	copy(scan);
	do {
		copy(scan);
		if (scan->at == scan->end)
			return refuse(scan, line, "this comment is never closed; it ends with */");
	} while (!looking_at(scan, "*/"));
	copy(scan);
	copy(scan);
	return true;
}

static bool copy_string(struct scan *scan)
{
	unsigned line = scan->line;
	copy(scan);
	while (scan->at < scan->end && *scan->at != '"') {
		if (looking_at(scan, "\\x00"))
			return refuse(scan, scan->line, "a text cannot hold a NUL (\\x00)");
		if (*scan->at == '\\')
			copy(scan);
		if (scan->at < scan->end)
			copy(scan);
	}
	if (scan->at == scan->end)
		return refuse(scan, line, "this text is never closed; it ends with \"");
	copy(scan);
	return true;
}

static bool copy_number(struct scan *scan)
{
	bool hex = *scan->at == '0' && (peek(scan, 1) == 'x' || peek(scan, 1) == 'X');
	if (hex) {
		copy(scan);
		copy(scan);
	}
	while (hex ? isxdigit((unsigned char)peek(scan, 0)) : isdigit((unsigned char)peek(scan, 0)))
		copy(scan);
	if (peek(scan, 0) != '\0' && strchr(".eEL", peek(scan, 0)))
		while (isalnum((unsigned char)peek(scan, 0)) ||
		       (peek(scan, 0) != '\0' && strchr(".+-", peek(scan, 0))))
			copy(scan); /* a float, or long already */
	else
		buf_add_char(&scan->text->text, 'L');
	return true;
}

static bool copy_name(struct scan *scan)
{
	while (isalnum((unsigned char)peek(scan, 0)) ||
	       (peek(scan, 0) != '\0' && strchr("-_*", peek(scan, 0))))
		copy(scan);
	return true;
}

static char *beside(const char *file, const char *name, size_t length)
{
	const char *slash = strrchr(file, '/');
	BUF_AUTO struct buf path = { 0 };
	if (name[0] != '/' && slash)
		buf_add(&path, file, (size_t)(slash - file) + 1);
	buf_add(&path, name, length);
	return buf_take(&path);
}

static bool include(struct scan *scan)
{
	static const char how[] = "an include stands at the beginning of a line: @include \"FILE\"";
	if (!scan->line_start || !looking_at(scan, "@include"))
		return refuse(scan, scan->line, how);
	scan->at += strlen("@include");
	while (peek(scan, 0) == ' ' || peek(scan, 0) == '\t')
		scan->at++;
	const char *name = scan->at + 1;
	const char *quote =
		peek(scan, 0) == '"' ? memchr(name, '"', (size_t)(scan->end - name)) : NULL;
	if (!quote || quote == name || memchr(name, '\n', (size_t)(quote - name)))
		return refuse(scan, scan->line, how);
	if (scan->depth >= INCLUDE_DEPTH)
		return refuse(scan, scan->line, "includes are nested more than 10 deep");

	char *path = beside(scan->file, name, (size_t)(quote - name));
	bool ok = read_file(scan->text, path, scan->depth + 1, scan->err);
	free(path);
	if (!ok)
		return err_prefix(scan->err, "%s:%u: include", scan->file, scan->line);
	scan->at = quote + 1;
	scan->line_start = false;
	add_span(scan->text, scan->file, scan->line);
	return true;
}

static bool copy_next(struct scan *scan)
{
	char c = *scan->at;
	if (c == '#' || looking_at(scan, "//"))
		return copy_line(scan);
	if (looking_at(scan, "/*"))
		return copy_comment(scan);
	if (c == '"')
		return copy_string(scan);
	if (c == '@')
		return include(scan);
	if (isdigit((unsigned char)c))
		return copy_number(scan);
	if (isalpha((unsigned char)c) || c == '*')
		return copy_name(scan);
	copy(scan);
	return true;
}

static bool scan_all(struct scan *scan)
{
	while (scan->at < scan->end)
		if (!copy_next(scan))
			return false;
	if (scan->text->text.length > TEXT_MAX)
		return err_set(scan->err, "%s: with its includes it is larger than 1 MiB",
			       scan->file);
	return true;
}

static unsigned lines_before(const char *text, const char *end)
{
	unsigned lines = 0;
	for (const char *at = text; at < end; at++)
		if (*at == '\n')
			lines++;
	return lines;
}

static bool read_file(struct conf_text *text, const char *path, int depth, struct err *err)
{
	BUF_AUTO struct buf source = { 0 };
	if (!conf_file_read(path, TEXT_MAX, err, &source))
		return err_prefix(err, "%s", path);
	const char *data = buf_text(&source);
	const char *nul = memchr(data, '\0', source.length);
	if (nul)
		return err_set(err, "%s:%u: a configuration cannot hold a NUL byte", path,
			       lines_before(data, nul) + 1);
	struct scan scan = { .text = text,
			     .err = err,
			     .file = path,
			     .at = data,
			     .end = data + source.length,
			     .line = 1,
			     .depth = depth,
			     .line_start = true };
	if (looking_at(&scan, "\xef\xbb\xbf"))
		scan.at += 3; /* the byte order mark that some editors leave */
	add_span(text, path, 1);
	if (!scan_all(&scan))
		return false;
	buf_add_char(&text->text, '\n');
	text->lines++;
	return true;
}

bool conf_text_read(struct conf_text *text, const char *path, struct err *err)
{
	return read_file(text, path, 0, err);
}

void conf_text_done(struct conf_text *text)
{
	for (size_t i = 0; i < text->span_count; i++)
		free(text->spans[i].file);
	free(text->spans);
	buf_done(&text->text);
	*text = (struct conf_text){ 0 };
}

unsigned conf_text_last_line(const struct conf_text *text)
{
	const char *data = buf_text(&text->text);
	size_t length = text->text.length;
	while (length > 0 && isspace((unsigned char)data[length - 1]))
		length--;
	return lines_before(data, data + length) + 1;
}

const char *conf_text_place(const struct conf_text *text, unsigned line, unsigned *line_r)
{
	const struct conf_span *span = text->spans;
	for (size_t i = 1; i < text->span_count && text->spans[i].first <= line; i++)
		span = &text->spans[i];
	*line_r = span->line + (line - span->first);
	return span->file;
}
