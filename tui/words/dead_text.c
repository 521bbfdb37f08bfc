/* A dead or parked row in full. */
#include "words/dead_text.h"

#include <string.h>

#include "data/sql_relay.h"
#include "words/clean.h"
#include "words/format.h"
#include "words/pretty.h"

enum { OTHERS_TOLD = 20 };

const char *dead_word(const PGresult *rows, int row)
{
	return pg_get_bool(rows, row, DEAD_PARKED) ? "parked" : "dead";
}

static void add_name(struct buf *out, const char *name)
{
	buf_addf(out, "%-13s", name);
}

static void add_field(struct buf *out, const char *name, const char *text)
{
	if (!text || !*text)
		return;
	add_name(out, name);
	clean_add(out, text, strlen(text));
	buf_add_char(out, '\n');
}

static void add_time(struct buf *out, const char *name, usec_t wall, enum conf_zone zone)
{
	char text[FORMAT_SIZE];
	if (wall != USEC_NEVER)
		add_field(out, name, format_time(wall, zone, text));
}

static void add_facts(const PGresult *rows, int row, enum conf_zone zone, struct buf *out)
{
	char text[FORMAT_SIZE];
	add_name(out, "row");
	buf_addf(out, "%lld of ", (long long)pg_get_int8(rows, row, DEAD_ID));
	clean_add(out, pg_get_text(rows, row, DEAD_SOURCE),
		  strlen(pg_get_text(rows, row, DEAD_SOURCE)));
	buf_addf(out, ", %s for %s\n", dead_word(rows, row),
		 format_age(pg_get_int8(rows, row, DEAD_AGE), text));
	add_field(out, "reason", pg_get_text(rows, row, DEAD_REASON));
	add_field(out, "event", pg_get_text(rows, row, DEAD_EVENT));
	add_field(out, "topic", pg_get_text(rows, row, DEAD_TOPIC));
	if (!pg_null(rows, row, DEAD_PARTITION)) {
		add_name(out, "partition");
		buf_addf(out, "%lld\n", (long long)pg_get_int8(rows, row, DEAD_PARTITION));
	}
	add_field(out, "type", pg_get_text(rows, row, DEAD_TYPE));
	add_field(out, "ordering key", pg_get_text(rows, row, DEAD_KEY));
	add_field(out, "size", format_size(pg_get_int8(rows, row, DEAD_SIZE), text));
	add_time(out, "created", pg_get_time(rows, row, DEAD_CREATED), zone);
	add_time(out, dead_word(rows, row), pg_get_time(rows, row, DEAD_AT), zone);
	add_field(out, "given up by", pg_get_text(rows, row, DEAD_OWNER));
}

/* The dead row that a parked one waits for, or what waits behind a dead one. */
static void add_others(const PGresult *rows, int row, const PGresult *others, struct buf *out)
{
	bool parked = pg_get_bool(rows, row, DEAD_PARKED);
	int told = 0, count = others ? pg_rows(others) : 0;
	for (int i = 0; i < count && told < OTHERS_TOLD; i++) {
		const char *type = pg_get_text(others, i, BEHIND_TYPE);
		if (parked && pg_get_bool(others, i, BEHIND_PARKED))
			continue;
		add_name(out, told++ ? "" : parked ? "waits behind" : "of its key");
		buf_addf(out, "%lld  %s  ", (long long)pg_get_int8(others, i, BEHIND_ID),
			 pg_get_bool(others, i, BEHIND_PARKED) ? "parked" : "dead");
		clean_add(out, type ? type : "", strlen(type ? type : ""));
		buf_add_char(out, '\n');
	}
	if (told == OTHERS_TOLD) {
		add_name(out, "");
		buf_add_text(out, "and more\n");
	}
}

/* Line by line, each sanitised by itself. */
static void add_lines(const struct buf *text, struct buf *out)
{
	for (size_t at = 0; at < text->length;) {
		const char *line = text->data + at;
		const char *end = memchr(line, '\n', text->length - at);
		size_t part = end ? (size_t)(end - line) : text->length - at;
		buf_add_text(out, "  ");
		clean_add(out, line, part);
		buf_add_char(out, '\n');
		at += part + 1;
	}
}

static void add_block(const PGresult *rows, int row, int column, const char *title, bool raw,
		      struct buf *out)
{
	BUF_AUTO struct buf text = { 0 };
	char size[FORMAT_SIZE];
	size_t length;
	const char *bytes = pg_get_bytes(rows, row, column, &length);
	int64_t whole = pg_get_int8(rows, row, column + 1);
	if (!bytes)
		return;
	bool cut = (int64_t)length < whole;
	if (raw || !pretty_json(&text, bytes, length, cut))
		buf_add(&text, bytes, length);
	buf_addf(out, "\n%s, %s%s\n", title, format_size(whole, size),
		 cut ? ", its beginning:" : ":");
	add_lines(&text, out);
}

void dead_text(const PGresult *rows, int row, const PGresult *others, bool raw, enum conf_zone zone,
	       struct buf *out)
{
	bool own = pg_null(rows, row, DEAD_ROW);
	add_facts(rows, row, zone, out);
	add_others(rows, row, others, out);
	add_block(rows, row, DEAD_MESSAGE_KEY, "message key", true, out);
	add_block(rows, row, DEAD_HEADERS, "headers", raw, out);
	if (own && pg_null(rows, row, DEAD_PAYLOAD))
		buf_add_text(out, "\nno payload: a tombstone\n");
	add_block(rows, row, DEAD_PAYLOAD, "payload", raw, out);
	add_block(rows, row, DEAD_ROW, "the row as text", true, out);
}
