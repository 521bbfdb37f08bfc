/* Rows of keys on a screen: as columns, with the bar on one of them. */
#ifndef COUNTERFOIL_ROW_VIEW_H
#define COUNTERFOIL_ROW_VIEW_H

#include "conf.h"
#include "data/subject.h"
#include "screens/screen.h"
#include "terminal/selection.h"

struct row_view {
	const PGresult *rows; /* NULL: none yet */
	size_t count;
	const struct selection *selection;
	bool matched;  /* what was found says by what */
	bool waiting;  /* of what waits: why, instead of an error */
	bool absolute; /* times instead of ages */
	usec_t now;
	enum conf_zone zone;
};

/* A line of titles and then the rows. Returns how many rows there is room for. */
size_t row_view_draw(const struct row_view *view, const struct canvas *canvas,
		     const struct area *area);
/* Two lines about the row with the bar. */
void row_view_draw_more(const struct row_view *view, const struct canvas *canvas,
			const struct area *area);

/* Borrows from the rows. */
struct subject row_view_subject(const PGresult *rows, size_t row);

/* The ids of the rows; the caller frees. */
int64_t *row_view_ids(const PGresult *rows, size_t count);

#endif
