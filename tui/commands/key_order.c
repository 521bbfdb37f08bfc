/* An order about one key, given by a command. */
#include "commands/key_order.h"

#include <stdio.h>
#include <string.h>

#include "data/lists.h"
#include "data/sql_console.h"
#include "words/clean.h"
#include "words/writer.h"

/* The key as it is now: the order says so, and fails when it has moved meanwhile. */
static bool read_key(struct call *call, int64_t id, PGresult **key_r, enum exit_code *code_r)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_int8(&params, id);
	if (!call_query(call, SQL_KEY, &params, key_r)) {
		*code_r = call_failed(call);
		return false;
	}
	if (pg_rows(*key_r) == 1)
		return true;
	*code_r = call_error(call, EXIT_NOT_FOUND, "there is no key \"%.512s\"", call->word);
	return false;
}

/* A transaction of its own, which may write; a dry run writes nothing and needs none. */
static bool give_order(struct call *call, const struct order *order, PGresult **verdict_r)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	const char *sql = order_form(order->kind)->sql;
	order_params(order, call->provider_id, call->reason ? call->reason : "", call->dry_run,
		     &params);
	if (call->dry_run)
		return call_query(call, sql, &params, verdict_r);
	call->sqlstate[0] = '\0';
	return pg_session_script(call->session, SQL_BEGIN_ORDER, &call->err, call->sqlstate) &&
	       call_query(call, sql, &params, verdict_r) &&
	       pg_session_script(call->session, "COMMIT", &call->err, call->sqlstate);
}

static void print_json(const struct call *call, const PGresult *key, const struct order *order,
		       const PGresult *verdict)
{
	BUF_AUTO struct buf out = { 0 };
	struct writer writer = { .out = &out };
	writer_open(&writer, NULL, '{');
	writer_text(&writer, "result", pg_get_text(verdict, 0, VERDICT_RESULT));
	writer_text(&writer, "action", pg_get_text(verdict, 0, VERDICT_ACTION));
	writer_text(&writer, "detail", pg_get_text(verdict, 0, VERDICT_DETAIL));
	writer_bool(&writer, "dry_run", call->dry_run);
	writer_int(&writer, "id", order->id);
	writer_text(&writer, "key", pg_get_text(key, 0, KEY_KEY));
	writer_text(&writer, "target", pg_get_text(key, 0, KEY_TARGET));
	writer_text(&writer, "tenant", pg_get_text(key, 0, KEY_TENANT));
	writer_text(&writer, "from_state", pg_get_text(verdict, 0, VERDICT_FROM));
	writer_text(&writer, "to_state", pg_get_text(verdict, 0, VERDICT_TO));
	writer_text(&writer, "operation", call->dry_run ? NULL : order->operation);
	writer_close(&writer, '}');
	puts(buf_text(&out));
}

static void print_done(const struct call *call, const PGresult *key, const PGresult *verdict)
{
	BUF_AUTO struct buf line = { 0 };
	const char *name = pg_get_text(key, 0, KEY_KEY);
	const char *detail = pg_get_text(verdict, 0, VERDICT_DETAIL);
	const char *from = pg_get_text(verdict, 0, VERDICT_FROM);
	const char *to = pg_get_text(verdict, 0, VERDICT_TO);
	clean_add(&line, name, strlen(name));
	buf_add_text(&line,
		     call->dry_run && order_result(verdict) == ORDER_DONE ? ": would go " : ": ");
	if (strcmp(from, to) == 0)
		buf_addf(&line, "%s, ", list_state_title(from));
	else
		buf_addf(&line, "%s -> %s, ", list_state_title(from), list_state_title(to));
	clean_add(&line, detail, strlen(detail));
	puts(buf_text(&line));
}

/* It is as it was asked for, and there was nothing to do. But whoever asks for a replay wants
 * something to be sent, and of a completed key nothing is. */
static bool is_so(const PGresult *verdict)
{
	return order_result(verdict) == ORDER_ALREADY &&
	       strcmp(pg_get_text(verdict, 0, VERDICT_ACTION), "replay") != 0;
}

static enum exit_code judge(const struct call *call, const PGresult *key, const struct order *order,
			    const PGresult *verdict)
{
	const enum order_result result = order_result(verdict);
	if (result == ORDER_MISSING)
		return call_error(call, EXIT_NOT_FOUND, "the key is gone");
	if (result != ORDER_DONE && !is_so(verdict))
		return call_error(call, EXIT_CONFLICT, "%s: %s", pg_get_text(key, 0, KEY_KEY),
				  pg_get_text(verdict, 0, VERDICT_DETAIL));
	if (call->json)
		print_json(call, key, order, verdict);
	else
		print_done(call, key, verdict);
	return EXIT_OK;
}

/* To do again what was done needs a word more than any other replay. */
static bool is_forced(const struct call *call, const struct order *order)
{
	return order->kind != ORDER_NEW_KEY || call->force || call->dry_run ||
	       strcmp(order->state, "completed") != 0;
}

static enum exit_code carry_out(struct call *call, enum order_kind kind)
{
	PG_RESULT_AUTO PGresult *key = NULL;
	PG_RESULT_AUTO PGresult *verdict = NULL;
	enum exit_code code = EXIT_ERROR;
	struct order order;
	int64_t id = 0;
	if (!call_find_key(call, &id, &code) || !read_key(call, id, &key, &code))
		return code;
	order_init(&order, kind, id, pg_get_int4(key, 0, KEY_EPOCH),
		   pg_get_text(key, 0, KEY_STATE));
	if (!is_forced(call, &order))
		return call_error(call, EXIT_CONFLICT,
				  "%s: already completed, and with a new key it happens a second "
				  "time: that takes --force",
				  pg_get_text(key, 0, KEY_KEY));
	if (!give_order(call, &order, &verdict))
		return call_failed(call);
	return judge(call, key, &order, verdict);
}

enum exit_code key_order_run(struct call *call, enum order_kind kind)
{
	enum exit_code code = EXIT_ERROR;
	if (!call->word)
		return call_wrong(call, "%s: say which key", call->name);
	if (!call->yes && !call->dry_run)
		return call_wrong(call, "%s changes something: say --yes, or --dry-run",
				  call->name);
	if (order_form(kind)->reason && !call->dry_run && (!call->reason || !*call->reason))
		return call_wrong(call, "%s: say --reason, for the audit", call->name);
	if (call_open(call, &code)) {
		if (call->conf->console.read_only && !call->dry_run)
			code = call_error(call, EXIT_PERMISSION,
					  "console.read_only is set: nothing is changed");
		else
			code = carry_out(call, kind);
	}
	call_close(call);
	return code;
}
