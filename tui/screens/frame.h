/* What stands around every screen: the first three lines and the last three. */
#ifndef COUNTERFOIL_FRAME_H
#define COUNTERFOIL_FRAME_H

#include "conf.h"
#include "screens/screen.h"

#define FRAME_WIDTH_MIN  60
#define FRAME_HEIGHT_MIN 16

enum frame_mode { FRAME_LIVE, FRAME_FROZEN, FRAME_OLD };

struct frame {
	const char *environment; /* "" : none */
	const char *host, *database, *user;
	bool production, read_only;
	enum conf_zone zone;
	usec_t now; /* USEC_NEVER: not known yet */
	usec_t refresh;
	enum frame_mode mode;
	usec_t data_age;
	unsigned number;     /* of the main screen */
	const char *trouble; /* why there is no fresh data; "": nothing is wrong */
	const char *said;    /* "": the screen's own status */
	enum style said_style;
	const struct screen *top, *base;
};

/* Draws it; area_r is what is left for the screen. False: the terminal is too small for one. */
bool frame_draw(const struct frame *frame, const struct canvas *canvas, struct area *area_r);

#endif
