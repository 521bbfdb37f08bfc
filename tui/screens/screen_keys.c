/* Screen 2: the keys of a state.
 *
 * A window of at most WINDOW_ROWS rows is held, whatever the list's length: it begins behind a
 * place in the list, the anchor. Where the bar nears the window's end, the window is read again
 * from half a window further on, and the old anchor is kept for the way back. */
#include <stdlib.h>
#include <string.h>

#include "console.h"
#include "data/sql_console.h"
#include "mem.h"
#include "screens/row_view.h"
#include "screens/screens.h"
#include "terminal/columns.h"
#include "words/counts.h"
#include "words/format.h"

enum { WINDOW_ROWS = 400, SHIFT = 200, MARGIN = 100, ANCHORS_MAX = 2000, MORE_HEIGHT = 3 };

struct keys_screen {
	struct screen screen;
	char *error;
	struct list_query query;
	struct list_cursor *anchors; /* of the windows before this one */
	size_t anchor_count;

	PGresult *rows;
	PGresult *counts;
	size_t count;
	bool more;      /* there are rows behind the window */
	int64_t looked; /* rows that were looked at, when the search was given up */
	struct selection selection;
	size_t height; /* rows on the screen, when last drawn */

	bool asking;
	bool obsolete; /* the answer that is awaited is to another question */
	usec_t asked_at;
};

/* --- reading --- */

static void ask(struct keys_screen *keys);

static void adopt(struct keys_screen *keys, const PGresult *result)
{
	PGresult *rows = pg_keep(result);
	size_t count = (size_t)list_rows(rows);
	int64_t *before_ids = row_view_ids(keys->rows, keys->count);
	int64_t *now_ids = row_view_ids(rows, count);
	const struct selection_ids before = { before_ids, keys->count }, now = { now_ids, count };
	selection_follow(&keys->selection, &before, &now);
	free(before_ids);
	free(now_ids);
	pg_drop(keys->rows);
	keys->rows = rows;
	keys->count = count;
	bool full = (int64_t)count == keys->query.wanted;
	bool given_up = !full && list_examined(result) == keys->query.budget;
	keys->more = full;
	keys->looked = given_up ? keys->query.budget : 0;
	selection_show(&keys->selection, keys->height, keys->count);
}

static void on_rows(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	struct keys_screen *keys = (struct keys_screen *)screen;
	usec_t took = usec_boot() - keys->asked_at;
	keys->asking = false;
	if (error)
		return;
	if (keys->obsolete)
		ask(keys);
	else if (list_look_further(&keys->query, result, took,
				   console_conf(screen->console)->console.slice))
		ask(keys);
	else
		adopt(keys, result);
}

static void ask(struct keys_screen *keys)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	keys->asking = true;
	keys->obsolete = false;
	keys->asked_at = usec_boot();
	list_params(&keys->query, &params);
	console_ask(&keys->screen, list_sql(&keys->query), &params, on_rows);
}

static void on_counts(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	struct keys_screen *keys = (struct keys_screen *)screen;
	if (error)
		return;
	pg_drop(keys->counts);
	keys->counts = pg_keep(result);
}

static void load(struct screen *screen)
{
	struct keys_screen *keys = (struct keys_screen *)screen;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_int8(&params, console_conf(screen->console)->console.count_cap + 1);
	ask(keys);
	console_ask(screen, SQL_COUNTS, &params, on_counts);
}

/* Asks now, or as soon as the answer to the question before has come. */
static void ask_anew(struct keys_screen *keys)
{
	if (keys->asking)
		keys->obsolete = true;
	else
		ask(keys);
}

/* --- moving --- */

static void reset(struct keys_screen *keys)
{
	pg_drop(keys->rows);
	keys->rows = NULL;
	keys->count = 0;
	keys->selection = (struct selection){ 0 };
	keys->anchor_count = 0;
	keys->query.after = (struct list_cursor){ 0 };
	keys->query.budget = WINDOW_ROWS;
	keys->screen.loaded_at = 0;
}

static void set_list(struct keys_screen *keys, enum list list)
{
	free(keys->error);
	keys->error = NULL;
	keys->query = (struct list_query){ .list = list, .wanted = WINDOW_ROWS };
	reset(keys);
	ask_anew(keys);
}

static void window_on(struct keys_screen *keys)
{
	if (!keys->more || keys->anchor_count == ANCHORS_MAX)
		return;
	keys->anchors = mem_grow(keys->anchors, keys->anchor_count + 1, sizeof(*keys->anchors));
	keys->anchors[keys->anchor_count++] = keys->query.after;
	list_place(keys->query.list, keys->rows, SHIFT - 1, &keys->query.after);
	ask_anew(keys);
}

