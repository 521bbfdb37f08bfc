/* The console: the screens, one upon the other, the keys, the connection, the time. */
#ifndef COUNTERFOIL_CONSOLE_H
#define COUNTERFOIL_CONSOLE_H

#include "conf.h"
#include "main.h"
#include "screens/screen.h"

enum exit_code console_run(const char *config_path);

/* --- for the screens ----------------------------------------------------------------------------
 */

/* On top of the others; the console's from then on. */
void console_push(struct console *console, struct screen *screen);
/* Instead of the topmost. */
void console_swap(struct console *console, struct screen *screen);
/* This one goes, when it is the topmost. */
void console_close(struct console *console, struct screen *screen);
/* Instead of all others. */
void console_replace(struct console *console, struct screen *screen);

/* A statement for this screen. The answer comes while the screen is there, and is otherwise
 * forgotten; an error is also told to the person. `sql` is a constant. */
void console_ask(struct screen *screen, const char *sql, const struct pg_params *params,
		 screen_answer_fn *answer);

/* The line above the keys, until the next key. */
void console_say(struct console *console, enum style style, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* While an order is being given nothing else may be asked: it would stand inside its transaction.
 */
void console_hold(struct console *console, bool held);

/* What was typed ahead is forgotten. */
void console_drop_input(struct console *console);

/* NULL: a change may be made; else why not. */
const char *console_forbids(const struct console *console);

const struct conf *console_conf(const struct console *console);
usec_t console_now(const struct console *console); /* the database's, as far as known */
enum conf_zone console_zone(const struct console *console);
bool console_absolute(const struct console *console); /* times instead of ages */

#endif
