/* What the tables know and nothing is done with yet. */
#ifndef COMMON_CONF_LATER_H
#define COMMON_CONF_LATER_H

#include "conf.h"
#include "conf/conf_places.h"

#define CONF_LATER "not built yet in this version"

/* A key that comes later and is set to anything but its default is a fault. Before the shipped
 * profiles are added: the items are those of the file. */
void conf_later_check(const struct conf *conf, struct conf_faults *faults);

/* "ledger.attempt_keep": it comes later. */
bool conf_later_key(const char *key);

#endif
