/* counterfoil find */
#include "commands/command_find.h"

#include <stdio.h>

#include "commands/call.h"
#include "commands/rows.h"
#include "data/find.h"
#include "data/sql_console.h"

static const char usage[] = "usage: counterfoil find TEXT [--json] [--config FILE]\n"
			    "Keys whose idempotency key begins with TEXT, or whose subject, event "
			    "id, provider's id or\n"
			    "place, topic[partition]@offset, is TEXT; and what matched. Ends with "
			    "4 when there is none.\n";

static void print_found(const struct call *call, const PGresult *rows)
{
	BUF_AUTO struct buf out = { 0 };
	struct writer writer = { .out = &out };
	if (!call->json) {
		rows_print(rows, 0, pg_rows(rows), true, true, &out);
		fputs(buf_text(&out), stdout);
		return;
	}
	writer_open(&writer, NULL, '[');
	for (int row = 0; row < pg_rows(rows); row++)
		rows_json(&writer, rows, row, true);
	writer_close(&writer, ']');
	puts(buf_text(&out));
}

static enum exit_code find(struct call *call)
{
	PG_RESULT_AUTO PGresult *rows = NULL;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	find_params(call->word, &params);
	if (!call_query(call, SQL_FIND, &params, &rows))
		return call_failed(call);
	if (pg_rows(rows) == 0)
		return call_error(call, EXIT_NOT_FOUND,
				  "no key, subject, event, provider's id or place is \"%.512s\"",
				  call->word);
	print_found(call, rows);
	return EXIT_OK;
}

enum exit_code find_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "find", .usage = usage, .config_path = config_path };
	enum exit_code code = EXIT_ERROR;
	if (!call_read(&call, 0, argc, argv, &code))
		return code;
	if (!call.word || !*call.word)
		return call_wrong(&call, "find: say what to look for");
	if (call_open(&call, &code))
		code = find(&call);
	call_close(&call);
	return code;
}
