/* A server's replies as they come in: "250-one", "250 two". Knows SMTP's shape and no library. */
#ifndef LEDGER_SMTP_REPLY_H
#define LEDGER_SMTP_REPLY_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"

#define SMTP_REPLY_MAX (64 * 1024)

struct smtp_reader {     /* zeroed: nothing was read */
	struct buf in;   /* what has come and was not taken */
	struct buf text; /* of the reply that was taken last, with its line ends */
};
void smtp_reader_done(struct smtp_reader *reader);

enum smtp_read { SMTP_READ_REPLY, SMTP_READ_MORE, SMTP_READ_GARBAGE };

/* Takes one reply, all its lines, out of what has come. */
enum smtp_read smtp_reader_take(struct smtp_reader *reader, int *code_r);

/* A line of the answer to EHLO: true when it has a limit for the size of messages. */
bool smtp_size_limit(const char *line, size_t length, size_t *limit_r);

#endif
