/* counterfoil outbox requeue and discard */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/call.h"
#include "commands/command_outbox.h"
#include "commands/tally.h"
#include "data/order.h"
#include "data/sql_relay.h"
#include "mem.h"
#include "words/clean.h"
#include "words/writer.h"

enum { ROWS_MAX = 10000 }; /* of one operation */

static const char usage[] =
	"usage: counterfoil outbox requeue|discard ID... [--source S] --yes --reason TEXT\n"
	"       counterfoil outbox requeue|discard --all [--topic T] [--key K] [--source S]\n"
	"                                          --expect N --yes --reason TEXT\n"
	"                                          [--dry-run] [--json] [--config FILE]\n"
	"requeue: dead rows go back to the outbox under their old ids, and with the last dead row "
	"of "
	"a\n"
	"key what is parked behind it. discard: they are dropped for good, and what is parked "
	"behind\n"
	"them goes back. Whatever came of it stands in the audit. Ends with 3 when some were not "
	"in "
	"a\n"
	"state for it, with 5 when none was, or when --expect is another number, with 4 when none "
	"is\n"
	"there.\n"
	"  --all          every dead row (of the topic, of the ordering key)\n"
	"  --expect N     only if there are so many\n"
	"  --yes          do it\n"
	"  --dry-run      only say what would come of it\n"
	"  --reason TEXT  for the audit\n";

struct order_of_rows {
	struct call *call;
	const char *action, *sql;
	const char *source; /* owned by `named`, or the call's */
	char *named;
	struct pg_array ids;
	char operation[ORDER_OPERATION];
};

/* --- which rows --- */

static bool read_ids(struct order_of_rows *order, enum exit_code *code_r)
{
	struct call *call = order->call;
	for (int i = 0; i < call->word_count; i++) {
		int64_t id = 0;
		if (!call_number(call->words[i], &id)) {
			*code_r = call_wrong(call,
					     "%s: what is \"%.64s\"? Rows are named by their ids",
					     call->name, call->words[i]);
			return false;
		}
		pg_array_int8(&order->ids, id);
	}
	return true;
}

/* Without --source: the only outbox that has such rows. */
static bool find_source(struct order_of_rows *order, enum exit_code *code_r)
{
	PG_RESULT_AUTO PGresult *found = NULL;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	struct call *call = order->call;
	order->source = call->source ? call->source : "counterfoil.outbox";
	if (call->source)
		return true;
	pg_add_array(&params, &order->ids);
	if (!call_query(call, SQL_SOURCES_OF, &params, &found)) {
		*code_r = call_failed(call);
		return false;
	}
	if (pg_rows(found) > 1) {
		*code_r = call_error(
			call, EXIT_CONFLICT,
			"several outboxes have dead rows of these ids, %.200s and %.200s: "
			"say --source",
			pg_get_text(found, 0, 0), pg_get_text(found, 1, 0));
		return false;
	}
	if (pg_rows(found) == 1)
		order->source = order->named = mem_text(pg_get_text(found, 0, 0));
	return true;
}

static bool count_fits(const struct call *call, int64_t count, enum exit_code *code_r)
{
	if (count > ROWS_MAX)
		*code_r = call_error(call, EXIT_CONFLICT,
				     "more than %d rows: take less at a time, by --topic or --key",
				     ROWS_MAX);
	else if (call->expect >= 0 && count != call->expect)
		*code_r = call_error(call, EXIT_CONFLICT, "%lld rows, and not the %lld expected",
				     (long long)count, (long long)call->expect);
	else if (!count)
		*code_r = call_error(call, EXIT_NOT_FOUND, "there is no such dead row");
	else
		return true;
	return false;
}

/* --all: the ids are fixed here; rows that die later are not added. */
static bool find_all(struct order_of_rows *order, enum exit_code *code_r)
{
	PG_RESULT_AUTO PGresult *rows = NULL;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	struct call *call = order->call;
	pg_add_bool(&params, false);
	pg_add_text(&params, call->source);
	pg_add_text(&params, call->topic);
	pg_add_text(&params, call->key);
	pg_add_int8(&params, ROWS_MAX + 1);
	if (!call_query(call, SQL_DEAD_ROWS, &params, &rows)) {
		*code_r = call_failed(call);
		return false;
	}
	for (int row = 0; row < pg_rows(rows); row++) {
		const char *source = pg_get_text(rows, row, DEAD_SOURCE);
		if (order->named && strcmp(order->named, source) != 0) {
			*code_r = call_error(call, EXIT_CONFLICT,
					     "rows of several outboxes, %.200s and %.200s: say "
					     "--source",
					     order->named, source);
			return false;
		}
		if (!order->named)
			order->source = order->named = mem_text(source);
		pg_array_int8(&order->ids, pg_get_int8(rows, row, DEAD_ID));
	}
	return count_fits(call, pg_rows(rows), code_r);
}

static bool find_rows(struct order_of_rows *order, enum exit_code *code_r)
{
	if (order->call->all)
		return find_all(order, code_r);
	return count_fits(order->call, order->ids.count, code_r) && find_source(order, code_r);
}

/* --- the order --- */

static bool give_order(struct order_of_rows *order, PGresult **answer_r)
{
	struct call *call = order->call;
	BUF_AUTO struct buf claims = { 0 };
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	order_claims(&claims);
	pg_add_text(&params, order->source);
	pg_add_array(&params, &order->ids);
	pg_add_text(&params, order->operation);
	pg_add_text(&params, call->reason);
	pg_add_text(&params, buf_text(&claims));
	pg_add_bool(&params, call->dry_run);
	if (call->dry_run)
		return call_query(call, order->sql, &params, answer_r);
	call->sqlstate[0] = '\0';
	return pg_session_script(call->session, SQL_BEGIN_ORDER, &call->err, call->sqlstate) &&
	       call_query(call, order->sql, &params, answer_r) &&
	       pg_session_script(call->session, "COMMIT", &call->err, call->sqlstate);
}

