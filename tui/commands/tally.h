/* How an order about several things ends, one by one: done, already so, not there, or refused. */
#ifndef COUNTERFOIL_TALLY_H
#define COUNTERFOIL_TALLY_H

#include "main.h"
#include "pg.h"

struct tally {
	int count, done, already, missing;
};

/* Of an answer's rows, by the column that says it in the database's words. */
struct tally tally_of(const PGresult *answer, int column);

/* All is as it was asked for: EXIT_OK; a part of it: EXIT_PARTLY; nothing was done, since none of
 * them is there: EXIT_NOT_FOUND, or for another reason: EXIT_CONFLICT. */
enum exit_code tally_code(const struct tally *tally);

#endif
