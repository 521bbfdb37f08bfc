/* An order to intake, which a ledger carries out: how it is given and followed. */
#ifndef COUNTERFOIL_INTAKE_ORDER_H
#define COUNTERFOIL_INTAKE_ORDER_H

#include "commands/call.h"

/* May it be given as the call says? False: it ends with *code_r, and what there is to say was said.
 */
MUST_USE bool intake_order_fits(const struct call *call, enum exit_code *code_r);
/* Gives it, and waits for its end. */
enum exit_code intake_order(struct call *call, const char *kind, const char *params);

#endif
