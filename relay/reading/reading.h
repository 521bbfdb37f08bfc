/* Polls and their answers: what the reader wants is asked of the outbox as far as the window has
 * room, and the rows that come are handed to the publisher. The jobs of the second cursor come from
 * the topics: one is probed, or those whose trouble is over catch up. */
#ifndef COUNTERFOIL_RELAY_READING_H
#define COUNTERFOIL_RELAY_READING_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>

#include "conf.h"
#include "loop.h"
#include "publishing/publisher.h"
#include "publishing/window.h"
#include "reader.h"
#include "source/outbox.h"

/* may: is this the time to read at all? due: the time for the next poll has come. */
struct reading_events {
	bool (*may)(void *arg);
	void (*due)(void *arg);
	void *arg;
};

struct reading_settings {
	const struct conf_relay *conf; /* all borrowed */
	struct outbox *outbox;
	struct publisher *publisher;
	struct reader *reader;
	struct window *window;
};

struct reading;

struct reading *reading_new(struct loop *loop, const struct reading_settings *settings,
			    const struct reading_events *events);
void reading_free(struct reading *reading);

/* Sends the next poll, if it is time for it and there is room. */
void reading_on(struct reading *reading);
/* The rows of a poll's answer, which the reader accepts. */
void reading_take(struct reading *reading, const struct reader_poll *poll, const PGresult *result);
void reading_stop(struct reading *reading); /* the outbox is no longer ours */

bool reading_is_full(const struct reading *reading, usec_t now); /* no room for another poll */
size_t reading_batch(const struct reading *reading); /* rows of the last poll with any */

#endif
