/* A row that the relay left out, in full, as text for people: every line fit for a terminal. */
#ifndef COUNTERFOIL_DEAD_TEXT_H
#define COUNTERFOIL_DEAD_TEXT_H

#include "buf.h"
#include "conf.h"
#include "pg.h"

/* rows is of SQL_DEAD_ROW, others of SQL_OF_ITS_KEY (NULL: not asked for). raw: JSON as it came. */
void dead_text(const PGresult *rows, int row, const PGresult *others, bool raw, enum conf_zone zone,
	       struct buf *out);

/* "dead", or "parked". */
const char *dead_word(const PGresult *rows, int row);

#endif
