/* counterfoil show */
#include "commands/command_show.h"

#include <stdio.h>
#include <string.h>

#include "commands/call.h"
#include "data/sql_console.h"
#include "words/clean.h"
#include "words/format.h"
#include "words/pretty.h"
#include "words/row_text.h"
#include "words/story.h"
#include "words/writer.h"

enum { ATTEMPTS_MAX = 100 };

static const char usage[] =
	"usage: counterfoil show KEY|ID [--target T] [--tenant T] [--json] [--config FILE]\n"
	"One key in full: why it is where it is, its request, its attempts and what was done to "
	"it.\n"
	"Of a body the first 64 KiB are shown.\n";

/* All that is known of the key. */
struct shown {
	PGresult *key, *attempts, *audit;
	PGresult *response; /* of the last attempt; NULL: there was none */
};

static void shown_done(struct shown *shown)
{
	pg_result_done(&shown->key);
	pg_result_done(&shown->attempts);
	pg_result_done(&shown->audit);
	pg_result_done(&shown->response);
}

/* --- as JSON --- */

static void json_body(struct writer *writer, const PGresult *result, int column, int64_t size)
{
	size_t length;
	const char *body = pg_get_bytes(result, 0, column, &length);
	writer_bytes(writer, "body", body, length);
	writer_int(writer, "body_size", size);
	writer_bool(writer, "body_cut", body && (int64_t)length < size);
}

static void json_request(struct writer *writer, const PGresult *key)
{
	size_t length;
	const char *headers = pg_get_bytes(key, 0, KEY_HEADERS, &length);
	writer_open(writer, "request", '{');
	writer_text(writer, "method", pg_get_text(key, 0, KEY_METHOD));
	writer_text(writer, "url", pg_get_text(key, 0, KEY_URL));
	writer_text(writer, "idempotency_key", pg_get_text(key, 0, KEY_PROVIDER_KEY));
	writer_bytes(writer, "headers", headers, length);
	json_body(writer, key, KEY_BODY, pg_get_int8(key, 0, KEY_BODY_SIZE));
	writer_close(writer, '}');
}

static void json_attempt(struct writer *writer, const PGresult *attempts, int row)
{
	size_t length;
	const char *head = pg_get_bytes(attempts, row, ATTEMPT_HEAD, &length);
	writer_open(writer, NULL, '{');
	writer_int(writer, "n", pg_get_int8(attempts, row, ATTEMPT_N));
	writer_time(writer, "started_at", pg_get_time(attempts, row, ATTEMPT_STARTED));
	if (pg_null(attempts, row, ATTEMPT_TOOK))
		writer_text(writer, "took_us", NULL);
	else
		writer_int(writer, "took_us", pg_get_int8(attempts, row, ATTEMPT_TOOK));
	writer_text(writer, "outcome", pg_get_text(attempts, row, ATTEMPT_OUTCOME));
	if (pg_null(attempts, row, ATTEMPT_STATUS))
		writer_text(writer, "http_status", NULL);
	else
		writer_int(writer, "http_status", pg_get_int8(attempts, row, ATTEMPT_STATUS));
	writer_text(writer, "error", pg_get_text(attempts, row, ATTEMPT_ERROR));
	writer_text(writer, "owner", pg_get_text(attempts, row, ATTEMPT_OWNER));
	writer_text(writer, "provider_key", pg_get_text(attempts, row, ATTEMPT_PROVIDER_KEY));
	writer_text(writer, "provider_id", pg_get_text(attempts, row, ATTEMPT_PROVIDER_ID));
	writer_bytes(writer, "response_head", head, length);
	writer_int(writer, "response_size", pg_get_int8(attempts, row, ATTEMPT_BODY_SIZE));
	writer_bool(writer, "response_cut", pg_get_bool(attempts, row, ATTEMPT_CUT));
	writer_bool(writer, "late", pg_get_bool(attempts, row, ATTEMPT_LATE));
	writer_close(writer, '}');
}

