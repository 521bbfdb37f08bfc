/* The parts of a key's detail. */
#include "words/key_text.h"

#include <string.h>

#include "data/lists.h"
#include "data/sql_console.h"
#include "words/format.h"
#include "words/pretty.h"

const char *section_title(enum section section)
{
	static const char *const titles[] = {
#define X(symbol, title) [SECTION_##symbol] = title,
		SECTIONS(X)
#undef X
	};
	return titles[section];
}

void key_text_outcome(const PGresult *attempts, int row, struct buf *out)
{
	const char *error = pg_get_text(attempts, row, ATTEMPT_ERROR);
	size_t from = out->length;
	buf_add_text(out, pg_get_text(attempts, row, ATTEMPT_OUTCOME));
	for (size_t i = from; i < out->length; i++)
		if (out->data[i] == '_')
			out->data[i] = ' ';
	if (!pg_null(attempts, row, ATTEMPT_STATUS))
		buf_addf(out, ", http %lld", (long long)pg_get_int8(attempts, row, ATTEMPT_STATUS));
	if (error && *error)
		buf_addf(out, ": %s", error);
	if (pg_get_bool(attempts, row, ATTEMPT_LATE))
		buf_add_text(out, " (late: kept as evidence)");
}

/* --- bodies --- */

/* *size_r: of the whole; NULL: there is none. */
static const char *body_of(const struct key_text *text, enum section section, size_t *length_r,
			   int64_t *size_r)
{
	bool request = section == SECTION_REQUEST && text->key && pg_rows(text->key);
	bool response = section == SECTION_RESPONSE && text->response && text->attempt >= 0 &&
			pg_rows(text->response);
	if (request) {
		*size_r = pg_get_int8(text->key, 0, KEY_BODY_SIZE);
		return pg_get_bytes(text->key, 0, KEY_BODY, length_r);
	}
	if (response) {
		*size_r = pg_get_int8(text->attempts, text->attempt, ATTEMPT_BODY_SIZE);
		return pg_get_bytes(text->response, 0, 0, length_r);
	}
	return NULL;
}

static void add_body(const struct key_text *text, enum section section, struct buf *out)
{
	char size[FORMAT_SIZE];
	size_t length = 0;
	int64_t whole = 0;
	const char *body = body_of(text, section, &length, &whole);
	if (!body || !whole) {
		buf_add_text(out, "(no body)\n");
		return;
	}
	bool cut = (int64_t)length < whole;
	if (text->raw || !pretty_json(out, body, length, cut))
		buf_add(out, body, length);
	buf_add_char(out, '\n');
	if (cut)
		buf_addf(out, "... %s more\n", format_size(whole - (int64_t)length, size));
}

void key_text_size(const struct key_text *text, enum section section, struct buf *out)
{
	BUF_AUTO struct buf trial = { 0 };
	char size[FORMAT_SIZE];
	size_t length = 0;
	int64_t whole = 0;
	const char *body = body_of(text, section, &length, &whole);
	if (!body || !whole)
		return;
	bool json = pretty_json(&trial, body, length, (int64_t)length < whole);
	buf_addf(out, "%s%s", format_size(whole, size),
		 !json       ? ""
		 : text->raw ? "  json, raw"
			     : "  json");
}

/* --- sections --- */

static void add_request(const struct key_text *text, struct buf *out)
{
	if (pg_null(text->key, 0, KEY_METHOD)) {
		bool dead = strcmp(pg_get_text(text->key, 0, KEY_STATE), "dead") == 0;
		buf_add_text(out, dead ? "The request could not be made from the event.\n"
				       : "The request is not kept any more.\n");
		return;
	}
	buf_addf(out, "%s %s\n", pg_get_text(text->key, 0, KEY_METHOD),
		 pg_get_text(text->key, 0, KEY_URL));
	add_body(text, SECTION_REQUEST, out);
}

static void add_response(const struct key_text *text, struct buf *out)
{
	if (text->attempt < 0)
		return;
	if (pg_null(text->attempts, text->attempt, ATTEMPT_STATUS)) {
		buf_add_text(out, "There was no answer: ");
		key_text_outcome(text->attempts, text->attempt, out);
		buf_add_char(out, '\n');
		return;
	}
	key_text_outcome(text->attempts, text->attempt, out);
	if (pg_get_bool(text->attempts, text->attempt, ATTEMPT_CUT))
		buf_add_text(out, "   (only its beginning was kept)");
	buf_add_char(out, '\n');
	add_body(text, SECTION_RESPONSE, out);
}

