/* Reading binary results. Values are decoded where they are read; bytes are lent, never copied. */
#include "pg.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "pg/pg_private.h"

/* A column read as what it is not: a fault of this program that must not become a wrong number. */
static _Noreturn void wrong_type(const PGresult *result, int column, const char *wanted)
{
	fprintf(stderr, "column \"%s\" of type %u read as %s\n", PQfname(result, column),
		PQftype(result, column), wanted);
	abort();
}

static int32_t int4_at(const char *data)
{
	uint32_t wire;
	memcpy(&wire, data, sizeof(wire));
	return (int32_t)be32toh(wire);
}

static int64_t int8_at(const char *data)
{
	uint64_t wire;
	memcpy(&wire, data, sizeof(wire));
	return (int64_t)be64toh(wire);
}

PGresult *pg_keep(const PGresult *result)
{
	PGresult *kept = PQcopyResult(result, PG_COPYRES_ATTRS | PG_COPYRES_TUPLES);
	if (!kept)
		abort();
	return kept;
}

void pg_drop(PGresult *kept)
{
	PQclear(kept);
}

int pg_rows(const PGresult *result)
{
	return PQntuples(result);
}

int pg_affected(const PGresult *result)
{
	/* libpq asks for a pointer that it does not write through */
	union {
		const PGresult *in;
		PGresult *out;
	} same = { .in = result };
	return (int)strtol(PQcmdTuples(same.out), NULL, 10);
}

bool pg_null(const PGresult *result, int row, int column)
{
	return PQgetisnull(result, row, column);
}

bool pg_get_bool(const PGresult *result, int row, int column)
{
	if (PQftype(result, column) != PG_OID_BOOL)
		wrong_type(result, column, "bool");
	return !pg_null(result, row, column) && PQgetvalue(result, row, column)[0] != 0;
}

int32_t pg_get_int4(const PGresult *result, int row, int column)
{
	if (PQftype(result, column) != PG_OID_INT4)
		wrong_type(result, column, "int4");
	return pg_null(result, row, column) ? 0 : int4_at(PQgetvalue(result, row, column));
}

int64_t pg_get_int8(const PGresult *result, int row, int column)
{
	if (PQftype(result, column) == PG_OID_INT4)
		return pg_get_int4(result, row, column);
	if (PQftype(result, column) != PG_OID_INT8)
		wrong_type(result, column, "int8");
	return pg_null(result, row, column) ? 0 : int8_at(PQgetvalue(result, row, column));
}

const char *pg_get_bytes(const PGresult *result, int row, int column, size_t *length_r)
{
	*length_r = 0;
	if (pg_null(result, row, column))
		return NULL;
	const char *data = PQgetvalue(result, row, column);
	size_t length = (size_t)PQgetlength(result, row, column);
	bool versioned = PQftype(result, column) == PG_OID_JSONB;
	*length_r = length - versioned;
	return data + versioned;
}

const char *pg_get_text(const PGresult *result, int row, int column)
{
	size_t length;
	return pg_get_bytes(result, row, column, &length);
}

usec_t pg_get_time(const PGresult *result, int row, int column)
{
	if (PQftype(result, column) != PG_OID_TIMESTAMPTZ)
		wrong_type(result, column, "timestamptz");
	usec_t wall;
	if (pg_null(result, row, column) ||
	    __builtin_add_overflow(int8_at(PQgetvalue(result, row, column)), PG_EPOCH, &wall))
		return USEC_NEVER; /* 'infinity' is the largest number and overflows too */
	return wall;
}

int64_t *pg_get_int8_array(const PGresult *result, int row, int column, size_t *count_r)
{
	enum { HEADER = 20, ITEM = 12 };
	if (PQftype(result, column) != 1016)
		wrong_type(result, column, "int8[]");
	const char *data = PQgetvalue(result, row, column);
	bool empty = pg_null(result, row, column) || int4_at(data) == 0;
	size_t count = empty ? 0 : (size_t)int4_at(data + 12);
	if (count && (size_t)PQgetlength(result, row, column) != HEADER + count * ITEM)
		wrong_type(result, column, "a flat int8[] without NULLs");
	int64_t *items = mem_zero((count ? count : 1) * sizeof(*items));
	for (size_t i = 0; i < count; i++)
		items[i] = int8_at(data + HEADER + i * ITEM + 4);
	*count_r = count;
	return items;
}
