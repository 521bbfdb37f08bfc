/* counterfoil hold, release */
#include "commands/command_hold.h"

#include <stdio.h>
#include <string.h>

#include "commands/call.h"
#include "data/order.h"
#include "data/sql_console.h"
#include "data/sql_targets.h"
#include "words/clean.h"
#include "words/writer.h"

static const char hold_usage[] =
	"usage: counterfoil hold --target T --reason TEXT --yes [--force] [--dry-run] [--json]\n"
	"                        [--config FILE]\n"
	"Sends nothing to a target any more, within a second or two, until somebody releases it. "
	"What\n"
	"is in flight ends; what waits keeps its place and its attempts.\n"
	"  --yes          do it\n"
	"  --reason TEXT  for the audit, and for whoever sees it held\n"
	"  --force        even if nobody has seen a target of this name\n"
	"  --dry-run      only say what would come of it\n";

static const char release_usage[] =
	"usage: counterfoil release --target T --yes [--reason TEXT] [--dry-run] [--json]\n"
	"                           [--config FILE]\n"
	"Sends to a target again: lifts whatever holds it back, a hold of a person or of its own, "
	"an\n"
	"open breaker, a pause that it asked for, that its endpoint was gone.\n"
	"  --yes          do it\n"
	"  --reason TEXT  for the audit\n"
	"  --dry-run      only say what would come of it\n";

static bool is_called(const struct conf_target *target, const char *name)
{
	bool called = strcmp(target->name, name) == 0;
	for (size_t i = 0; i < target->alias.count && !called; i++)
		called = strcmp(target->alias.items[i], name) == 0;
	return called;
}

/* NULL: it is not in this configuration. */
static const struct conf_target *find_target(const struct call *call)
{
	const struct conf *conf = call->conf;
	for (size_t i = 0; i < conf->target_count; i++)
		if (is_called(&conf->targets[i], call->target))
			return &conf->targets[i];
	return NULL;
}

/* Its keys are recorded under the first name that it ever had. */
static void add_names(const struct call *call, const struct conf_target *target,
		      struct pg_array *names)
{
	pg_array_init(names, PG_TEXT);
	for (size_t i = 0; target && i < target->alias.count; i++)
		pg_array_text(names, target->alias.items[i]);
	pg_array_text(names, target ? target->name : call->target);
}

static bool give_order(struct call *call, const char *operation, PGresult **verdict_r)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	PG_ARRAY_AUTO struct pg_array names = { 0 };
	BUF_AUTO struct buf claims = { 0 };
	const struct conf_target *target = find_target(call);
	order_claims(&claims);
	add_names(call, target, &names);
	pg_add_text(&params, call->name);
	pg_add_array(&params, &names);
	pg_add_bool(&params, call->force || target);
	pg_add_text(&params, operation);
	pg_add_text(&params, call->reason);
	pg_add_text(&params, buf_text(&claims));
	pg_add_bool(&params, call->dry_run);
	if (call->dry_run)
		return call_query(call, SQL_HOLD_TARGET, &params, verdict_r);
	call->sqlstate[0] = '\0';
	return pg_session_script(call->session, SQL_BEGIN_ORDER, &call->err, call->sqlstate) &&
	       call_query(call, SQL_HOLD_TARGET, &params, verdict_r) &&
	       pg_session_script(call->session, "COMMIT", &call->err, call->sqlstate);
}

static void print_json(const struct call *call, const char *operation, const PGresult *verdict)
{
	BUF_AUTO struct buf out = { 0 };
	struct writer writer = { .out = &out };
	writer_open(&writer, NULL, '{');
	writer_text(&writer, "result", pg_get_text(verdict, 0, VERDICT_RESULT));
	writer_text(&writer, "action", pg_get_text(verdict, 0, VERDICT_ACTION));
	writer_text(&writer, "detail", pg_get_text(verdict, 0, VERDICT_DETAIL));
	writer_bool(&writer, "dry_run", call->dry_run);
	writer_text(&writer, "target", call->target);
	writer_text(&writer, "operation", call->dry_run ? NULL : operation);
	writer_close(&writer, '}');
	puts(buf_text(&out));
}

static void print_words(const struct call *call, const PGresult *verdict)
{
	BUF_AUTO struct buf line = { 0 };
	const char *detail = pg_get_text(verdict, 0, VERDICT_DETAIL);
	clean_add(&line, call->target, strlen(call->target));
	buf_addf(&line, ": %s%s: ", call->dry_run ? "would be " : "",
		 pg_get_text(verdict, 0, VERDICT_RESULT));
	clean_add(&line, detail, strlen(detail));
	puts(buf_text(&line));
}

static enum exit_code order_target(struct call *call)
{
	PG_RESULT_AUTO PGresult *verdict = NULL;
	char operation[ORDER_OPERATION];
	order_operation(operation);
	if (!give_order(call, operation, &verdict))
		return call_failed(call);
	if (order_result(verdict) == ORDER_MISSING)
		return call_error(call, EXIT_NOT_FOUND, "%s: %s", call->target,
				  pg_get_text(verdict, 0, VERDICT_DETAIL));
	if (call->json)
		print_json(call, operation, verdict);
	else
		print_words(call, verdict);
	return EXIT_OK;
}

/* False: *code_r says why not. */
static bool is_complete(const struct call *call, bool needs_reason, enum exit_code *code_r)
{
	const bool reason = call->reason && *call->reason;
	if (call->word)
		*code_r = call_wrong(call, "%s: one word too many, \"%s\"", call->name, call->word);
	else if (!call->target || !*call->target)
		*code_r = call_wrong(call, "%s: say which --target", call->name);
	else if (!call->yes && !call->dry_run)
		*code_r = call_wrong(call, "%s changes something: say --yes, or --dry-run",
				     call->name);
	else if (needs_reason && !reason && !call->dry_run)
		*code_r = call_wrong(call, "%s: say why, with --reason", call->name);
	else
		return true;
	return false;
}

static enum exit_code run(struct call *call, unsigned options, bool needs_reason, int argc,
			  char **argv)
{
	enum exit_code code = EXIT_ERROR;
	if (!call_read(call, options, argc, argv, &code) || !is_complete(call, needs_reason, &code))
		return code;
	if (call_open(call, &code)) {
		if (call->conf->console.read_only && !call->dry_run)
			code = call_error(call, EXIT_PERMISSION,
					  "console.read_only is set: nothing is changed");
		else
			code = order_target(call);
	}
	call_close(call);
	return code;
}

enum exit_code hold_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "hold", .usage = hold_usage, .config_path = config_path };
	return run(&call, CALL_TARGET | CALL_ORDER | CALL_FORCE, true, argc, argv);
}

enum exit_code release_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "release",
			     .usage = release_usage,
			     .config_path = config_path };
	return run(&call, CALL_TARGET | CALL_ORDER, false, argc, argv);
}
