/* A text of many lines. */
#include "terminal/text_view.h"

#include <string.h>

#include "words/clean.h"

size_t text_view_break(const char *line, size_t length, int width)
{
	struct clean_atom atom;
	size_t at = 0, blank = 0;
	int used = 0;
	while (at < length) {
		size_t step = clean_next(line + at, length - at, &atom);
		used += atom.width;
		if (used > width)
			break;
		at += step;
		if (line[at - 1] == ' ')
			blank = at;
	}
	if (at == length)
		return length;
	if (blank)
		return blank;
	return at ? at : clean_next(line, length, &atom);
}

/* Draws the lines from `top` on, as many as there is room for; without a canvas none. Returns how
 * many there are. */
static size_t draw_lines(const struct text_view *view, const struct canvas *canvas,
			 const struct area *area, size_t top)
{
	const char *text = buf_text(&view->text);
	const char *end = text + view->text.length;
	size_t number = 0;
	while (text < end) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		size_t length = (size_t)((stop ? stop : end) - text);
		size_t part = view->wrap ? text_view_break(text, length, area->width) : length;
		if (canvas && number >= top && number - top < (size_t)area->height)
			canvas_bytes(canvas, area->row + (int)(number - top), area->column,
				     area->width, STYLE_PLAIN, text, part);
		number++;
		text += part;
		if (part == length && stop)
			text++;
	}
	return number;
}

void text_view_move(struct text_view *view, long by)
{
	size_t steps = (size_t)(by < 0 ? -by : by);
	if (by < 0)
		view->top = steps > view->top ? 0 : view->top - steps;
	else
		view->top += steps;
}

void text_view_draw(struct text_view *view, const struct canvas *canvas, const struct area *area)
{
	if (area->height <= 0)
		return;
	size_t height = (size_t)area->height;
	size_t lines = draw_lines(view, NULL, area, 0);
	size_t last = lines > height ? lines - height : 0;
	if (view->top > last)
		view->top = last;
	view->height = height;
	draw_lines(view, canvas, area, view->top);
}

int text_view_lines(const struct text_view *view, int width)
{
	const struct area area = { .width = width };
	return (int)draw_lines(view, NULL, &area, 0);
}

void text_view_done(struct text_view *view)
{
	buf_done(&view->text);
}
