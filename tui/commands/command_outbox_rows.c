/* counterfoil outbox dead, parked and show */
#include <stdio.h>
#include <string.h>

#include "commands/call.h"
#include "commands/command_outbox.h"
#include "data/sql_relay.h"
#include "words/dead_text.h"
#include "words/format.h"
#include "words/table.h"
#include "words/writer.h"

enum { LIMIT_DEFAULT = 100, LIMIT_MAX = 100000 };

static const char list_usage[] =
	"usage: counterfoil outbox dead|parked [--source S] [--topic T] [--key K] [--limit N]\n"
	"                                      [--json | --jsonl] [--config FILE]\n"
	"dead: rows that no broker will take. parked: rows of the same ordering key behind them.\n"
	"The newest first.\n"
	"  --source S     of this outbox\n"
	"  --topic T      of this topic\n"
	"  --key K        of this ordering key\n"
	"  --limit N      at most so many; default 100\n"
	"  --json         one array\n"
	"  --jsonl        one object a line\n";

static const char show_usage[] =
	"usage: counterfoil outbox show ID [--source S] [--json] [--config FILE]\n"
	"A dead or parked row in full, and what is there of its key. Of a payload the first 64 KiB "
	"are\n"
	"shown. With --json an array: an id can be that of several outboxes, and of several "
	"events.\n";

/* --- as JSON --- */

static void json_facts(struct writer *writer, const PGresult *rows, int row)
{
	writer_text(writer, "source", pg_get_text(rows, row, DEAD_SOURCE));
	writer_int(writer, "id", pg_get_int8(rows, row, DEAD_ID));
	writer_text(writer, "event_id", pg_get_text(rows, row, DEAD_EVENT));
	writer_text(writer, "state", dead_word(rows, row));
	writer_text(writer, "topic", pg_get_text(rows, row, DEAD_TOPIC));
	writer_text(writer, "type", pg_get_text(rows, row, DEAD_TYPE));
	writer_text(writer, "ordering_key", pg_get_text(rows, row, DEAD_KEY));
	if (pg_null(rows, row, DEAD_PARTITION))
		writer_text(writer, "partition", NULL);
	else
		writer_int(writer, "partition", pg_get_int8(rows, row, DEAD_PARTITION));
	writer_int(writer, "size", pg_get_int8(rows, row, DEAD_SIZE));
	writer_text(writer, "reason", pg_get_text(rows, row, DEAD_REASON));
	writer_time(writer, "since", pg_get_time(rows, row, DEAD_AT));
	writer_age(writer, "age_seconds", pg_get_int8(rows, row, DEAD_AGE));
	writer_time(writer, "created_at", pg_get_time(rows, row, DEAD_CREATED));
	writer_text(writer, "owner", pg_get_text(rows, row, DEAD_OWNER));
	writer_int(writer, "behind", pg_get_int8(rows, row, DEAD_BEHIND));
}

static void json_bytes(struct writer *writer, const char *name, const PGresult *rows, int row,
		       int column)
{
	size_t length;
	const char *bytes = pg_get_bytes(rows, row, column, &length);
	if (bytes)
		writer_bytes(writer, name, bytes, length);
	else
		writer_text(writer, name, NULL);
}

static void json_others(struct writer *writer, const PGresult *others)
{
	writer_open(writer, "of_its_key", '[');
	for (int row = 0; others && row < pg_rows(others); row++) {
		writer_open(writer, NULL, '{');
		writer_int(writer, "id", pg_get_int8(others, row, BEHIND_ID));
		writer_text(writer, "event_id", pg_get_text(others, row, BEHIND_EVENT));
		writer_text(writer, "type", pg_get_text(others, row, BEHIND_TYPE));
		writer_bool(writer, "parked", pg_get_bool(others, row, BEHIND_PARKED));
		writer_close(writer, '}');
	}
	writer_close(writer, ']');
}

static void json_whole(struct writer *writer, const PGresult *rows, int row, const PGresult *others)
{
	size_t length;
	const char *payload = pg_get_bytes(rows, row, DEAD_PAYLOAD, &length);
	writer_open(writer, NULL, '{');
	json_facts(writer, rows, row);
	json_bytes(writer, "message_key", rows, row, DEAD_MESSAGE_KEY);
	json_bytes(writer, "headers", rows, row, DEAD_HEADERS);
	json_bytes(writer, "payload", rows, row, DEAD_PAYLOAD);
	writer_int(writer, "payload_size", pg_get_int8(rows, row, DEAD_PAYLOAD_SIZE));
	writer_bool(writer, "payload_cut",
		    payload && (int64_t)length < pg_get_int8(rows, row, DEAD_PAYLOAD_SIZE));
	json_bytes(writer, "row", rows, row, DEAD_ROW);
	json_others(writer, others);
	writer_close(writer, '}');
}

/* --- lists --- */

static void print_json(const struct call *call, const PGresult *rows)
{
	BUF_AUTO struct buf out = { 0 };
	struct writer writer = { .out = &out };
	if (!call->jsonl)
		writer_open(&writer, NULL, '[');
	for (int row = 0; row < pg_rows(rows); row++) {
		if (call->jsonl)
			writer.more = false;
		writer_open(&writer, NULL, '{');
		json_facts(&writer, rows, row);
		writer_close(&writer, '}');
		if (call->jsonl)
			buf_add_char(&out, '\n');
	}
	if (!call->jsonl) {
		writer_close(&writer, ']');
		buf_add_char(&out, '\n');
	}
	fputs(buf_text(&out), stdout);
}

