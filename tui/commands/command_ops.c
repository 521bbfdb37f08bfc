/* counterfoil ops */
#include "commands/command_ops.h"

#include <stdio.h>
#include <string.h>

#include "commands/call.h"
#include "data/lists.h"
#include "data/operation.h"
#include "data/order.h"
#include "data/sql_console.h"
#include "data/sql_operations.h"
#include "words/clean.h"
#include "words/format.h"
#include "words/table.h"

enum { LIMIT_DEFAULT = 50, ITEMS_SHOWN = 20 };

static const char usage[] =
	"usage: counterfoil ops [list] [--limit N] [--json] [--config FILE]\n"
	"       counterfoil ops show ID [--json] [--config FILE]\n"
	"       counterfoil ops pause|resume|cancel ID [--reason TEXT] [--json] [--config FILE]\n"
	"Orders that ledgers carry out: replays and decisions about many keys, and what is read "
	"again.\n"
	"  show ID    how far it is, and keys that failed or were skipped\n"
	"  pause ID   not one step more, until it is resumed; what was done stands\n"
	"  cancel ID  the same, for good\n"
	"Pause and cancel end with 5 when it was not in a state for it.\n";

/* --- list --- */

static void add_row(struct table *table, const PGresult *rows, int row)
{
	char number[FORMAT_SIZE];
	(void)snprintf(number, sizeof(number), "%lld",
		       (long long)pg_get_int8(rows, row, OPERATION_ID));
	table_add(table, number);
	table_add(table, pg_get_text(rows, row, OPERATION_KIND));
	table_add(table, pg_get_text(rows, row, OPERATION_STATE));
	table_add_count(table, pg_get_int8(rows, row, OPERATION_TOTAL));
	table_add_count(table, pg_get_int8(rows, row, OPERATION_DONE));
	table_add_count(table, pg_get_int8(rows, row, OPERATION_FAILED));
	table_add_count(table, pg_get_int8(rows, row, OPERATION_SKIPPED));
	table_add(table, format_age(pg_get_time(rows, row, OPERATION_NOW) -
					    pg_get_time(rows, row, OPERATION_CREATED),
				    number));
	table_add(table, pg_get_text(rows, row, OPERATION_WHO));
	table_add(table, pg_get_text(rows, row, OPERATION_REASON));
}

static void add_rows(const PGresult *rows, struct buf *out)
{
	static const char *const names[] = { "ID",     "KIND",    "STATE", "KEYS", "DONE",
					     "FAILED", "SKIPPED", "AGE",   "WHO",  "REASON" };
	TABLE_AUTO struct table table = { .columns = sizeof(names) / sizeof(names[0]) };
	for (int row = 0; row < pg_rows(rows); row++)
		add_row(&table, rows, row);
	table_print(&table, names, true, out);
}

static void add_rows_json(const PGresult *rows, struct buf *out)
{
	struct writer writer = { .out = out };
	writer_open(&writer, NULL, '[');
	for (int row = 0; row < pg_rows(rows); row++) {
		operation_json(&writer, rows, row);
		writer_close(&writer, '}');
	}
	writer_close(&writer, ']');
	buf_add_char(out, '\n');
}

static enum exit_code list(struct call *call)
{
	PG_RESULT_AUTO PGresult *rows = NULL;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	BUF_AUTO struct buf out = { 0 };
	pg_add_int8(&params, call->limit ? call->limit : LIMIT_DEFAULT);
	if (!call_query(call, SQL_OPERATIONS, &params, &rows))
		return call_failed(call);
	if (call->json)
		add_rows_json(rows, &out);
	else if (pg_rows(rows))
		add_rows(rows, &out);
	fputs(buf_text(&out), stdout);
	return EXIT_OK;
}

/* --- show --- */

struct shown {
	PGresult *row;
	PGresult *running;
	PGresult *items;
};

static bool read_shown(struct call *call, int64_t id, struct shown *shown, enum exit_code *code_r)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	if (!operation_read(call, id, &shown->row, code_r))
		return false;
	pg_add_int8(&params, id);
	if (call_query(call, SQL_OPERATION_RUNNING, &params, &shown->running)) {
		pg_add_int8(&params, ITEMS_SHOWN);
		if (call_query(call, SQL_OPERATION_ITEMS, &params, &shown->items))
			return true;
	}
	*code_r = call_failed(call);
	return false;
}

