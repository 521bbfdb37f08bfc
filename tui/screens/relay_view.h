/* The tables of the relay's screen, each drawn into an area: a line of titles, then rows. */
#ifndef COUNTERFOIL_RELAY_VIEW_H
#define COUNTERFOIL_RELAY_VIEW_H

#include "conf.h"
#include "pg.h"
#include "screens/screen.h"
#include "terminal/selection.h"

/* Longer than a relay reports, and somewhat: what it said is old. */
#define RELAY_LATE (10 * USEC_SEC)

struct relay_view {
	const PGresult *rows;
	const struct selection *bar; /* NULL: none */
	const struct canvas *canvas;
	struct area area;
	int64_t cap;   /* counts beyond it are open */
	bool absolute; /* times instead of ages */
	usec_t now;
	enum conf_zone zone;
};

void relay_view_outboxes(const struct relay_view *view); /* of SQL_OUTBOXES */
void relay_view_topics(const struct relay_view *view);   /* of SQL_OUTBOX_TOPICS */
void relay_view_relays(const struct relay_view *view);   /* of SQL_RELAYS */
void relay_view_dead(const struct relay_view *view);     /* of SQL_DEAD_ROWS */

#endif
