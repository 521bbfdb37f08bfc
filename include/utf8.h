/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef COUNTERFOIL_UTF8_H
#define COUNTERFOIL_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* The length of the longest prefix that is valid; a NUL is a character like any other. */
size_t utf8_span(const char *text, size_t length);
bool utf8_valid(const char *text, size_t length);

/* Valid, and free of control characters (C0, DEL and C1). */
bool utf8_printable(const char *text, size_t length);

#endif
