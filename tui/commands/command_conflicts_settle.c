/* counterfoil conflicts settle */
#include <stdio.h>
#include <string.h>

#include "commands/call.h"
#include "commands/command_conflicts.h"
#include "commands/settling.h"
#include "data/intake_order.h"
#include "data/sql_conflicts.h"

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

/* --- the command --- */

enum exit_code conflicts_settle_run(const char *config_path, int argc, char **argv)
{
	static const struct settling settling = { SQL_CLASH_SETTLE, "settled" };
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
		code = settling_do(&call, &ids, &settling);
	call_close(&call);
	return code;
}
