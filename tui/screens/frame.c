/* The frame around a screen. */
#include "screens/frame.h"

#include <stdio.h>
#include <string.h>

#include "words/clean.h"
#include "words/format.h"

static int text_width(const char *text)
{
	return clean_width(text, strlen(text));
}

/* --- the first line --- */

static void add_mode(const struct frame *frame, struct buf *out)
{
	char age[FORMAT_SIZE];
	switch (frame->mode) {
	case FRAME_LIVE:
		buf_add_text(out, "LIVE");
		break;
	case FRAME_FROZEN:
		buf_add_text(out, "FROZEN");
		break;
	case FRAME_OLD:
		if (frame->data_age == USEC_NEVER)
			buf_add_text(out, "NO DATA");
		else
			buf_addf(out, "OLD DATA %s", format_age(frame->data_age, age));
		break;
	}
}

/* Zone, clock, interval, mode: from the right, as much as fits. */
static int draw_right(const struct frame *frame, const struct canvas *canvas, enum style style)
{
	char clock[FORMAT_SIZE], refresh[32];
	BUF_AUTO struct buf line = { 0 };
	int end = canvas->all.width - 1;
	if (frame->now != USEC_NEVER)
		buf_addf(&line, "%s  ", format_clock(frame->now, frame->zone, clock));
	if (canvas->all.width >= 90)
		buf_addf(&line, "%s  ", usec_format(frame->refresh, refresh, sizeof(refresh)));
	if (frame->read_only)
		buf_add_text(&line, "READ-ONLY  ");
	add_mode(frame, &line);
	if (frame->mode == FRAME_OLD && style != STYLE_PRODUCTION)
		style = STYLE_BAD;
	return end - canvas_right(canvas, 0, end, end, style, buf_text(&line));
}

static void draw_first(const struct frame *frame, const struct canvas *canvas)
{
	enum style style = frame->production ? STYLE_PRODUCTION : STYLE_STRONG;
	BUF_AUTO struct buf place = { 0 };
	if (frame->production)
		canvas_fill(canvas, 0, 0, canvas->all.width, style);
	int end = draw_right(frame, canvas, style) - 2;
	int column = 1 + canvas_text(canvas, 0, 1, end, style, "counterfoil");
	if (*frame->host && canvas->all.width >= 90)
		buf_addf(&place, "%s/", frame->host[0] == '/' ? "local" : frame->host);
	buf_add_text(&place, frame->database);
	const char *const parts[] = { frame->environment, buf_text(&place), frame->user };
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		int width = text_width(parts[i]);
		if (!width || column + 2 + width > end)
			continue;
		column += 2;
		column += canvas_text(canvas, 0, column, width,
				      i && !frame->production ? STYLE_PLAIN : style, parts[i]);
	}
}

/* --- the second line --- */

static void draw_screens(const struct frame *frame, const struct canvas *canvas)
{
	static const char *const titles[] = { "1 Overview", "2 Keys", "4 Relay" };
	int column = 1;
	for (unsigned i = 0; i < sizeof(titles) / sizeof(titles[0]); i++) {
		bool here = (unsigned)(titles[i][0] - '0') == frame->number;
		column += canvas_format(canvas, 1, column, 20, here ? STYLE_STRONG : STYLE_FAINT,
					here ? "[%s]" : " %s ", titles[i]);
		column++;
	}
	canvas_right(canvas, 1, canvas->all.width - 1, 8, STYLE_FAINT, "? help");
}

/* --- the last lines --- */

static void draw_status(const struct frame *frame, const struct canvas *canvas, int row)
{
	BUF_AUTO struct buf status = { 0 };
	char age[FORMAT_SIZE];
	int width = canvas->all.width - 2;
	if (*frame->said) {
		canvas_text(canvas, row, 1, width, frame->said_style, frame->said);
		return;
	}
	if (frame->base->ops->status)
		frame->base->ops->status(frame->base, &status);
	int used = canvas_text(canvas, row, 1, width, STYLE_FAINT, buf_text(&status));
	if (frame->data_age == USEC_NEVER || used + 20 > width)
		return;
	buf_clear(&status);
	buf_addf(&status, "updated %s ago", format_age(frame->data_age, age));
	canvas_right(canvas, row, canvas->all.width - 1, 24, STYLE_FAINT, buf_text(&status));
}

/* The first of the keys that the table names for it. */
static void add_hint(struct buf *out, const struct hint *hint)
{
	const char *keys = request_words(hint->request)->keys;
	size_t length = strcspn(keys, " ");
	if (keys[length] == ' ' && keys[length + 1] && length == 1 && keys[length + 1] != ' ')
		length = strcspn(keys + 2, " ") + 2; /* "j k", "[ ]": the two go together */
	buf_addf(out, "%.*s %s", (int)length, keys, hint->words);
}

static void draw_hints(const struct frame *frame, const struct canvas *canvas, int row)
{
	int column = 1;
	for (const struct hint *hint = frame->top->ops->hints; hint && hint->words; hint++) {
		BUF_AUTO struct buf text = { 0 };
		add_hint(&text, hint);
		int width = text_width(buf_text(&text));
		if (column + width > canvas->all.width - 1)
			return;
		canvas_text(canvas, row, column, width, STYLE_PLAIN, buf_text(&text));
		column += width + 2;
	}
}

/* --- the whole --- */

static bool too_small(const struct canvas *canvas)
{
	if (canvas->all.width >= FRAME_WIDTH_MIN && canvas->all.height >= FRAME_HEIGHT_MIN)
		return false;
	canvas_format(canvas, 0, 0, canvas->all.width, STYLE_STRONG, "counterfoil needs %dx%d",
		      FRAME_WIDTH_MIN, FRAME_HEIGHT_MIN);
	canvas_format(canvas, 1, 0, canvas->all.width, STYLE_PLAIN, "this is %dx%d",
		      canvas->all.width, canvas->all.height);
	canvas_text(canvas, 2, 0, canvas->all.width, STYLE_PLAIN, "q quits");
	return true;
}

bool frame_draw(const struct frame *frame, const struct canvas *canvas, struct area *area_r)
{
	int width = canvas->all.width, height = canvas->all.height;
	if (too_small(canvas))
		return false;
	draw_first(frame, canvas);
	draw_screens(frame, canvas);
	canvas_rule(canvas, 2, 0, width);
	canvas_rule(canvas, height - 3, 0, width);
	draw_status(frame, canvas, height - 2);
	draw_hints(frame, canvas, height - 1);
	*area_r = (struct area){ .row = 3, .height = height - 6, .width = width };
	if (!*frame->trouble)
		return true;
	canvas_format(canvas, 3, 1, width - 2, STYLE_BAD, "!! %s", frame->trouble);
	area_r->row += 2;
	area_r->height -= 2;
	return true;
}