static void window_back(struct keys_screen *keys)
{
	if (!keys->anchor_count)
		return;
	keys->query.after = keys->anchors[--keys->anchor_count];
	ask_anew(keys);
}

static unsigned move_bar(struct keys_screen *keys, long by)
{
	selection_move(&keys->selection, by, keys->count);
	selection_show(&keys->selection, keys->height, keys->count);
	if (keys->asking && keys->obsolete)
		return REACT_DRAW;
	if (by > 0 && keys->selection.index + MARGIN >= keys->count)
		window_on(keys);
	else if (by < 0 && keys->selection.index < MARGIN)
		window_back(keys);
	return REACT_DRAW;
}

static unsigned to_first(struct keys_screen *keys)
{
	keys->selection = (struct selection){ 0 };
	if (keys->anchor_count) {
		reset(keys);
		ask_anew(keys);
	}
	return REACT_DRAW;
}

static unsigned next_list(struct keys_screen *keys, long by)
{
	set_list(keys, (enum list)(((long)keys->query.list + by + LIST_COUNT) % LIST_COUNT));
	return REACT_DRAW;
}

static unsigned back(struct keys_screen *keys)
{
	if (!keys->error)
		return REACT_OTHER;
	set_list(keys, keys->query.list);
	return REACT_DRAW;
}

static unsigned open_key(const struct keys_screen *keys)
{
	if (!keys->count)
		return REACT_NONE;
	console_push(keys->screen.console,
		     screen_key_new(row_view_subject(keys->rows, keys->selection.index).id));
	return REACT_DRAW;
}

static unsigned open_actions(const struct keys_screen *keys)
{
	if (!keys->count)
		return REACT_NONE;
	const struct subject subject = row_view_subject(keys->rows, keys->selection.index);
	console_push(keys->screen.console, screen_actions_new(&subject));
	return REACT_DRAW;
}

static unsigned on_request(struct screen *screen, enum request request)
{
	struct keys_screen *keys = (struct keys_screen *)screen;
	const long step = request_step(request, keys->height);
	if (request == REQUEST_FIRST)
		return to_first(keys);
	if (step)
		return move_bar(keys, step);
	switch (request) {
	case REQUEST_NEXT_TAB:
		return next_list(keys, 1);
	case REQUEST_PREVIOUS_TAB:
		return next_list(keys, -1);
	case REQUEST_OPEN:
		return open_key(keys);
	case REQUEST_ACTIONS:
		return open_actions(keys);
	case REQUEST_BACK:
		return back(keys);
	default:
		return REACT_OTHER;
	}
}

/* --- drawing --- */

static void add_count(const struct keys_screen *keys, enum list list, struct buf *out)
{
	if (keys->counts && counts_column(list) >= 0)
		counts_add(keys->counts, counts_column(list),
			   console_conf(keys->screen.console)->console.count_cap, out);
}

static void add_tab(const struct keys_screen *keys, enum list list, bool counted, struct buf *out)
{
	bool here = keys->query.list == list;
	buf_addf(out, here ? "[%s" : " %s", list_title(list));
	if ((counted || here) && list != LIST_ALL && keys->counts) {
		buf_add_char(out, ' ');
		add_count(keys, list, out);
	}
	if (here || list + 1 < LIST_COUNT)
		buf_add_char(out, here ? ']' : ' ');
}

/* The columns of the tabs from `first` on. */
static int tabs_width(const struct keys_screen *keys, size_t first, bool counted)
{
	BUF_AUTO struct buf line = { 0 };
	for (size_t i = first; i < LIST_COUNT; i++)
		add_tab(keys, (enum list)i, counted, &line);
	return (int)line.length;
}

/* As many whole tabs as fit, the one that is open among them; counts where there is room for all.
 */
static void draw_tabs(const struct keys_screen *keys, const struct canvas *canvas, int row,
		      int width)
{
	bool counted = tabs_width(keys, 0, true) <= width;
	size_t first = 0;
	if (tabs_width(keys, 0, counted) > width && keys->query.list > LIST_STALE)
		while (tabs_width(keys, first, counted) > width - 2 && first < keys->query.list)
			first++;
	int column = first ? canvas_text(canvas, row, 0, 1, STYLE_FAINT, "<") : 0;
	for (size_t i = first; i < LIST_COUNT; i++) {
		BUF_AUTO struct buf tab = { 0 };
		add_tab(keys, (enum list)i, counted, &tab);
		if (column + (int)tab.length >= width && i + 1 < LIST_COUNT) {
			canvas_text(canvas, row, column, 1, STYLE_FAINT, ">");
			return;
		}
		column += canvas_text(canvas, row, column, width - column,
				      keys->query.list == i ? STYLE_STRONG : STYLE_FAINT,
				      buf_text(&tab));
	}
}

