/* What killed the owner before? The search of suspects.h with its statements, its polls, its timer
 * and its lines in the log. */
#ifndef COUNTERFOIL_RELAY_INQUEST_H
#define COUNTERFOIL_RELAY_INQUEST_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "conf.h"
#include "log.h"
#include "loop.h"
#include "publishing/publisher.h"
#include "publishing/window.h"
#include "source/outbox.h"

struct inquest_events {
	void (*again)(void *arg); /* there may be something to do: inquest_step() */
	void (*doubt)(void *arg); /* nothing was written: the lease may be another's */
	void *arg;
};

struct inquest_settings {
	const struct conf_relay *conf; /* borrowed, as all that follows */
	struct log *log;
	struct outbox *outbox;
	struct publisher *publisher;
	struct window *window;
};

struct inquest;

struct inquest *inquest_new(struct loop *loop, const struct inquest_settings *settings,
			    const struct inquest_events *events);
void inquest_free(struct inquest *inquest);

/* The outbox is ours; unclean: the owner before did not stop cleanly. */
void inquest_begin(struct inquest *inquest, int64_t token, bool unclean);
void inquest_stop(struct inquest *inquest);
void inquest_rewind(struct inquest *inquest); /* what is in flight is forgotten */

bool inquest_flow(const struct inquest *inquest);     /* may rows be read as usual? */
bool inquest_suspects(const struct inquest *inquest); /* for long, they may not */

/* Does what is to be done next. */
void inquest_step(struct inquest *inquest, bool may_poll);
/* A poll was answered. True: it was one of these; then its rows are sent, unless there is no result
 * that counts. */
bool inquest_polled(struct inquest *inquest);
void inquest_rows(struct inquest *inquest, const struct reader_poll *poll, const PGresult *result);

#endif
