/* Where a screen draws: rows and columns of the terminal, and styles instead of colours. Every text
 * is made fit for the terminal here, so that no screen has to think of it. */
#ifndef COUNTERFOIL_CANVAS_H
#define COUNTERFOIL_CANVAS_H

#include <stdbool.h>
#include <stddef.h>

enum style {
	STYLE_PLAIN,
	STYLE_STRONG,
	STYLE_FAINT,
	STYLE_TITLE, /* of columns and sections */
	STYLE_GOOD,
	STYLE_WARN,
	STYLE_BAD,
	STYLE_LINE,
	STYLE_CHOSEN,     /* a tab, a button */
	STYLE_PRODUCTION, /* of the first line */
	STYLE_COUNT
};

/* A part of the terminal. */
struct area {
	int row, column;
	int height, width;
};

struct canvas {
	struct area all;
	bool faint; /* what is drawn is old */
	bool colour;
};

void canvas_init(struct canvas *canvas); /* after terminal_open() */
void canvas_begin(struct canvas *canvas);
void canvas_end(struct canvas *canvas);

/* At most `width` columns from there. Each returns the columns used. */
int canvas_text(const struct canvas *canvas, int row, int column, int width, enum style style,
		const char *text);
int canvas_bytes(const struct canvas *canvas, int row, int column, int width, enum style style,
		 const char *bytes, size_t length);
int canvas_format(const struct canvas *canvas, int row, int column, int width, enum style style,
		  const char *format, ...) __attribute__((format(printf, 6, 7)));
/* What does not fit goes from the middle: a key's ends tell more than its beginning. */
int canvas_middle(const struct canvas *canvas, int row, int column, int width, enum style style,
		  const char *text);
/* Ends in front of column `end`. */
int canvas_right(const struct canvas *canvas, int row, int end, int width, enum style style,
		 const char *text);

void canvas_rule(const struct canvas *canvas, int row, int column, int width);
/* An empty box with a frame; its inside is area's, less a column and a row at each side. */
void canvas_box(const struct canvas *canvas, const struct area *area, const char *title);
/* The selection: reverse over what is there. */
void canvas_bar(const struct canvas *canvas, int row, int column, int width);
void canvas_fill(const struct canvas *canvas, int row, int column, int width, enum style style);

#endif
