/* What the files of the console share, and no screen. */
#ifndef COUNTERFOIL_CONSOLE_PRIVATE_H
#define COUNTERFOIL_CONSOLE_PRIVATE_H

#include "console.h"
#include "log.h"
#include "loop.h"
#include "terminal/terminal.h"

enum { STACK_MAX = 12, SIGNAL_COUNT = 6 };

/* Where the connection stands. */
enum link {
	LINK_NEW,    /* the first attempt is under way */
	LINK_ASKING, /* connected; is the schema one that we know? */
	LINK_READY,  /* questions are answered */
	LINK_MISFIT, /* connected to what does not fit; asked again at every refresh */
	LINK_DOWN,   /* lost, or never had; pg.c tries again by itself */
};

struct watched_signal {
	struct console *console;
	int number;
	struct loop_signal *watch;
};

struct console {
	struct conf *conf;
	struct log *log;
	struct loop *loop;
	struct terminal *terminal;
	struct canvas canvas;
	struct pg *pg;
	struct loop_fd *input;
	struct loop_timer *tick;  /* every second: the clock, and the next refresh */
	struct loop_timer *paint; /* at the end of the turn */
	struct watched_signal signals[SIGNAL_COUNT];
	enum exit_code exit;
	bool ends; /* nothing that is typed counts any more */

	struct screen *stack[STACK_MAX];
	size_t depth;
	struct screen *gone; /* freed at the end of the turn: one may be in the middle of a call */

	enum link link;
	bool held;
	bool paused;
	bool absolute;
	enum conf_zone zone;
	char trouble[600];
	char said[400];
	enum style said_style;

	char *database, *user;
	usec_t now; /* of the database, as last read, and our clock then */
	usec_t now_at;
	usec_t next_load;

	unsigned sync_wanted, sync_done; /* see testing.h */
};

/* --- the screens (console_screens.c) ------------------------------------------------------------
 */

struct screen *console_base(const struct console *console); /* below the overlays */
unsigned console_number(const struct console *console);     /* of the main screen */
void console_old(struct console *console);                  /* the picture is: draw it anew */
void console_paint(void *console);                          /* at the end of the turn */
void console_drop_all(struct console *console);
void console_bury(struct console *console); /* frees the screens that are gone */
/* False: it is the last one, and stays. */
bool console_pop(struct console *console);

/* --- the connection (console_link.c) ------------------------------------------------------------
 */

void console_connect(struct console *console);
void console_load(struct console *console);    /* the screen that is seen is read again */
void console_refresh(struct console *console); /* the time for it has come */
usec_t console_since(usec_t boot);             /* USEC_NEVER of 0 */

#endif
