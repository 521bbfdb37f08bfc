/* Reads an answer's header lines and body. */
#include "http_answer.h"

#include <string.h>
#include <strings.h>

void http_reader_init(struct http_reader *reader, size_t body_max)
{
	*reader = (struct http_reader){ .body_max = body_max };
}

void http_reader_done(struct http_reader *reader)
{
	buf_done(&reader->head);
	buf_done(&reader->body);
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_blank(const char *line, size_t length)
{
	return (length == 1 && line[0] == '\n') ||
	       (length == 2 && line[0] == '\r' && line[1] == '\n');
}

/* "HTTP/1.1 200 OK": three digits and nothing stuck to them, else 0. */
static int read_status(const char *line, size_t length)
{
	size_t at = 0;
	int status = 0;
	while (at < length && !is_space(line[at]))
		at++;
	if (at + 4 >= length || !is_space(line[at + 4]))
		return 0;
	for (size_t i = at + 1; i < at + 4; i++) {
		if (line[i] < '0' || line[i] > '9')
			return 0;
		status = status * 10 + (line[i] - '0');
	}
	return status;
}

/* A status line begins a new block: what came before it was an interim response. */
static void begin_block(struct http_reader *reader, const char *line, size_t length)
{
	buf_clear(&reader->head);
	reader->status = read_status(line, length);
	reader->replayed = false;
	reader->retry_after[0] = '\0';
	reader->date[0] = '\0';
}

/* The value of a header, trimmed, if the line is that header. */
static bool header_value(const char *line, size_t length, const char *name, const char **value_r,
			 size_t *length_r)
{
	const size_t name_length = strlen(name);
	if (length <= name_length || line[name_length] != ':' ||
	    strncasecmp(line, name, name_length) != 0)
		return false;
	line += name_length + 1;
	length -= name_length + 1;
	while (length && is_space(line[0])) {
		line++;
		length--;
	}
	while (length && is_space(line[length - 1]))
		length--;
	*value_r = line;
	*length_r = length;
	return true;
}

/* A value that does not fit is no value that we could read. */
static void keep(char *kept, size_t size, const char *value, size_t length)
{
	if (length >= size || memchr(value, '\0', length))
		length = 0;
	memcpy(kept, value, length);
	kept[length] = '\0';
}

static void read_header(struct http_reader *reader, const char *line, size_t length)
{
	const char *value;
	size_t value_length;
	if (header_value(line, length, "retry-after", &value, &value_length))
		keep(reader->retry_after, sizeof(reader->retry_after), value, value_length);
	else if (header_value(line, length, "date", &value, &value_length))
		keep(reader->date, sizeof(reader->date), value, value_length);
	else if (header_value(line, length, "idempotent-replayed", &value, &value_length))
		reader->replayed = value_length == 4 && !strncasecmp(value, "true", 4);
}

bool http_reader_head(struct http_reader *reader, const char *line, size_t length)
{
	reader->head_total += length;
	if (reader->head_total > HTTP_HEADS_MAX)
		return false;
	if (reader->complete)
		return true; /* trailers */
	if (length >= 5 && !memcmp(line, "HTTP/", 5))
		begin_block(reader, line, length);
	if (reader->head.length + length > HTTP_HEAD_MAX)
		return false;
	buf_add(&reader->head, line, length);
	if (is_blank(line, length))
		reader->complete = reader->status >= 200;
	else
		read_header(reader, line, length);
	return true;
}

bool http_reader_body(struct http_reader *reader, const char *data, size_t length)
{
	const size_t room = reader->body_max - reader->body.length;
	if (length > room) {
		reader->truncated = true;
		length = room;
	}
	if (length)
		buf_add(&reader->body, data, length);
	return !reader->truncated;
}
