/* A dialog that gives an order. */
#include "screens/dialog.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console.h"
#include "data/sql_console.h"
#include "terminal/text_view.h"

static void set_phase(struct dialog *dialog, enum dialog_phase phase)
{
	dialog->phase = phase;
	console_hold(dialog->screen.console, phase != PHASE_CHOOSING);
}

void dialog_say(struct dialog *dialog, const char *words)
{
	size_t length = strlen(words);
	const char *stop = length && words[length - 1] == '.' ? "" : ".";
	(void)snprintf(dialog->words, sizeof(dialog->words), "%c%.480s%s",
		       toupper((unsigned char)words[0]), words + (*words != '\0'), stop);
}

/* --- what would come of it --- */

static void on_judgement(struct screen *screen, const PGresult *result,
			 const struct pg_error *error)
{
	struct dialog *dialog = (struct dialog *)screen;
	if (error || dialog->phase != PHASE_CHOOSING || dialog->failed)
		return; /* the order itself is judged again */
	dialog->refused = !dialog->kind->verdict(dialog, result);
}

static void load(struct screen *screen)
{
	struct dialog *dialog = (struct dialog *)screen;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	console_drop_input(screen->console);
	dialog->kind->params(dialog, "", true, &params);
	console_ask(screen, dialog->kind->sql(dialog), &params, on_judgement);
	if (dialog->kind->ask_more)
		dialog->kind->ask_more(dialog);
}

/* --- the order --- */

static void on_rolled_back(struct screen *screen, const PGresult *result,
			   const struct pg_error *error)
{
	(void)result;
	(void)error; /* the connection has gone, and the transaction with it */
	set_phase((struct dialog *)screen, PHASE_CHOOSING);
}

static void fail(struct dialog *dialog, const struct pg_error *error)
{
	dialog->failed = true;
	switch (error->kind) {
	case PG_REFUSED:
		(void)snprintf(dialog->words, sizeof(dialog->words), "%s", error->text);
		console_ask(&dialog->screen, "ROLLBACK", NULL, on_rolled_back);
		return;
	case PG_UNSENT:
		dialog_say(dialog, "There was no connection: nothing was changed.");
		break;
	case PG_LOST:
		dialog_say(dialog,
			   "The connection was lost before the answer, and it may have been done. "
			   "Asked for again it is still done once.");
		break;
	}
	set_phase(dialog, PHASE_CHOOSING);
}

static void finish(struct dialog *dialog)
{
	struct console *console = dialog->screen.console;
	set_phase(dialog, PHASE_CHOOSING);
	if (dialog->refused) {
		dialog->failed = true;
		return;
	}
	console_drop_input(console);
	dialog->kind->tell_done(dialog);
	console_close(console, &dialog->screen);
}

static void on_committed(struct screen *screen, const PGresult *result,
			 const struct pg_error *error)
{
	(void)result;
	if (error)
		fail((struct dialog *)screen, error);
	else
		finish((struct dialog *)screen);
}

static void on_judged(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	struct dialog *dialog = (struct dialog *)screen;
	if (error) {
		fail(dialog, error);
		return;
	}
	dialog->refused = !dialog->kind->verdict(dialog, result);
	set_phase(dialog, PHASE_COMMITTING);
	console_ask(screen, "COMMIT", NULL, on_committed);
}

static void on_begun(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	struct dialog *dialog = (struct dialog *)screen;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	(void)result;
	if (error) {
		fail(dialog, error);
		return;
	}
	set_phase(dialog, PHASE_JUDGING);
	dialog->kind->params(dialog, buf_text(&dialog->reason.text), false, &params);
	console_ask(screen, dialog->kind->sql(dialog), &params, on_judged);
}

/* True: something has to be typed yet, and that is said. */
static bool is_missing(struct dialog *dialog)
{
	const char *typed = dialog->field.typed;
	if (dialog->needs_reason && !dialog->reason.text.length) {
		dialog_say(dialog, "A reason is needed here, for the audit.");
		dialog->focus = FOCUS_REASON;
		return true;
	}
	if (!dialog->field.name || !typed || strcmp(buf_text(&dialog->field.text.text), typed) == 0)
		return false;
	(void)snprintf(dialog->words, sizeof(dialog->words), "To confirm it, type \"%s\".", typed);
	dialog->focus = FOCUS_FIELD;
	return true;
}