static void json_audit(struct writer *writer, const PGresult *audit, int row)
{
	writer_open(writer, NULL, '{');
	writer_time(writer, "at", pg_get_time(audit, row, AUDIT_AT));
	writer_text(writer, "who", pg_get_text(audit, row, AUDIT_WHO));
	writer_text(writer, "os_user", pg_get_text(audit, row, AUDIT_OS_USER));
	writer_text(writer, "from", pg_get_text(audit, row, AUDIT_ADDRESS));
	writer_text(writer, "action", pg_get_text(audit, row, AUDIT_ACTION));
	writer_text(writer, "result", pg_get_text(audit, row, AUDIT_RESULT));
	writer_text(writer, "detail", pg_get_text(audit, row, AUDIT_DETAIL));
	writer_text(writer, "reason", pg_get_text(audit, row, AUDIT_REASON));
	writer_text(writer, "from_state", pg_get_text(audit, row, AUDIT_FROM));
	writer_text(writer, "to_state", pg_get_text(audit, row, AUDIT_TO));
	writer_text(writer, "operation", pg_get_text(audit, row, AUDIT_OPERATION));
	writer_close(writer, '}');
}

static void json_key(struct writer *writer, const PGresult *key)
{
	writer_int(writer, "id", pg_get_int8(key, 0, KEY_ID));
	writer_text(writer, "key", pg_get_text(key, 0, KEY_KEY));
	writer_text(writer, "target", pg_get_text(key, 0, KEY_TARGET));
	writer_text(writer, "tenant", pg_get_text(key, 0, KEY_TENANT));
	writer_text(writer, "state", pg_get_text(key, 0, KEY_STATE));
	writer_bool(writer, "stale", pg_get_bool(key, 0, KEY_STALE));
	writer_bool(writer, "shadow", key_is_shadow(key));
	writer_time(writer, "since", pg_get_time(key, 0, KEY_SINCE));
	writer_age(writer, "age_seconds", pg_get_int8(key, 0, KEY_AGE));
	writer_text(writer, "effect", pg_get_text(key, 0, KEY_EFFECT));
	writer_text(writer, "mode", pg_get_text(key, 0, KEY_MODE));
	writer_text(writer, "topic", pg_get_text(key, 0, KEY_TOPIC));
	writer_int(writer, "partition", pg_get_int8(key, 0, KEY_PARTITION));
	writer_int(writer, "offset", pg_get_int8(key, 0, KEY_OFFSET));
	writer_text(writer, "event_id", pg_get_text(key, 0, KEY_EVENT_ID));
	writer_text(writer, "event_type", pg_get_text(key, 0, KEY_EVENT_TYPE));
	writer_text(writer, "subject", pg_get_text(key, 0, KEY_SUBJECT));
	writer_time(writer, "created_at", pg_get_time(key, 0, KEY_CREATED));
	writer_int(writer, "epoch", pg_get_int8(key, 0, KEY_EPOCH));
	writer_int(writer, "tries", pg_get_int8(key, 0, KEY_TRIES));
	writer_int(writer, "attempts_used", pg_get_int8(key, 0, KEY_ATTEMPTS));
	writer_int(writer, "unknown_sends", pg_get_int8(key, 0, KEY_UNKNOWN));
	writer_int(writer, "replays", pg_get_int8(key, 0, KEY_REPLAYS));
	writer_int(writer, "key_no", pg_get_int8(key, 0, KEY_NUMBER));
	writer_text(writer, "replay_of", pg_get_text(key, 0, KEY_REPLAY_OF));
	writer_text(writer, "replayed_as", pg_get_text(key, 0, KEY_FORCED));
	writer_text(writer, "resolution", pg_get_text(key, 0, KEY_RESOLUTION));
	writer_bool(writer, "stored_error", pg_get_bool(key, 0, KEY_STORED));
	writer_time(writer, "first_sent_at", pg_get_time(key, 0, KEY_FIRST_SENT));
	writer_time(writer, "sent_at", pg_get_time(key, 0, KEY_SENT));
	writer_time(writer, "window_until", pg_get_time(key, 0, KEY_WINDOW));
	writer_time(writer, "due_at", pg_get_time(key, 0, KEY_DUE));
	writer_text(writer, "outcome", pg_get_text(key, 0, KEY_OUTCOME));
	writer_text(writer, "error", pg_get_text(key, 0, KEY_ERROR));
	writer_text(writer, "provider_id", pg_get_text(key, 0, KEY_PROVIDER_ID));
	writer_text(writer, "owner", pg_get_text(key, 0, KEY_OWNER));
}

