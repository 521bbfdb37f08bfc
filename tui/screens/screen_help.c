/* "?": every key, from the table that also reads them. */
#include <stdlib.h>

#include "console.h"
#include "mem.h"
#include "screens/screens.h"
#include "terminal/text_view.h"
#include "version.h"

struct help {
	struct screen screen;
	struct text_view view;
};

static void add_group(struct buf *out, enum request_group group)
{
	buf_addf(out, "%s\n", request_group_title(group));
	for (int i = 0; i < REQUEST_COUNT; i++) {
		const struct request_words *words = request_words((enum request)i);
		if (words->group == group && words->keys)
			buf_addf(out, "  %-15s  %s\n", words->keys, words->words);
	}
	buf_add_char(out, '\n');
}

static unsigned on_request(struct screen *screen, enum request request)
{
	struct help *help = (struct help *)screen;
	const long step = request_step(request, help->view.height);
	if (step) {
		text_view_move(&help->view, step);
		return REACT_DRAW;
	}
	switch (request) {
	case REQUEST_HELP:
		return REACT_CLOSE;
	default:
		return REACT_OTHER;
	}
}

static void draw(struct screen *screen, const struct canvas *canvas, const struct area *area)
{
	const struct area inside = { area->row, 1, area->height, area->width - 2 };
	text_view_draw(&((struct help *)screen)->view, canvas, &inside);
}

static void add_status(const struct screen *screen, struct buf *out)
{
	const char *term = getenv("TERM");
	(void)screen;
	buf_addf(out, "counterfoil " COUNTERFOIL_VERSION "   TERM=%s", term ? term : "");
}

static void free_screen(struct screen *screen)
{
	struct help *help = (struct help *)screen;
	text_view_done(&help->view);
	free(help);
}

static const struct hint hints[] = {
	{ REQUEST_DOWN, "scroll" },
	{ REQUEST_BACK, "close" },
	{ 0 },
};

static const struct screen_ops ops = {
	.hints = hints,
	.draw = draw,
	.request = on_request,
	.status = add_status,
	.free = free_screen,
};

struct screen *screen_help_new(void)
{
	struct help *help = mem_zero(sizeof(*help));
	help->screen.ops = &ops;
	for (int group = 0; group < GROUP_COUNT; group++)
		add_group(&help->view.text, (enum request_group)group);
	return &help->screen;
}