static unsigned give_order(struct dialog *dialog)
{
	const char *forbidden = console_forbids(dialog->screen.console);
	if (dialog->refused)
		return REACT_NONE;
	if (forbidden) {
		(void)snprintf(dialog->words, sizeof(dialog->words), "%s", forbidden);
		return REACT_DRAW;
	}
	if (is_missing(dialog))
		return REACT_DRAW;
	dialog->failed = false;
	set_phase(dialog, PHASE_BEGINNING);
	console_ask(&dialog->screen, SQL_BEGIN_ORDER, NULL, on_begun);
	return REACT_DRAW;
}

/* --- keys --- */

static unsigned step(struct dialog *dialog, int by)
{
	const int count = dialog->field.name ? FOCUS_COUNT : FOCUS_FIELD;
	dialog->focus = (enum dialog_focus)(((int)dialog->focus + by + count) % count);
	return REACT_DRAW;
}

static unsigned press(struct dialog *dialog)
{
	switch (dialog->focus) {
	case FOCUS_CANCEL:
		return REACT_CLOSE;
	case FOCUS_GO:
		return give_order(dialog);
	case FOCUS_REASON:
	case FOCUS_FIELD:
	case FOCUS_COUNT:
		break;
	}
	dialog->focus = FOCUS_GO;
	return REACT_DRAW;
}

/* What is typed while a button has the focus is the reason, and is not lost. The focus stays: by
 * typing alone nobody comes nearer to giving the order. */
static bool take_text(struct dialog *dialog, const struct key *key)
{
	bool field = dialog->focus == FOCUS_FIELD;
	return text_input_key(field ? &dialog->field.text : &dialog->reason, key);
}

static unsigned on_key(struct screen *screen, const struct key *key)
{
	struct dialog *dialog = (struct dialog *)screen;
	if (dialog->phase != PHASE_CHOOSING)
		return REACT_NONE;
	if (take_text(dialog, key))
		return REACT_DRAW;
	if (key->special && (key->code == KEY_LEFT || key->code == KEY_RIGHT))
		return step(dialog, dialog->focus == FOCUS_CANCEL ? 1 : -1);
	switch (request_of(key)) {
	case REQUEST_PANE:
		return step(dialog, 1);
	case REQUEST_PANE_BACK:
		return step(dialog, -1);
	case REQUEST_OPEN:
		return press(dialog);
	case REQUEST_BACK:
		return REACT_CLOSE;
	default:
		return REACT_NONE; /* in a dialog letters are text */
	}
}

/* --- drawing --- */

static int draw_words(const struct canvas *canvas, const struct area *line, enum style style,
		      const char *words)
{
	int row = 0;
	for (size_t length = strlen(words); length && row < line->height; row++) {
		size_t fits = text_view_break(words, length, line->width);
		canvas_bytes(canvas, line->row + row, line->column, line->width, style, words,
			     fits);
		words += fits;
		length -= fits;
	}
	return row;
}

static void draw_button(const struct canvas *canvas, int row, int end, bool focus, bool disabled,
			const char *name)
{
	char text[32];
	(void)snprintf(text, sizeof(text), focus ? "[> %s <]" : "[  %s  ]", name);
	canvas_right(canvas, row, end, 20,
		     focus      ? STYLE_CHOSEN
		     : disabled ? STYLE_FAINT
				: STYLE_PLAIN,
		     text);
}

static void draw_buttons(const struct dialog *dialog, const struct canvas *canvas,
			 const struct area *box)
{
	int row = box->row + box->height - 2, end = box->column + box->width - 2;
	if (dialog->phase != PHASE_CHOOSING) {
		canvas_right(canvas, row, end, 30, STYLE_FAINT, "asking the database");
		return;
	}
	draw_button(canvas, row, end, dialog->focus == FOCUS_CANCEL, false, "Cancel");
	draw_button(canvas, row, end - 14, dialog->focus == FOCUS_GO, dialog->refused,
		    dialog->kind->button(dialog));
}

