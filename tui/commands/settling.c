/* The order, and its answer in words or JSON. */
#include "commands/settling.h"

#include <stdio.h>
#include <string.h>

#include "commands/tally.h"
#include "data/order.h"
#include "data/sql_console.h"
#include "words/clean.h"
#include "words/writer.h"

enum settling_column { SETTLING_ID, SETTLING_RESULT, SETTLING_DETAIL };

static bool give(struct call *call, const struct pg_array *ids, const char *sql,
		 PGresult **answer_r)
{
	BUF_AUTO struct buf claims = { 0 };
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	char operation[ORDER_OPERATION];
	order_claims(&claims);
	order_operation(operation);
	pg_add_array(&params, ids);
	pg_add_text(&params, operation);
	pg_add_text(&params, call->reason);
	pg_add_text(&params, buf_text(&claims));
	pg_add_bool(&params, call->dry_run);
	if (call->dry_run)
		return call_query(call, sql, &params, answer_r);
	call->sqlstate[0] = '\0';
	return pg_session_script(call->session, SQL_BEGIN_ORDER, &call->err, call->sqlstate) &&
	       call_query(call, sql, &params, answer_r) &&
	       pg_session_script(call->session, "COMMIT", &call->err, call->sqlstate);
}

static void print_json(const struct call *call, const PGresult *answer, int done)
{
	BUF_AUTO struct buf out = { 0 };
	struct writer writer = { .out = &out };
	writer_open(&writer, NULL, '{');
	writer_int(&writer, "done", done);
	writer_bool(&writer, "dry_run", call->dry_run);
	writer_open(&writer, "rows", '[');
	for (int row = 0; row < pg_rows(answer); row++) {
		writer_open(&writer, NULL, '{');
		writer_int(&writer, "id", pg_get_int8(answer, row, SETTLING_ID));
		writer_text(&writer, "result", pg_get_text(answer, row, SETTLING_RESULT));
		writer_text(&writer, "detail", pg_get_text(answer, row, SETTLING_DETAIL));
		writer_close(&writer, '}');
	}
	writer_close(&writer, ']');
	writer_close(&writer, '}');
	puts(buf_text(&out));
}

static void print_words(const struct call *call, const PGresult *answer, int done, const char *past)
{
	BUF_AUTO struct buf out = { 0 };
	buf_addf(&out, "%d %s%s\n", done, call->dry_run ? "would be " : "", past);
	for (int row = 0; row < pg_rows(answer); row++) {
		const char *detail = pg_get_text(answer, row, SETTLING_DETAIL);
		if (strcmp(pg_get_text(answer, row, SETTLING_RESULT), "done") == 0)
			continue;
		buf_addf(&out, "%lld: ", (long long)pg_get_int8(answer, row, SETTLING_ID));
		clean_add(&out, detail, strlen(detail));
		buf_add_char(&out, '\n');
	}
	fputs(buf_text(&out), stdout);
}

enum exit_code settling_do(struct call *call, const struct pg_array *ids,
			   const struct settling *settling)
{
	PG_RESULT_AUTO PGresult *answer = NULL;
	if (call->conf->console.read_only && !call->dry_run)
		return call_error(call, EXIT_PERMISSION,
				  "console.read_only is set: nothing is changed");
	if (!give(call, ids, settling->sql, &answer))
		return call_failed(call);
	const struct tally tally = tally_of(answer, SETTLING_RESULT);
	const enum exit_code code = tally_code(&tally);
	if (code == EXIT_NOT_FOUND || code == EXIT_CONFLICT)
		return call_error(call, code, "%lld: %s",
				  (long long)pg_get_int8(answer, 0, SETTLING_ID),
				  pg_get_text(answer, 0, SETTLING_DETAIL));
	if (call->json)
		print_json(call, answer, tally.done);
	else
		print_words(call, answer, tally.done, settling->past);
	return code;
}
