/* The event that follows a completion, as it is kept with the request until then. Pure. */
#ifndef LEDGER_EMIT_H
#define LEDGER_EMIT_H

#include "rules_code.h"

/* A chain of events, each emitted by the effect of the one before, ends at this length. */
#define EMIT_HOPS_MAX 16

/* What is kept begins with this when there is nothing to emit; why, stands behind it. */
#define EMIT_FAULT "!"

/* Renders it: a JSON object with topic, type, key (none: absent), headers and payload, in which
 * TEMPLATE_ID_QUOTED and TEMPLATE_ID_BARE stand for the provider's id. Or, behind EMIT_FAULT, why
 * there will be none: that never keeps the effect from being performed. Adds nothing when the rule
 * emits nothing. */
void emit_make(const struct rule *rule, const struct template_input *input, struct buf *out);

#endif