static void add_field(struct buf *out, const char *name, const char *text)
{
	if (!text || !*text)
		return;
	buf_addf(out, "%-9s ", name);
	clean_add(out, text, strlen(text));
	buf_add_char(out, '\n');
}

static void add_pace(struct buf *out, const PGresult *row)
{
	BUF_AUTO struct buf pace = { 0 };
	if (!pg_null(row, 0, OPERATION_RATE))
		buf_addf(&pace, "%s keys a second; ", pg_get_text(row, 0, OPERATION_RATE));
	if (!pg_null(row, 0, OPERATION_STOP_AFTER))
		buf_addf(&pace, "stops after %lld failures; ",
			 (long long)pg_get_int8(row, 0, OPERATION_STOP_AFTER));
	if (pg_get_bool(row, 0, OPERATION_CANARY))
		buf_add_text(&pace, "one key first; ");
	if (pace.length)
		pace.data[pace.length - 2] = '\0';
	add_field(out, "pace", buf_text(&pace));
}

static void add_running(struct buf *out, const PGresult *running)
{
	char number[FORMAT_SIZE];
	for (int row = 0; row < pg_rows(running); row++)
		buf_addf(out, "%s%s %s%s", row ? ", " : "ordered   ",
			 format_count(pg_get_int8(running, row, RUNNING_KEYS), number),
			 list_state_title(pg_get_text(running, row, RUNNING_STATE)),
			 row + 1 == pg_rows(running) ? "\n" : "");
}

static void add_items(struct buf *out, const PGresult *items)
{
	static const char *const names[] = { "KEY", "TARGET", "RESULT", "DETAIL" };
	TABLE_AUTO struct table table = { .columns = sizeof(names) / sizeof(names[0]) };
	for (int row = 0; row < pg_rows(items); row++)
		for (int column = ITEM_KEY; column <= ITEM_DETAIL; column++)
			table_add(&table, pg_get_text(items, row, column));
	if (pg_rows(items))
		table_print(&table, names, true, out);
}

static void add_words(const struct shown *shown, struct buf *out)
{
	operation_line(shown->row, 0, out);
	buf_add_char(out, '\n');
	add_field(out, "by", pg_get_text(shown->row, 0, OPERATION_WHO));
	add_field(out, "reason", pg_get_text(shown->row, 0, OPERATION_REASON));
	add_field(out, "what", pg_get_text(shown->row, 0, OPERATION_PARAMS));
	add_pace(out, shown->row);
	add_field(out, "ledger", pg_get_text(shown->row, 0, OPERATION_OWNER));
	add_running(out, shown->running);
	add_items(out, shown->items);
}

static void add_json(const struct shown *shown, struct buf *out)
{
	struct writer writer = { .out = out };
	operation_json(&writer, shown->row, 0);
	writer_open(&writer, "running", '{');
	for (int row = 0; row < pg_rows(shown->running); row++)
		writer_int(&writer, pg_get_text(shown->running, row, RUNNING_STATE),
			   pg_get_int8(shown->running, row, RUNNING_KEYS));
	writer_close(&writer, '}');
	writer_open(&writer, "items", '[');
	for (int row = 0; row < pg_rows(shown->items); row++) {
		writer_open(&writer, NULL, '{');
		writer_int(&writer, "id", pg_get_int8(shown->items, row, ITEM_EFFECT));
		writer_text(&writer, "key", pg_get_text(shown->items, row, ITEM_KEY));
		writer_text(&writer, "target", pg_get_text(shown->items, row, ITEM_TARGET));
		writer_text(&writer, "result", pg_get_text(shown->items, row, ITEM_RESULT));
		writer_text(&writer, "detail", pg_get_text(shown->items, row, ITEM_DETAIL));
		writer_close(&writer, '}');
	}
	writer_close(&writer, ']');
	writer_close(&writer, '}');
	buf_add_char(out, '\n');
}

