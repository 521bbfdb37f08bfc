/* Is this the database that the program is meant for? Relay and ledger ask whenever they have
 * connected: whether the schema fits, and whether the database is the one that was adopted for this
 * environment, no copy of it. Until it is, they do nothing. */
#ifndef COUNTERFOIL_INSTALLATION_H
#define COUNTERFOIL_INSTALLATION_H

#include "err.h"
#include "pg.h"

/* Said once, at the start; `counterfoil adopt` and the programs know copies by it. */
#define INSTALLATION_NO_ENVIRONMENT                                                                \
	"general.environment is empty: a copy of this database's files could not be told from it"

/* For pg_send(). $1: general.environment, which an installation that has none takes over. */
extern const char installation_check_sql[];

/* Reads its answer, as schema_check() does. */
MUST_USE bool installation_check(const char *environment, const PGresult *result,
				 const struct pg_error *error, struct err *err);

/* Ours once somebody asks with an environment: nobody has named one yet. */
bool installation_is_unnamed(const PGresult *result);

enum installation_answer {
	INSTALLATION_OURS,
	INSTALLATION_MISFIT,  /* the schema does not fit */
	INSTALLATION_FOREIGN, /* a copy, or another environment's */
	INSTALLATION_UNKNOWN, /* the server would not say: ask again */
};

/* The question, embedded in whoever asks; it outlives the connection. */
struct installation_question {
	const char *environment; /* borrowed */
	/* Not called when the connection is lost first. reason: in words, with the remedy. */
	void (*answered)(void *arg, enum installation_answer answer, const char *reason);
	void *arg;
	struct pg *pg; /* private */
};

/* Once connected. One at a time: not again before it was answered or the connection lost. */
void installation_ask(struct installation_question *question, struct pg *pg);

#endif