static void add_error(const struct key_text *text, struct buf *out)
{
	const char *class = pg_get_text(text->key, 0, KEY_ERROR);
	const char *error = text->attempt < 0
				    ? NULL
				    : pg_get_text(text->attempts, text->attempt, ATTEMPT_ERROR);
	buf_addf(out, "class   %s\n", *class ? class : "none");
	if (text->attempt >= 0)
		buf_addf(out, "attempt %lld, ",
			 (long long)pg_get_int8(text->attempts, text->attempt, ATTEMPT_N));
	if (text->attempt >= 0)
		key_text_outcome(text->attempts, text->attempt, out);
	buf_add_char(out, '\n');
	if (!error)
		buf_add_text(out, "(no text)\n");
}

static void add_bytes(struct buf *out, const PGresult *result, int row, int column)
{
	size_t length = 0;
	const char *bytes = pg_get_bytes(result, row, column, &length);
	if (!bytes || !length) {
		buf_add_text(out, "(none)\n");
		return;
	}
	/* lines end by CR LF as they came from the wire */
	for (size_t i = 0; i < length; i++)
		if (bytes[i] != '\r' || i + 1 == length || bytes[i + 1] != '\n')
			buf_add_char(out, bytes[i]);
	if (bytes[length - 1] != '\n')
		buf_add_char(out, '\n');
}

static void add_headers(const struct key_text *text, struct buf *out)
{
	buf_add_text(out, "REQUEST, without its secrets\n");
	add_bytes(out, text->key, 0, KEY_HEADERS);
	buf_add_text(out, "\nRESPONSE\n");
	if (text->attempt >= 0)
		add_bytes(out, text->attempts, text->attempt, ATTEMPT_HEAD);
}

static void add_audit_row(const struct key_text *text, int row, struct buf *out)
{
	const PGresult *audit = text->audit;
	char time[FORMAT_SIZE];
	const char *os_user = pg_get_text(audit, row, AUDIT_OS_USER);
	const char *from = pg_get_text(audit, row, AUDIT_ADDRESS);
	const char *reason = pg_get_text(audit, row, AUDIT_REASON);
	const char *before = pg_get_text(audit, row, AUDIT_FROM);
	const char *after = pg_get_text(audit, row, AUDIT_TO);
	buf_addf(out, "%s  %s by %s",
		 format_time(pg_get_time(audit, row, AUDIT_AT), text->zone, time),
		 pg_get_text(audit, row, AUDIT_ACTION), pg_get_text(audit, row, AUDIT_WHO));
	if (os_user)
		buf_addf(out, " (%s%s%s)", os_user, from ? " at " : "", from ? from : "");
	buf_addf(out, ": %s, %s", pg_get_text(audit, row, AUDIT_RESULT),
		 pg_get_text(audit, row, AUDIT_DETAIL));
	if (strcmp(before, after) != 0)
		buf_addf(out, "; %s -> %s", list_state_title(before), list_state_title(after));
	if (reason)
		buf_addf(out, "; reason: %s", reason);
	buf_add_char(out, '\n');
}

static void add_audit(const struct key_text *text, struct buf *out)
{
	if (!pg_rows(text->audit))
		buf_add_text(out, "Nobody has done anything to this key.\n");
	for (int row = 0; row < pg_rows(text->audit); row++)
		add_audit_row(text, row, out);
}

void key_text_section(const struct key_text *text, enum section section, struct buf *out)
{
	if (!text->key || !text->attempts || !text->audit || !pg_rows(text->key))
		return;
	switch (section) {
	case SECTION_REQUEST:
		add_request(text, out);
		break;
	case SECTION_RESPONSE:
		add_response(text, out);
		break;
	case SECTION_ERROR:
		add_error(text, out);
		break;
	case SECTION_HEADERS:
		add_headers(text, out);
		break;
	case SECTION_AUDIT:
		add_audit(text, out);
		break;
	case SECTION_COUNT:
		break;
	}
}
