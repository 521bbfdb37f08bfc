/* Shows what the rules make of an event, as text. Pure: nothing is opened, asked or sent. */
#ifndef LEDGER_TRY_SHOW_H
#define LEDGER_TRY_SHOW_H

#include "rules/rules.h"

/* The rules are redacted ones. Appends lines; controls and other bytes that a terminal would obey
 * are shown, not passed on. False: an effect is dead, or the event poison, or unmatched. */
bool try_show(struct rules *rules, const struct conf *conf, const struct event_source *source,
	      usec_t now, struct buf *out);

/* Appends text of a line: as it is, or without what is no printable UTF-8. */
void try_put_text(struct buf *out, const char *text, size_t length);

#endif
