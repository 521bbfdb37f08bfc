/* The outbox table behind one connection: the relay's statements, sent and read. The order in which
 * they are sent is the order in which the server runs them: a poll sent after a deletion does not
 * see the deleted rows. */
#ifndef COUNTERFOIL_RELAY_OUTBOX_H
#define COUNTERFOIL_RELAY_OUTBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf.h"
#include "log.h"
#include "loop.h"
#include "meter.h"
#include "pg.h"
#include "publishing/topics.h"
#include "publishing/window.h"
#include "reading/reader.h"
#include "source.h"

#define OUTBOX_DELETE_ROWS 1000 /* of one statement */
#define OUTBOX_DELETES     4    /* statements on their way at once */

struct outbox_events {
	/* Connected, schema and table fit, and the database is ours. */
	void (*ready)(void *arg);
	/* The connection is gone; was_ready: it could be used before. */
	void (*down)(void *arg, const char *reason, bool was_ready);
	/* A poll was answered; NULL: it was not, and has to be made again. */
	void (*polled)(void *arg, const struct reader_poll *poll, const PGresult *result);
	/* The transactions that may still commit an id; NULL: not known. */
	void (*listed)(void *arg, const uint64_t *holders, size_t count);
	/* A deletion was answered. none: of these rows, none was there under our lease. */
	void (*deleted)(void *arg, bool none);
	/* Expired rows of `once` were deleted. */
	void (*expired)(void *arg, size_t count);
	void *arg;
};

struct outbox_settings {
	const struct conf_relay *conf; /* borrowed, as all that follows */
	struct source *source;
	int64_t size_limit;      /* of a row, in bytes */
	const char *environment; /* general.environment */
};

struct outbox;

struct outbox *outbox_new(struct loop *loop, struct log *log, const struct pg_settings *pg,
			  const struct outbox_settings *settings, struct window *window,
			  struct meter *meter, const struct outbox_events *events);
void outbox_free(struct outbox *outbox);

bool outbox_connected(const struct outbox *outbox);
bool outbox_ready(const struct outbox *outbox); /* the schema fits, and the database is ours */
const char *outbox_misfit(const struct outbox *outbox); /* why not, last; "": not known */

bool outbox_polling(const struct outbox *outbox); /* a poll is on its way: send no other */
/* topics: those whose rows are to come without what they carry; only: all others' are. */
void outbox_poll(struct outbox *outbox, const struct reader_poll *poll, const struct gap *gaps,
		 struct topic *const *topics, size_t topic_count, bool only);
void outbox_list_holders(struct outbox *outbox);

/* Deletes acknowledged rows of the window, oldest first, as long as there are `least` of them and
 * room for another statement. */
void outbox_delete(struct outbox *outbox, int64_t token, size_t least);
uint64_t outbox_short_deletes(const struct outbox *outbox);

void outbox_expire_once(struct outbox *outbox, int32_t rows);

/* For those who have statements of their own. */
struct pg *outbox_pg(struct outbox *outbox);
const struct source *outbox_source(const struct outbox *outbox);
/* A statement failed: said in the log, if the server refused it. */
void outbox_say_refusal(struct outbox *outbox, const char *statement, const struct pg_error *error);

#endif
