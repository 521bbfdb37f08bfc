/* counterfoil replay */
#include "command_replay.h"

#include <stdio.h>
#include <string.h>

#include "call.h"
#include "clean.h"
#include "lists.h"
#include "order.h"
#include "sql_console.h"
#include "writer.h"

static const char usage[] =
	"usage: counterfoil replay KEY|ID [--target T] [--tenant T] --yes [--reason TEXT]\n"
	"                          [--dry-run] [--json] [--config FILE]\n"
	"Runs a dead key again with the same idempotency key, or a waiting one at once. Whatever "
	"came\n"
	"of it stands in the audit. Ends with 5 when the key was not in a state for it.\n"
	"  --yes          do it\n"
	"  --dry-run      only say what would come of it\n"
	"  --reason TEXT  for the audit\n";

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
	order_params(order, call->reason ? call->reason : "", call->dry_run, &params);
	if (call->dry_run)
		return call_query(call, SQL_REPLAY, &params, verdict_r);
	call->sqlstate[0] = '\0';
	return pg_session_script(call->session, SQL_BEGIN_ORDER, &call->err, call->sqlstate) &&
	       call_query(call, SQL_REPLAY, &params, verdict_r) &&
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
	BUF_AUTO struct buf name = { 0 };
	const char *text = pg_get_text(key, 0, KEY_KEY);
	clean_add(&name, text, strlen(text));
	printf("%s: %s%s -> %s, %s\n", buf_text(&name), call->dry_run ? "would go " : "",
	       list_state_title(pg_get_text(verdict, 0, VERDICT_FROM)),
	       list_state_title(pg_get_text(verdict, 0, VERDICT_TO)),
	       pg_get_text(verdict, 0, VERDICT_DETAIL));
}

static enum exit_code judge(const struct call *call, const PGresult *key, const struct order *order,
			    const PGresult *verdict)
{
	switch (order_result(verdict)) {
	case ORDER_DONE:
		if (call->json)
			print_json(call, key, order, verdict);
		else
			print_done(call, key, verdict);
		return EXIT_OK;
	case ORDER_ALREADY:
	case ORDER_CHANGED:
	case ORDER_REFUSED:
		return call_error(call, EXIT_CONFLICT, "%s: %s", pg_get_text(key, 0, KEY_KEY),
				  pg_get_text(verdict, 0, VERDICT_DETAIL));
	case ORDER_MISSING:
		break;
	}
	return call_error(call, EXIT_NOT_FOUND, "the key is gone");
}

static enum exit_code replay(struct call *call)
{
	PG_RESULT_AUTO PGresult *key = NULL;
	PG_RESULT_AUTO PGresult *verdict = NULL;
	enum exit_code code = EXIT_ERROR;
	struct order order;
	int64_t id = 0;
	if (!call_find_key(call, &id, &code) || !read_key(call, id, &key, &code))
		return code;
	order_init(&order, id, pg_get_int4(key, 0, KEY_EPOCH), pg_get_text(key, 0, KEY_STATE));
	if (!give_order(call, &order, &verdict))
		return call_failed(call);
	return judge(call, key, &order, verdict);
}

enum exit_code replay_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "replay", .usage = usage, .config_path = config_path };
	enum exit_code code = EXIT_ERROR;
	if (!call_read(&call, CALL_WHICH | CALL_ORDER, argc, argv, &code))
		return code;
	if (!call.word)
		return call_wrong(&call, "replay: say which key");
	if (!call.yes && !call.dry_run)
		return call_wrong(&call, "replay changes something: say --yes, or --dry-run");
	if (call_open(&call, &code)) {
		if (call.conf->console.read_only && !call.dry_run)
			code = call_error(&call, EXIT_PERMISSION,
					  "console.read_only is set: nothing is changed");
		else
			code = replay(&call);
	}
	call_close(&call);
	return code;
}
