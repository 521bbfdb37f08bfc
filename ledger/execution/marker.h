/* Send markers of at_most_once: written durably before a byte of the request leaves, many to a
 * statement: all that were asked for while the ones before were on their way. Owns its connection,
 * which is made when the first one is asked for: a marker that takes its time delays no claim. */
#ifndef LEDGER_MARKER_H
#define LEDGER_MARKER_H

#include "conf.h"
#include "log.h"
#include "loop.h"
#include "meter.h"
#include "rules/key.h"

struct markers;
struct mark; /* asked for, without an answer yet */

enum mark_end {
	MARK_SET,     /* durable: the key may be sent */
	MARK_UNSET,   /* the claim is not ours any more, or nobody knows: it must not */
	MARK_REFUSED, /* the database does not take it */
};

/* Called once, from the loop; the mark is gone then. */
typedef void mark_fn(void *arg, enum mark_end end);

/* conf and meter are borrowed. */
struct markers *markers_new(struct loop *loop, struct log *log, const struct conf *conf,
			    struct meter *meter);
void markers_free(struct markers *markers); /* everybody has forgotten theirs */

/* Of a key in flight that has none yet. */
struct mark *marker_ask(struct markers *markers, const struct key *key, mark_fn *fn, void *arg);
/* fn is not called; the marker may be set all the same. */
void marker_forget(struct mark *mark);

#endif
