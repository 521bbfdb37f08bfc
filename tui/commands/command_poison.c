/* counterfoil poison list and show */
#include "commands/command_poison.h"

#include <stdio.h>
#include <string.h>

#include "commands/call.h"
#include "data/sql_intake.h"
#include "words/clean.h"
#include "words/format.h"
#include "words/pretty.h"
#include "words/table.h"
#include "words/writer.h"

enum { LIMIT_DEFAULT = 50, LIMIT_MAX = 10000 };

static const char usage[] =
	"usage: counterfoil poison [list] [--topic T] [--limit N] [--json] [--config FILE]\n"
	"       counterfoil poison show ID [--json] [--config FILE]\n"
	"       counterfoil poison replay|discard ID...|--topic T ... (--help tells more)\n"
	"Messages that could not be turned into effects, kept whole. With ledger.poison_limit open "
	"ones\n"
	"of a topic it is not read until some are settled.\n"
	"  show ID        one of them in full\n"
	"  replay ID...   taken in after all, with the configuration as it is now\n"
	"  discard ID...  settled without any effect\n";

/* --- list --- */

static void json_facts(struct writer *writer, const PGresult *rows, int row)
{
	writer_open(writer, NULL, '{');
	writer_int(writer, "id", pg_get_int8(rows, row, POISON_ID));
	writer_text(writer, "topic", pg_get_text(rows, row, POISON_TOPIC));
	writer_int(writer, "partition", pg_get_int4(rows, row, POISON_PARTITION));
	writer_int(writer, "offset", pg_get_int8(rows, row, POISON_OFFSET));
	writer_text(writer, "reason", pg_get_text(rows, row, POISON_REASON));
	writer_text(writer, "error", pg_get_text(rows, row, POISON_ERROR));
	writer_int(writer, "size", pg_get_int8(rows, row, POISON_SIZE));
	writer_int(writer, "kept", pg_get_int8(rows, row, POISON_KEPT));
	writer_time(writer, "sent_at", pg_get_time(rows, row, POISON_SENT));
	writer_time(writer, "seen_at", pg_get_time(rows, row, POISON_SEEN));
	writer_time(writer, "settled_at", pg_get_time(rows, row, POISON_SETTLED));
	writer_text(writer, "settlement", pg_get_text(rows, row, POISON_SETTLEMENT));
}

static void print_json(const PGresult *rows)
{
	BUF_AUTO struct buf out = { 0 };
	struct writer writer = { .out = &out };
	writer_open(&writer, NULL, '[');
	for (int row = 0; row < pg_rows(rows); row++) {
		json_facts(&writer, rows, row);
		writer_close(&writer, '}');
	}
	writer_close(&writer, ']');
	puts(buf_text(&out));
}

static void add_row(struct table *table, const PGresult *rows, int row)
{
	char text[FORMAT_SIZE];
	(void)snprintf(text, sizeof(text), "%lld", (long long)pg_get_int8(rows, row, POISON_ID));
	table_add(table, text);
	table_add(table, pg_get_text(rows, row, POISON_TOPIC));
	(void)snprintf(text, sizeof(text), "%d/%lld", pg_get_int4(rows, row, POISON_PARTITION),
		       (long long)pg_get_int8(rows, row, POISON_OFFSET));
	table_add(table, text);
	table_add(table, format_age(pg_get_time(rows, row, POISON_NOW) -
					    pg_get_time(rows, row, POISON_SEEN),
				    text));
	table_add(table, format_size(pg_get_int8(rows, row, POISON_SIZE), text));
	table_add(table, pg_get_text(rows, row, POISON_REASON));
	table_add(table, pg_get_text(rows, row, POISON_ERROR));
}

static void print_table(const PGresult *rows)
{
	static const char *const names[] = { "ID",   "TOPIC",  "PLACE", "AGE",
					     "SIZE", "REASON", "ERROR" };
	BUF_AUTO struct buf out = { 0 };
	TABLE_AUTO struct table table = { .columns = sizeof(names) / sizeof(names[0]) };
	for (int row = 0; row < pg_rows(rows); row++)
		add_row(&table, rows, row);
	table_print(&table, names, true, &out);
	fputs(buf_text(&out), stdout);
}

static enum exit_code list(struct call *call)
{
	PG_RESULT_AUTO PGresult *rows = NULL;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	int64_t limit = call->limit ? call->limit : LIMIT_DEFAULT;
	pg_add_text(&params, call->topic);
	pg_add_int8(&params, limit < LIMIT_MAX ? limit : LIMIT_MAX);
	if (!call_query(call, SQL_POISON_LIST, &params, &rows))
		return call_failed(call);
	if (call->json)
		print_json(rows);
	else if (pg_rows(rows))
		print_table(rows);
	else
		puts("no open poison");
	return EXIT_OK;
}

/* --- show --- */

static void json_body(struct writer *writer, const char *name, const PGresult *rows, int column)
{
	size_t length;
	const char *bytes = pg_get_bytes(rows, 0, column, &length);
	if (bytes)
		writer_bytes(writer, name, bytes, length);
	else
		writer_text(writer, name, NULL);
}