static void tell(const struct shown *shown, enum conf_zone zone, struct buf *out)
{
	char owner[64];
	struct story story;
	story_read(shown->key, owner, &story);
	story_tell(&story, zone, out);
}

static void print_json(const struct shown *shown)
{
	BUF_AUTO struct buf out = { 0 };
	BUF_AUTO struct buf why = { 0 };
	struct writer writer = { .out = &out };
	tell(shown, CONF_ZONE_UTC, &why);
	writer_open(&writer, NULL, '{');
	json_key(&writer, shown->key);
	writer_text(&writer, "why", buf_text(&why));
	json_request(&writer, shown->key);
	writer_open(&writer, "attempts", '[');
	for (int row = 0; row < pg_rows(shown->attempts); row++)
		json_attempt(&writer, shown->attempts, row);
	writer_close(&writer, ']');
	if (shown->response) {
		writer_open(&writer, "response", '{');
		json_body(&writer, shown->response, 0,
			  pg_get_int8(shown->attempts, 0, ATTEMPT_BODY_SIZE));
		writer_close(&writer, '}');
	}
	writer_open(&writer, "audit", '[');
	for (int row = 0; row < pg_rows(shown->audit); row++)
		json_audit(&writer, shown->audit, row);
	writer_close(&writer, ']');
	writer_close(&writer, '}');
	puts(buf_text(&out));
}

/* --- for people --- */

static void add_field(struct buf *out, const char *name, const char *text)
{
	if (!text || !*text)
		return;
	buf_addf(out, "%-17s", name);
	clean_add(out, text, strlen(text));
	buf_add_char(out, '\n');
}

static void add_time(struct buf *out, const char *name, usec_t wall, enum conf_zone zone)
{
	char text[FORMAT_SIZE];
	if (wall != USEC_NEVER)
		add_field(out, name, format_time(wall, zone, text));
}

/* Line by line, each sanitised by itself. */
static void add_block(struct buf *out, const char *title, const char *bytes, size_t length,
		      int64_t whole)
{
	BUF_AUTO struct buf text = { 0 };
	char size[FORMAT_SIZE];
	if (!bytes || !whole)
		return;
	bool cut = (int64_t)length < whole;
	if (!pretty_json(&text, bytes, length, cut))
		buf_add(&text, bytes, length);
	buf_addf(out, "\n%s, %s%s\n", title, format_size(whole, size),
		 cut ? ", its beginning:" : ":");
	for (size_t at = 0; at < text.length;) {
		const char *line = text.data + at;
		const char *end = memchr(line, '\n', text.length - at);
		size_t part = end ? (size_t)(end - line) : text.length - at;
		buf_add_text(out, "  ");
		clean_add(out, line, part);
		buf_add_char(out, '\n');
		at += part + 1;
	}
}

