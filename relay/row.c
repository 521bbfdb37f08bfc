/* Reading the poll's rows. Headers come as text[][2] in PostgreSQL's binary form: dimensions, a
 * flag for NULLs, the type, then length and bounds of each dimension, then each item behind its
 * length, all big-endian. Source: array_send() in PostgreSQL's arrayfuncs.c. */
#include "row.h"

#include <endian.h>
#include <string.h>

#include "pg.h"
#include "sql.h"

#define ARRAY_HEAD   12 /* dimensions, flag, type */
#define ARRAY_BOUNDS 8  /* length and lower bound, for each dimension */

static struct row_bytes bytes_of(const PGresult *result, int number, enum row_column column)
{
	struct row_bytes bytes;
	bytes.data = pg_get_bytes(result, number, (int)column, &bytes.length);
	return bytes;
}

static bool take_int4(struct row_bytes *rest, int32_t *value_r)
{
	uint32_t wire;
	if (rest->length < sizeof(wire))
		return false;
	memcpy(&wire, rest->data, sizeof(wire));
	rest->data += sizeof(wire);
	rest->length -= sizeof(wire);
	*value_r = (int32_t)be32toh(wire);
	return true;
}

static bool take_item(struct row_bytes *rest, struct row_bytes *item_r)
{
	int32_t length;
	if (!take_int4(rest, &length))
		return false;
	if (length < 0) {
		*item_r = (struct row_bytes){ 0 };
		return true;
	}
	if (rest->length < (size_t)length)
		return false;
	*item_r = (struct row_bytes){ .data = rest->data, .length = (size_t)length };
	rest->data += length;
	rest->length -= (size_t)length;
	return true;
}

/* The items of the array; none when there is no array, or an empty one. */
static struct row_bytes items_of(struct row_bytes array)
{
	struct row_bytes items = array;
	int32_t dimensions;
	if (!take_int4(&items, &dimensions) || dimensions != 2 ||
	    array.length < ARRAY_HEAD + 2 * ARRAY_BOUNDS)
		return (struct row_bytes){ 0 };
	return (struct row_bytes){ .data = array.data + ARRAY_HEAD + 2 * ARRAY_BOUNDS,
				   .length = array.length - ARRAY_HEAD - 2 * ARRAY_BOUNDS };
}

bool row_header_next(struct row_bytes *rest, struct row_bytes *name_r, struct row_bytes *value_r)
{
	return take_item(rest, name_r) && name_r->data && take_item(rest, value_r);
}

int64_t row_id(const PGresult *result, int number)
{
	return pg_get_int8(result, number, ROW_ID);
}

size_t row_weight(const PGresult *result, int number)
{
	bool fetched = pg_get_bool(result, number, ROW_FETCHED);
	return SQL_ROW_COST + (fetched ? (size_t)pg_get_int8(result, number, ROW_SIZE) : 0);
}

void row_read(const PGresult *result, int number, struct row *row_r)
{
	*row_r = (struct row){
		.id = row_id(result, number),
		.topic = bytes_of(result, number, ROW_TOPIC),
		.type = bytes_of(result, number, ROW_TYPE),
		.ordering_key = bytes_of(result, number, ROW_ORDERING_KEY),
		.partition = -1,
		.message_key = bytes_of(result, number, ROW_MESSAGE_KEY),
		.payload = bytes_of(result, number, ROW_PAYLOAD),
		.headers = items_of(bytes_of(result, number, ROW_HEADERS)),
		.created_at = pg_get_time(result, number, ROW_CREATED_AT),
		.size = pg_get_int8(result, number, ROW_SIZE),
		.fetched = pg_get_bool(result, number, ROW_FETCHED),
	};
	size_t length;
	row_r->event_id =
		(const unsigned char *)pg_get_bytes(result, number, ROW_EVENT_ID, &length);
	if (!pg_null(result, number, ROW_PARTITION))
		row_r->partition = pg_get_int4(result, number, ROW_PARTITION);
}
