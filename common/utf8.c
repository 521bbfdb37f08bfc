/* Checks UTF-8. yajl and others let overlong forms and surrogates pass, which are second spellings
 * of characters that were filtered under their first. */
#include "utf8.h"

#include <stdint.h>
#include <string.h>

/* The length of the ASCII prefix, eight bytes at a time. */
static size_t ascii_span(const char *text, size_t length)
{
	size_t at = 0;

	for (uint64_t word; at + sizeof(word) <= length; at += sizeof(word)) {
		memcpy(&word, text + at, sizeof(word));
		if (word & UINT64_C(0x8080808080808080))
			break;
	}
	while (at < length && (unsigned char)text[at] < 0x80)
		at++;
	return at;
}

static bool continues(const unsigned char *byte, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if ((byte[i] & 0xc0) != 0x80)
			return false;
	return true;
}

/* The length of the non-ASCII character at byte, or 0. */
static size_t wide(const unsigned char *byte, size_t left)
{
	if (byte[0] >= 0xc2 && byte[0] <= 0xdf)
		return left >= 2 && continues(byte + 1, 1) ? 2 : 0;
	if ((byte[0] & 0xf0) == 0xe0) {
		if (left < 3 || !continues(byte + 1, 2))
			return 0;
		if ((byte[0] == 0xe0 && byte[1] < 0xa0) || (byte[0] == 0xed && byte[1] > 0x9f))
			return 0;
		return 3;
	}
	if (byte[0] >= 0xf0 && byte[0] <= 0xf4) {
		if (left < 4 || !continues(byte + 1, 3))
			return 0;
		if ((byte[0] == 0xf0 && byte[1] < 0x90) || (byte[0] == 0xf4 && byte[1] > 0x8f))
			return 0;
		return 4;
	}
	return 0;
}

size_t utf8_span(const char *text, size_t length)
{
	size_t at = 0;

	while (at < length) {
		size_t step = ascii_span(text + at, length - at);

		if (!step)
			step = wide((const unsigned char *)text + at, length - at);
		if (!step)
			break;
		at += step;
	}
	return at;
}

bool utf8_valid(const char *text, size_t length)
{
	return utf8_span(text, length) == length;
}

bool utf8_printable(const char *text, size_t length)
{
	const unsigned char *byte = (const unsigned char *)text;

	for (size_t i = 0; i < length; i++) {
		if (byte[i] < 0x20 || byte[i] == 0x7f)
			return false;
		if (byte[i] == 0xc2 && i + 1 < length && byte[i + 1] < 0xa0)
			return false;
	}
	return utf8_valid(text, length);
}
