/* "x": what may be done to a key in the state that it was shown in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console.h"
#include "data/sql_console.h"
#include "mem.h"
#include "screens/screens.h"
#include "words/format.h"

/* States that an action is for. */
enum {
	OF_PENDING = 1 << 0, /* what waits, for whatever reason */
	OF_STALE = 1 << 1,
	OF_UNCERTAIN = 1 << 2,
	OF_DEAD = 1 << 3,
	OF_COMPLETED = 1 << 4,
	OF_OTHER = 1 << 5,
	OF_ANY = (1 << 6) - 1
};

struct action {
	unsigned states;
	char letter;
	enum order_kind kind;
	const char *words;
	const char *remark; /* NULL: none, or one that depends on the key */
};

static const struct action all_actions[] = {
	{ OF_DEAD | OF_UNCERTAIN | OF_COMPLETED, 'r', ORDER_REPLAY, "replay, same key", NULL },
	{ OF_PENDING, 'r', ORDER_RUN_NOW, "run now", NULL },
	{ OF_STALE, 't', ORDER_TAKE_OVER, "take over now", NULL },
	{ OF_DEAD, 'k', ORDER_NEW_KEY, "replay, new key", "another request to its provider" },
	{ OF_UNCERTAIN, 'k', ORDER_NEW_KEY, "replay, new key", "if it happened, it happens twice" },
	{ OF_COMPLETED, 'k', ORDER_NEW_KEY, "replay, new key", "FORCED: it happens twice" },
	{ OF_UNCERTAIN, 'c', ORDER_HAPPENED, "it happened", "provider's id and reason" },
	{ OF_UNCERTAIN, 'f', ORDER_NOT_HAPPENED, "it did not happen", "becomes dead, replayable" },
	{ OF_PENDING, 'w', ORDER_CANCEL, "withdraw", "cancelled for good" },
	{ OF_PENDING, 'd', ORDER_GIVE_UP, "give up", "becomes dead, replayable" },
	{ OF_ANY, 'n', ORDER_NOTE, "note", "kept with the key" },
};
enum { ACTION_COUNT = sizeof(all_actions) / sizeof(all_actions[0]) };

struct actions {
	struct screen screen;
	struct subject subject;
	PGresult *key; /* NULL: not read yet */
};

static bool is_stale(const struct actions *actions)
{
	return actions->key && pg_rows(actions->key) && pg_get_bool(actions->key, 0, KEY_STALE);
}

static unsigned state_of(const struct actions *actions)
{
	switch (list_of_state(actions->subject.state)) {
	case LIST_DEAD:
		return OF_DEAD;
	case LIST_PENDING:
	case LIST_RETRY_WAIT:
		return OF_PENDING;
	case LIST_IN_FLIGHT:
	case LIST_STALE:
		return is_stale(actions) ? OF_STALE : OF_OTHER;
	case LIST_UNCERTAIN:
		return OF_UNCERTAIN;
	case LIST_COMPLETED:
		return OF_COMPLETED;
	case LIST_CANCELLED:
	case LIST_ALL:
	case LIST_COUNT:
		break;
	}
	return OF_OTHER;
}

/* Why there is not more to be done; NULL: there is. */
static const char *why_little(const struct actions *actions)
{
	const char *state = actions->subject.state;
	if (state_of(actions) != OF_OTHER)
		return NULL;
	if (strcmp(state, "in_flight") == 0)
		return "in flight: an attempt is running, or will be taken over";
	if (strcmp(state, "cancelled") == 0)
		return "cancelled: it was withdrawn for good";
	return "finished long ago: only its key is kept";
}

/* --- what the same key would come to --- */

static bool is_mode(const PGresult *key, const char *mode)
{
	return strcmp(pg_get_text(key, 0, KEY_MODE), mode) == 0;
}

static void judge_uncertain(struct actions *actions, char *remark, size_t size)
{
	const PGresult *key = actions->key;
	char time[FORMAT_SIZE], left[FORMAT_SIZE];
	usec_t until = pg_get_time(key, 0, KEY_WINDOW), now = pg_get_time(key, 0, KEY_NOW);
	if (is_mode(key, "at_most_once") && !pg_get_bool(key, 0, KEY_RESEND))
		(void)snprintf(remark, size, "REFUSED: it could happen twice");
	else if (pg_get_int8(key, 0, KEY_UNKNOWN_BEFORE) > 0)
		(void)snprintf(remark, size, "an earlier key may have done it too");
	else if (until == USEC_NEVER)
		(void)snprintf(remark, size, "SAFE: again it does the same");
	else if (until > now)
		(void)snprintf(
			remark, size, "SAFE until %s (%s left)",
			format_time_short(until, now, console_zone(actions->screen.console), time),
			format_age(until - now, left));
	else
		(void)snprintf(remark, size, "REFUSED: it would happen as if new");
}

static void judge_dead(const struct actions *actions, char *remark, size_t size)
{
	const PGresult *key = actions->key;
	usec_t until = pg_get_time(key, 0, KEY_WINDOW), now = pg_get_time(key, 0, KEY_NOW);
	if (pg_get_bool(key, 0, KEY_STORED) && (until == USEC_NEVER || until > now))
		(void)snprintf(remark, size, "REFUSED: its error is stored for the key");
	else
		(void)snprintf(remark, size, "SAFE: it was not applied");
}

