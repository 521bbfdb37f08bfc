/* The terminal: taken and given back whole, whatever happens. One a process. */
#ifndef COUNTERFOIL_TERMINAL_H
#define COUNTERFOIL_TERMINAL_H

#include <stdbool.h>

#include "err.h"
#include "terminal/key.h"
#include "usec.h"

struct terminal;

/* The event handlers of SIGWINCH, SIGTSTP, SIGINT and such must stand by then: curses leaves alone
 * what is handled already. While it is open, stderr goes aside, and is written out at the end. */
MUST_USE bool terminal_open(usec_t escape_delay, struct err *err, struct terminal **terminal_r);
void terminal_close(struct terminal *terminal); /* NULL is fine */

/* Is there one that can show the console? */
MUST_USE bool terminal_check(struct err *err);

enum terminal_input {
	INPUT_KEY,  /* *key_r */
	INPUT_NONE, /* nothing more for now */
	INPUT_END,  /* nobody is at the other end any more */
};
enum terminal_input terminal_read(struct terminal *terminal, struct key *key_r);

void terminal_resize(void);
void terminal_redraw(void); /* everything anew, at the next drawing */

/* Gives the terminal back, stops the process, and takes it again once it goes on. */
void terminal_suspend(void);

#endif
