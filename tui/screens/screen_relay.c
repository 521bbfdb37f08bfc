/* Screen 4: what waits to be published, topic by topic, who publishes it, and the rows that cannot
 * be. The figures are what the relays reported: how old they are is said. */
#include <stdlib.h>
#include <string.h>

#include "console.h"
#include "data/dead_row.h"
#include "data/sql_relay.h"
#include "mem.h"
#include "screens/relay_view.h"
#include "screens/screens.h"
#include "words/format.h"

enum pane { PANE_DEAD, PANE_TOPICS, PANE_COUNT };

enum { DEAD_ROWS = 500, ROOMY = 16, OUTBOXES_SHOWN = 3, TOPICS_SHOWN = 6, RELAYS_SHOWN = 3 };

struct relay_screen {
	struct screen screen;
	PGresult *outboxes, *topics, *relays, *dead;
	bool parked; /* the parked rows are shown, not the dead ones */
	char *topic; /* only its rows; NULL: all */
	enum pane pane;
	struct selection selections[PANE_COUNT];
	size_t heights[PANE_COUNT]; /* rows on the screen, when last drawn */
};

/* --- reading --- */

static void keep(PGresult **kept, const PGresult *result, const struct pg_error *error)
{
	if (error)
		return;
	pg_drop(*kept);
	*kept = pg_keep(result);
}

static size_t count_of(const PGresult *rows)
{
	return rows ? (size_t)pg_rows(rows) : 0;
}

static void on_outboxes(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	keep(&((struct relay_screen *)screen)->outboxes, result, error);
}

static void on_topics(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	keep(&((struct relay_screen *)screen)->topics, result, error);
}

static void on_relays(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	keep(&((struct relay_screen *)screen)->relays, result, error);
}

static int64_t *ids_of(const PGresult *rows)
{
	size_t count = count_of(rows);
	int64_t *ids = mem_zero((count + 1) * sizeof(*ids));
	for (size_t i = 0; i < count; i++)
		ids[i] = pg_get_int8(rows, (int)i, DEAD_ID);
	return ids;
}

/* The bar stays on its row while others come and go. */
static void on_dead(struct screen *screen, const PGresult *result, const struct pg_error *error)
{
	struct relay_screen *relay = (struct relay_screen *)screen;
	if (error)
		return;
	int64_t *before_ids = ids_of(relay->dead), *now_ids = ids_of(result);
	const struct selection_ids before = { before_ids, count_of(relay->dead) };
	const struct selection_ids now = { now_ids, count_of(result) };
	selection_follow(&relay->selections[PANE_DEAD], &before, &now);
	free(before_ids);
	free(now_ids);
	keep(&relay->dead, result, NULL);
}

static void ask_dead(struct relay_screen *relay)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_bool(&params, relay->parked);
	pg_add_text(&params, NULL);
	pg_add_text(&params, relay->topic);
	pg_add_text(&params, NULL);
	pg_add_int8(&params, DEAD_ROWS);
	console_ask(&relay->screen, SQL_DEAD_ROWS, &params, on_dead);
}

static void load(struct screen *screen)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_int8(&params, console_conf(screen->console)->console.count_cap + 1);
	console_ask(screen, SQL_OUTBOXES, &params, on_outboxes);
	console_ask(screen, SQL_OUTBOX_TOPICS, &params, on_topics);
	console_ask(screen, SQL_RELAYS, NULL, on_relays);
	ask_dead((struct relay_screen *)screen);
}

/* --- moving --- */

static size_t pane_size(const struct relay_screen *relay)
{
	return count_of(relay->pane == PANE_DEAD ? relay->dead : relay->topics);
}

static unsigned move_bar(struct relay_screen *relay, long by)
{
	selection_move(&relay->selections[relay->pane], by, pane_size(relay));
	return REACT_DRAW;
}

static unsigned next_pane(struct relay_screen *relay)
{
	relay->pane = relay->pane == PANE_DEAD ? PANE_TOPICS : PANE_DEAD;
	return REACT_DRAW;
}

static void show_rows(struct relay_screen *relay, bool parked, const char *topic)
{
	char *copy = mem_text(topic);
	free(relay->topic);
	relay->topic = copy;
	relay->parked = parked;
	relay->pane = PANE_DEAD;
	relay->selections[PANE_DEAD] = (struct selection){ 0 };
	pg_drop(relay->dead);
	relay->dead = NULL;
	ask_dead(relay);
}

static unsigned back(struct relay_screen *relay)
{
	if (!relay->topic)
		return REACT_OTHER;
	show_rows(relay, relay->parked, NULL);
	return REACT_DRAW;
}

/* False: there is none under the bar. */
static bool chosen_row(const struct relay_screen *relay, struct dead_row *row_r)
{
	size_t index = relay->selections[PANE_DEAD].index;
	if (relay->pane != PANE_DEAD || index >= count_of(relay->dead))
		return false;
	*row_r = dead_row_of(relay->dead, (int)index);
	return true;
}

