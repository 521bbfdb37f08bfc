/* Screen 1: how many keys are where, what fails, what needs a person. */
#include <stdlib.h>
#include <string.h>

#include "console.h"
#include "data/sql_relay.h"
#include "mem.h"
#include "screens/screens.h"
#include "terminal/selection.h"
#include "words/attention.h"
#include "words/counts.h"
#include "words/format.h"

enum pane { PANE_ATTENTION, PANE_STATES, PANE_ERRORS, PANE_COUNT };

enum { STATES_WIDTH = 36, WIDE = 78, ERRORS_MAX = 20 };

/* The rows of the states' pane. */
static const struct state_row {
	enum list list;
	int oldest; /* column of SQL_COUNTS; -1: none */
} state_rows[] = {
	{ LIST_PENDING, OLDEST_PENDING },     { LIST_IN_FLIGHT, OLDEST_IN_FLIGHT },
	{ LIST_STALE, OLDEST_STALE },         { LIST_RETRY_WAIT, OLDEST_RETRY_WAIT },
	{ LIST_UNCERTAIN, OLDEST_UNCERTAIN }, { LIST_DEAD, OLDEST_DEAD },
	{ LIST_CANCELLED, OLDEST_CANCELLED }, { LIST_COMPLETED, -1 },
};
enum { STATE_ROWS = sizeof(state_rows) / sizeof(state_rows[0]) };

struct overview {
	struct screen screen;
	PGresult *counts, *errors, *targets, *pauses, *unmatched, *blocked;
	struct attention attention;
	enum pane pane;
	bool chosen; /* the person has moved: the pane stays where it is */
	struct selection selections[PANE_COUNT];
};

/* --- reading --- */

static void keep(PGresult **kept, const PGresult *result, const struct pg_error *error)
{
	if (error)
		return;
	pg_drop(*kept);
	*kept = pg_keep(result);
}

static usec_t age_at(const PGresult *result, int row, int column)
{
	return pg_null(result, row, column) ? USEC_NEVER : pg_get_int8(result, row, column);
}

static void read_targets(const struct overview *overview, struct attention_facts *facts)
{
	const PGresult *targets = overview->targets;
	for (int row = 0; targets && row < pg_rows(targets) && row < ATTENTION_TARGETS; row++)
		facts->targets[facts->target_count++] = (struct attention_target){
			.name = pg_get_text(targets, row, TARGET_NAME),
			.reason = pg_get_text(targets, row, TARGET_REASON),
			.held = pg_get_bool(targets, row, TARGET_HELD),
			.probed = pg_get_bool(targets, row, TARGET_PROBED),
			.failing = pg_get_bool(targets, row, TARGET_FAILING),
			.since = age_at(targets, row, TARGET_SINCE),
			.for_more = age_at(targets, row, TARGET_FOR_MORE),
		};
	const PGresult *unmatched = overview->unmatched;
	for (int row = 0; unmatched && row < pg_rows(unmatched) && row < ATTENTION_TARGETS; row++)
		facts->unmatched[facts->unmatched_count++] = (struct attention_unmatched){
			.topic = pg_get_text(unmatched, row, UNMATCHED_TOPIC),
			.type = pg_get_text(unmatched, row, UNMATCHED_TYPE),
			.count = pg_get_int8(unmatched, row, UNMATCHED_COUNT),
		};
}

static void read_pauses(const struct overview *overview, struct attention_facts *facts)
{
	const PGresult *pauses = overview->pauses;
	if (!pauses || !pg_rows(pauses))
		return;
	facts->pause_count = (size_t)pg_get_int8(pauses, 0, HALT_COUNT);
	for (int row = 0; row < pg_rows(pauses) && row < ATTENTION_PAUSES; row++)
		facts->pauses[row] = (struct attention_pause){
			.scope = pg_get_text(pauses, row, HALT_SCOPE),
			.name = pg_get_text(pauses, row, HALT_NAME),
			.who = pg_get_text(pauses, row, HALT_WHO),
			.reason = pg_get_text(pauses, row, HALT_REASON),
			.since = pg_get_int8(pauses, row, HALT_SINCE),
			.aside = pg_get_int8(pauses, row, HALT_ASIDE),
		};
}