static void print_json(const struct order_of_rows *order, const PGresult *answer, int done)
{
	BUF_AUTO struct buf out = { 0 };
	struct writer writer = { .out = &out };
	writer_open(&writer, NULL, '{');
	writer_text(&writer, "action", order->action);
	writer_text(&writer, "source", order->source);
	writer_bool(&writer, "dry_run", order->call->dry_run);
	writer_text(&writer, "operation", order->call->dry_run ? NULL : order->operation);
	writer_int(&writer, "done", done);
	writer_open(&writer, "rows", '[');
	for (int row = 0; row < pg_rows(answer); row++) {
		writer_open(&writer, NULL, '{');
		writer_int(&writer, "id", pg_get_int8(answer, row, SETTLE_ID));
		writer_text(&writer, "event_id", pg_get_text(answer, row, SETTLE_EVENT));
		writer_text(&writer, "result", pg_get_text(answer, row, SETTLE_RESULT));
		writer_text(&writer, "detail", pg_get_text(answer, row, SETTLE_DETAIL));
		writer_int(&writer, "behind", pg_get_int8(answer, row, SETTLE_BEHIND));
		writer_close(&writer, '}');
	}
	writer_close(&writer, ']');
	writer_close(&writer, '}');
	puts(buf_text(&out));
}

static void print_words(const struct order_of_rows *order, const PGresult *answer)
{
	BUF_AUTO struct buf out = { 0 };
	for (int row = 0; row < pg_rows(answer); row++) {
		const char *detail = pg_get_text(answer, row, SETTLE_DETAIL);
		buf_addf(&out, "row %lld: %s%s, ", (long long)pg_get_int8(answer, row, SETTLE_ID),
			 order->call->dry_run ? "would be " : "",
			 pg_get_text(answer, row, SETTLE_RESULT));
		clean_add(&out, detail, strlen(detail));
		buf_add_char(&out, '\n');
	}
	fputs(buf_text(&out), stdout);
}

static enum exit_code none_done(const struct call *call, const PGresult *answer,
				enum exit_code code)
{
	return call_error(call, code, "row %lld%s: %s",
			  (long long)pg_get_int8(answer, 0, SETTLE_ID),
			  pg_rows(answer) > 1 ? ", and the others likewise" : "",
			  pg_get_text(answer, 0, SETTLE_DETAIL));
}

static enum exit_code tell(const struct order_of_rows *order, const PGresult *answer)
{
	const struct tally tally = tally_of(answer, SETTLE_RESULT);
	const enum exit_code code = tally_code(&tally);
	const bool none = code == EXIT_NOT_FOUND || code == EXIT_CONFLICT;
	if (none && (order->call->json || tally.count == 1))
		return none_done(order->call, answer, code);
	if (order->call->json)
		print_json(order, answer, tally.done);
	else
		print_words(order, answer);
	return none ? none_done(order->call, answer, code) : code;
}

static enum exit_code carry_out(struct order_of_rows *order)
{
	PG_RESULT_AUTO PGresult *answer = NULL;
	enum exit_code code = EXIT_ERROR;
	if (order->call->conf->console.read_only && !order->call->dry_run)
		return call_error(order->call, EXIT_PERMISSION,
				  "console.read_only is set: nothing is changed");
	if (!find_rows(order, &code))
		return code;
	order_operation(order->operation);
	if (!give_order(order, &answer))
		return call_failed(order->call);
	return tell(order, answer);
}

/* NULL: it is said well. */
static const char *what_is_missing(const struct call *call)
{
	if (call->all && call->word_count)
		return "either --all, or ids";
	if (!call->all && !call->word_count)
		return "say which rows, by their ids, or --all";
	if (!call->all && (call->topic || call->key))
		return "--topic and --key go with --all";
	if (call->dry_run)
		return NULL;
	if (!call->yes)
		return "this changes something: say --yes, or --dry-run";
	if (!call->reason || !*call->reason)
		return "say --reason, for the audit";
	if (call->all && call->expect < 0)
		return "--all needs --expect, the number of rows that --dry-run tells";
	return NULL;
}

static enum exit_code run(const char *config_path, int argc, char **argv, const char *sql)
{
	struct call call = {
		.name = argv[0], .usage = usage, .config_path = config_path, .patient = true
	};
	struct order_of_rows order = { .call = &call, .action = argv[0], .sql = sql };
	enum exit_code code = EXIT_ERROR;
	if (!call_read(&call, CALL_WORDS | CALL_SOURCE | CALL_TOPIC | CALL_ORDER | CALL_BULK, argc,
		       argv, &code))
		return code;
	const char *missing = what_is_missing(&call);
	if (missing)
		return call_wrong(&call, "outbox %s: %s", call.name, missing);
	pg_array_init(&order.ids, PG_INT8);
	if (read_ids(&order, &code) && call_open(&call, &code))
		code = carry_out(&order);
	pg_array_done(&order.ids);
	free(order.named);
	call_close(&call);
	return code;
}

enum exit_code outbox_requeue_run(const char *config_path, int argc, char **argv)
{
	return run(config_path, argc, argv, SQL_REQUEUE);
}

enum exit_code outbox_discard_run(const char *config_path, int argc, char **argv)
{
	return run(config_path, argc, argv, SQL_DISCARD);
}