static void draw_input(const struct text_input *input, const struct canvas *canvas,
		       const struct area *line, const char *name, const char *hint, bool focus)
{
	int row = line->row, column = line->column + 8, width = line->width - 10;
	canvas_text(canvas, row, line->column, 7, STYLE_TITLE, name);
	canvas_text(canvas, row, column, 1, STYLE_PLAIN, "[");
	text_input_draw(input, canvas, row, column + 1, width, focus);
	if (!input->text.length && !focus)
		canvas_text(canvas, row, column + 2, width - 2, STYLE_FAINT, hint);
	canvas_text(canvas, row, column + 1 + width, 1, STYLE_PLAIN, "]");
}

static void draw_inputs(const struct dialog *dialog, const struct canvas *canvas,
			const struct area *line)
{
	const struct dialog_field *field = &dialog->field;
	const struct area second = { line->row + 1, line->column, 1, line->width };
	draw_input(&dialog->reason, canvas, line, "Reason",
		   dialog->needs_reason ? "needed" : "optional", dialog->focus == FOCUS_REASON);
	if (field->name)
		draw_input(&field->text, canvas, &second, field->name, field->hint,
			   dialog->focus == FOCUS_FIELD);
}

static void draw_frame(const struct dialog *dialog, const struct canvas *canvas,
		       const struct area *box)
{
	const struct conf *conf = console_conf(dialog->screen.console);
	char place[44];
	canvas_box(canvas, box, dialog->kind->title(dialog));
	if (!*conf->general.environment)
		return;
	(void)snprintf(place, sizeof(place), " %.40s ", conf->general.environment);
	canvas_right(canvas, box->row, box->column + box->width - 2, 42,
		     conf->general.production ? STYLE_PRODUCTION : STYLE_STRONG, place);
}

static void draw(struct screen *screen, const struct canvas *canvas, const struct area *area)
{
	struct dialog *dialog = (struct dialog *)screen;
	int width = area->width < 70 ? area->width - 2 : 68;
	int inputs = dialog->field.name ? 2 : 1;
	int height = area->height < 10 + inputs ? area->height : 10 + inputs;
	const struct area box = { area->row + (area->height - height) / 2,
				  (area->width - width) / 2, height, width };
	const struct area subject = { box.row + 1, box.column + 2, 2, width - 4 };
	struct area line = { box.row + 3, box.column + 2, height - 5 - inputs, width - 4 };
	enum style style = dialog->failed || dialog->refused ? STYLE_BAD : STYLE_PLAIN;
	draw_frame(dialog, canvas, &box);
	dialog->kind->draw_subject(dialog, canvas, &subject);
	const int mark =
		style == STYLE_BAD ? canvas_text(canvas, line.row, line.column, 2, style, "! ") : 0;
	const struct area words = { line.row, line.column + mark, line.height, line.width - mark };
	int used = draw_words(canvas, &words, style, *dialog->words ? dialog->words : "looking");
	line.row += used;
	line.height -= used;
	draw_words(canvas, &line, STYLE_WARN, dialog->warning);
	line.row = box.row + height - 2 - inputs;
	draw_inputs(dialog, canvas, &line);
	draw_buttons(dialog, canvas, &box);
}

static void free_screen(struct screen *screen)
{
	struct dialog *dialog = (struct dialog *)screen;
	text_input_done(&dialog->reason);
	text_input_done(&dialog->field.text);
	dialog->kind->free(dialog);
}

static const struct hint hints[] = {
	{ REQUEST_PANE, "next field" },
	{ REQUEST_OPEN, "press the button" },
	{ REQUEST_BACK, "cancel" },
	{ 0 },
};

static const struct screen_ops ops = {
	.overlay = true,
	.hints = hints,
	.draw = draw,
	.key = on_key,
	.load = load,
	.free = free_screen,
};

void dialog_init(struct dialog *dialog, const struct dialog_kind *kind)
{
	dialog->screen.ops = &ops;
	dialog->kind = kind;
}
