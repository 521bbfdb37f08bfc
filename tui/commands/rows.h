/* Rows of keys as a command prints them. */
#ifndef COUNTERFOIL_ROWS_H
#define COUNTERFOIL_ROWS_H

#include "pg.h"
#include "words/writer.h"

/* One object; `matched`: what was found also says by what. */
void rows_json(struct writer *writer, const PGresult *rows, int row, bool matched);
/* As columns for people, sanitised, with a line of titles when `titles`. */
void rows_print(const PGresult *rows, int from, int count, bool matched, bool titles,
		struct buf *out);

#endif
