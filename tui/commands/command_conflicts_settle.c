/* counterfoil conflicts settle */
#include <stdio.h>
#include <string.h>

#include "commands/call.h"
#include "commands/command_conflicts.h"
#include "commands/tally.h"
#include "data/intake_order.h"
#include "data/order.h"
#include "data/sql_conflicts.h"
#include "words/clean.h"
#include "words/writer.h"

enum { IDS_MAX = 100000 }; /* of one operation */

static const char usage[] =
	"usage: counterfoil conflicts settle ID...|--topic T --yes --reason TEXT [--expect N]\n"
	"                                    [--dry-run] [--json] [--config FILE]\n"
	"Somebody has looked, and the first stands: the conflict is open no longer. Nothing is "
	"sent,\n"
	"and the key stays as it is. Whatever else is to be done about it is another event, with a "
	"key of\n"
	"its own. It stands in the audit.\n"
	"  --topic T      all open ones of the topic\n"
	"  --expect N     only if there are so many\n"
	"  --yes          do it\n"
	"  --dry-run      only say what would come of it\n"
	"  --reason TEXT  what was found and decided\n";

/* --- which --- */

static bool read_ids(struct call *call, struct pg_array *ids, enum exit_code *code_r)
{
	for (int i = 0; i < call->word_count; i++) {
		int64_t id = 0;
		if (!call_number(call->words[i], &id)) {
			*code_r = call_wrong(call,
					     "conflicts settle: what is \"%.64s\"? They have "
					     "numbers",
					     call->words[i]);
			return false;
		}
		pg_array_int8(ids, id);
	}
	return true;
}

static bool find_ids(struct call *call, struct pg_array *ids, enum exit_code *code_r)
{
	PG_RESULT_AUTO PGresult *rows = NULL;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_text(&params, call->topic);
	pg_add_int8(&params, IDS_MAX);
	if (!call_query(call, SQL_CLASH_IDS, &params, &rows)) {
		*code_r = call_failed(call);
		return false;
	}
	for (int row = 0; row < pg_rows(rows); row++)
		pg_array_int8(ids, pg_get_int8(rows, row, 0));
	return true;
}

static bool choose(struct call *call, struct pg_array *ids, enum exit_code *code_r)
{
	if (call->topic && !find_ids(call, ids, code_r))
		return false;
	if (call->expect >= 0 && ids->count != call->expect)
		*code_r = call_error(call, EXIT_CONFLICT, "%d, and not the %lld expected",
				     ids->count, (long long)call->expect);
	else if (ids->count == 0)
		*code_r = call_error(call, EXIT_NOT_FOUND, "no conflict of this topic is open");
	else
		return true;
	return false;
}

/* --- the order --- */

static bool give(struct call *call, const struct pg_array *ids, PGresult **answer_r)
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
		return call_query(call, SQL_CLASH_SETTLE, &params, answer_r);
	call->sqlstate[0] = '\0';
	return pg_session_script(call->session, SQL_BEGIN_ORDER, &call->err, call->sqlstate) &&
	       call_query(call, SQL_CLASH_SETTLE, &params, answer_r) &&
	       pg_session_script(call->session, "COMMIT", &call->err, call->sqlstate);
}

static bool is_result(const PGresult *answer, int row, const char *result)
{
	return strcmp(pg_get_text(answer, row, SETTLED_RESULT), result) == 0;
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
		writer_int(&writer, "id", pg_get_int8(answer, row, SETTLED_ID));
		writer_text(&writer, "result", pg_get_text(answer, row, SETTLED_RESULT));
		writer_text(&writer, "detail", pg_get_text(answer, row, SETTLED_DETAIL));
		writer_close(&writer, '}');
	}
	writer_close(&writer, ']');
	writer_close(&writer, '}');
	puts(buf_text(&out));
}

static void print_words(const struct call *call, const PGresult *answer, int done)
{
	BUF_AUTO struct buf out = { 0 };
	buf_addf(&out, "%d %ssettled\n", done, call->dry_run ? "would be " : "");
	for (int row = 0; row < pg_rows(answer); row++) {
		const char *detail = pg_get_text(answer, row, SETTLED_DETAIL);
		if (is_result(answer, row, "done"))
			continue;
		buf_addf(&out, "%lld: ", (long long)pg_get_int8(answer, row, SETTLED_ID));
		clean_add(&out, detail, strlen(detail));
		buf_add_char(&out, '\n');
	}
	fputs(buf_text(&out), stdout);
}

static enum exit_code settle(struct call *call, const struct pg_array *ids)
{
	PG_RESULT_AUTO PGresult *answer = NULL;
	if (call->conf->console.read_only && !call->dry_run)
		return call_error(call, EXIT_PERMISSION,
				  "console.read_only is set: nothing is changed");
	if (!give(call, ids, &answer))
		return call_failed(call);
	const struct tally tally = tally_of(answer, SETTLED_RESULT);
	const enum exit_code code = tally_code(&tally);
	if (code == EXIT_NOT_FOUND || code == EXIT_CONFLICT)
		return call_error(call, code, "%lld: %s",
				  (long long)pg_get_int8(answer, 0, SETTLED_ID),
				  pg_get_text(answer, 0, SETTLED_DETAIL));
	if (call->json)
		print_json(call, answer, tally.done);
	else
		print_words(call, answer, tally.done);
	return code;
}

enum exit_code conflicts_settle_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "conflicts settle",
			     .usage = usage,
			     .config_path = config_path };
	PG_ARRAY_AUTO struct pg_array ids = { 0 };
	enum exit_code code = EXIT_ERROR;
	if (!call_read(&call, CALL_WORDS | CALL_TOPIC | CALL_BULK | CALL_ORDER, argc, argv, &code))
		return code;
	if (call.key || call.all || (call.topic != NULL) == (call.word_count > 0))
		return call_wrong(&call,
				  "conflicts settle: say which, by their numbers or --topic");
	if (!intake_order_fits(&call, &code))
		return code;
	pg_array_init(&ids, PG_INT8);
	if (read_ids(&call, &ids, &code) && call_open(&call, &code) && choose(&call, &ids, &code))
		code = settle(&call, &ids);
	call_close(&call);
	return code;
}
