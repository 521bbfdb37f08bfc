/* Parameters and arrays in PostgreSQL's binary form: big-endian; a text is its bytes, an interval
 * microseconds, days and months, a timestamptz the microseconds since 2000. */
#include "pg.h"

#include <endian.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "pg/pg_private.h"

static const struct {
	Oid item;
	Oid array;
} oids[] = {
	[PG_BOOL] = { PG_OID_BOOL, 1000 },         [PG_INT4] = { PG_OID_INT4, 1007 },
	[PG_INT8] = { PG_OID_INT8, 1016 },         [PG_TEXT] = { PG_OID_TEXT, 1009 },
	[PG_BYTEA] = { PG_OID_BYTEA, 1001 },       [PG_UUID] = { PG_OID_UUID, 2951 },
	[PG_INTERVAL] = { PG_OID_INTERVAL, 1187 }, [PG_TIME] = { PG_OID_TIMESTAMPTZ, 1185 },
	[PG_JSONB] = { PG_OID_JSONB, 3807 },
};

static const int all_binary[PG_PARAMS_MAX] = { [0 ... PG_PARAMS_MAX - 1] = 1 };

struct interval {
	uint64_t usec;
	uint32_t days;
	uint32_t months;
};

static void put_int4(struct buf *buf, int32_t value)
{
	uint32_t wire = htobe32((uint32_t)value);
	buf_add(buf, &wire, sizeof(wire));
}

static int32_t checked_length(size_t length)
{
	if (length > INT32_MAX - 1)
		abort(); /* PostgreSQL takes no value over 1 GiB; every body has a cap far below */
	return (int32_t)length;
}

/* --- parameters --- */

/* A new last parameter, whose bytes the caller appends. */
static void begin(struct pg_params *params, Oid type, int length)
{
	if (params->count == PG_PARAMS_MAX)
		abort(); /* a statement of ours has more parameters than that */
	params->types[params->count] = type;
	params->lengths[params->count] = length;
	params->offsets[params->count] = params->data.length;
	params->count++;
}

static void add(struct pg_params *params, Oid type, const void *data, size_t length)
{
	begin(params, type, data ? checked_length(length) : -1);
	if (data)
		buf_add(&params->data, data, length);
}

void pg_params_done(struct pg_params *params)
{
	buf_done(&params->data);
	params->count = 0;
}

void pg_params_clear(struct pg_params *params)
{
	buf_clear(&params->data);
	params->count = 0;
}

void pg_add_bool(struct pg_params *params, bool value)
{
	char wire = value;
	add(params, PG_OID_BOOL, &wire, sizeof(wire));
}

void pg_add_int4(struct pg_params *params, int32_t value)
{
	uint32_t wire = htobe32((uint32_t)value);
	add(params, PG_OID_INT4, &wire, sizeof(wire));
}

void pg_add_int8(struct pg_params *params, int64_t value)
{
	uint64_t wire = htobe64((uint64_t)value);
	add(params, PG_OID_INT8, &wire, sizeof(wire));
}

void pg_add_text(struct pg_params *params, const char *text)
{
	add(params, PG_OID_TEXT, text, text ? strlen(text) : 0);
}

void pg_add_text_n(struct pg_params *params, const char *text, size_t length)
{
	add(params, PG_OID_TEXT, text, length);
}

void pg_add_bytea(struct pg_params *params, const void *data, size_t length)
{
	add(params, PG_OID_BYTEA, data, length);
}

static struct interval wire_interval(usec_t usec)
{
	return (struct interval){ .usec = htobe64((uint64_t)usec) };
}

static uint64_t wire_time(usec_t wall)
{
	return htobe64((uint64_t)(wall - PG_EPOCH));
}

void pg_add_interval(struct pg_params *params, usec_t usec)
{
	struct interval wire = wire_interval(usec);
	add(params, PG_OID_INTERVAL, usec == USEC_NEVER ? NULL : &wire, sizeof(wire));
}

void pg_add_time(struct pg_params *params, usec_t wall)
{
	uint64_t wire = wire_time(wall);
	add(params, PG_OID_TIMESTAMPTZ, wall == USEC_NEVER ? NULL : &wire, sizeof(wire));
}

