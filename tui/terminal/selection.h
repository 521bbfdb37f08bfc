/* Which row of a list the bar is on, and which row is the topmost. The bar follows the key and not
 * the row's number: rows that come and go above it do not move it to another key. Pure. */
#ifndef COUNTERFOIL_SELECTION_H
#define COUNTERFOIL_SELECTION_H

#include <stddef.h>
#include <stdint.h>

struct selection {
	size_t index; /* of the row with the bar; 0 in an empty list */
	size_t top;   /* of the row that is shown first */
};

/* The ids of a list's rows. */
struct selection_ids {
	const int64_t *ids;
	size_t count;
};

/* The rows were read again. A key that is gone gives the bar to its nearest neighbour that is still
 * there, below before above. The bar stays on its line of the screen where it can. */
void selection_follow(struct selection *selection, const struct selection_ids *before,
		      const struct selection_ids *now);

void selection_move(struct selection *selection, long by, size_t count);

/* Scrolls so far that the bar is among the `height` rows shown, and none of them is wasted. */
void selection_show(struct selection *selection, size_t height, size_t count);

#endif