static void add_attempts(struct buf *out, const PGresult *attempts, enum conf_zone zone)
{
	char time[FORMAT_SIZE], took[FORMAT_SIZE], owner[64];
	if (pg_rows(attempts))
		buf_add_text(out, "\nattempts, newest first:\n");
	for (int row = 0; row < pg_rows(attempts); row++) {
		const char *error = pg_get_text(attempts, row, ATTEMPT_ERROR);
		usec_t ran = pg_null(attempts, row, ATTEMPT_TOOK)
				     ? USEC_NEVER
				     : pg_get_int8(attempts, row, ATTEMPT_TOOK);
		buf_addf(out, "  %lld  %s  %8s  %-12s  ",
			 (long long)pg_get_int8(attempts, row, ATTEMPT_N),
			 format_time(pg_get_time(attempts, row, ATTEMPT_STARTED), zone, time),
			 format_took(ran, took),
			 story_owner(pg_get_text(attempts, row, ATTEMPT_OWNER), owner,
				     sizeof(owner)));
		buf_add_text(out, pg_get_text(attempts, row, ATTEMPT_OUTCOME));
		if (!pg_null(attempts, row, ATTEMPT_STATUS))
			buf_addf(out, " %lld",
				 (long long)pg_get_int8(attempts, row, ATTEMPT_STATUS));
		if (error && *error) {
			buf_add_text(out, ": ");
			clean_add(out, error, strlen(error));
		}
		buf_add_text(out, pg_get_bool(attempts, row, ATTEMPT_LATE) ? " (late)\n" : "\n");
	}
}

static void add_audit(struct buf *out, const PGresult *audit, enum conf_zone zone)
{
	char time[FORMAT_SIZE];
	if (pg_rows(audit))
		buf_add_text(out, "\naudit, newest first:\n");
	for (int row = 0; row < pg_rows(audit); row++) {
		const char *reason = pg_get_text(audit, row, AUDIT_REASON);
		buf_addf(out, "  %s  ", format_time(pg_get_time(audit, row, AUDIT_AT), zone, time));
		clean_add(out, pg_get_text(audit, row, AUDIT_WHO),
			  strlen(pg_get_text(audit, row, AUDIT_WHO)));
		buf_addf(out, "  %s: %s, %s", pg_get_text(audit, row, AUDIT_ACTION),
			 pg_get_text(audit, row, AUDIT_RESULT),
			 pg_get_text(audit, row, AUDIT_DETAIL));
		if (reason) {
			buf_add_text(out, "; ");
			clean_add(out, reason, strlen(reason));
		}
		buf_add_char(out, '\n');
	}
}

static void add_key(struct buf *out, const PGresult *key, enum conf_zone zone)
{
	char text[FORMAT_SIZE + 64], age[FORMAT_SIZE];
	BUF_AUTO struct buf line = { 0 };
	(void)snprintf(text, sizeof(text), "%s for %s", key_state(key),
		       format_age(pg_get_int8(key, 0, KEY_AGE), age));
	add_field(out, "key", pg_get_text(key, 0, KEY_KEY));
	add_field(out, "state", text);
	add_field(out, "target", pg_get_text(key, 0, KEY_TARGET));
	add_field(out, "tenant", pg_get_text(key, 0, KEY_TENANT));
	buf_addf(&line, "%s, %s", pg_get_text(key, 0, KEY_EFFECT), pg_get_text(key, 0, KEY_MODE));
	add_field(out, "effect", buf_text(&line));
	add_field(out, "subject", pg_get_text(key, 0, KEY_SUBJECT));
	buf_clear(&line);
	buf_addf(&line, "%s of %s[%lld]@%lld", pg_get_text(key, 0, KEY_EVENT_ID),
		 pg_get_text(key, 0, KEY_TOPIC), (long long)pg_get_int8(key, 0, KEY_PARTITION),
		 (long long)pg_get_int8(key, 0, KEY_OFFSET));
	add_field(out, "event", buf_text(&line));
	add_field(out, "idempotency key", pg_get_text(key, 0, KEY_PROVIDER_KEY));
	add_field(out, "provider's id", pg_get_text(key, 0, KEY_PROVIDER_ID));
	add_field(out, "decided", pg_get_text(key, 0, KEY_RESOLUTION));
	add_field(out, "repeats", pg_get_text(key, 0, KEY_REPLAY_OF));
	add_field(out, "repeated as", pg_get_text(key, 0, KEY_FORCED));
	add_time(out, "recorded", pg_get_time(key, 0, KEY_CREATED), zone);
	add_time(out, "first sent", pg_get_time(key, 0, KEY_FIRST_SENT), zone);
	add_time(out, "last sent", pg_get_time(key, 0, KEY_SENT), zone);
	add_time(out, "window until", pg_get_time(key, 0, KEY_WINDOW), zone);
}

