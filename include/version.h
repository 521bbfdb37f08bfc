/* What a program and a database say of themselves, so that each can refuse the other in words. */
#ifndef COUNTERFOIL_VERSION_H
#define COUNTERFOIL_VERSION_H

#define COUNTERFOIL_VERSION "0.1.0"

/* The migration that this version's relay and ledger need at least, and its console. */
#define COUNTERFOIL_SCHEMA         7
#define COUNTERFOIL_CONSOLE_SCHEMA 7

/* Rises when a program would no longer be understood by an older schema's rules. A migration names
 * the oldest program that it still serves; an older one refuses to run. */
#define COUNTERFOIL_PROGRAM 2

#endif
