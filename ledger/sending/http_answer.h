/* An answer as it comes in, line by line and piece by piece: the header block of the final response
 * and the capped body. Knows HTTP's shape and no library. */
#ifndef LEDGER_HTTP_ANSWER_H
#define LEDGER_HTTP_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"

#define HTTP_HEAD_MAX  (64 * 1024)  /* of one header block */
#define HTTP_HEADS_MAX (256 * 1024) /* of all blocks: an endless row of 1xx ends somewhere */

struct http_reader {
	struct buf head; /* of the final response; of an interim one while that is being read */
	struct buf body;
	size_t body_max;
	size_t head_total;
	int status;
	bool complete;  /* the final block's blank line was seen */
	bool truncated; /* more body came than is kept */
	bool replayed;
	char retry_after[64]; /* "" when absent or too long to be one */
	char date[64];
};

void http_reader_init(struct http_reader *reader, size_t body_max);
void http_reader_done(struct http_reader *reader);

/* One line, its end included. False: there is too much of it. */
bool http_reader_head(struct http_reader *reader, const char *line, size_t length);
/* False once more has come than is kept: nothing further is wanted. */
bool http_reader_body(struct http_reader *reader, const char *data, size_t length);

#endif