static void print_words(const struct shown *shown, enum conf_zone zone)
{
	BUF_AUTO struct buf out = { 0 };
	BUF_AUTO struct buf why = { 0 };
	BUF_AUTO struct buf line = { 0 };
	const PGresult *key = shown->key;
	size_t length;
	tell(shown, zone, &why);
	add_key(&out, key, zone);
	add_field(&out, "why", buf_text(&why));
	if (!pg_null(key, 0, KEY_METHOD))
		buf_addf(&line, "%s %s", pg_get_text(key, 0, KEY_METHOD),
			 pg_get_text(key, 0, KEY_URL));
	add_field(&out, "request", buf_text(&line));
	const char *bytes = pg_get_bytes(key, 0, KEY_HEADERS, &length);
	add_block(&out, "request headers", bytes, length, (int64_t)length);
	bytes = pg_get_bytes(key, 0, KEY_BODY, &length);
	add_block(&out, "request body", bytes, length, pg_get_int8(key, 0, KEY_BODY_SIZE));
	add_attempts(&out, shown->attempts, zone);
	if (shown->response) {
		bytes = pg_get_bytes(shown->response, 0, 0, &length);
		add_block(&out, "last response body", bytes, length,
			  pg_get_int8(shown->attempts, 0, ATTEMPT_BODY_SIZE));
	}
	add_audit(&out, shown->audit, zone);
	fputs(buf_text(&out), stdout);
}

/* --- reading it --- */

static bool read_response(struct call *call, int64_t id, struct shown *shown)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	if (!pg_rows(shown->attempts))
		return true;
	pg_add_int8(&params, id);
	pg_add_int4(&params, pg_get_int4(shown->attempts, 0, ATTEMPT_N));
	pg_add_int4(&params, pg_get_int4(shown->attempts, 0, ATTEMPT_EPOCH));
	pg_add_text(&params, pg_get_text(shown->attempts, 0, ATTEMPT_OUTCOME));
	if (!call_query(call, SQL_RESPONSE, &params, &shown->response))
		return false;
	if (pg_rows(shown->response) == 0 || pg_null(shown->response, 0, 0))
		pg_result_done(&shown->response);
	return true;
}

static bool read_all(struct call *call, int64_t id, struct shown *shown)
{
	PG_PARAMS_AUTO struct pg_params one = { 0 };
	PG_PARAMS_AUTO struct pg_params page = { 0 };
	pg_add_int8(&one, id);
	pg_add_int8(&page, id);
	pg_add_int8(&page, ATTEMPTS_MAX);
	return call_query(call, SQL_KEY, &one, &shown->key) &&
	       call_query(call, SQL_ATTEMPTS, &page, &shown->attempts) &&
	       call_query(call, SQL_AUDIT, &one, &shown->audit) && read_response(call, id, shown);
}

static enum exit_code show(struct call *call)
{
	enum exit_code code = EXIT_OK;
	struct shown shown = { 0 };
	int64_t id = 0;
	if (!call_find_key(call, &id, &code))
		return code;
	if (!read_all(call, id, &shown))
		code = call_failed(call);
	else if (pg_rows(shown.key) == 0)
		code = call_error(call, EXIT_NOT_FOUND, "there is no key \"%.512s\"", call->word);
	else if (call->json)
		print_json(&shown);
	else
		print_words(&shown, call->conf->console.zone);
	shown_done(&shown);
	return code;
}

enum exit_code show_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "show", .usage = usage, .config_path = config_path };
	enum exit_code code = EXIT_ERROR;
	if (!call_read(&call, CALL_WHICH, argc, argv, &code))
		return code;
	if (!call.word)
		return call_wrong(&call, "show: say which key");
	if (call_open(&call, &code))
		code = show(&call);
	call_close(&call);
	return code;
}
