/* counterfoil unmatched */
#include "commands/command_unmatched.h"

#include <stdio.h>

#include "commands/call.h"
#include "data/sql_intake.h"
#include "words/format.h"
#include "words/table.h"
#include "words/writer.h"

#define SHOWN (7 * USEC_DAY)

static const char usage[] =
	"usage: counterfoil unmatched [--json] [--config FILE]\n"
	"Events of the last seven days that no effect asks for, by topic and type. With\n"
	"ledger.unmatched = \"poison\" they are kept instead: counterfoil poison list.\n";

static void print_json(const PGresult *rows)
{
	BUF_AUTO struct buf out = { 0 };
	struct writer writer = { .out = &out };
	writer_open(&writer, NULL, '[');
	for (int row = 0; row < pg_rows(rows); row++) {
		writer_open(&writer, NULL, '{');
		writer_text(&writer, "topic", pg_get_text(rows, row, COUNTED_TOPIC));
		writer_text(&writer, "type", pg_get_text(rows, row, COUNTED_TYPE));
		writer_int(&writer, "count", pg_get_int8(rows, row, COUNTED_COUNT));
		writer_time(&writer, "first_minute", pg_get_time(rows, row, COUNTED_FIRST));
		writer_time(&writer, "last_minute", pg_get_time(rows, row, COUNTED_LAST));
		writer_close(&writer, '}');
	}
	writer_close(&writer, ']');
	puts(buf_text(&out));
}

static void print_words(const PGresult *rows)
{
	static const char *const names[] = { "TOPIC", "TYPE", "EVENTS", "SINCE", "LAST" };
	BUF_AUTO struct buf out = { 0 };
	TABLE_AUTO struct table table = { .columns = sizeof(names) / sizeof(names[0]) };
	char text[FORMAT_SIZE];
	for (int row = 0; row < pg_rows(rows); row++) {
		usec_t now = pg_get_time(rows, row, COUNTED_NOW);
		table_add(&table, pg_get_text(rows, row, COUNTED_TOPIC));
		table_add(&table, pg_get_text(rows, row, COUNTED_TYPE));
		table_add_count(&table, pg_get_int8(rows, row, COUNTED_COUNT));
		table_add(&table, format_age(now - pg_get_time(rows, row, COUNTED_FIRST), text));
		table_add(&table, format_age(now - pg_get_time(rows, row, COUNTED_LAST), text));
	}
	table_print(&table, names, true, &out);
	fputs(pg_rows(rows) ? buf_text(&out) : "every event of seven days was asked for\n", stdout);
}

static enum exit_code unmatched(struct call *call)
{
	PG_RESULT_AUTO PGresult *rows = NULL;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_interval(&params, SHOWN);
	if (!call_query(call, SQL_UNMATCHED_EVENTS, &params, &rows))
		return call_failed(call);
	if (call->json)
		print_json(rows);
	else
		print_words(rows);
	return EXIT_OK;
}

enum exit_code unmatched_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "unmatched", .usage = usage, .config_path = config_path };
	enum exit_code code = EXIT_ERROR;
	if (!call_read(&call, 0, argc, argv, &code))
		return code;
	if (call.word)
		return call_wrong(&call, "unmatched: what is \"%.64s\"?", call.word);
	if (call_open(&call, &code))
		code = unmatched(&call);
	call_close(&call);
	return code;
}
