/* Drawing by ncurses. Default colours only, no fixed background: every look works on light and dark
 * terminals, and each colour has a glyph or a word beside it. */
#include "terminal/canvas.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "terminal/curses_wide.h"
#include "words/clean.h"

/* X(style, attribute, colour or -1) */
#define LOOKS(X)                                                                                   \
	X(PLAIN, A_NORMAL, -1)                                                                     \
	X(STRONG, A_BOLD, -1)                                                                      \
	X(FAINT, A_DIM, -1)                                                                        \
	X(TITLE, A_DIM, -1)                                                                        \
	X(GOOD, A_NORMAL, COLOR_GREEN)                                                             \
	X(WARN, A_BOLD, COLOR_YELLOW)                                                              \
	X(BAD, A_BOLD, COLOR_RED)                                                                  \
	X(LINE, A_DIM, -1)                                                                         \
	X(CHOSEN, A_REVERSE, -1)                                                                   \
	X(PRODUCTION, A_REVERSE | A_BOLD, COLOR_RED)

static const struct look {
	attr_t attribute;
	short colour;
} looks[] = {
#define X(symbol, attribute_, colour_)                                                             \
	[STYLE_##symbol] = { .attribute = attribute_, .colour = colour_ },
	LOOKS(X)
#undef X
};

void canvas_init(struct canvas *canvas)
{
	const char *no_color = getenv("NO_COLOR");
	*canvas = (struct canvas){ 0 };
	if ((no_color && *no_color) || !has_colors() || start_color() != OK)
		return;
	canvas->colour = use_default_colors() == OK;
	for (short style = 0; canvas->colour && style < STYLE_COUNT; style++)
		if (looks[style].colour >= 0)
			init_pair(style, looks[style].colour, -1);
}

static void set_style(const struct canvas *canvas, enum style style)
{
	attr_t attribute = looks[style].attribute;
	bool colour = canvas->colour && looks[style].colour >= 0 && !canvas->faint;
	if (canvas->faint)
		attribute = (attribute & A_REVERSE) | A_DIM;
	attr_set(attribute, colour ? (short)style : 0, NULL);
}

void canvas_begin(struct canvas *canvas)
{
	canvas->all = (struct area){ .height = LINES, .width = COLS };
	attr_set(A_NORMAL, 0, NULL);
	erase();
}

void canvas_end(struct canvas *canvas)
{
	(void)canvas;
	refresh();
}

static void put(const struct canvas *canvas, int row, int column, enum style style,
		const struct buf *text)
{
	if (row < 0 || row >= canvas->all.height || column < 0 || column >= canvas->all.width)
		return;
	set_style(canvas, style);
	mvaddstr(row, column, buf_text(text));
}

static int put_fit(const struct canvas *canvas, int row, int column, int width, enum style style,
		   const char *text, size_t length, enum clean_cut cut)
{
	BUF_AUTO struct buf fit = { 0 };
	if (column + width > canvas->all.width)
		width = canvas->all.width - column;
	int used = clean_fit(&fit, text, length, width, cut);
	put(canvas, row, column, style, &fit);
	return used;
}

int canvas_text(const struct canvas *canvas, int row, int column, int width, enum style style,
		const char *text)
{
	return put_fit(canvas, row, column, width, style, text, strlen(text), CLEAN_CUT_END);
}

int canvas_bytes(const struct canvas *canvas, int row, int column, int width, enum style style,
		 const char *bytes, size_t length)
{
	return put_fit(canvas, row, column, width, style, bytes, length, CLEAN_CUT_END);
}

int canvas_middle(const struct canvas *canvas, int row, int column, int width, enum style style,
		  const char *text)
{
	return put_fit(canvas, row, column, width, style, text, strlen(text), CLEAN_CUT_MIDDLE);
}

int canvas_format(const struct canvas *canvas, int row, int column, int width, enum style style,
		  const char *format, ...)
{
	char text[1024]; /* no terminal is so wide */
	va_list args;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return canvas_text(canvas, row, column, width, style, text);
}

int canvas_right(const struct canvas *canvas, int row, int end, int width, enum style style,
		 const char *text)
{
	int used = clean_width(text, strlen(text));
	if (used > width)
		used = width;
	return canvas_text(canvas, row, end - used, used, style, text);
}

void canvas_rule(const struct canvas *canvas, int row, int column, int width)
{
	BUF_AUTO struct buf line = { 0 };
	for (int i = 0; i < width; i++)
		buf_add_text(&line, clean_unicode() ? "─" : "-");
	put(canvas, row, column, STYLE_LINE, &line);
}

void canvas_fill(const struct canvas *canvas, int row, int column, int width, enum style style)
{
	BUF_AUTO struct buf blanks = { 0 };
	buf_addf(&blanks, "%*s", width, "");
	put(canvas, row, column, style, &blanks);
}

/* With a column of air at each side, where there is one. */
static void box_row(const struct canvas *canvas, const struct area *area, int row,
		    const char *const part[3])
{
	BUF_AUTO struct buf line = { 0 };
	bool left = area->column > 0;
	bool right = area->column + area->width < canvas->all.width;
	buf_add_text(&line, left ? " " : "");
	buf_add_text(&line, part[0]);
	for (int i = 2; i < area->width; i++)
		buf_add_text(&line, part[1]);
	buf_add_text(&line, part[2]);
	buf_add_text(&line, right ? " " : "");
	put(canvas, row, area->column - left, STYLE_PLAIN, &line);
}

void canvas_box(const struct canvas *canvas, const struct area *area, const char *title)
{
	static const char *const parts[2][3][3] = {
		{ { "+", "-", "+" }, { "|", " ", "|" }, { "+", "-", "+" } },
		{ { "┌", "─", "┐" }, { "│", " ", "│" }, { "└", "─", "┘" } },
	};
	const char *const(*part)[3] = parts[clean_unicode()];
	for (int i = 0; i < area->height; i++)
		box_row(canvas, area, area->row + i,
			part[i == 0                  ? 0
			     : i == area->height - 1 ? 2
						     : 1]);
	if (*title)
		canvas_format(canvas, area->row, area->column + 2, area->width - 4, STYLE_STRONG,
			      " %s ", title);
}

void canvas_bar(const struct canvas *canvas, int row, int column, int width)
{
	(void)canvas;
	mvchgat(row, column, width, A_REVERSE, 0, NULL);
}
