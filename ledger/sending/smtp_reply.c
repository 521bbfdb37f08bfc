/* Replies of RFC 5321. */
#include "smtp_reply.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void smtp_reader_done(struct smtp_reader *reader)
{
	buf_done(&reader->in);
	buf_done(&reader->text);
}

/* 0: it has no code. */
static int code_of(const char *line, size_t length)
{
	if (length < 3 || line[0] < '2' || line[0] > '5' || !isdigit((unsigned char)line[1]) ||
	    !isdigit((unsigned char)line[2]))
		return 0;
	return (line[0] - '0') * 100 + (line[1] - '0') * 10 + (line[2] - '0');
}

static void take(struct smtp_reader *reader, size_t length)
{
	struct buf *in = &reader->in;
	buf_clear(&reader->text);
	buf_add(&reader->text, in->data, length);
	memmove(in->data, in->data + length, in->length - length);
	in->length -= length;
	in->data[in->length] = '\0';
}

enum smtp_read smtp_reader_take(struct smtp_reader *reader, int *code_r)
{
	const char *data = buf_text(&reader->in);
	const size_t length = reader->in.length;
	int first = 0;
	for (size_t at = 0; at < length;) {
		const char *end = memchr(data + at, '\n', length - at);
		if (!end)
			break;
		const size_t size = (size_t)(end - data) - at; /* without the line end */
		const int code = code_of(data + at, size);
		const char mark = size > 3 ? data[at + 3] : ' ';
		if (!code || (first && code != first) || !strchr(" -\r", mark) || !mark)
			return SMTP_READ_GARBAGE;
		first = code;
		at += size + 1;
		if (mark != '-') {
			take(reader, at);
			*code_r = code;
			return SMTP_READ_REPLY;
		}
	}
	return length > SMTP_REPLY_MAX ? SMTP_READ_GARBAGE : SMTP_READ_MORE;
}

bool smtp_size_limit(const char *line, size_t length, size_t *limit_r)
{
	static const char word[] = "SIZE ";
	const size_t begin = 4 + strlen(word);
	if (length <= begin || strncmp(line, "250", 3) != 0 ||
	    strncasecmp(line + 4, word, strlen(word)) != 0)
		return false;
	size_t limit = 0;
	for (size_t i = begin; i < length && isdigit((unsigned char)line[i]); i++) {
		if (limit > (SIZE_MAX - 9) / 10)
			return false;
		limit = limit * 10 + (size_t)(line[i] - '0');
	}
	if (!limit) /* 0 is the standard's word for none */
		return false;
	*limit_r = limit;
	return true;
}
