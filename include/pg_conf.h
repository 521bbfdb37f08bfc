/* What the configuration says of PostgreSQL, checked without a server. */
#ifndef COUNTERFOIL_PG_CONF_H
#define COUNTERFOIL_PG_CONF_H

#include "buf.h"
#include "conf.h"

/* Whether libpq takes the connection string of this program, and the password can be read. What is
 * wrong, one a line, each with its place. */
void pg_conf_check(const struct conf *conf, enum conf_program program, struct buf *faults);

#endif
