/* The dialog of a replay, or of running a waiting key now. The order is given by it:
 *
 *   CHOOSING --Enter on the button--> BEGINNING -> JUDGING -> COMMITTING --done--> closed
 *                                         \___________\___________\--> CHOOSING again, with the
 * reason
 *
 * It starts on Cancel. What was typed before it opened is dropped, and while an order is under way
 * keys are ignored. An answer that is lost leaves the same operation to be asked for again: it is
 * never carried out twice. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console.h"
#include "format.h"
#include "mem.h"
#include "order.h"
#include "screens.h"
#include "sql_console.h"
#include "text_input.h"
#include "text_view.h"

enum phase {
	PHASE_CHOOSING,   /* the person decides */
	PHASE_BEGINNING,  /* BEGIN was sent */
	PHASE_JUDGING,    /* the order was sent, in the transaction */
	PHASE_COMMITTING, /* COMMIT was sent */
};

/* In the order of Tab: four keys for a replay, x r Tab Enter. */
enum focus { FOCUS_CANCEL, FOCUS_GO, FOCUS_REASON, FOCUS_COUNT };

struct replay {
	struct screen screen;
	struct subject subject;
	struct order order;
	enum phase phase;
	enum focus focus;
	struct text_input reason;
	bool refused; /* the database has said that it would not */
	bool failed;  /* `words` say why it was not done */
	enum order_result result;
	char words[512];
	char warning[240];
};

static void set_phase(struct replay *replay, enum phase phase)
{
	replay->phase = phase;
	console_hold(replay->screen.console, phase != PHASE_CHOOSING);
}

static bool is_dead(const struct replay *replay)
{
	return strcmp(replay->subject.state, "dead") == 0;
}

static void say(struct replay *replay, const char *words)
{
	(void)snprintf(replay->words, sizeof(replay->words), "%s", words);
}

/* The database's words as a sentence. */
static void say_verdict(struct replay *replay, const PGresult *verdict)
{
	const char *words = pg_get_text(verdict, 0, VERDICT_DETAIL);
	(void)snprintf(replay->words, sizeof(replay->words), "%c%.480s.",
		       toupper((unsigned char)words[0]), words + (*words != '\0'));
	replay->result = order_result(verdict);
	replay->refused = replay->result != ORDER_DONE;
}

/* --- what would come of it --- */

static void on_judgement(struct screen *screen, const PGresult *result,
			 const struct pg_error *error)
{
	struct replay *replay = (struct replay *)screen;
	if (error || replay->phase != PHASE_CHOOSING || replay->failed)
		return; /* the order itself is judged again */
	say_verdict(replay, result);
}

static bool stores_errors(const struct conf *conf, const char *target)
{
	for (size_t i = 0; i < conf->target_count; i++) {
		if (strcmp(conf->targets[i].name, target) != 0)
			continue;
		const struct conf_profile *profile =
			conf_profile_find(conf, conf->targets[i].profile);
		return profile && profile->stores == CONF_STORES_ALL;
	}
	return false;
}

/* The same key, inside the window, only brings back what the provider has stored for it. */
static void on_key_read(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	struct replay *replay = (struct replay *)screen;
	char time[FORMAT_SIZE];
	if (error || !pg_rows(result) || !is_dead(replay))
		return;
	usec_t until = pg_get_time(result, 0, KEY_WINDOW), now = pg_get_time(result, 0, KEY_NOW);
	bool answered = !pg_null(result, 0, KEY_STATUS);
	if (answered && until != USEC_NEVER && until > now &&
	    stores_errors(console_conf(screen->console), replay->subject.target))
		(void)snprintf(replay->warning, sizeof(replay->warning),
			       "The provider keeps its answer for this key until %s, an error too: "
			       "before that it may only say the same again.",
			       format_time(until, now, console_zone(screen->console), time));
}

