/* Reading the poll's rows. */
#include "row.h"

#include "pg.h"
#include "sql.h"

static struct row_bytes bytes_of(const PGresult *result, int number, enum row_column column)
{
	struct row_bytes bytes;
	bytes.data = pg_get_bytes(result, number, (int)column, &bytes.length);
	return bytes;
}

int row_count(const PGresult *result)
{
	int rows = pg_rows(result);
	return rows == 1 && pg_null(result, 0, ROW_ID) ? 0 : rows;
}

int64_t row_generation(const PGresult *result)
{
	return pg_rows(result) ? pg_get_int8(result, 0, ROW_GENERATION) : 0;
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
		.headers = bytes_of(result, number, ROW_HEADERS),
		.created_at = pg_get_time(result, number, ROW_CREATED_AT),
		.size = pg_get_int8(result, number, ROW_SIZE),
		.fetched = pg_get_bool(result, number, ROW_FETCHED),
		.withheld = pg_get_bool(result, number, ROW_WITHHELD),
	};
	size_t length;
	row_r->event_id =
		(const unsigned char *)pg_get_bytes(result, number, ROW_EVENT_ID, &length);
	if (!pg_null(result, number, ROW_PARTITION))
		row_r->partition = pg_get_int4(result, number, ROW_PARTITION);
}
