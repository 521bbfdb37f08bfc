/* What a row of a list, or of SQL_KEY, says of a key, in words. */
#ifndef COUNTERFOIL_ROW_TEXT_H
#define COUNTERFOIL_ROW_TEXT_H

#include "buf.h"
#include "pg.h"

/* The word for its state: "shadow" is what was completed without being sent. */
const char *row_state(const PGresult *rows, int row);
const char *key_state(const PGresult *key);
bool key_is_shadow(const PGresult *key);
/* Why it is not sent although it is due, "behind order:1, effect paused"; nothing: nothing stops
 * it. */
void row_waits(const PGresult *rows, int row, struct buf *out);

#endif
