/* A growing byte buffer. `data` is always NUL-terminated once anything was added, may hold NULs
 * inside, and moves when the buffer grows. A zeroed struct is an empty buffer. */
#ifndef COUNTERFOIL_BUF_H
#define COUNTERFOIL_BUF_H

#include <stdarg.h>
#include <stddef.h>

struct buf {
	char *data;
	size_t length;
	size_t capacity;
};

#define BUF_AUTO __attribute__((cleanup(buf_done)))

void buf_add(struct buf *buf, const void *data, size_t length);
void buf_add_char(struct buf *buf, char c);
void buf_add_text(struct buf *buf, const char *text);
void buf_addf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_clear(struct buf *buf); /* length 0, memory kept */
void buf_done(struct buf *buf);  /* frees; the buffer is empty and usable again */
char *buf_take(struct buf *buf); /* the caller's to free; the buffer is empty afterwards */
const char *buf_text(const struct buf *buf); /* "" when nothing was ever added */

#endif
