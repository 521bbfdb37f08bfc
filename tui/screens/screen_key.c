/* A key in full: why it is where it is, every attempt, and its parts by Tab. It is read again like
 * any list, so that what happens to the key is seen here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console.h"
#include "data/sql_console.h"
#include "mem.h"
#include "screens/screens.h"
#include "terminal/selection.h"
#include "terminal/text_view.h"
#include "words/format.h"
#include "words/key_text.h"
#include "words/row_text.h"
#include "words/story.h"

enum { ATTEMPTS_MAX = 100, ROOMY = 16 };

struct key_screen {
	struct screen screen;
	int64_t id;
	PGresult *key, *attempts, *audit, *response;
	struct selection selection; /* of the attempts */
	size_t attempt_height;
	bool chosen; /* the person has moved: new attempts do not move the bar */
	enum section section;
	struct text_view view;
	bool raw;
};

/* --- reading --- */

static void keep(PGresult **kept, const PGresult *result)
{
	pg_drop(*kept);
	*kept = pg_keep(result);
}

static size_t attempt_count(const struct key_screen *screen)
{
	return screen->attempts ? (size_t)pg_rows(screen->attempts) : 0;
}

static void compose(struct key_screen *key)
{
	const struct key_text text = { .key = key->key,
				       .attempts = key->attempts,
				       .audit = key->audit,
				       .response = key->response,
				       .attempt =
					       attempt_count(key) ? (int)key->selection.index : -1,
				       .raw = key->raw,
				       .zone = console_zone(key->screen.console) };
	buf_clear(&key->view.text);
	key_text_section(&text, key->section, &key->view.text);
}

static void on_response(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	struct key_screen *key = (struct key_screen *)screen;
	if (error)
		return;
	keep(&key->response, result);
	compose(key);
}

static void ask_response(struct key_screen *key)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	int row = (int)key->selection.index;
	if (!attempt_count(key))
		return;
	pg_add_int8(&params, key->id);
	pg_add_int4(&params, pg_get_int4(key->attempts, row, ATTEMPT_N));
	pg_add_int4(&params, pg_get_int4(key->attempts, row, ATTEMPT_EPOCH));
	pg_add_text(&params, pg_get_text(key->attempts, row, ATTEMPT_OUTCOME));
	console_ask(&key->screen, SQL_RESPONSE, &params, on_response);
}

/* One number for what the index of attempts says is one attempt. */
static int64_t *attempt_ids(const PGresult *attempts, size_t count)
{
	int64_t *ids = mem_zero((count + 1) * sizeof(*ids));
	for (int i = 0; i < (int)count; i++)
		ids[i] = (int64_t)pg_get_int4(attempts, i, ATTEMPT_EPOCH) * 2 +
			 (strcmp(pg_get_text(attempts, i, ATTEMPT_OUTCOME), "lost") == 0);
	return ids;
}

static void follow(struct key_screen *key, const PGresult *result)
{
	size_t count = (size_t)pg_rows(result);
	int64_t *before_ids = attempt_ids(key->attempts, attempt_count(key));
	int64_t *now_ids = attempt_ids(result, count);
	const struct selection_ids before = { before_ids, attempt_count(key) };
	const struct selection_ids now = { now_ids, count };
	if (key->chosen)
		selection_follow(&key->selection, &before, &now);
	else
		key->selection = (struct selection){ 0 };
	free(before_ids);
	free(now_ids);
}

static void on_attempts(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	struct key_screen *key = (struct key_screen *)screen;
	if (error)
		return;
	follow(key, result);
	keep(&key->attempts, result);
	ask_response(key);
	compose(key);
}

static void on_key(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	if (!error)
		keep(&((struct key_screen *)screen)->key, result);
}

static void on_audit(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	if (!error)
		keep(&((struct key_screen *)screen)->audit, result);
}

static void load(struct screen *screen)
{
	struct key_screen *key = (struct key_screen *)screen;
	PG_PARAMS_AUTO struct pg_params one = { 0 };
	PG_PARAMS_AUTO struct pg_params page = { 0 };
	pg_add_int8(&one, key->id);
	pg_add_int8(&page, key->id);
	pg_add_int8(&page, ATTEMPTS_MAX);
	console_ask(screen, SQL_KEY, &one, on_key);
	console_ask(screen, SQL_AUDIT, &one, on_audit);
	console_ask(screen, SQL_ATTEMPTS, &page, on_attempts);
}

/* --- keys --- */

