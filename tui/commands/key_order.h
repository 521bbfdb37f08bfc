/* A command that orders something of one key: all that such commands have in common once their
 * words were read. */
#ifndef COUNTERFOIL_KEY_ORDER_H
#define COUNTERFOIL_KEY_ORDER_H

#include "commands/call.h"
#include "data/order.h"

/* Asks for --yes and, where the order needs one, --reason; opens the session, finds the key, gives
 * the order and tells what came of it. Closes the call. */
enum exit_code key_order_run(struct call *call, enum order_kind kind);

#endif
