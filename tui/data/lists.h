/* The lists of keys: one a state, and what is common to the screen and to `counterfoil list`. */
#ifndef COUNTERFOIL_LISTS_H
#define COUNTERFOIL_LISTS_H

#include "pg.h"
#include "terminal/canvas.h"

/* X(symbol, name, on the screen, glyph, style). The names are those of the database, but for two:
 * "stale" is derived and "all" is all. */
#define LISTS(X)                                                                                   \
	X(ALL, "all", "all", "", PLAIN)                                                            \
	X(PENDING, "pending", "pending", "", PLAIN)                                                \
	X(IN_FLIGHT, "in_flight", "in flight", "", PLAIN)                                          \
	X(STALE, "stale", "stale", "!", WARN)                                                      \
	X(RETRY_WAIT, "retry_wait", "retrying", "", PLAIN)                                         \
	X(UNCERTAIN, "uncertain", "uncertain", "!!", BAD)                                          \
	X(DEAD, "dead", "dead", "!", WARN)                                                         \
	X(COMPLETED, "completed", "completed", "", GOOD)                                           \
	X(CANCELLED, "cancelled", "cancelled", "", FAINT)

enum list {
#define X(symbol, name, title, glyph, style) LIST_##symbol,
	LISTS(X)
#undef X
		LIST_COUNT
};

const char *list_name(enum list list);
const char *list_title(enum list list);
const char *list_glyph(enum list list);
enum style list_style(enum list list);
/* "retry_wait" and "retrying", "in_flight", "in-flight" and "in flight". */
bool list_parse(const char *name, enum list *list_r);

/* Of a state of the database; LIST_ALL: of none of ours ("pruned"). */
enum list list_of_state(const char *state);
/* The word for a state on the screen. */
const char *list_state_title(const char *state);

/* The place of a row in its list: where the next ones begin. Zeroed: at the beginning. */
struct list_cursor {
	bool set;
	usec_t time;
	int64_t id;
	char target[128]; /* these two order the pending ones only */
	char tenant[512];
};

struct list_query {
	enum list list;
	const char *error; /* only this error class; NULL: all. For retrying, uncertain and dead */
	struct list_cursor after;
	int64_t budget; /* rows to look at */
	int64_t wanted; /* rows to give */
};

bool list_has_errors(enum list list);
const char *list_sql(const struct list_query *query);
void list_params(const struct list_query *query, struct pg_params *params);

/* Of an answer. */
int list_rows(const PGresult *result); /* of keys: an empty list has a row as well */
void list_place(enum list list, const PGresult *result, int row, struct list_cursor *cursor_r);
int64_t list_examined(const PGresult *result);
/* Where the search stopped, also when no row of it was given. */
void list_end(const PGresult *result, struct list_cursor *cursor_r);

/* A list with a filter looks at more rows than it gives: in slices that double, as long as each
 * stays within `aim`. True: ask again with the new budget. */
#define LIST_BUDGET_MIN 500
#define LIST_BUDGET_MAX 20000
bool list_look_further(struct list_query *query, const PGresult *result, usec_t took, usec_t aim);

#endif