static enum exit_code show(struct call *call, int64_t id)
{
	BUF_AUTO struct buf out = { 0 };
	struct shown shown = { 0 };
	enum exit_code code = EXIT_OK;
	if (read_shown(call, id, &shown, &code)) {
		if (call->json)
			add_json(&shown, &out);
		else
			add_words(&shown, &out);
		fputs(buf_text(&out), stdout);
	}
	pg_result_done(&shown.row);
	pg_result_done(&shown.running);
	pg_result_done(&shown.items);
	return code;
}

/* --- pause, resume, cancel --- */

enum told_column { TOLD_RESULT, TOLD_DETAIL };

static bool tell(struct call *call, const char *action, int64_t id, PGresult **answer_r)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	BUF_AUTO struct buf claims = { 0 };
	char operation[ORDER_OPERATION];
	order_operation(operation);
	order_claims(&claims);
	pg_add_int8(&params, id);
	pg_add_text(&params, action);
	pg_add_text(&params, operation);
	pg_add_text(&params, call->reason);
	pg_add_text(&params, buf_text(&claims));
	call->sqlstate[0] = '\0';
	return pg_session_script(call->session, SQL_BEGIN_ORDER, &call->err, call->sqlstate) &&
	       call_query(call, SQL_OPERATION_ORDER, &params, answer_r) &&
	       pg_session_script(call->session, "COMMIT", &call->err, call->sqlstate);
}

static void print_told(const struct call *call, int64_t id, const char *result, const char *detail)
{
	BUF_AUTO struct buf out = { 0 };
	struct writer writer = { .out = &out };
	if (!call->json) {
		printf("operation %lld: %s\n", (long long)id, detail);
		return;
	}
	writer_open(&writer, NULL, '{');
	writer_int(&writer, "id", id);
	writer_text(&writer, "result", result);
	writer_text(&writer, "detail", detail);
	writer_close(&writer, '}');
	puts(buf_text(&out));
}

static enum exit_code change(struct call *call, const char *action, int64_t id)
{
	PG_RESULT_AUTO PGresult *answer = NULL;
	if (call->conf->console.read_only)
		return call_error(call, EXIT_PERMISSION,
				  "console.read_only is set: nothing is changed");
	if (!tell(call, action, id, &answer))
		return call_failed(call);
	const char *result = pg_get_text(answer, 0, TOLD_RESULT);
	const char *detail = pg_get_text(answer, 0, TOLD_DETAIL);
	if (strcmp(result, "missing") == 0)
		return call_error(call, EXIT_NOT_FOUND, "%s", detail);
	if (strcmp(result, "refused") == 0)
		return call_error(call, EXIT_CONFLICT, "operation %lld: %s", (long long)id, detail);
	print_told(call, id, result, detail);
	return EXIT_OK;
}

/* --- which of them --- */

static enum exit_code dispatch(struct call *call, const char *action, int64_t id)
{
	if (strcmp(action, "list") == 0)
		return list(call);
	if (strcmp(action, "show") == 0)
		return show(call, id);
	return change(call, action, id);
}

static bool is_action(const char *word)
{
	static const char *const actions[] = { "list", "show", "pause", "resume", "cancel" };
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		if (strcmp(word, actions[i]) == 0)
			return true;
	return false;
}

enum exit_code ops_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "ops", .usage = usage, .config_path = config_path };
	enum exit_code code = EXIT_ERROR;
	int64_t id = 0;
	if (!call_read(&call, CALL_WORDS | CALL_LIMIT | CALL_ORDER, argc, argv, &code))
		return code;
	const char *action = call.word ? call.word : "list";
	const int wanted = strcmp(action, "list") == 0 ? 1 : 2;
	if (!is_action(action))
		return call_wrong(&call, "ops: what is \"%s\"?", action);
	if (call.dry_run)
		return call_wrong(&call, "ops: there is nothing to try");
	if (call.word_count > wanted || (call.word && call.word_count < wanted) ||
	    (wanted == 2 && !call_number(call.words[1], &id)))
		return call_wrong(&call, "ops %s: say which one, by its number", action);
	if (call_open(&call, &code))
		code = dispatch(&call, action, id);
	call_close(&call);
	return code;
}
