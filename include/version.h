/* What a program and a database say of themselves, so that each can refuse the other in words. */
#ifndef COUNTERFOIL_VERSION_H
#define COUNTERFOIL_VERSION_H

#define COUNTERFOIL_VERSION "0.1.0"

/* The migration that relay, ledger and console of this version need at least. */
#define COUNTERFOIL_SCHEMA 2

/* Rises when a program would no longer be understood by an older schema's rules. A migration names
 * the oldest program that it still serves; an older one refuses to run. */
#define COUNTERFOIL_PROGRAM 1

#endif