static void load(struct screen *screen)
{
	struct replay *replay = (struct replay *)screen;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	PG_PARAMS_AUTO struct pg_params key = { 0 };
	console_drop_input(screen->console);
	order_params(&replay->order, "", true, &params);
	console_ask(screen, SQL_REPLAY, &params, on_judgement);
	pg_add_int8(&key, replay->subject.id);
	console_ask(screen, SQL_KEY, &key, on_key_read);
}

/* --- the order --- */

static void on_rolled_back(struct screen *screen, const PGresult *result,
			   const struct pg_error *error)
{
	(void)result;
	(void)error; /* the connection has gone, and the transaction with it */
	set_phase((struct replay *)screen, PHASE_CHOOSING);
}

static void fail(struct replay *replay, const struct pg_error *error)
{
	replay->failed = true;
	switch (error->kind) {
	case PG_REFUSED:
		say(replay, error->text);
		console_ask(&replay->screen, "ROLLBACK", NULL, on_rolled_back);
		return;
	case PG_UNSENT:
		say(replay, "There was no connection: nothing was changed.");
		break;
	case PG_LOST:
		say(replay, "The connection was lost before the answer, and it may have been done. "
			    "Asked for again it is still done once.");
		break;
	}
	set_phase(replay, PHASE_CHOOSING);
}

static void finish(struct replay *replay)
{
	struct console *console = replay->screen.console;
	set_phase(replay, PHASE_CHOOSING);
	if (replay->result != ORDER_DONE) {
		replay->failed = true;
		return;
	}
	console_drop_input(console);
	console_say(console, STYLE_GOOD, is_dead(replay) ? "replayed %s" : "due now: %s",
		    replay->subject.key);
	console_close(console, &replay->screen);
}

static void on_committed(struct screen *screen, const PGresult *result,
			 const struct pg_error *error)
{
	(void)result;
	if (error)
		fail((struct replay *)screen, error);
	else
		finish((struct replay *)screen);
}

static void on_judged(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	struct replay *replay = (struct replay *)screen;
	if (error) {
		fail(replay, error);
		return;
	}
	say_verdict(replay, result);
	set_phase(replay, PHASE_COMMITTING);
	console_ask(screen, "COMMIT", NULL, on_committed);
}

static void on_begun(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	struct replay *replay = (struct replay *)screen;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	(void)result;
	if (error) {
		fail(replay, error);
		return;
	}
	set_phase(replay, PHASE_JUDGING);
	order_params(&replay->order, buf_text(&replay->reason.text), false, &params);
	console_ask(screen, SQL_REPLAY, &params, on_judged);
}

static unsigned give_order(struct replay *replay)
{
	const char *forbidden = console_forbids(replay->screen.console);
	if (replay->refused)
		return REACT_NONE;
	if (forbidden) {
		say(replay, forbidden);
		return REACT_DRAW;
	}
	replay->failed = false;
	set_phase(replay, PHASE_BEGINNING);
	console_ask(&replay->screen, SQL_BEGIN_ORDER, NULL, on_begun);
	return REACT_DRAW;
}

/* --- keys --- */

static unsigned step(struct replay *replay, int by)
{
	replay->focus = (enum focus)(((int)replay->focus + by + FOCUS_COUNT) % FOCUS_COUNT);
	return REACT_DRAW;
}

static unsigned press(struct replay *replay)
{
	switch (replay->focus) {
	case FOCUS_CANCEL:
		return REACT_CLOSE;
	case FOCUS_GO:
		return give_order(replay);
	case FOCUS_REASON:
	case FOCUS_COUNT:
		break;
	}
	return step(replay, -1);
}