static struct row_view view_of(const struct keys_screen *keys)
{
	struct console *console = keys->screen.console;
	return (struct row_view){ .rows = keys->rows,
				  .count = keys->count,
				  .selection = &keys->selection,
				  .waiting = keys->query.list == LIST_PENDING,
				  .absolute = console_absolute(console),
				  .now = console_now(console),
				  .zone = console_zone(console) };
}

static void draw_empty(const struct keys_screen *keys, const struct canvas *canvas, int row)
{
	if (!keys->rows)
		canvas_text(canvas, row, 2, 40, STYLE_FAINT, "reading");
	else if (!keys->count)
		canvas_format(canvas, row, 2, 60, STYLE_FAINT, "no %s%s",
			      keys->query.list == LIST_ALL ? "" : list_title(keys->query.list),
			      keys->query.list == LIST_ALL ? "keys" : " keys");
}

static void draw(struct screen *screen, const struct canvas *canvas, const struct area *area)
{
	struct keys_screen *keys = (struct keys_screen *)screen;
	struct row_view view = view_of(keys);
	struct area rows = { area->row + 1, 0, area->height - 1, area->width };
	draw_tabs(keys, canvas, area->row, area->width);
	if (keys->error) {
		canvas_format(canvas, area->row + 1, 1, area->width - 2, STYLE_PLAIN,
			      "error: %s   (Esc: all)", keys->error);
		rows.row++;
		rows.height--;
	}
	bool roomy = area->height >= 14;
	if (roomy)
		rows.height -= MORE_HEIGHT;
	keys->height = rows.height > 1 ? (size_t)rows.height - 1 : 1;
	selection_show(&keys->selection, keys->height, keys->count);
	view.selection = &keys->selection;
	row_view_draw(&view, canvas, &rows);
	draw_empty(keys, canvas, rows.row + 1);
	const struct area more = { rows.row + rows.height + 1, 0, 2, area->width };
	if (roomy)
		row_view_draw_more(&view, canvas, &more);
}

static void add_status(const struct screen *screen, struct buf *out)
{
	const struct keys_screen *keys = (const struct keys_screen *)screen;
	BUF_AUTO struct buf total = { 0 };
	char text[FORMAT_SIZE], other[FORMAT_SIZE];
	size_t before = keys->anchor_count * SHIFT + keys->selection.top;
	size_t shown = keys->count - keys->selection.top;
	if (shown > keys->height)
		shown = keys->height;
	if (!keys->count)
		return;
	if (!keys->error)
		add_count(keys, keys->query.list, &total);
	buf_addf(out, "%s-%s", format_count((int64_t)before + 1, text),
		 format_count((int64_t)(before + shown), other));
	if (total.length)
		buf_addf(out, " of %s", buf_text(&total));
	if (keys->looked)
		buf_addf(out, "   of the %s looked at, / finds any",
			 format_count(keys->looked, text));
}

static void free_screen(struct screen *screen)
{
	struct keys_screen *keys = (struct keys_screen *)screen;
	pg_drop(keys->rows);
	pg_drop(keys->counts);
	free(keys->anchors);
	free(keys->error);
	free(keys);
}

static const struct hint hints[] = {
	{ REQUEST_OPEN, "detail" }, { REQUEST_ACTIONS, "actions" }, { REQUEST_NEXT_TAB, "state" },
	{ REQUEST_FIND, "find" },   { REQUEST_TIME, "times" },      { REQUEST_PAUSE, "freeze" },
	{ REQUEST_HELP, "help" },   { REQUEST_CLOSE, "quit" },      { 0 },
};

static const struct screen_ops ops = {
	.number = 2,
	.hints = hints,
	.draw = draw,
	.request = on_request,
	.load = load,
	.status = add_status,
	.free = free_screen,
};

struct screen *screen_keys_new(enum list list, const char *error)
{
	struct keys_screen *keys = mem_zero(sizeof(*keys));
	keys->screen.ops = &ops;
	keys->error = list_has_errors(list) ? mem_text(error) : NULL;
	keys->query =
		(struct list_query){ .list = list, .error = keys->error, .wanted = WINDOW_ROWS };
	keys->query.budget = WINDOW_ROWS;
	return &keys->screen;
}
