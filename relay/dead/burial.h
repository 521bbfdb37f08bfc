/* Rows on their way to counterfoil.outbox_dead: condemned here, moved by a statement. The window
 * holds their places meanwhile, so that a poll which meets them again passes them over. */
#ifndef COUNTERFOIL_RELAY_BURIAL_H
#define COUNTERFOIL_RELAY_BURIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "publishing/window.h"

#define BURIAL_MAX  2000 /* rows that wait; beyond them nothing is condemned */
#define BURIAL_ROWS 500  /* of one statement */
#define BURIAL_TRIES                                                                               \
	5 /* a row that was not moved is no longer there, or its time will come again */

struct burial_row {
	struct window_row *row;
	int64_t size;
	bool parked;
	bool no_event_id;
	unsigned tries;
	char *reason;
	struct burial_row *next;
};

struct burial;

struct burial *burial_new(struct window *window);
void burial_free(struct burial *burial);

size_t burial_count(const struct burial *burial);
bool burial_full(const struct burial *burial);
/* The row must be condemned in the window. Of `row`, what it says of itself counts; the reason is
 * copied. */
void burial_add(struct burial *burial, const struct burial_row *row, const char *reason);

/* The first rows, up to BURIAL_ROWS; none while others are under way. They are under way until
 * burial_moved() or burial_kept(). */
size_t burial_take(struct burial *burial, struct burial_row **rows);
/* The statement was answered: these ids, ascending, were moved; how many were not, and are tried
 * again. vanished_r: set when a dead row is given up, which somebody else must have deleted. */
size_t burial_moved(struct burial *burial, const int64_t *ids, size_t count, bool *vanished_r);
void burial_kept(struct burial *burial); /* it did not happen, or nobody knows: again */
void burial_forget(struct burial *burial);

#endif
