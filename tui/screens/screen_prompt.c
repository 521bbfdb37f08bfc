/* "/": what to find. */
#include <stdlib.h>

#include "console.h"
#include "mem.h"
#include "screens/screens.h"
#include "terminal/text_input.h"

struct prompt {
	struct screen screen;
	struct text_input input;
};

static unsigned on_key(struct screen *screen, const struct key *key)
{
	struct prompt *prompt = (struct prompt *)screen;
	if (text_input_key(&prompt->input, key))
		return REACT_DRAW;
	switch (request_of(key)) {
	case REQUEST_OPEN:
		if (!prompt->input.text.length)
			return REACT_CLOSE;
		console_swap(screen->console, screen_found_new(buf_text(&prompt->input.text)));
		return REACT_DRAW;
	case REQUEST_BACK:
		return REACT_CLOSE;
	default:
		return REACT_NONE;
	}
}

static void draw(struct screen *screen, const struct canvas *canvas, const struct area *area)
{
	struct prompt *prompt = (struct prompt *)screen;
	int width = area->width < 76 ? area->width - 2 : 74;
	const struct area box = { area->row + 1, (area->width - width) / 2, 4, width };
	canvas_box(canvas, &box, "find");
	text_input_draw(&prompt->input, canvas, box.row + 1, box.column + 2, width - 4, true);
	canvas_text(canvas, box.row + 2, box.column + 2, width - 4, STYLE_FAINT,
		    "key, subject, event, provider's id, topic[p]@offset");
}

static void free_screen(struct screen *screen)
{
	struct prompt *prompt = (struct prompt *)screen;
	text_input_done(&prompt->input);
	free(prompt);
}

static const struct hint hints[] = {
	{ REQUEST_OPEN, "find" },
	{ REQUEST_BACK, "cancel" },
	{ 0 },
};

static const struct screen_ops ops = {
	.overlay = true,
	.hints = hints,
	.draw = draw,
	.key = on_key,
	.free = free_screen,
};

struct screen *screen_prompt_new(void)
{
	struct prompt *prompt = mem_zero(sizeof(*prompt));
	prompt->screen.ops = &ops;
	return &prompt->screen;
}
