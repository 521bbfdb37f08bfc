/* Text from outside made fit for a screen, before it is measured: what could move the cursor,
 * change the order of characters or take no room is shown as an escape, \n \u202e \xff, and so is
 * every character that the locale cannot show. Widths are columns. */
#ifndef COUNTERFOIL_CLEAN_H
#define COUNTERFOIL_CLEAN_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"

/* LC_CTYPE as the environment has it, when that is UTF-8; else "C". Once, at the beginning. */
void clean_locale(void);
bool clean_unicode(void); /* may characters beyond ASCII be shown? */

/* A character or an escape: never to be split. */
struct clean_atom {
	char text[12];
	size_t length;
	int width;
};

/* The bytes that the first atom of text stands for; length > 0. */
size_t clean_next(const char *text, size_t length, struct clean_atom *atom_r);

int clean_width(const char *text, size_t length);
void clean_add(struct buf *out, const char *text, size_t length);

enum clean_cut { CLEAN_CUT_END, CLEAN_CUT_MIDDLE };

/* Appends at most `width` columns; what is left out is marked. Returns the columns appended. */
int clean_fit(struct buf *out, const char *text, size_t length, int width, enum clean_cut cut);

#endif
