/* Rows that crash whoever publishes them, and how to find one without blaming its neighbours.
 *
 * After an owner that did not stop cleanly, whatever waits now may have been in its hands: that
 * range of ids is recorded before anything is sent. One crash is mostly a kill, so the rows flow as
 * usual. When the next owner dies before the range has passed, its rows go in groups, 1000, then
 * 64, then one at a time, each of them named in the record before it is even read: the next crash
 * leaves a range as narrow as the group. A row that was alone in flight at three crashes is moved
 * aside.
 *
 * A kill is no crash of the row that happens to be alone. So it is sent only when this process has
 * lived for a while with a connection to a broker, for longer after each crash; and when it has
 * been in flight for half a second, the record says that it no longer counts.
 *
 * Pure: the caller tells the time, runs the statements and polls, and asks again after each. */
#ifndef COUNTERFOIL_RELAY_SUSPECTS_H
#define COUNTERFOIL_RELAY_SUSPECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "usec.h"

/* As in counterfoil.suspect. */
struct suspects_record {
	int64_t first; /* ids, both included */
	int64_t last;
	int32_t crashes; /* since the range was recorded, or one that it is part of */
	int32_t alone;   /* of these, while its one row was alone in flight */
	bool alone_now;  /* it is: if this process dies now, that is one more */
};

enum suspects_action {
	SUSPECTS_NONE,  /* for now */
	SUSPECTS_READ,  /* the record: suspects_read() */
	SUSPECTS_LOOK,  /* which ids wait in the range, counted up to `rows`: suspects_looked() */
	SUSPECTS_WRITE, /* `record`, durably, under the lease: suspects_done() */
	SUSPECTS_ERASE, /* the record: suspects_done() */
	SUSPECTS_POLL,  /* the rows of the range, and send them: suspects_page() */
	SUSPECTS_BURY,  /* the one row of the range, unsent, to the dead ones: suspects_page() */
};

struct suspects_next {
	enum suspects_action action;
	usec_t wait; /* without an action: ask again after that long; USEC_NEVER: after the answer,
		      * or when something of the view has changed */
	uint64_t number; /* of the action; its answer has the same */
	int64_t first;
	int64_t last;
	int64_t rows;
	struct suspects_record record;
};

/* What there is to see from outside. */
struct suspects_view {
	usec_t now;
	bool connected; /* to a broker */
	bool may_poll;
	size_t busy; /* rows of suspects_group() that are in flight, or not known to be deleted */
};

/* The rows that wait in a range; without any, count is 0 and nothing else counts. */
struct suspects_found {
	int64_t first;
	int64_t end;  /* the last one that was counted */
	int64_t last; /* of all of them */
	int64_t count;
};

struct suspects;

struct suspects *suspects_new(void);
void suspects_free(struct suspects *suspects);

/* The outbox is ours. unclean: the owner before did not stop cleanly. Also when the ids may mean
 * other rows: everything begins anew. */
void suspects_begin(struct suspects *suspects, bool unclean, usec_t now);
void suspects_stop(struct suspects *suspects); /* no longer; answers on their way are void */

/* May rows be read as usual? Else those of SUSPECTS_POLL alone are. */
bool suspects_flow(const struct suspects *suspects);

/* The ids of the rows that are under way, if there is a group. */
bool suspects_group(const struct suspects *suspects, int64_t *first_r, int64_t *last_r);

/* What is to be done. One action at a time: there is none while its answer is on its way. */
struct suspects_next suspects_next(struct suspects *suspects, const struct suspects_view *view);

/* Is the answer to this action still waited for? The rows of another poll are not to be sent. */
bool suspects_awaits(const struct suspects *suspects, uint64_t number);

/* Answers. NULL: there is no record. upto: the page ended here; the end of the range if no more
 * rows wait in it. */
void suspects_read(struct suspects *suspects, uint64_t number,
		   const struct suspects_record *record);
void suspects_looked(struct suspects *suspects, uint64_t number, const struct suspects_found *found,
		     usec_t now);
void suspects_done(struct suspects *suspects, uint64_t number, usec_t now);
void suspects_page(struct suspects *suspects, uint64_t number, int64_t upto, usec_t now);
/* It did not happen: again after a moment. */
void suspects_failed(struct suspects *suspects, uint64_t number, usec_t now);

/* Rows from this id on have to be read again: they were not sent after all. */
void suspects_rewind(struct suspects *suspects, int64_t id);

#endif