static void judge_take_over(const struct actions *actions, char *remark, size_t size)
{
	const PGresult *key = actions->key;
	bool once = is_mode(key, "at_most_once") && !pg_get_bool(key, 0, KEY_RESEND);
	(void)snprintf(remark, size, "%s",
		       once && pg_get_int8(key, 0, KEY_UNKNOWN) > 0
			       ? "at_most_once: becomes uncertain"
			       : "due at once, same key");
}

static void remark_on(struct actions *actions, const struct action *action, char *remark,
		      size_t size)
{
	(void)snprintf(remark, size, "%s", action->remark ? action->remark : "");
	if (action->remark || !actions->key || !pg_rows(actions->key))
		return;
	switch (state_of(actions)) {
	case OF_UNCERTAIN:
		judge_uncertain(actions, remark, size);
		break;
	case OF_DEAD:
		judge_dead(actions, remark, size);
		break;
	case OF_STALE:
		judge_take_over(actions, remark, size);
		break;
	case OF_COMPLETED:
		(void)snprintf(remark, size, "nothing is sent: it is completed");
		break;
	default:
		break;
	}
}

/* --- keys --- */

static unsigned choose(struct actions *actions, const struct action *action)
{
	if (console_forbids(actions->screen.console))
		return REACT_NONE;
	console_swap(actions->screen.console, screen_order_new(&actions->subject, action->kind));
	return REACT_DRAW;
}

static unsigned on_key(struct screen *screen, const struct key *key)
{
	struct actions *actions = (struct actions *)screen;
	bool letter = !key->special && !key->pasted;
	for (size_t i = 0; letter && i < ACTION_COUNT; i++)
		if ((all_actions[i].states & state_of(actions)) &&
		    key->code == (uint32_t)all_actions[i].letter)
			return choose(actions, &all_actions[i]);
	switch (request_of(key)) {
	case REQUEST_BACK:
	case REQUEST_CLOSE:
	case REQUEST_ACTIONS:
		return REACT_CLOSE;
	case REQUEST_QUIT:
		return REACT_OTHER;
	default:
		return REACT_NONE;
	}
}

/* --- reading and drawing --- */

static void on_key_read(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	struct actions *actions = (struct actions *)screen;
	if (error)
		return;
	pg_drop(actions->key);
	actions->key = pg_keep(result);
}

static void load(struct screen *screen)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_int8(&params, ((const struct actions *)screen)->subject.id);
	console_ask(screen, SQL_KEY, &params, on_key_read);
}

static int count_of(const struct actions *actions)
{
	int count = 0;
	for (size_t i = 0; i < ACTION_COUNT; i++)
		count += (all_actions[i].states & state_of(actions)) != 0;
	return count;
}

static void draw_action(struct actions *actions, const struct action *action,
			const struct canvas *canvas, const struct area *line)
{
	char remark[80];
	int column = line->column + 3 + 19;
	remark_on(actions, action, remark, sizeof(remark));
	canvas_format(canvas, line->row, line->column, 22, STYLE_PLAIN, "%c  %s", action->letter,
		      action->words);
	canvas_text(canvas, line->row, column, line->width - 22,
		    strncmp(remark, "REFUSED", 7) == 0 ? STYLE_BAD : STYLE_FAINT, remark);
}

static void draw(struct screen *screen, const struct canvas *canvas, const struct area *area)
{
	struct actions *actions = (struct actions *)screen;
	const char *forbidden = console_forbids(screen->console);
	const char *little = forbidden ? forbidden : why_little(actions);
	int width = area->width < 68 ? area->width - 2 : 66;
	int height = 3 + (little != NULL) + (forbidden ? 0 : count_of(actions));
	int top = area->height / 3 + height > area->height ? 0 : area->height / 3;
	const struct area box = { area->row + top, (area->width - width) / 2, height, width };
	struct area line = { box.row + 1, box.column + 2, 1, width - 4 };
	canvas_box(canvas, &box, "what to do with");
	canvas_middle(canvas, line.row++, line.column, line.width, STYLE_STRONG,
		      actions->subject.key);
	if (little)
		canvas_text(canvas, line.row++, line.column, line.width, STYLE_FAINT, little);
	for (size_t i = 0; !forbidden && i < ACTION_COUNT; i++)
		if (all_actions[i].states & state_of(actions)) {
			draw_action(actions, &all_actions[i], canvas, &line);
			line.row++;
		}
}

static void free_screen(struct screen *screen)
{
	struct actions *actions = (struct actions *)screen;
	subject_done(&actions->subject);
	pg_drop(actions->key);
	free(actions);
}

static const struct hint hints[] = {
	{ REQUEST_BACK, "close" },
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

struct screen *screen_actions_new(const struct subject *subject)
{
	struct actions *actions = mem_zero(sizeof(*actions));
	actions->screen.ops = &ops;
	subject_copy(subject, &actions->subject);
	return &actions->screen;
}
