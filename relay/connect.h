/* --check-config --connect of the relay. */
#ifndef COUNTERFOIL_RELAY_CONNECT_H
#define COUNTERFOIL_RELAY_CONNECT_H

#include <stdbool.h>

#include "conf.h"
#include "main.h"

/* Asks the servers, and prints what is found. */
enum exit_code connect_relay(const struct conf *conf, bool strict);

#endif