void pg_arguments(const struct pg_params *params, struct pg_arguments *arguments_r)
{
	arguments_r->count = params ? params->count : 0;
	if (!params)
		return;
	arguments_r->types = params->types;
	arguments_r->lengths = params->lengths;
	arguments_r->formats = all_binary;
	const char *data = buf_text(&params->data);
	for (int i = 0; i < params->count; i++)
		arguments_r->values[i] = params->lengths[i] < 0 ? NULL : data + params->offsets[i];
}

/* --- arrays --- */

void pg_array_init(struct pg_array *array, enum pg_type type)
{
	*array = (struct pg_array){ .type = type };
}

void pg_array_done(struct pg_array *array)
{
	buf_done(&array->data);
	array->count = 0;
	array->has_null = false;
}

void pg_array_clear(struct pg_array *array)
{
	buf_clear(&array->data);
	array->count = 0;
	array->has_null = false;
}

static void append(struct pg_array *array, const void *data, size_t length)
{
	put_int4(&array->data, checked_length(length));
	buf_add(&array->data, data, length);
	array->count++;
}

/* A value put into a column of another type would be read as garbage, not refused. */
static void expect(bool right)
{
	if (!right)
		abort();
}

void pg_array_null(struct pg_array *array)
{
	put_int4(&array->data, -1);
	array->has_null = true;
	array->count++;
}

void pg_array_bool(struct pg_array *array, bool value)
{
	expect(array->type == PG_BOOL);
	char wire = value;
	append(array, &wire, sizeof(wire));
}

void pg_array_int4(struct pg_array *array, int32_t value)
{
	expect(array->type == PG_INT4);
	uint32_t wire = htobe32((uint32_t)value);
	append(array, &wire, sizeof(wire));
}

void pg_array_int8(struct pg_array *array, int64_t value)
{
	expect(array->type == PG_INT8);
	uint64_t wire = htobe64((uint64_t)value);
	append(array, &wire, sizeof(wire));
}

void pg_array_text(struct pg_array *array, const char *text)
{
	pg_array_bytes(array, text, text ? strlen(text) : 0);
}

void pg_array_bytes(struct pg_array *array, const void *data, size_t length)
{
	switch (array->type) {
	case PG_TEXT:
	case PG_BYTEA:
	case PG_JSONB:
		break;
	case PG_UUID:
		expect(!data || length == 16);
		break;
	case PG_BOOL:
	case PG_INT4:
	case PG_INT8:
	case PG_INTERVAL:
	case PG_TIME:
		abort();
	}
	if (!data) {
		pg_array_null(array);
	} else if (array->type == PG_JSONB) {
		put_int4(&array->data, checked_length(length) + 1);
		buf_add_char(&array->data, 1); /* version of the format: text follows */
		buf_add(&array->data, data, length);
		array->count++;
	} else {
		append(array, data, length);
	}
}

void pg_array_usec(struct pg_array *array, usec_t usec)
{
	expect(array->type == PG_INTERVAL || array->type == PG_TIME);
	if (usec == USEC_NEVER) {
		pg_array_null(array);
	} else if (array->type == PG_INTERVAL) {
		struct interval wire = wire_interval(usec);
		append(array, &wire, sizeof(wire));
	} else {
		uint64_t wire = wire_time(usec);
		append(array, &wire, sizeof(wire));
	}
}

void pg_add_array(struct pg_params *params, const struct pg_array *array)
{
	int dimensions = array->count > 0;
	size_t header = dimensions ? 20 : 12;
	begin(params, oids[array->type].array, checked_length(header + array->data.length));
	put_int4(&params->data, dimensions);
	put_int4(&params->data, array->has_null);
	put_int4(&params->data, (int32_t)oids[array->type].item);
	if (!dimensions)
		return;
	put_int4(&params->data, array->count);
	put_int4(&params->data, 1); /* subscripts begin with 1 */
	buf_add(&params->data, array->data.data, array->data.length);
}
