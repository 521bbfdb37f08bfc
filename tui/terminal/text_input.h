/* A line of text that is typed or pasted. */
#ifndef COUNTERFOIL_TEXT_INPUT_H
#define COUNTERFOIL_TEXT_INPUT_H

#include "buf.h"
#include "terminal/canvas.h"
#include "terminal/key.h"

#define TEXT_INPUT_MAX 500

struct text_input {
	struct buf text; /* UTF-8 without control characters */
};

/* False: the key is no text and no correction of it. */
bool text_input_key(struct text_input *input, const struct key *key);
void text_input_draw(const struct text_input *input, const struct canvas *canvas, int row,
		     int column, int width, bool focus);
void text_input_done(struct text_input *input);

#endif
