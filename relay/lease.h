/* The right to publish: one row in the database, on a connection of its own, so that nothing that
 * happens to the outbox can hold its renewal up.
 *
 * The database's clock decides who may take it; the holder counts its time on its own boot clock
 * from the moment of *sending* the renewal, and stops a little before the end. */
#ifndef COUNTERFOIL_RELAY_LEASE_H
#define COUNTERFOIL_RELAY_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "log.h"
#include "loop.h"
#include "pg.h"

struct lease_events {
	/* It is ours. before: who held it last and did not give it back, "" if nobody. */
	void (*taken)(void *arg, const char *before);
	/* Another holds it; said once, until that changes. */
	void (*standby)(void *arg, const char *owner);
	/* It was ours and no longer is. */
	void (*lost)(void *arg, const char *reason);
	/* It cannot be asked for, and was not held. */
	void (*unreachable)(void *arg, const char *reason);
	/* The server is another one than before, or was started again. Comes before taken(). */
	void (*server_changed)(void *arg);
	/* Given back, or there was nothing to give back; after lease_release(). */
	void (*released)(void *arg);
	void *arg;
};

struct lease_settings {
	const char *name;  /* of the row; borrowed, as the next one */
	const char *owner; /* instance/boot/pid */
	usec_t length;
};

struct lease;

struct lease *lease_new(struct loop *loop, struct log *log, const struct pg_settings *pg,
			const struct lease_settings *settings, const struct lease_events *events);
void lease_free(struct lease *lease);

/* Tries to take it from now on, and again whenever it was lost. */
void lease_want(struct lease *lease);
/* Stops trying, and gives it back if it is held; released() follows in any case. */
void lease_release(struct lease *lease);

/* Is it held now? To be asked before anything that only the holder may do: a process that slept
 * past its end notices here first, and lost() has run when it answers false. */
bool lease_check(struct lease *lease);
int64_t lease_token(const struct lease *lease);
bool lease_known(const struct lease *lease); /* who holds it, as last heard on this connection */
/* Asks the database now whether it is still ours. */
void lease_renew(struct lease *lease);

/* "instance/boot id/process id", for the caller to free. */
char *lease_owner(const char *instance);

#endif
