/* A line of text. */
#include "terminal/text_input.h"

#include <string.h>

#include "words/clean.h"

static void add_utf8(struct buf *text, uint32_t c)
{
	const bool wide = c >= 0x80, wider = c >= 0x800, widest = c >= 0x10000;
	if (widest)
		buf_add_char(text, (char)(0xf0 | c >> 18));
	if (wider)
		buf_add_char(text, (char)(widest ? 0x80 | (c >> 12 & 0x3f) : 0xe0 | c >> 12));
	if (wide)
		buf_add_char(text, (char)(wider ? 0x80 | (c >> 6 & 0x3f) : 0xc0 | c >> 6));
	buf_add_char(text, (char)(wide ? 0x80 | (c & 0x3f) : c));
}

static void delete_last(struct buf *text)
{
	if (!text->length)
		return;
	do
		text->length--;
	while (text->length && ((unsigned char)text->data[text->length] & 0xc0) == 0x80);
	text->data[text->length] = '\0';
}

/* Half of a pair would be no UTF-8. */
static bool is_character(uint32_t c)
{
	return c >= 0x20 && c != 0x7f && (c < 0x80 || c >= 0xa0) && (c < 0xd800 || c > 0xdfff) &&
	       c <= 0x10ffff;
}

bool text_input_key(struct text_input *input, const struct key *key)
{
	bool erases = !key->pasted && (key->special ? key->code == KEY_BACKSPACE
						    : key->code == 0x7f || key->code == CTRL('h'));
	if (erases) {
		delete_last(&input->text);
		return true;
	}
	if (!key->special && !key->pasted && key->code == CTRL('u')) {
		buf_clear(&input->text);
		return true;
	}
	if (key->special || !is_character(key->code))
		return key->pasted; /* what cannot stand in a line is left out of it */
	if (input->text.length < TEXT_INPUT_MAX)
		add_utf8(&input->text, key->code);
	return true;
}

void text_input_draw(const struct text_input *input, const struct canvas *canvas, int row,
		     int column, int width, bool focus)
{
	const char *text = buf_text(&input->text);
	size_t from = 0;
	struct clean_atom atom;
	/* the end is seen, where it is being typed */
	while (clean_width(text + from, input->text.length - from) > width - 1)
		from += clean_next(text + from, input->text.length - from, &atom);
	canvas_fill(canvas, row, column, width, STYLE_PLAIN);
	int used = canvas_text(canvas, row, column, width, STYLE_STRONG, text + from);
	if (focus)
		canvas_text(canvas, row, column + used, 1, STYLE_CHOSEN, " ");
}

void text_input_done(struct text_input *input)
{
	buf_done(&input->text);
}
