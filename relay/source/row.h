/* One row of the outbox as it was fetched. Every text is borrowed from the result. */
#ifndef COUNTERFOIL_RELAY_ROW_H
#define COUNTERFOIL_RELAY_ROW_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "usec.h"

/* data is NULL for SQL NULL */
struct row_bytes {
	const char *data;
	size_t length;
};

struct row {
	int64_t id;
	const unsigned char *event_id; /* 16 bytes; NULL in a mapped table, perhaps */
	struct row_bytes topic;
	struct row_bytes type;
	struct row_bytes ordering_key; /* '' was made NULL */
	int32_t partition;             /* -1: by key */
	struct row_bytes message_key;
	struct row_bytes payload;
	struct row_bytes headers; /* a JSON object */
	usec_t created_at;        /* wall; USEC_NEVER for infinity */
	int64_t size;             /* of all that it carries, in bytes */
	bool fetched;  /* false: it came without what it carries, being over the size limit or */
	bool withheld; /* of a topic that is not wanted now */
};

/* The columns of the poll, in this order; see source_sql.h. */
enum row_column {
	ROW_ID,
	ROW_EVENT_ID,
	ROW_TOPIC,
	ROW_TYPE,
	ROW_ORDERING_KEY,
	ROW_PARTITION,
	ROW_MESSAGE_KEY,
	ROW_PAYLOAD,
	ROW_HEADERS,
	ROW_CREATED_AT,
	ROW_SIZE,
	ROW_FETCHED,
	ROW_WITHHELD,
	ROW_GENERATION,
};

/* The rows of a poll's answer: without any, one comes that has a generation and nothing else. */
int row_count(const PGresult *result);
/* Of the source: another one than before means that rows were put back. 0: the source is not known.
 */
int64_t row_generation(const PGresult *result);

int64_t row_id(const PGresult *result, int number);
/* What the poll counts for the row against its limit of bytes. */
size_t row_weight(const PGresult *result, int number);
void row_read(const PGresult *result, int number, struct row *row_r);

#endif