static unsigned on_key(struct screen *screen, const struct key *key)
{
	struct replay *replay = (struct replay *)screen;
	if (replay->phase != PHASE_CHOOSING)
		return REACT_NONE;
	if (replay->focus == FOCUS_REASON && text_input_key(&replay->reason, key))
		return REACT_DRAW;
	if (key->special && (key->code == KEY_LEFT || key->code == KEY_RIGHT))
		return step(replay, replay->focus == FOCUS_CANCEL ? 1 : -1);
	switch (request_of(key)) {
	case REQUEST_PANE:
		return step(replay, 1);
	case REQUEST_PANE_BACK:
		return step(replay, -1);
	case REQUEST_OPEN:
		return press(replay);
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

static void draw_buttons(const struct replay *replay, const struct canvas *canvas,
			 const struct area *box)
{
	int row = box->row + box->height - 2, end = box->column + box->width - 2;
	if (replay->phase != PHASE_CHOOSING) {
		canvas_right(canvas, row, end, 30, STYLE_FAINT, "asking the database");
		return;
	}
	draw_button(canvas, row, end, replay->focus == FOCUS_CANCEL, false, "Cancel");
	draw_button(canvas, row, end - 14, replay->focus == FOCUS_GO, replay->refused,
		    is_dead(replay) ? "Replay" : "Run now");
}

static void draw_reason(const struct replay *replay, const struct canvas *canvas, int row,
			const struct area *line)
{
	int column = line->column + 8, width = line->width - 10;
	canvas_text(canvas, row, line->column, 7, STYLE_TITLE, "Reason");
	canvas_text(canvas, row, column, 1, STYLE_PLAIN, "[");
	text_input_draw(&replay->reason, canvas, row, column + 1, width,
			replay->focus == FOCUS_REASON);
	if (!replay->reason.text.length && replay->focus != FOCUS_REASON)
		canvas_text(canvas, row, column + 2, width - 2, STYLE_FAINT, "optional");
	canvas_text(canvas, row, column + 1 + width, 1, STYLE_PLAIN, "]");
}

static void draw(struct screen *screen, const struct canvas *canvas, const struct area *area)
{
	struct replay *replay = (struct replay *)screen;
	const struct conf *conf = console_conf(screen->console);
	char place[44];
	int width = area->width < 70 ? area->width - 2 : 68;
	int height = area->height < 11 ? area->height : 11;
	const struct area box = { area->row + (area->height - height) / 2,
				  (area->width - width) / 2, height, width };
	struct area line = { box.row + 3, box.column + 2, height - 6, width - 4 };
	enum style style = replay->failed || replay->refused ? STYLE_BAD : STYLE_PLAIN;
	canvas_box(canvas, &box, is_dead(replay) ? "REPLAY" : "RUN NOW");
	if (*conf->general.environment) {
		(void)snprintf(place, sizeof(place), " %.40s ", conf->general.environment);
		canvas_right(canvas, box.row, box.column + width - 2, 42,
			     conf->general.production ? STYLE_PRODUCTION : STYLE_STRONG, place);
	}
	canvas_middle(canvas, box.row + 1, line.column, line.width, STYLE_STRONG,
		      replay->subject.key);
	canvas_format(canvas, box.row + 2, line.column, line.width, STYLE_FAINT, "%s, target %s",
		      list_state_title(replay->subject.state), replay->subject.target);
	const int mark =
		style == STYLE_BAD ? canvas_text(canvas, line.row, line.column, 2, style, "! ") : 0;
	const struct area words = { line.row, line.column + mark, line.height, line.width - mark };
	int used = draw_words(canvas, &words, style, *replay->words ? replay->words : "looking");
	line.row += used;
	line.height -= used;
	draw_words(canvas, &line, STYLE_WARN, replay->warning);
	draw_reason(replay, canvas, box.row + height - 3, &line);
	draw_buttons(replay, canvas, &box);
}

static void free_screen(struct screen *screen)
{
	struct replay *replay = (struct replay *)screen;
	subject_done(&replay->subject);
	text_input_done(&replay->reason);
	free(replay);
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

struct screen *screen_replay_new(const struct subject *subject)
{
	struct replay *replay = mem_zero(sizeof(*replay));
	replay->screen.ops = &ops;
	subject_copy(subject, &replay->subject);
	order_init(&replay->order, subject->id, subject->epoch, subject->state);
	return &replay->screen;
}
