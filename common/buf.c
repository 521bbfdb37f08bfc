/* A growing byte buffer. */
#include "buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

/* Room for `more` bytes and the NUL behind them. */
static void reserve(struct buf *buf, size_t more)
{
	size_t need = buf->length + more + 1;
	if (need < more)
		abort();
	if (need <= buf->capacity)
		return;
	size_t capacity = buf->capacity ? buf->capacity : 64;
	while (capacity < need)
		capacity += capacity / 2 + 64;
	buf->data = mem_grow(buf->data, capacity, 1);
	buf->capacity = capacity;
}

void buf_add(struct buf *buf, const void *data, size_t length)
{
	reserve(buf, length);
	if (length)
		memcpy(buf->data + buf->length, data, length);
	buf->length += length;
	buf->data[buf->length] = '\0';
}

void buf_add_char(struct buf *buf, char c)
{
	buf_add(buf, &c, 1);
}

void buf_add_text(struct buf *buf, const char *text)
{
	buf_add(buf, text, strlen(text));
}

void buf_addf(struct buf *buf, const char *format, ...)
{
	va_list args, again;
	va_start(args, format);
	va_copy(again, args);
	int length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (length < 0)
		abort();
	reserve(buf, (size_t)length);
	(void)vsnprintf(buf->data + buf->length, (size_t)length + 1, format, again);
	va_end(again);
	buf->length += (size_t)length;
}

void buf_clear(struct buf *buf)
{
	buf->length = 0;
	if (buf->data)
		buf->data[0] = '\0';
}

void buf_done(struct buf *buf)
{
	free(buf->data);
	*buf = (struct buf){ 0 };
}

char *buf_take(struct buf *buf)
{
	reserve(buf, 0);
	buf->data[buf->length] = '\0';
	char *data = buf->data;
	*buf = (struct buf){ 0 };
	return data;
}

const char *buf_text(const struct buf *buf)
{
	return buf->data ? buf->data : "";
}
