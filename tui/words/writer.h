/* Writes JSON into a buffer: objects and arrays nest, commas come by themselves. Texts from outside
 * that are not UTF-8 come out in base64 under NAME_base64. */
#ifndef COUNTERFOIL_WRITER_H
#define COUNTERFOIL_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "usec.h"

struct writer {
	struct buf *out;
	bool more; /* a comma goes before the next one */
};

/* name is NULL inside an array and at the top. */
void writer_open(struct writer *writer, const char *name, char bracket);
void writer_close(struct writer *writer, char bracket);
void writer_text(struct writer *writer, const char *name, const char *text); /* NULL: null */
void writer_bytes(struct writer *writer, const char *name, const char *bytes, size_t length);
void writer_int(struct writer *writer, const char *name, int64_t number);
void writer_age(struct writer *writer, const char *name,
		usec_t age); /* in seconds, never below 0 */
void writer_bool(struct writer *writer, const char *name, bool value);
void writer_time(struct writer *writer, const char *name, usec_t wall); /* USEC_NEVER: null */

#endif
