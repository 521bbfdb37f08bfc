/* Errors as sentences. */
#include "err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool err_set(struct err *err, const char *format, ...)
{
	if (!err)
		return false;
	va_list args;
	va_start(args, format);
	(void)vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	return false;
}

bool err_prefix(struct err *err, const char *format, ...)
{
	if (!err)
		return false;
	char old[sizeof(err->text)];
	memcpy(old, err->text, sizeof(old));
	va_list args;
	va_start(args, format);
	int length = vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	if (length < 0 || (size_t)length + 3 > sizeof(err->text))
		return false;
	char *end = err->text + length;
	size_t room = sizeof(err->text) - (size_t)length - 3; /* ": " before, NUL behind */
	size_t keep = strnlen(old, room);
	memcpy(end, ": ", 2);
	memcpy(end + 2, old, keep);
	end[2 + keep] = '\0';
	return false;
}