static unsigned open_chosen(struct relay_screen *relay)
{
	size_t index = relay->selections[relay->pane].index;
	struct dead_row row;
	if (chosen_row(relay, &row))
		console_push(relay->screen.console, screen_dead_new(&row));
	else if (relay->pane == PANE_TOPICS && index < count_of(relay->topics))
		show_rows(relay, relay->parked, pg_get_text(relay->topics, (int)index, TOPIC_NAME));
	else
		return REACT_NONE;
	return REACT_DRAW;
}

static unsigned open_actions(const struct relay_screen *relay)
{
	struct dead_row row;
	if (!chosen_row(relay, &row))
		return REACT_NONE;
	console_push(relay->screen.console, screen_dead_actions_new(&row));
	return REACT_DRAW;
}

static unsigned on_request(struct screen *screen, enum request request)
{
	struct relay_screen *relay = (struct relay_screen *)screen;
	const long step = request_step(request, relay->heights[relay->pane]);
	if (step)
		return move_bar(relay, step);
	switch (request) {
	case REQUEST_PANE:
	case REQUEST_PANE_BACK:
		return next_pane(relay);
	case REQUEST_NEXT_TAB:
	case REQUEST_PREVIOUS_TAB:
		show_rows(relay, !relay->parked, relay->topic);
		return REACT_DRAW;
	case REQUEST_OPEN:
		return open_chosen(relay);
	case REQUEST_ACTIONS:
		return open_actions(relay);
	case REQUEST_BACK:
		return back(relay);
	default:
		return REACT_OTHER;
	}
}

/* --- drawing --- */

static struct relay_view view_of(const struct relay_screen *relay, const PGresult *rows,
				 const struct canvas *canvas, const struct area *area)
{
	struct console *console = relay->screen.console;
	return (struct relay_view){ .rows = rows,
				    .canvas = canvas,
				    .area = *area,
				    .cap = console_conf(console)->console.count_cap,
				    .absolute = console_absolute(console),
				    .now = console_now(console),
				    .zone = console_zone(console) };
}

static const struct selection *bar_of(struct relay_screen *relay, enum pane pane,
				      const PGresult *rows, int height)
{
	relay->heights[pane] = height > 1 ? (size_t)height - 1 : 1;
	selection_show(&relay->selections[pane], relay->heights[pane], count_of(rows));
	return &relay->selections[pane];
}

/* The bar is seen in the pane that has it; the other one keeps its place. */
static void draw_topics(struct relay_screen *relay, const struct canvas *canvas,
			const struct area *area)
{
	struct relay_view view = view_of(relay, relay->topics, canvas, area);
	struct selection bar = *bar_of(relay, PANE_TOPICS, relay->topics, area->height);
	if (relay->pane != PANE_TOPICS)
		bar.index = count_of(relay->topics);
	view.bar = &bar;
	relay_view_topics(&view);
}

static void draw_tabs(const struct relay_screen *relay, const struct canvas *canvas, int row,
		      int width)
{
	int column = 1;
	column += canvas_text(canvas, row, column, 12, STYLE_TITLE, "ROWS LEFT");
	column++;
	column += canvas_text(canvas, row, column, 10, relay->parked ? STYLE_FAINT : STYLE_STRONG,
			      relay->parked ? " dead " : "[dead]");
	column += canvas_text(canvas, row, column, 10, relay->parked ? STYLE_STRONG : STYLE_FAINT,
			      relay->parked ? "[parked]" : " parked ");
	if (relay->topic)
		canvas_format(canvas, row, column + 1, width - column - 2, STYLE_PLAIN,
			      "topic %s   (Esc: all)", *relay->topic ? relay->topic : "(none)");
}

static void draw_dead(struct relay_screen *relay, const struct canvas *canvas,
		      const struct area *area)
{
	const struct area rows = { area->row + 1, area->column, area->height - 1, area->width };
	struct relay_view view = view_of(relay, relay->dead, canvas, &rows);
	struct selection bar = *bar_of(relay, PANE_DEAD, relay->dead, rows.height);
	draw_tabs(relay, canvas, area->row, area->width);
	if (relay->dead && !pg_rows(relay->dead)) {
		canvas_format(canvas, rows.row, 2, area->width - 3, STYLE_FAINT, "no %s rows",
			      relay->parked ? "parked" : "dead");
		return;
	}
	if (relay->pane != PANE_DEAD)
		bar.index = count_of(relay->dead);
	view.bar = &bar;
	relay_view_dead(&view);
}

static int least(size_t count, int most)
{
	return count == 0 ? 1 : (int)count < most ? (int)count : most;
}