static void read_blocked(const struct overview *overview, struct attention_facts *facts)
{
	const PGresult *blocked = overview->blocked;
	for (int row = 0; blocked && row < pg_rows(blocked) && row < ATTENTION_TARGETS; row++)
		facts->blocked[facts->blocked_count++] = (struct attention_topic){
			.topic = pg_get_text(blocked, row, BLOCKED_TOPIC),
			.reason = pg_get_text(blocked, row, BLOCKED_REASON),
			.since = age_at(blocked, row, BLOCKED_SINCE),
		};
}

static void judge(struct overview *overview)
{
	const PGresult *counts = overview->counts;
	struct attention_facts facts = {
		.cap = console_conf(overview->screen.console)->console.count_cap,
		.uncertain = pg_get_int8(counts, 0, COUNT_UNCERTAIN),
		.stale = pg_get_int8(counts, 0, COUNT_STALE),
		.pending = pg_get_int8(counts, 0, COUNT_PENDING),
		.retrying = pg_get_int8(counts, 0, COUNT_RETRY_WAIT),
		.in_flight = pg_get_int8(counts, 0, COUNT_IN_FLIGHT),
		.dead = pg_get_int8(counts, 0, COUNT_DEAD),
		.outbox = pg_get_int8(counts, 0, OUTBOX_COUNT),
		.poison = pg_get_int8(counts, 0, POISON_COUNT),
		.conflicts = pg_get_int8(counts, 0, CONFLICT_COUNT),
		.ledgers = pg_get_int8(counts, 0, LEDGER_COUNT),
		.next_window = age_at(counts, 0, NEXT_WINDOW),
		.outbox_oldest = age_at(counts, 0, OUTBOX_OLDEST),
		.relay = !pg_null(counts, 0, RELAY_OWNER),
		.dead_rows = pg_get_int8(counts, 0, OUTBOX_DEAD),
		.parked_rows = pg_get_int8(counts, 0, OUTBOX_PARKED),
	};
	read_targets(overview, &facts);
	read_pauses(overview, &facts);
	read_blocked(overview, &facts);
	attention_judge(&facts, &overview->attention);
	if (!overview->chosen)
		overview->pane = overview->attention.count ? PANE_ATTENTION : PANE_STATES;
}

static void on_counts(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	struct overview *overview = (struct overview *)screen;
	keep(&overview->counts, result, error);
}

static void on_errors(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	keep(&((struct overview *)screen)->errors, result, error);
}

static void on_targets(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	keep(&((struct overview *)screen)->targets, result, error);
}

static void on_pauses(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	keep(&((struct overview *)screen)->pauses, result, error);
}

static void on_blocked(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	keep(&((struct overview *)screen)->blocked, result, error);
}

/* The last of them: now the whole is known. */
static void on_unmatched(struct screen *screen, const PGresult *result,
			 const struct pg_error *error)
{
	struct overview *overview = (struct overview *)screen;
	keep(&overview->unmatched, result, error);
	if (overview->counts)
		judge(overview);
}

static void load(struct screen *screen)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_int8(&params, console_conf(screen->console)->console.count_cap + 1);
	console_ask(screen, SQL_COUNTS, &params, on_counts);
	console_ask(screen, SQL_ERRORS, NULL, on_errors);
	console_ask(screen, SQL_TARGETS_HELD, NULL, on_targets);
	console_ask(screen, SQL_PAUSES_FIRST, &params, on_pauses);
	console_ask(screen, SQL_TOPICS_BLOCKED, NULL, on_blocked);
	console_ask(screen, SQL_UNMATCHED_LATELY, NULL, on_unmatched);
}

/* --- moving --- */

static size_t pane_size(const struct overview *overview, enum pane pane)
{
	switch (pane) {
	case PANE_ATTENTION:
		return overview->attention.count;
	case PANE_STATES:
		return STATE_ROWS;
	case PANE_ERRORS:
		return overview->errors ? (size_t)pg_rows(overview->errors) : 0;
	case PANE_COUNT:
		break;
	}
	return 0;
}

