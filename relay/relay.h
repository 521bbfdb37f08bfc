/* The relay: who owns the outbox, what it reads and sends, and how it stops. */
#ifndef COUNTERFOIL_RELAY_RELAY_H
#define COUNTERFOIL_RELAY_RELAY_H

#include <stdbool.h>

#include "conf.h"
#include "err.h"
#include "log.h"
#include "loop.h"

struct relay;

/* conf and log are borrowed. stopped() is called once, after relay_stop(), when everything is
 * settled; the relay may not be freed inside it. False: the configuration does not do. */
MUST_USE bool relay_new(struct loop *loop, struct log *log, const struct conf *conf,
			void (*stopped)(void *arg), void *arg, struct err *err,
			struct relay **relay_r);
void relay_free(struct relay *relay);

/* Health and metrics at http.relay, if that is set. False: it cannot be listened on. */
MUST_USE bool relay_listen(struct relay *relay, struct err *err);

/* Reads no more, waits for what is in flight, deletes it, gives the lease back; at the latest after
 * general.drain_timeout it stops as it is. */
void relay_stop(struct relay *relay);

#endif