static unsigned move_bar(struct key_screen *key, long by)
{
	size_t before = key->selection.index;
	key->chosen = true;
	selection_move(&key->selection, by, attempt_count(key));
	if (key->selection.index == before)
		return REACT_NONE;
	pg_drop(key->response);
	key->response = NULL;
	key->view.top = 0;
	ask_response(key);
	compose(key);
	return REACT_DRAW;
}

static unsigned scroll_text(struct key_screen *key, long by)
{
	text_view_move(&key->view, by);
	return REACT_DRAW;
}

static unsigned next_section(struct key_screen *key, int by)
{
	key->section = (enum section)(((int)key->section + by + SECTION_COUNT) % SECTION_COUNT);
	key->view.top = 0;
	compose(key);
	return REACT_DRAW;
}

static unsigned open_actions(const struct key_screen *key)
{
	if (!key->key || !pg_rows(key->key))
		return REACT_NONE;
	const struct subject subject = { .id = key->id,
					 .epoch = pg_get_int4(key->key, 0, KEY_EPOCH),
					 .state = pg_get_text(key->key, 0, KEY_STATE),
					 .key = pg_get_text(key->key, 0, KEY_KEY),
					 .target = pg_get_text(key->key, 0, KEY_TARGET) };
	console_push(key->screen.console, screen_actions_new(&subject));
	return REACT_DRAW;
}

static unsigned on_request(struct screen *screen, enum request request)
{
	struct key_screen *key = (struct key_screen *)screen;
	const long step = request_step(request, key->view.height);
	if (request == REQUEST_DOWN || request == REQUEST_UP)
		return move_bar(key, step);
	if (step)
		return scroll_text(key, step);
	switch (request) {
	case REQUEST_PANE:
		return next_section(key, 1);
	case REQUEST_PANE_BACK:
		return next_section(key, -1);
	case REQUEST_ACTIONS:
		return open_actions(key);
	case REQUEST_WRAP:
		key->view.wrap = !key->view.wrap;
		return REACT_DRAW;
	case REQUEST_RAW:
		key->raw = !key->raw;
		compose(key);
		return REACT_DRAW;
	default:
		return REACT_OTHER;
	}
}

/* --- drawing --- */

static const char *time_text(const struct key_screen *key, int column, char *buffer)
{
	struct console *console = key->screen.console;
	return format_time_short(pg_get_time(key->key, 0, column), console_now(console),
				 console_zone(console), buffer);
}

static void draw_title(const struct key_screen *key, const struct canvas *canvas, int row,
		       int width)
{
	const char *state = pg_get_text(key->key, 0, KEY_STATE);
	bool stale = pg_get_bool(key->key, 0, KEY_STALE);
	enum list list = stale ? LIST_STALE : list_of_state(state);
	enum style style = key_is_shadow(key->key) ? STYLE_FAINT : list_style(list);
	char age[FORMAT_SIZE], text[2 * FORMAT_SIZE + 16];
	(void)snprintf(text, sizeof(text), "%s%s%s for %s", list_glyph(list),
		       *list_glyph(list) ? " " : "", stale ? list_title(list) : key_state(key->key),
		       format_age(pg_get_int8(key->key, 0, KEY_AGE), age));
	int used = canvas_right(canvas, row, width - 1, 32, style, text);
	canvas_middle(canvas, row, 1, width - used - 4, STYLE_STRONG,
		      pg_get_text(key->key, 0, KEY_KEY));
}

static void draw_facts(const struct key_screen *key, const struct canvas *canvas, int row,
		       int width)
{
	const PGresult *facts = key->key;
	const char *tenant = pg_get_text(facts, 0, KEY_TENANT);
	const char *subject = pg_get_text(facts, 0, KEY_SUBJECT);
	BUF_AUTO struct buf line = { 0 };
	buf_addf(&line, "%s at %s", pg_get_text(facts, 0, KEY_EFFECT),
		 pg_get_text(facts, 0, KEY_TARGET));
	if (*tenant)
		buf_addf(&line, "   tenant %s", tenant);
	if (subject && *subject)
		buf_addf(&line, "   subject %s", subject);
	buf_addf(&line, "   %s", pg_get_text(facts, 0, KEY_MODE));
	canvas_text(canvas, row, 1, width - 2, STYLE_PLAIN, buf_text(&line));
}