/* The next one that has something in it: the states always have. */
static unsigned next_pane(struct overview *overview, int by)
{
	overview->chosen = true;
	do {
		overview->pane = (enum pane)(((int)overview->pane + by + PANE_COUNT) % PANE_COUNT);
	} while (!pane_size(overview, overview->pane));
	return REACT_DRAW;
}

static unsigned move_bar(struct overview *overview, long by)
{
	overview->chosen = true;
	selection_move(&overview->selections[overview->pane], by,
		       pane_size(overview, overview->pane));
	return REACT_DRAW;
}

static unsigned open_list(const struct overview *overview, enum list list, const char *error)
{
	if (list == LIST_COUNT)
		return REACT_NONE;
	console_replace(overview->screen.console, screen_keys_new(list, error));
	return REACT_DRAW;
}

static unsigned open_attention(const struct overview *overview, size_t index)
{
	const struct attention_item *item = &overview->attention.items[index];
	if (!item->relay)
		return open_list(overview, item->list, NULL);
	console_replace(overview->screen.console, screen_relay_new());
	return REACT_DRAW;
}

static unsigned open_chosen(const struct overview *overview)
{
	size_t index = overview->selections[overview->pane].index;
	if (index >= pane_size(overview, overview->pane))
		return REACT_NONE;
	switch (overview->pane) {
	case PANE_ATTENTION:
		return open_attention(overview, index);
	case PANE_STATES:
		return open_list(overview, state_rows[index].list, NULL);
	case PANE_ERRORS:
		return open_list(
			overview,
			list_of_state(pg_get_text(overview->errors, (int)index, ERROR_STATE)),
			pg_get_text(overview->errors, (int)index, ERROR_CLASS));
	case PANE_COUNT:
		break;
	}
	return REACT_NONE;
}

static unsigned on_request(struct screen *screen, enum request request)
{
	struct overview *overview = (struct overview *)screen;
	switch (request) {
	case REQUEST_DOWN:
		return move_bar(overview, 1);
	case REQUEST_UP:
		return move_bar(overview, -1);
	case REQUEST_FIRST:
		return move_bar(overview, -STATE_ROWS - ATTENTION_MAX);
	case REQUEST_LAST:
		return move_bar(overview, STATE_ROWS + ATTENTION_MAX);
	case REQUEST_PANE:
		return next_pane(overview, 1);
	case REQUEST_PANE_BACK:
		return next_pane(overview, -1);
	case REQUEST_OPEN:
		return open_chosen(overview);
	default:
		return REACT_OTHER;
	}
}

/* --- drawing --- */

static void mark(const struct overview *overview, const struct canvas *canvas, enum pane pane,
		 size_t index, const struct area *line)
{
	const struct selection *selection = &overview->selections[pane];
	if (overview->pane != pane || selection->index != index)
		return;
	canvas_text(canvas, line->row, line->column, 1, STYLE_STRONG, ">");
	canvas_bar(canvas, line->row, line->column, line->width);
}

static void add_count(const struct overview *overview, int column, struct buf *out)
{
	counts_add(overview->counts, column,
		   console_conf(overview->screen.console)->console.count_cap, out);
}

static void draw_state(const struct overview *overview, const struct canvas *canvas, size_t index,
		       const struct area *line)
{
	const struct state_row *state = &state_rows[index];
	BUF_AUTO struct buf count = { 0 };
	char age[FORMAT_SIZE];
	int count_column = counts_column(state->list);
	int64_t number = pg_get_int8(overview->counts, 0, count_column);
	bool calm = number == 0 && !pg_null(overview->counts, 0, count_column);
	enum style style = calm ? STYLE_FAINT : list_style(state->list);
	int column = line->column;
	add_count(overview, count_column, &count);
	canvas_text(canvas, line->row, column + 1, 10, style, list_title(state->list));
	canvas_text(canvas, line->row, column + 12, 2, style, calm ? "" : list_glyph(state->list));
	canvas_right(canvas, line->row, column + 25, 10, style, buf_text(&count));
	if (state->oldest >= 0)
		canvas_right(canvas, line->row, column + 35, 9, style,
			     format_age(age_at(overview->counts, 0, state->oldest), age));
	mark(overview, canvas, PANE_STATES, index, line);
}

