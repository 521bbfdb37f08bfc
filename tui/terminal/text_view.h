/* A text of many lines that is looked at through a part of the screen. */
#ifndef COUNTERFOIL_TEXT_VIEW_H
#define COUNTERFOIL_TEXT_VIEW_H

#include "buf.h"
#include "terminal/canvas.h"

struct text_view {
	struct buf text;
	size_t top; /* line of the screen, of all that the text would take */
	size_t height;
	bool wrap;
};

void text_view_move(struct text_view *view, long by);
/* Draws it; scrolls back what was scrolled too far. */
void text_view_draw(struct text_view *view, const struct canvas *canvas, const struct area *area);
int text_view_lines(const struct text_view *view, int width); /* that it takes */
void text_view_done(struct text_view *view);

/* The length of the beginning of a line that fits the width, broken at a blank where there is one;
 * at least one character. */
size_t text_view_break(const char *line, size_t length, int width);

#endif
