/* counterfoil.outbox_dead, as far as the relay goes: rows are moved there, and the ordering keys
 * that have a dead row there are read. Rows are put back by others: then the source's generation
 * rises, nothing that was found out before is moved any more, and the keys are read again. */
#ifndef COUNTERFOIL_RELAY_GRAVEYARD_H
#define COUNTERFOIL_RELAY_GRAVEYARD_H

#include <stdbool.h>
#include <stdint.h>

#include "burial.h"
#include "keys.h"
#include "loop.h"
#include "source/outbox.h"

struct graveyard_events {
	void (*loaded)(void *arg); /* the keys are known, and the generation that they are of */
	/* Rows were, or there was an attempt. vanished: a dead row is in no table any more, so that
	 * the keys which are known no longer hold. */
	void (*moved)(void *arg, bool vanished);
	void *arg;
};

struct graveyard;

/* owner: of the rows that are moved; borrowed like all others. */
struct graveyard *graveyard_new(struct loop *loop, struct log *log, struct outbox *outbox,
				struct burial *burial, struct keys *keys, const char *owner,
				const struct graveyard_events *events);
void graveyard_free(struct graveyard *graveyard);

/* Asks for the generation and the keys, until loaded() or graveyard_stop(). */
void graveyard_load(struct graveyard *graveyard);
int64_t graveyard_generation(const struct graveyard *graveyard);

/* Moves rows that are condemned, if there are any and none are under way. */
void graveyard_bury(struct graveyard *graveyard, int64_t token);
bool graveyard_busy(const struct graveyard *graveyard); /* a statement is on its way */
/* The outbox is no longer ours: answers on their way count for nothing. */
void graveyard_stop(struct graveyard *graveyard);

#endif