static void draw_states(const struct overview *overview, const struct canvas *canvas,
			const struct area *area)
{
	canvas_text(canvas, area->row, area->column + 1, 10, STYLE_TITLE, "STATE");
	canvas_right(canvas, area->row, area->column + 25, 10, STYLE_TITLE, "COUNT");
	canvas_right(canvas, area->row, area->column + 35, 9, STYLE_TITLE, "OLDEST");
	for (size_t i = 0; i < STATE_ROWS && (int)i + 1 < area->height; i++) {
		const struct area line = { area->row + 1 + (int)i, area->column, 1, STATES_WIDTH };
		draw_state(overview, canvas, i, &line);
	}
}

static void draw_error(const struct overview *overview, const struct canvas *canvas, int index,
		       const struct area *line)
{
	const PGresult *errors = overview->errors;
	char count[FORMAT_SIZE], age[FORMAT_SIZE];
	int end = line->column + line->width;
	const char *name = pg_get_text(errors, index, ERROR_CLASS);
	int64_t keys = pg_get_int8(errors, index, ERROR_COUNT);
	canvas_format(canvas, line->row, line->column + 1, line->width - 30, STYLE_PLAIN, "%s",
		      *name ? name : "given up unsent");
	canvas_text(canvas, line->row, end - 28, 9, STYLE_FAINT,
		    list_state_title(pg_get_text(errors, index, ERROR_STATE)));
	canvas_right(canvas, line->row, end - 10, 8, STYLE_PLAIN,
		     keys > 10000 ? "10,000+" : format_count(keys, count));
	canvas_right(canvas, line->row, end - 1, 8, STYLE_PLAIN,
		     format_age(pg_get_int8(errors, index, ERROR_LAST), age));
	mark(overview, canvas, PANE_ERRORS, (size_t)index, line);
}

static void draw_errors(struct overview *overview, const struct canvas *canvas,
			const struct area *area)
{
	int end = area->column + area->width;
	size_t count = pane_size(overview, PANE_ERRORS);
	size_t height = area->height > 1 ? (size_t)area->height - 1 : 0;
	struct selection *selection = &overview->selections[PANE_ERRORS];
	canvas_text(canvas, area->row, area->column + 1, 12, STYLE_TITLE, "TOP ERRORS");
	canvas_right(canvas, area->row, end - 10, 8, STYLE_TITLE, "KEYS");
	canvas_right(canvas, area->row, end - 1, 8, STYLE_TITLE, "LAST");
	selection_show(selection, height, count);
	if (!count && overview->errors)
		canvas_text(canvas, area->row + 1, area->column + 1, 20, STYLE_FAINT, "none");
	for (size_t i = 0; i < height && selection->top + i < count; i++) {
		const struct area line = { area->row + 1 + (int)i, area->column, 1, area->width };
		draw_error(overview, canvas, (int)(selection->top + i), &line);
	}
}

static void draw_services(const struct overview *overview, const struct canvas *canvas, int row,
			  int width)
{
	const PGresult *counts = overview->counts;
	BUF_AUTO struct buf line = { 0 };
	char age[FORMAT_SIZE];
	const char *relay = pg_get_text(counts, 0, RELAY_OWNER);
	const char *ledgers = pg_get_text(counts, 0, LEDGER_NAMES);
	buf_add_text(&line, "outbox ");
	add_count(overview, OUTBOX_COUNT, &line);
	if (pg_get_int8(counts, 0, OUTBOX_DEAD)) {
		buf_add_text(&line, ", dead ");
		add_count(overview, OUTBOX_DEAD, &line);
	}
	if (!pg_null(counts, 0, OUTBOX_OLDEST))
		buf_addf(&line, ", oldest %s", format_age(age_at(counts, 0, OUTBOX_OLDEST), age));
	buf_addf(&line, "   %s", relay ? "published by " : "nobody publishes");
	if (relay)
		buf_addf(&line, "%.*s", (int)strcspn(relay, "/"), relay);
	canvas_text(canvas, row, 1, 8, STYLE_TITLE, "RELAY");
	canvas_text(canvas, row, 10, width - 11, STYLE_PLAIN, buf_text(&line));
	buf_clear(&line);
	buf_addf(&line, "%lld running   %s", (long long)pg_get_int8(counts, 0, LEDGER_COUNT),
		 ledgers ? ledgers : "");
	canvas_text(canvas, row + 1, 1, 8, STYLE_TITLE, "LEDGERS");
	canvas_text(canvas, row + 1, 10, width - 11, STYLE_PLAIN, buf_text(&line));
}

