/* How a value is written where it lands. */
#include "escape.h"

#include <string.h>

#define ALNUM "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

static void percent(struct buf *out, char c)
{
	static const char digits[] = "0123456789ABCDEF";
	unsigned char byte = (unsigned char)c;

	buf_add_char(out, '%');
	buf_add_char(out, digits[byte >> 4]);
	buf_add_char(out, digits[byte & 15]);
}

static bool among(char c, const char *set)
{
	return c && strchr(set, c);
}

void escape_key(struct buf *out, const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (text[i] > ' ' && text[i] < 0x7f && !among(text[i], "%:~"))
			buf_add_char(out, text[i]);
		else
			percent(out, text[i]);
	}
}

void escape_url(struct buf *out, const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (among(text[i], ALNUM "-._~"))
			buf_add_char(out, text[i]);
		else
			percent(out, text[i]);
	}
}

void escape_form(struct buf *out, const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (text[i] == ' ')
			buf_add_char(out, '+');
		else if (among(text[i], ALNUM "-._*"))
			buf_add_char(out, text[i]);
		else
			percent(out, text[i]);
	}
}

/* The length of a dot at text, or 0. */
static size_t dot(const char *text)
{
	if (*text == '.')
		return 1;
	return text[0] == '%' && text[1] == '2' && (text[2] == 'e' || text[2] == 'E') ? 3 : 0;
}

bool path_has_dots(const char *path)
{
	while (*path) {
		size_t step, dots = 0;
		for (; (step = dot(path)); path += step)
			dots++;
		if ((dots == 1 || dots == 2) && (!*path || *path == '/'))
			return true;
		path += strcspn(path, "/");
		path += *path == '/';
	}
	return false;
}

bool breaks_line(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (text[i] == '\0' || text[i] == '\r' || text[i] == '\n')
			return true;
	return false;
}

bool header_value_valid(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];
		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}
