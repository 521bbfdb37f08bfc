/* The headers of a message, out of the JSON object in which they were kept. */
#include "kept_headers.h"

#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "mem.h"

#define NO_VALUE SIZE_MAX

/* While the text grows, places in it stand for pointers. */
struct place {
	size_t name, value, length;
};

struct reading {
	struct kept_headers *headers;
	struct place *places;
};

static size_t keep(struct buf *text, const char *data, size_t length)
{
	size_t at = text->length;

	buf_add(text, data, length);
	buf_add_char(text, '\0');
	return at;
}

static unsigned digit(char c)
{
	return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* {"hex":"00ff"}, as we wrote it. */
static bool keep_hex(struct buf *text, const struct json_value *value, struct place *place)
{
	static const char before[] = "{\"hex\":\"", after[] = "\"}";
	const size_t around = sizeof(before) - 1 + sizeof(after) - 1;
	const char *digits = value->text + sizeof(before) - 1;

	if (value->length < around || value->length % 2 != 0 ||
	    memcmp(value->text, before, sizeof(before) - 1) != 0)
		return false;
	place->length = (value->length - around) / 2;
	place->value = text->length;
	for (size_t i = 0; i < place->length; i++)
		buf_add_char(text, (char)(digit(digits[2 * i]) << 4 | digit(digits[2 * i + 1])));
	buf_add_char(text, '\0');
	return true;
}

static bool keep_value(struct buf *text, const struct json_value *value, struct place *place)
{
	switch (value->type) {
	case JSON_STRING:
		place->length = value->length;
		place->value = keep(text, value->text, value->length);
		return true;
	case JSON_NULL:
		place->value = NO_VALUE;
		return true;
	case JSON_CONTAINER:
		return keep_hex(text, value, place);
	case JSON_MISSING:
	case JSON_BOOL:
	case JSON_NUMBER:
		break;
	}
	return false;
}

static bool take_member(void *arg, const char *name, size_t name_length,
			const struct json_value *value, struct err *err)
{
	struct reading *reading = arg;
	struct kept_headers *headers = reading->headers;
	struct place place = { .name = keep(&headers->text, name, name_length) };

	if (!keep_value(&headers->text, value, &place))
		return err_set(err, "header %.64s: not as it was kept", name);
	reading->places = mem_grow(reading->places, headers->count + 1, sizeof(*reading->places));
	reading->places[headers->count++] = place;
	return true;
}

static void resolve(const struct reading *reading)
{
	struct kept_headers *headers = reading->headers;

	headers->items = mem_zero((headers->count + 1) * sizeof(*headers->items));
	for (size_t i = 0; i < headers->count; i++) {
		const struct place *place = &reading->places[i];

		headers->items[i] = (struct event_header){
			.name = headers->text.data + place->name,
			.value =
				place->value == NO_VALUE ? NULL : headers->text.data + place->value,
			.length = place->length,
		};
	}
}

bool kept_headers_read(const char *json, size_t length, struct err *err,
		       struct kept_headers *headers_r)
{
	struct kept_headers headers = { 0 };
	struct reading reading = { .headers = &headers };
	bool good = length == 0 || json_members(json, length, err, take_member, &reading);

	if (good)
		resolve(&reading);
	free(reading.places);
	if (!good) {
		kept_headers_done(&headers);
		return false;
	}
	*headers_r = headers;
	return true;
}

void kept_headers_done(struct kept_headers *headers)
{
	buf_done(&headers->text);
	free(headers->items);
	*headers = (struct kept_headers){ 0 };
}