static void print_table(const PGresult *rows, bool parked)
{
	static const char *const names[] = { "ID",  "OUTBOX", "TOPIC",  "TYPE",  "KEY",
					     "AGE", "SIZE",   "BEHIND", "REASON" };
	BUF_AUTO struct buf out = { 0 };
	TABLE_AUTO struct table table = { .columns = sizeof(names) / sizeof(names[0]) };
	char text[FORMAT_SIZE];
	for (int row = 0; row < pg_rows(rows); row++) {
		table_add_count(&table, pg_get_int8(rows, row, DEAD_ID));
		table_add(&table, pg_get_text(rows, row, DEAD_SOURCE));
		table_add(&table, pg_get_text(rows, row, DEAD_TOPIC));
		table_add(&table, pg_get_text(rows, row, DEAD_TYPE));
		table_add(&table, pg_get_text(rows, row, DEAD_KEY));
		table_add(&table, format_age(pg_get_int8(rows, row, DEAD_AGE), text));
		table_add(&table, format_size(pg_get_int8(rows, row, DEAD_SIZE), text));
		if (parked)
			table_add(&table, "");
		else
			table_add_count(&table, pg_get_int8(rows, row, DEAD_BEHIND));
		table_add(&table, pg_get_text(rows, row, DEAD_REASON));
	}
	table_print(&table, names, true, &out);
	fputs(buf_text(&out), stdout);
}

static enum exit_code list(struct call *call, bool parked)
{
	PG_RESULT_AUTO PGresult *rows = NULL;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	int64_t limit = call->limit ? call->limit : LIMIT_DEFAULT;
	pg_add_bool(&params, parked);
	pg_add_text(&params, call->source);
	pg_add_text(&params, call->topic);
	pg_add_text(&params, call->key);
	pg_add_int8(&params, limit < LIMIT_MAX ? limit : LIMIT_MAX);
	if (!call_query(call, SQL_DEAD_ROWS, &params, &rows))
		return call_failed(call);
	if (call->json)
		print_json(call, rows);
	else
		print_table(rows, parked);
	return EXIT_OK;
}

static enum exit_code list_run(const char *config_path, int argc, char **argv, bool parked)
{
	struct call call = { .name = parked ? "outbox parked" : "outbox dead",
			     .usage = list_usage,
			     .config_path = config_path };
	enum exit_code code = EXIT_ERROR;
	if (!call_read(&call, CALL_JSONL | CALL_LIMIT | CALL_SOURCE | CALL_TOPIC, argc, argv,
		       &code))
		return code;
	if (call.word)
		return call_wrong(&call, "%s: one word too many, \"%s\"", call.name, call.word);
	if (call_open(&call, &code))
		code = list(&call, parked);
	call_close(&call);
	return code;
}

enum exit_code outbox_dead_run(const char *config_path, int argc, char **argv)
{
	return list_run(config_path, argc, argv, false);
}

enum exit_code outbox_parked_run(const char *config_path, int argc, char **argv)
{
	return list_run(config_path, argc, argv, true);
}

/* --- one in full --- */

static bool read_others(struct call *call, const PGresult *rows, int row, PGresult **others_r)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	if (pg_null(rows, row, DEAD_HASH))
		return true;
	pg_add_text(&params, pg_get_text(rows, row, DEAD_SOURCE));
	pg_add_int8(&params, pg_get_int8(rows, row, DEAD_HASH));
	pg_add_int8(&params, pg_get_int8(rows, row, DEAD_ID));
	return call_query(call, SQL_OF_ITS_KEY, &params, others_r);
}

static enum exit_code print_rows(struct call *call, const PGresult *rows)
{
	BUF_AUTO struct buf out = { 0 };
	struct writer writer = { .out = &out };
	if (call->json)
		writer_open(&writer, NULL, '[');
	for (int row = 0; row < pg_rows(rows); row++) {
		PG_RESULT_AUTO PGresult *others = NULL;
		if (!read_others(call, rows, row, &others))
			return call_failed(call);
		if (call->json)
			json_whole(&writer, rows, row, others);
		else
			dead_text(rows, row, others, false, call->conf->console.zone, &out);
		if (!call->json && row + 1 < pg_rows(rows))
			buf_add_char(&out, '\n');
	}
	if (call->json) {
		writer_close(&writer, ']');
		buf_add_char(&out, '\n');
	}
	fputs(buf_text(&out), stdout);
	return EXIT_OK;
}

static enum exit_code show(struct call *call, int64_t id)
{
	PG_RESULT_AUTO PGresult *rows = NULL;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_text(&params, call->source);
	pg_add_int8(&params, id);
	pg_add_text(&params, NULL);
	if (!call_query(call, SQL_DEAD_ROW, &params, &rows))
		return call_failed(call);
	if (pg_rows(rows) == 0)
		return call_error(call, EXIT_NOT_FOUND, "there is no dead or parked row %lld",
				  (long long)id);
	return print_rows(call, rows);
}

enum exit_code outbox_show_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "outbox show",
			     .usage = show_usage,
			     .config_path = config_path };
	enum exit_code code = EXIT_ERROR;
	int64_t id = 0;
	if (!call_read(&call, CALL_SOURCE, argc, argv, &code))
		return code;
	if (!call.word || !call_number(call.word, &id))
		return call_wrong(&call, "outbox show: say which row, by its id");
	if (call_open(&call, &code))
		code = show(&call, id);
	call_close(&call);
	return code;
}