static void draw_attention(struct overview *overview, const struct canvas *canvas,
			   const struct area *area)
{
	struct selection *selection = &overview->selections[PANE_ATTENTION];
	const struct attention *attention = &overview->attention;
	bool titled = area->height > 1;
	size_t height = (size_t)(area->height - titled);
	if (titled)
		canvas_text(canvas, area->row, 1, 12, STYLE_TITLE, "ATTENTION");
	if (attention->count > height && titled)
		canvas_format(canvas, area->row, 11, 20, STYLE_FAINT, "%zu in all",
			      attention->count);
	if (!attention->count)
		canvas_text(canvas, area->row + titled, 2, 40, STYLE_FAINT, "nothing needs you");
	selection_show(selection, height, attention->count);
	for (size_t i = 0; i < height && selection->top + i < attention->count; i++) {
		const struct attention_item *item = &attention->items[selection->top + i];
		const struct area line = { area->row + titled + (int)i, 0, 1, area->width };
		canvas_text(canvas, line.row, 2, 2, item->style, item->glyph);
		canvas_text(canvas, line.row, 5, area->width - 6, STYLE_PLAIN, item->text);
		mark(overview, canvas, PANE_ATTENTION, selection->top + i, &line);
	}
}

static void draw(struct screen *screen, const struct canvas *canvas, const struct area *area)
{
	struct overview *overview = (struct overview *)screen;
	int row = area->row, left = area->height;
	bool roomy = area->height >= 16;
	if (!overview->counts) {
		canvas_text(canvas, row + 1, 2, 40, STYLE_FAINT, "reading");
		return;
	}
	const struct area states = { row, 0, STATE_ROWS + 1, STATES_WIDTH };
	draw_states(overview, canvas, &states);
	const struct area errors = { row, STATES_WIDTH + 3, STATE_ROWS + 1,
				     area->width - STATES_WIDTH - 3 };
	if (area->width >= WIDE)
		draw_errors(overview, canvas, &errors);
	row += STATE_ROWS + 1;
	if (roomy) {
		draw_services(overview, canvas, row + 1, area->width);
		row += 4;
	}
	left -= row - area->row;
	const struct area attention = { row, 0, left, area->width };
	if (left > 0)
		draw_attention(overview, canvas, &attention);
}

static void free_screen(struct screen *screen)
{
	struct overview *overview = (struct overview *)screen;
	pg_drop(overview->counts);
	pg_drop(overview->errors);
	pg_drop(overview->targets);
	pg_drop(overview->pauses);
	pg_drop(overview->unmatched);
	pg_drop(overview->blocked);
	free(overview);
}

static const struct hint hints[] = {
	{ REQUEST_OPEN, "open" }, { REQUEST_PANE, "next part" }, { REQUEST_SCREEN_1, "screen" },
	{ REQUEST_FIND, "find" }, { REQUEST_PAUSE, "freeze" },   { REQUEST_ZONE, "zone" },
	{ REQUEST_HELP, "help" }, { REQUEST_CLOSE, "quit" },     { 0 },
};

static const struct screen_ops ops = {
	.number = 1,
	.hints = hints,
	.draw = draw,
	.request = on_request,
	.load = load,
	.free = free_screen,
};

struct screen *screen_overview_new(void)
{
	struct overview *overview = mem_zero(sizeof(*overview));
	overview->screen.ops = &ops;
	return &overview->screen;
}
