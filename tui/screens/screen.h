/* A screen: a small file and a table of operations. What was asked for changes its state and
 * returns reactions; it never draws. Drawing reads the state and changes none of it that matters.
 */
#ifndef COUNTERFOIL_SCREEN_H
#define COUNTERFOIL_SCREEN_H

#include "buf.h"
#include "pg.h"
#include "terminal/canvas.h"
#include "terminal/key.h"

struct console;
struct screen;

enum reaction {
	REACT_NONE = 0,
	REACT_DRAW = 1 << 0,
	REACT_LOAD = 1 << 1,  /* read again now */
	REACT_CLOSE = 1 << 2, /* this screen goes */
	REACT_OTHER = 1 << 3, /* not this screen's matter: the console's own keys are tried */
};

/* A key worth naming in the last line. */
struct hint {
	enum request request;
	const char *words;
};
#define HINT_MAX 10

struct screen_ops {
	bool overlay;             /* drawn over the screen below, which goes on living */
	unsigned char number;     /* of the main screens: 1 overview, 2 keys, 4 relay; else 0 */
	const struct hint *hints; /* ended by one without words */
	void (*draw)(struct screen *screen, const struct canvas *canvas, const struct area *area);
	/* Every key first, for those who take text; NULL: none. */
	unsigned (*key)(struct screen *screen, const struct key *key);
	unsigned (*request)(struct screen *screen, enum request request); /* NULL: none */
	void (*load)(struct screen *screen); /* asks its questions; NULL: it has none */
	void (*status)(const struct screen *screen, struct buf *out); /* NULL: none */
	void (*free)(struct screen *screen);
};

/* The beginning of every screen's struct. */
struct screen {
	const struct screen_ops *ops;
	struct console *console;
	bool failed;         /* one of the answers so far was an error */
	size_t waiting;      /* answers that are still to come */
	usec_t loaded_at;    /* it has had all its answers, on the boot clock; 0: never */
	bool gone;           /* closed meanwhile: freed with the last answer */
	struct screen *next; /* among those that are gone */
};

typedef void screen_answer_fn(struct screen *screen, const PGresult *result,
			      const struct pg_error *error);

#endif