static void print_one_json(const PGresult *rows)
{
	BUF_AUTO struct buf out = { 0 };
	struct writer writer = { .out = &out };
	json_facts(&writer, rows, 0);
	json_body(&writer, "key", rows, POISON_BODY_KEY);
	json_body(&writer, "headers", rows, POISON_BODY_HEADERS);
	json_body(&writer, "value", rows, POISON_BODY_VALUE);
	writer_close(&writer, '}');
	puts(buf_text(&out));
}

static void add_field(struct buf *out, const char *name, const char *text)
{
	buf_addf(out, "%-10s", name);
	clean_add(out, text, strlen(text));
	buf_add_char(out, '\n');
}

static void add_time(struct buf *out, const char *name, usec_t wall, enum conf_zone zone)
{
	char text[FORMAT_SIZE];
	if (wall != USEC_NEVER)
		add_field(out, name, format_time(wall, zone, text));
}

static void add_body(struct buf *out, const char *name, const PGresult *rows, int column)
{
	size_t length;
	const char *bytes = pg_get_bytes(rows, 0, column, &length);
	if (!bytes) {
		buf_addf(out, "\nno %s\n", name);
		return;
	}
	buf_addf(out, "\n%s:\n", name);
	if (!pretty_json(out, bytes, length, false))
		clean_add(out, bytes, length);
	buf_add_char(out, '\n');
}

static void print_one(const PGresult *rows, enum conf_zone zone)
{
	BUF_AUTO struct buf out = { 0 };
	BUF_AUTO struct buf place = { 0 };
	int64_t size = pg_get_int8(rows, 0, POISON_SIZE), kept = pg_get_int8(rows, 0, POISON_KEPT);
	buf_addf(&place, "%s/%d/%lld", pg_get_text(rows, 0, POISON_TOPIC),
		 pg_get_int4(rows, 0, POISON_PARTITION),
		 (long long)pg_get_int8(rows, 0, POISON_OFFSET));
	add_field(&out, "place", buf_text(&place));
	add_field(&out, "reason", pg_get_text(rows, 0, POISON_REASON));
	add_field(&out, "error", pg_get_text(rows, 0, POISON_ERROR));
	add_time(&out, "sent", pg_get_time(rows, 0, POISON_SENT), zone);
	add_time(&out, "seen", pg_get_time(rows, 0, POISON_SEEN), zone);
	add_time(&out, "settled", pg_get_time(rows, 0, POISON_SETTLED), zone);
	if (!pg_null(rows, 0, POISON_SETTLEMENT))
		add_field(&out, "how", pg_get_text(rows, 0, POISON_SETTLEMENT));
	if (kept < size)
		buf_addf(&out,
			 "%-10s%lld of %lld bytes: it cannot be replayed from here, only read "
			 "again from Kafka\n",
			 "kept", (long long)kept, (long long)size);
	add_body(&out, "key", rows, POISON_BODY_KEY);
	add_body(&out, "headers", rows, POISON_BODY_HEADERS);
	add_body(&out, "value", rows, POISON_BODY_VALUE);
	fputs(buf_text(&out), stdout);
}

static enum exit_code show(struct call *call, int64_t id)
{
	PG_RESULT_AUTO PGresult *rows = NULL;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_int8(&params, id);
	pg_add_int4(&params, (int32_t)PRETTY_MAX);
	if (!call_query(call, SQL_POISON_SHOW, &params, &rows))
		return call_failed(call);
	if (pg_rows(rows) == 0)
		return call_error(call, EXIT_NOT_FOUND, "there is no poison %lld", (long long)id);
	if (call->json)
		print_one_json(rows);
	else
		print_one(rows, call->conf->console.zone);
	return EXIT_OK;
}

/* --- which --- */

static enum exit_code run(const char *config_path, int argc, char **argv, bool shows)
{
	struct call call = { .name = shows ? "poison show" : "poison list",
			     .usage = usage,
			     .config_path = config_path };
	enum exit_code code = EXIT_ERROR;
	int64_t id = 0;
	if (!call_read(&call, CALL_TOPIC | CALL_LIMIT, argc, argv, &code))
		return code;
	if (shows && (!call.word || !call_number(call.word, &id)))
		return call_wrong(&call, "poison show: say which, by its number");
	if (!shows && call.word)
		return call_wrong(&call, "poison: what is \"%.64s\"?", call.word);
	if (call_open(&call, &code))
		code = shows ? show(&call, id) : list(&call);
	call_close(&call);
	return code;
}

enum exit_code poison_run(const char *config_path, int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";
	if (strcmp(word, "replay") == 0)
		return poison_replay_run(config_path, argc - 1, argv + 1);
	if (strcmp(word, "discard") == 0)
		return poison_discard_run(config_path, argc - 1, argv + 1);
	if (strcmp(word, "list") == 0 || strcmp(word, "show") == 0)
		return run(config_path, argc - 1, argv + 1, strcmp(word, "show") == 0);
	return run(config_path, argc, argv, false);
}
