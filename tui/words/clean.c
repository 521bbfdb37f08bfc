/* Sanitises, measures and cuts. */
#include "words/clean.h"

#include <langinfo.h>
#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "utf8.h"

void clean_locale(void)
{
	/* in any other multibyte locale our UTF-8 would come out as something else */
	if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
		setlocale(LC_CTYPE, "C");
}

bool clean_unicode(void)
{
	return MB_CUR_MAX > 1;
}

static size_t sequence_length(unsigned char lead)
{
	return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

/* A character of a valid sequence. */
static uint32_t decode(const unsigned char *bytes, size_t length)
{
	static const unsigned char lead_bits[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	uint32_t character = bytes[0] & lead_bits[length];
	for (size_t i = 1; i < length; i++)
		character = character << 6 | (bytes[i] & 0x3f);
	return character;
}

/* Characters that the C library gives a width, and that are invisible or join their neighbour. */
static bool is_treacherous(uint32_t c)
{
	return c == 0xad || c == 0x115f || c == 0x3164 || c == 0xffa0 || c == 0x2800 ||
	       c == 0x2028 || c == 0x2029 || (c >= 0x1f3fb && c <= 0x1f3ff);
}

static void set_text(struct clean_atom *atom, const char *text, size_t length, int width)
{
	memcpy(atom->text, text, length);
	atom->text[length] = '\0';
	atom->length = length;
	atom->width = width;
}

static void set_escape(struct clean_atom *atom, uint32_t c)
{
	static const char brief[] = "\tt\nn\rr";
	const char *pair = c ? strchr(brief, (int)c) : NULL;
	int length;
	if (c < 0x20 && pair)
		length = snprintf(atom->text, sizeof(atom->text), "\\%c", pair[1]);
	else
		length = snprintf(atom->text, sizeof(atom->text),
				  c > 0xffff ? "\\U%08x" : "\\u%04x", c);
	atom->length = (size_t)length;
	atom->width = length;
}

size_t clean_next(const char *text, size_t length, struct clean_atom *atom_r)
{
	const unsigned char *bytes = (const unsigned char *)text;
	size_t step = sequence_length(bytes[0]);
	if (step > length || utf8_span(text, step) < step) {
		atom_r->width = snprintf(atom_r->text, sizeof(atom_r->text), "\\x%02x", bytes[0]);
		atom_r->length = (size_t)atom_r->width;
		return 1;
	}
	uint32_t c = decode(bytes, step);
	int width = is_treacherous(c) ? 0 : wcwidth((wchar_t)c);
	if (width > 0)
		set_text(atom_r, text, step, width);
	else
		set_escape(atom_r, c);
	return step;
}

int clean_width(const char *text, size_t length)
{
	struct clean_atom atom;
	int width = 0;
	for (size_t at = 0; at < length;) {
		at += clean_next(text + at, length - at, &atom);
		width += atom.width;
	}
	return width;
}

void clean_add(struct buf *out, const char *text, size_t length)
{
	struct clean_atom atom;
	for (size_t at = 0; at < length;) {
		at += clean_next(text + at, length - at, &atom);
		buf_add(out, atom.text, atom.length);
	}
}

/* Appends the atoms that lie wholly before `front` columns or behind `back`, and a mark between. */
static int add_ends(struct buf *out, const char *text, size_t length, int front, int back)
{
	struct clean_atom atom;
	bool marked = false;
	int column = 0, added = 0;
	for (size_t at = 0; at < length; column += atom.width) {
		at += clean_next(text + at, length - at, &atom);
		if (!marked && column + atom.width > front) {
			buf_add_text(out, clean_unicode() ? "…" : "~");
			added++;
			marked = true;
		}
		if (marked && column < back)
			continue;
		buf_add(out, atom.text, atom.length);
		added += atom.width;
	}
	return added;
}

int clean_fit(struct buf *out, const char *text, size_t length, int width, enum clean_cut cut)
{
	int whole = clean_width(text, length);
	if (width <= 0)
		return 0;
	if (whole <= width) {
		clean_add(out, text, length);
		return whole;
	}
	int tail = cut == CLEAN_CUT_MIDDLE ? (width - 1) / 2 : 0;
	return add_ends(out, text, length, width - 1 - tail, tail ? whole - tail : whole);
}