static void draw_source(const struct key_screen *key, const struct canvas *canvas, int row,
			int width)
{
	const PGresult *facts = key->key;
	BUF_AUTO struct buf line = { 0 };
	char time[FORMAT_SIZE];
	buf_addf(&line, "%s[%lld]@%lld at %s   event %s", pg_get_text(facts, 0, KEY_TOPIC),
		 (long long)pg_get_int8(facts, 0, KEY_PARTITION),
		 (long long)pg_get_int8(facts, 0, KEY_OFFSET), time_text(key, KEY_CREATED, time),
		 pg_get_text(facts, 0, KEY_EVENT_ID));
	canvas_text(canvas, row, 1, width - 2, STYLE_FAINT, buf_text(&line));
}

static void draw_sent(const struct key_screen *key, const struct canvas *canvas, int row, int width)
{
	const PGresult *facts = key->key;
	BUF_AUTO struct buf line = { 0 };
	char time[FORMAT_SIZE];
	bool again = pg_get_int8(facts, 0, KEY_TRIES) > 1 && !pg_null(facts, 0, KEY_SENT);
	if (pg_null(facts, 0, KEY_SENT) && pg_null(facts, 0, KEY_FIRST_SENT))
		buf_add_text(&line, "not sent yet");
	else if (!pg_null(facts, 0, KEY_FIRST_SENT) && (width >= 80 || !again))
		buf_addf(&line, "sent %s", time_text(key, KEY_FIRST_SENT, time));
	if (again)
		buf_addf(&line, "%slast %s", line.length ? ", " : "",
			 time_text(key, KEY_SENT, time));
	if (pg_get_int8(facts, 0, KEY_REPLAYS))
		buf_addf(&line, ", replayed %lld times",
			 (long long)pg_get_int8(facts, 0, KEY_REPLAYS));
	int used = canvas_right(canvas, row, width - 1, width / 2, STYLE_FAINT, buf_text(&line));
	int at = canvas_text(canvas, row, 1, width, STYLE_FAINT, "Idempotency-Key: ");
	canvas_middle(canvas, row, 1 + at, width - at - used - 4, STYLE_PLAIN,
		      pg_get_text(facts, 0, KEY_PROVIDER_KEY));
}

/* The rows that it took. */
static int draw_why(const struct key_screen *key, const struct canvas *canvas, int row, int width,
		    int most)
{
	BUF_AUTO struct buf why = { 0 };
	char owner[64];
	struct story story;
	struct text_view view = { .wrap = true };
	story_read(key->key, owner, &story);
	story_tell(&story, console_zone(key->screen.console), &why);
	view.text = why;
	int lines = text_view_lines(&view, width - 7);
	const struct area area = { row, 6, lines < most ? lines : most, width - 7 };
	canvas_text(canvas, row, 1, 4, STYLE_TITLE, "WHY");
	text_view_draw(&view, canvas, &area);
	return area.height;
}

static void draw_attempt(const struct key_screen *key, const struct canvas *canvas, int row,
			 int attempt, int width)
{
	const PGresult *attempts = key->attempts;
	BUF_AUTO struct buf outcome = { 0 };
	char text[FORMAT_SIZE], owner[64];
	usec_t took = pg_null(attempts, attempt, ATTEMPT_TOOK)
			      ? USEC_NEVER
			      : pg_get_int8(attempts, attempt, ATTEMPT_TOOK);
	(void)snprintf(text, sizeof(text), "%lld",
		       (long long)pg_get_int8(attempts, attempt, ATTEMPT_N));
	canvas_right(canvas, row, 5, 3, STYLE_PLAIN, text);
	canvas_text(canvas, row, 7, FORMAT_TIME_SHORT, STYLE_PLAIN,
		    format_time_short(pg_get_time(attempts, attempt, ATTEMPT_STARTED),
				      console_now(key->screen.console),
				      console_zone(key->screen.console), text));
	canvas_right(canvas, row, 31, 8, STYLE_PLAIN, format_took(took, text));
	canvas_text(
		canvas, row, 33, 12, STYLE_PLAIN,
		story_owner(pg_get_text(attempts, attempt, ATTEMPT_OWNER), owner, sizeof(owner)));
	key_text_outcome(attempts, attempt, &outcome);
	canvas_text(canvas, row, 47, width - 48, STYLE_PLAIN, buf_text(&outcome));
	if ((size_t)attempt != key->selection.index)
		return;
	canvas_text(canvas, row, 0, 1, STYLE_STRONG, ">");
	canvas_bar(canvas, row, 0, width);
}

