/* Statements that a connection sends often, prepared under a name: planning one costs the server
 * more than running it. Only where no pooler stands between: in transaction mode a name that was
 * given on one server's connection is not known on the next one. Private to common/pg/pg.c. */
#ifndef COUNTERFOIL_PG_NAMED_H
#define COUNTERFOIL_PG_NAMED_H

#include <stdbool.h>
#include <stddef.h>

#include "pg/pg_private.h"

#define PG_NAMED_MAX   32
#define PG_NAMED_AFTER 16 /* uses, before it is worth a name */

struct pg_named_item {
	const char *sql; /* told by its address: it stays the same while the connection lasts */
	unsigned uses;
	bool asked; /* for */
	bool ready;
	int count;
	Oid types[PG_PARAMS_MAX];
	char name[16];
};

struct pg_named {
	bool off;    /* not wanted, or not to be had */
	bool asked;  /* whose connection this is */
	bool direct; /* nobody stands between */
	size_t count;
	struct pg_named_item items[PG_NAMED_MAX];
};

/* The statement's entry, its use counted; NULL: it has none. */
struct pg_named_item *pg_named_use(struct pg_named *named, const char *sql,
				   const struct pg_arguments *arguments);
/* May it be sent by its name, with these parameters? */
bool pg_named_fits(const struct pg_named_item *item, const struct pg_arguments *arguments);
/* Is it time to prepare it? */
bool pg_named_due(const struct pg_named_item *item);
void pg_named_forget(struct pg_named *named); /* a new connection */

/* Does the error mean that names do not last, or that what they stand for has changed? */
bool pg_named_lost(const char *sqlstate);

#endif