/* All of the text of the row with the bar, which its column may cut. */
static void draw_more(const struct relay_screen *relay, const struct canvas *canvas, int row,
		      int width)
{
	size_t index = relay->selections[relay->pane].index;
	if (index >= pane_size(relay))
		return;
	const char *text = relay->pane == PANE_DEAD
				   ? pg_get_text(relay->dead, (int)index, DEAD_REASON)
				   : pg_get_text(relay->topics, (int)index, TOPIC_REASON);
	canvas_text(canvas, row, 2, width - 3, STYLE_PLAIN, text);
}

/* One table below the other, the rows at the end with what is left. */
static void draw_all(struct relay_screen *relay, const struct canvas *canvas,
		     const struct area *area)
{
	int end = area->row + area->height;
	int topics = area->height < 22 ? TOPICS_SHOWN / 2 : TOPICS_SHOWN;
	struct area part = { area->row, 0, 1 + least(count_of(relay->outboxes), OUTBOXES_SHOWN),
			     area->width };
	struct relay_view view = view_of(relay, relay->outboxes, canvas, &part);
	relay_view_outboxes(&view);
	part.row += part.height + 1;
	part.height = 1 + least(count_of(relay->topics), topics);
	draw_topics(relay, canvas, &part);
	part.row += part.height + 1;
	part.height = 1 + least(count_of(relay->relays), RELAYS_SHOWN);
	view = view_of(relay, relay->relays, canvas, &part);
	relay_view_relays(&view);
	part.row += part.height + 1;
	part.height = end - 1 - part.row;
	if (part.height > 2)
		draw_dead(relay, canvas, &part);
	draw_more(relay, canvas, end - 1, area->width);
}

/* On a small terminal: the outboxes, and the part that Tab chose. */
static void draw_one(struct relay_screen *relay, const struct canvas *canvas,
		     const struct area *area)
{
	int outboxes = 1 + least(count_of(relay->outboxes), 2);
	const struct area above = { area->row, 0, outboxes, area->width };
	const struct area below = { area->row + outboxes, 0, area->height - outboxes, area->width };
	const struct relay_view view = view_of(relay, relay->outboxes, canvas, &above);
	relay_view_outboxes(&view);
	if (relay->pane == PANE_TOPICS)
		draw_topics(relay, canvas, &below);
	else
		draw_dead(relay, canvas, &below);
}

static void draw(struct screen *screen, const struct canvas *canvas, const struct area *area)
{
	struct relay_screen *relay = (struct relay_screen *)screen;
	if (!relay->outboxes)
		canvas_text(canvas, area->row + 1, 2, 40, STYLE_FAINT, "reading");
	else if (area->height >= ROOMY)
		draw_all(relay, canvas, area);
	else
		draw_one(relay, canvas, area);
}

/* Since any relay was seen. */
static usec_t silence(const struct relay_screen *relay)
{
	usec_t shortest = USEC_NEVER;
	for (size_t i = 0; i < count_of(relay->relays); i++) {
		usec_t seen = pg_get_int8(relay->relays, (int)i, RELAY_SEEN);
		if (shortest == USEC_NEVER || seen < shortest)
			shortest = seen;
	}
	return shortest;
}

static void add_status(const struct screen *screen, struct buf *out)
{
	const struct relay_screen *relay = (const struct relay_screen *)screen;
	char age[FORMAT_SIZE];
	usec_t seen = silence(relay);
	if (!relay->relays)
		return;
	if (seen == USEC_NEVER)
		buf_add_text(out, "no relay has reported yet");
	else if (seen > RELAY_LATE)
		buf_addf(out, "OLD: no relay was seen for %s", format_age(seen, age));
	else
		buf_add_text(out, "order is kept per key: a dead row holds back its own key only");
}

static void free_screen(struct screen *screen)
{
	struct relay_screen *relay = (struct relay_screen *)screen;
	pg_drop(relay->outboxes);
	pg_drop(relay->topics);
	pg_drop(relay->relays);
	pg_drop(relay->dead);
	free(relay->topic);
	free(relay);
}

static const struct hint hints[] = {
	{ REQUEST_OPEN, "open" },
	{ REQUEST_ACTIONS, "actions" },
	{ REQUEST_NEXT_TAB, "dead, parked" },
	{ REQUEST_PANE, "topics" },
	{ REQUEST_PAUSE, "freeze" },
	{ REQUEST_HELP, "help" },
	{ REQUEST_CLOSE, "quit" },
	{ 0 },
};

static const struct screen_ops ops = {
	.number = 4,
	.hints = hints,
	.draw = draw,
	.request = on_request,
	.load = load,
	.status = add_status,
	.free = free_screen,
};

struct screen *screen_relay_new(void)
{
	struct relay_screen *relay = mem_zero(sizeof(*relay));
	relay->screen.ops = &ops;
	return &relay->screen;
}
