/* What a ledger carries out, as a command tells it. */
#ifndef COUNTERFOIL_OPERATION_H
#define COUNTERFOIL_OPERATION_H

#include "commands/call.h"
#include "words/writer.h"

/* A row of SQL_OPERATION or SQL_OPERATIONS, as an object without its end. */
void operation_json(struct writer *writer, const PGresult *rows, int row);
/* "operation 42: replay, running, 612 of 1,101 keys: 590 done, 4 failed, 18 skipped" */
void operation_line(const PGresult *rows, int row, struct buf *out);

/* Reads it. False: *code_r says how it ends, and what there is to say was said. */
MUST_USE bool operation_read(struct call *call, int64_t id, PGresult **row_r,
			     enum exit_code *code_r);
/* Until it has ended, or is paused; then how it ended is told. EXIT_PARTLY: not all of it is done.
 */
enum exit_code operation_follow(struct call *call, int64_t id);

#endif