static void draw_attempts(struct key_screen *key, const struct canvas *canvas,
			  const struct area *area)
{
	static const struct {
		int column;
		const char *title;
	} titles[] = {
		{ 4, "#" }, { 7, "STARTED" }, { 27, "TOOK" }, { 33, "OWNER" }, { 47, "OUTCOME" }
	};
	size_t count = attempt_count(key);
	size_t height = (size_t)area->height - 1;
	for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
		canvas_text(canvas, area->row, titles[i].column, 10, STYLE_TITLE, titles[i].title);
	if (!count)
		canvas_text(canvas, area->row + 1, 4, 20, STYLE_FAINT, "no attempts yet");
	selection_show(&key->selection, height, count);
	for (size_t i = 0; i < height && key->selection.top + i < count; i++)
		draw_attempt(key, canvas, area->row + 1 + (int)i, (int)(key->selection.top + i),
			     area->width);
	if (count > height && area->width >= 72)
		canvas_format(canvas, area->row, area->width - 12, 11, STYLE_FAINT, "%zu in all",
			      count);
}

static void draw_tabs(const struct key_screen *key, const struct canvas *canvas, int row, int width)
{
	const struct key_text text = { .key = key->key,
				       .attempts = key->attempts,
				       .response = key->response,
				       .attempt =
					       attempt_count(key) ? (int)key->selection.index : -1,
				       .raw = key->raw };
	BUF_AUTO struct buf size = { 0 };
	int column = 1;
	for (enum section section = 0; section < SECTION_COUNT; section++) {
		bool here = section == key->section;
		column += canvas_format(canvas, row, column, 12, here ? STYLE_STRONG : STYLE_FAINT,
					here ? "[%s]" : " %s ", section_title(section));
	}
	key_text_size(&text, key->section, &size);
	canvas_right(canvas, row, width - 1, width - column - 2, STYLE_FAINT, buf_text(&size));
}

static int draw_head(const struct key_screen *key, const struct canvas *canvas,
		     const struct area *area, bool roomy)
{
	int row = area->row;
	draw_title(key, canvas, row++, area->width);
	draw_facts(key, canvas, row++, area->width);
	if (roomy)
		draw_source(key, canvas, row++, area->width);
	draw_sent(key, canvas, row++, area->width);
	row += draw_why(key, canvas, row, area->width, roomy ? 3 : 2);
	return row + roomy;
}

static void draw(struct screen *screen, const struct canvas *canvas, const struct area *area)
{
	struct key_screen *key = (struct key_screen *)screen;
	bool roomy = area->height >= ROOMY;
	if (!key->key || !pg_rows(key->key)) {
		canvas_text(canvas, area->row + 1, 2, 40, STYLE_FAINT,
			    key->key ? "this key is gone" : "reading");
		return;
	}
	int row = draw_head(key, canvas, area, roomy);
	int left = area->row + area->height - row;
	int most = roomy ? left / 2 - 1 : 1;
	int attempts = (int)attempt_count(key) < most ? (int)attempt_count(key) : most;
	const struct area list = { row, 0, 1 + (attempts > 0 ? attempts : 1), area->width };
	draw_attempts(key, canvas, &list);
	row += list.height + roomy;
	draw_tabs(key, canvas, row++, area->width);
	const struct area text = { row, 2, area->row + area->height - row, area->width - 3 };
	text_view_draw(&key->view, canvas, &text);
}

static void add_status(const struct screen *screen, struct buf *out)
{
	(void)screen;
	buf_add_text(out, "this key is watched: what happens to it is seen here");
}

static void free_screen(struct screen *screen)
{
	struct key_screen *key = (struct key_screen *)screen;
	pg_drop(key->key);
	pg_drop(key->attempts);
	pg_drop(key->audit);
	pg_drop(key->response);
	text_view_done(&key->view);
	free(key);
}

static const struct hint hints[] = {
	{ REQUEST_PANE, "section" },
	{ REQUEST_DOWN, "attempt" },
	{ REQUEST_HALF_DOWN, "scroll" },
	{ REQUEST_ACTIONS, "actions" },
	{ REQUEST_WRAP, "wrap" },
	{ REQUEST_RAW, "raw" },
	{ REQUEST_HELP, "help" },
	{ REQUEST_BACK, "back" },
	{ 0 },
};

static const struct screen_ops ops = {
	.hints = hints,
	.draw = draw,
	.request = on_request,
	.load = load,
	.status = add_status,
	.free = free_screen,
};

struct screen *screen_key_new(int64_t id)
{
	struct key_screen *key = mem_zero(sizeof(*key));
	key->screen.ops = &ops;
	key->id = id;
	key->view.wrap = true;
	return &key->screen;
}
