/* A dead or parked row. */
#include "data/dead_row.h"

#include <stdlib.h>

#include "data/sql_relay.h"
#include "mem.h"

struct dead_row dead_row_of(const PGresult *rows, int row)
{
	const char *topic = pg_get_text(rows, row, DEAD_TOPIC);
	return (struct dead_row){ .id = pg_get_int8(rows, row, DEAD_ID),
				  .parked = pg_get_bool(rows, row, DEAD_PARKED),
				  .source = pg_get_text(rows, row, DEAD_SOURCE),
				  .event = pg_get_text(rows, row, DEAD_EVENT),
				  .topic = topic ? topic : "",
				  .key = pg_get_text(rows, row, DEAD_KEY) };
}

void dead_row_copy(const struct dead_row *from, struct dead_row *row_r)
{
	*row_r = (struct dead_row){ .id = from->id,
				    .parked = from->parked,
				    .source = mem_text(from->source),
				    .event = mem_text(from->event),
				    .topic = mem_text(from->topic),
				    .key = mem_text(from->key) };
}

static void free_text(const char *text)
{
	union {
		const char *in;
		char *out;
	} same = { .in = text };
	free(same.out);
}

void dead_row_done(struct dead_row *row)
{
	free_text(row->source);
	free_text(row->event);
	free_text(row->topic);
	free_text(row->key);
	*row = (struct dead_row){ 0 };
}
