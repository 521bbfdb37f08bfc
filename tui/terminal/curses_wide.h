/* ncurses, with its wide characters and without its macros that take everyday words. */
#ifndef COUNTERFOIL_CURSES_WIDE_H
#define COUNTERFOIL_CURSES_WIDE_H

#define NCURSES_NOMACROS 1
#ifndef NCURSES_WIDECHAR
#define NCURSES_WIDECHAR 1
#endif
#include <curses.h>

#endif
