/* What a person typed, and what it asks for. */
#ifndef COUNTERFOIL_KEY_H
#define COUNTERFOIL_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "terminal/curses_wide.h"

struct key {
	bool special; /* `code` is one of curses' KEY_*, else a character */
	bool pasted;  /* part of a pasted text: never a command */
	uint32_t code;
};

enum request_group { GROUP_MOVE, GROUP_FIND, GROUP_VIEW, GROUP_ACT, GROUP_COUNT };

#define CTRL(letter_) ((letter_)&0x1f)

/* X(symbol, group, keys in words, what it does, up to four keys). One table for the keys, the last
 * line and the help. A request without words is told by the one before it. */
#define REQUESTS(X)                                                                                \
	X(DOWN, MOVE, "j k  Down Up", "line", 'j', KEY_DOWN, 0, 0)                                 \
	X(UP, MOVE, NULL, NULL, 'k', KEY_UP, 0, 0)                                                 \
	X(PAGE_DOWN, MOVE, "Ctrl-F Ctrl-B", "page (PgDn PgUp)", CTRL('f'), KEY_NPAGE, 0, 0)        \
	X(PAGE_UP, MOVE, NULL, NULL, CTRL('b'), KEY_PPAGE, 0, 0)                                   \
	X(HALF_DOWN, MOVE, "Ctrl-D Ctrl-U", "half a page", CTRL('d'), 0, 0, 0)                     \
	X(HALF_UP, MOVE, NULL, NULL, CTRL('u'), 0, 0, 0)                                           \
	X(FIRST, MOVE, "g G  Home End", "first, last", 'g', KEY_HOME, 0, 0)                        \
	X(LAST, MOVE, NULL, NULL, 'G', KEY_END, 0, 0)                                              \
	X(OPEN, MOVE, "Enter", "open", '\r', '\n', KEY_ENTER, 0)                                   \
	X(BACK, MOVE, "Esc", "back", 0x1b, 0, 0, 0)                                                \
	X(CLOSE, MOVE, "q", "close; at the top: quit", 'q', 0, 0, 0)                               \
	X(QUIT, MOVE, "Q  Ctrl-C", "quit", 'Q', 0, 0, 0)                                           \
	X(FIND, FIND, "/", "find: key prefix, subject, event, provider id, topic[p]@offset", '/',  \
	  0, 0, 0)                                                                                 \
	X(NEXT_TAB, FIND, "[ ]", "state before, next; dead, parked", ']', 0, 0, 0)                 \
	X(PREVIOUS_TAB, FIND, NULL, NULL, '[', 0, 0, 0)                                            \
	X(SCREEN_1, FIND, "1 2 4", "overview, keys, relay", '1', 0, 0, 0)                          \
	X(SCREEN_2, FIND, NULL, NULL, '2', 0, 0, 0)                                                \
	X(SCREEN_4, FIND, NULL, NULL, '4', 0, 0, 0)                                                \
	X(PANE, FIND, "Tab", "next part, back with Shift", '\t', 0, 0, 0)                          \
	X(PANE_BACK, FIND, NULL, NULL, KEY_BTAB, 0, 0, 0)                                          \
	X(REFRESH, VIEW, "R  Ctrl-R F5", "read again now", 'R', CTRL('r'), KEY_F(5), 0)            \
	X(PAUSE, VIEW, "p", "freeze, go on", 'p', 0, 0, 0)                                         \
	X(TIME, VIEW, "t", "ages or times", 't', 0, 0, 0)                                          \
	X(ZONE, VIEW, "T", "UTC or local", 'T', 0, 0, 0)                                           \
	X(WRAP, VIEW, "w", "wrap long lines", 'w', 0, 0, 0)                                        \
	X(RAW, VIEW, "J", "JSON as it came", 'J', 0, 0, 0)                                         \
	X(REDRAW, VIEW, "Ctrl-L", "draw the screen anew", CTRL('l'), 0, 0, 0)                      \
	X(SUSPEND, VIEW, "Ctrl-Z", "suspend; fg comes back", 0, 0, 0, 0)                           \
	X(HELP, VIEW, "?", "this page", '?', KEY_F(1), 0, 0)                                       \
	X(ACTIONS, ACT, "x", "what may be done to this key or row; always asks first", 'x', 0, 0, 0)

enum request {
#define X(symbol, group, keys, words, k1, k2, k3, k4) REQUEST_##symbol,
	REQUESTS(X)
#undef X
		REQUEST_COUNT,
	REQUEST_NONE = REQUEST_COUNT
};

struct request_words {
	enum request_group group;
	const char *keys; /* NULL: see the one before */
	const char *words;
};

enum request request_of(const struct key *key);
/* How many lines a request moves in a part of the screen of so many, up when it is negative; 0: it
 * is about something else. To the first and the last line: further than there are lines. */
long request_step(enum request request, size_t height);
const struct request_words *request_words(enum request request);
const char *request_group_title(enum request_group group);

#endif
