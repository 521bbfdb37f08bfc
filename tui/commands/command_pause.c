/* counterfoil pause and resume */
#include "commands/command_pause.h"

#include <stdio.h>
#include <string.h>

#include "commands/call.h"
#include "data/order.h"
#include "data/sql_console.h"
#include "data/sql_pause.h"
#include "words/clean.h"
#include "words/format.h"
#include "words/table.h"
#include "words/writer.h"

static const char pause_usage[] =
	"usage: counterfoil pause [--json] [--config FILE]\n"
	"       counterfoil pause --tenant T|--effect E|--all --yes [--reason TEXT] [--force]\n"
	"                         [--dry-run] [--json] [--config FILE]\n"
	"Sends nothing more of a tenant, of an effect or at all, until it is resumed; what is in "
	"flight\n"
	"ends. Events are taken in meanwhile; windows and not_after run on. Alone it lists what "
	"is\n"
	"paused. Says so when it is paused already; ends with 4 when no effect has this name.\n"
	"  --yes          do it\n"
	"  --force        even if the configuration has no effect of this name\n"
	"  --dry-run      only say what would come of it\n"
	"  --reason TEXT  for those who see it, and for the audit\n";

static const char resume_usage[] =
	"usage: counterfoil resume --tenant T|--effect E|--all --yes [--reason TEXT] [--dry-run]\n"
	"                          [--json] [--config FILE]\n"
	"Sends again what `counterfoil pause` has stopped. Says so when it is not paused;\n"
	"ends with 4 when no effect has this name either.\n"
	"  --yes          do it\n"
	"  --dry-run      only say what would come of it\n"
	"  --reason TEXT  for the audit\n";

/* --- what is paused --- */

static void print_words(const PGresult *rows)
{
	static const char *const names[] = { "PAUSED", "NAME", "FOR", "KEYS", "WHO", "REASON" };
	TABLE_AUTO struct table table = { .columns = sizeof(names) / sizeof(names[0]) };
	BUF_AUTO struct buf out = { 0 };
	char age[FORMAT_SIZE];
	for (int row = 0; row < pg_rows(rows); row++) {
		table_add(&table, pg_get_text(rows, row, PAUSE_SCOPE));
		table_add(&table, pg_get_text(rows, row, PAUSE_NAME));
		table_add(&table, format_age(pg_get_time(rows, row, PAUSE_NOW) -
						     pg_get_time(rows, row, PAUSE_SINCE),
					     age));
		if (pg_null(rows, row, PAUSE_ASIDE))
			table_add(&table, NULL);
		else
			table_add_count(&table, pg_get_int8(rows, row, PAUSE_ASIDE));
		table_add(&table, pg_get_text(rows, row, PAUSE_WHO));
		table_add(&table, pg_get_text(rows, row, PAUSE_REASON));
	}
	table_print(&table, names, true, &out);
	fputs(pg_rows(rows) > 0 ? buf_text(&out) : "nothing is paused\n", stdout);
}

static void print_json(const PGresult *rows)
{
	BUF_AUTO struct buf out = { 0 };
	struct writer writer = { .out = &out };
	writer_open(&writer, NULL, '[');
	for (int row = 0; row < pg_rows(rows); row++) {
		writer_open(&writer, NULL, '{');
		writer_text(&writer, "scope", pg_get_text(rows, row, PAUSE_SCOPE));
		writer_text(&writer, "name", pg_get_text(rows, row, PAUSE_NAME));
		writer_time(&writer, "since", pg_get_time(rows, row, PAUSE_SINCE));
		writer_text(&writer, "who", pg_get_text(rows, row, PAUSE_WHO));
		writer_text(&writer, "reason", pg_get_text(rows, row, PAUSE_REASON));
		if (!pg_null(rows, row, PAUSE_ASIDE))
			writer_int(&writer, "keys", pg_get_int8(rows, row, PAUSE_ASIDE));
		writer_close(&writer, '}');
	}
	writer_close(&writer, ']');
	puts(buf_text(&out));
}

static enum exit_code list(struct call *call)
{
	PG_RESULT_AUTO PGresult *rows = NULL;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_int8(&params, call->conf->console.count_cap);
	if (!call_query(call, SQL_PAUSES, &params, &rows))
		return call_failed(call);
	if (call->json)
		print_json(rows);
	else
		print_words(rows);
	return EXIT_OK;
}

/* --- the order --- */

struct pausing {
	struct call *call;
	const char *scope, *name;
	char operation[ORDER_OPERATION];
};

static bool give_order(struct pausing *pausing, PGresult **verdict_r)
{
	BUF_AUTO struct buf claims = { 0 };
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	struct call *call = pausing->call;
	order_claims(&claims);
	order_operation(pausing->operation);
	pg_add_text(&params, call->name);
	pg_add_text(&params, pausing->scope);
	pg_add_text(&params, pausing->name);
	pg_add_text(&params, pausing->operation);
	pg_add_text(&params, call->reason);
	pg_add_text(&params, buf_text(&claims));
	pg_add_bool(&params, call->dry_run);
	if (call->dry_run)
		return call_query(call, SQL_PAUSE, &params, verdict_r);
	call->sqlstate[0] = '\0';
	return pg_session_script(call->session, SQL_BEGIN_ORDER, &call->err, call->sqlstate) &&
	       call_query(call, SQL_PAUSE, &params, verdict_r) &&
	       pg_session_script(call->session, "COMMIT", &call->err, call->sqlstate);
}

static void print_order(const struct pausing *pausing, const PGresult *verdict)
{
	BUF_AUTO struct buf out = { 0 };
	const struct call *call = pausing->call;
	struct writer writer = { .out = &out };
	if (!call->json) {
		clean_add(&out, pausing->name, strlen(pausing->name));
		printf("%s%s%s: %s%s\n", pausing->scope, *pausing->name ? " " : "", buf_text(&out),
		       call->dry_run && order_result(verdict) == ORDER_DONE ? "would be done: "
									    : "",
		       pg_get_text(verdict, 0, VERDICT_DETAIL));
		return;
	}
	writer_open(&writer, NULL, '{');
	writer_text(&writer, "result", pg_get_text(verdict, 0, VERDICT_RESULT));
	writer_text(&writer, "action", call->name);
	writer_text(&writer, "scope", pausing->scope);
	writer_text(&writer, "name", pausing->name);
	writer_text(&writer, "detail", pg_get_text(verdict, 0, VERDICT_DETAIL));
	writer_bool(&writer, "dry_run", call->dry_run);
	writer_text(&writer, "operation", call->dry_run ? NULL : pausing->operation);
	writer_close(&writer, '}');
	puts(buf_text(&out));
}

/* A slip in an incident must not look as if something were stopped. (What tenants there are is
 * known to nobody.) */
static bool names_an_effect(const struct pausing *pausing)
{
	const struct call *call = pausing->call;
	if (!call->effect || call->force)
		return true;
	for (size_t i = 0; i < call->conf->effect_count; i++)
		if (strcmp(call->conf->effects[i].name, call->effect) == 0)
			return true;
	return false;
}

static enum exit_code order(struct pausing *pausing)
{
	PG_RESULT_AUTO PGresult *verdict = NULL;
	struct call *call = pausing->call;
	if (call->conf->console.read_only && !call->dry_run)
		return call_error(call, EXIT_PERMISSION,
				  "console.read_only is set: nothing is changed");
	const bool known = names_an_effect(pausing), resume = strcmp(call->name, "resume") == 0;
	if (!known && !resume)
		return call_error(
			call, EXIT_NOT_FOUND,
			"the configuration has no effect \"%.64s\": nothing would be stopped; "
			"--force does it all the same",
			call->effect);
	if (!give_order(pausing, &verdict))
		return call_failed(call);
	if (!known && order_result(verdict) == ORDER_ALREADY)
		return call_error(
			call, EXIT_NOT_FOUND,
			"the configuration has no effect \"%.64s\", and none of this name "
			"is paused",
			call->effect);
	print_order(pausing, verdict);
	return EXIT_OK;
}

/* NULL: it is said well. */
static const char *what_is_missing(const struct call *call, const struct pausing *pausing)
{
	if (call->target)
		return "a target is stopped by `counterfoil hold`";
	if ((call->tenant != NULL) + (call->effect != NULL) + call->all != 1)
		return "say one of --tenant, --effect and --all";
	if (call->effect && !*pausing->name)
		return "say which effect";
	if (call->tenant && !*pausing->name && !call->force)
		return "no name is that of all keys without a tenant; if they are meant, say "
		       "--force";
	if (!call->yes && !call->dry_run)
		return "this changes something: say --yes, or --dry-run";
	return NULL;
}

static void read_subject(struct pausing *pausing)
{
	const struct call *call = pausing->call;
	pausing->scope = call->tenant ? "tenant" : (call->effect ? "effect" : "everything");
	pausing->name = call->tenant ? call->tenant : (call->effect ? call->effect : "");
}

static enum exit_code run(struct call *call, int argc, char **argv)
{
	struct pausing pausing = { .call = call };
	enum exit_code code = EXIT_ERROR;
	if (!call_read(call, CALL_WHICH | CALL_EFFECT | CALL_ORDER | CALL_BULK | CALL_FORCE, argc,
		       argv, &code))
		return code;
	const bool lists = strcmp(call->name, "pause") == 0 && !call->tenant && !call->effect &&
			   !call->all && !call->target && !call->yes && !call->dry_run;
	read_subject(&pausing);
	const char *missing = lists ? NULL : what_is_missing(call, &pausing);
	if (call->word)
		return call_wrong(call, "%s: what is \"%.64s\"?", call->name, call->word);
	if (missing)
		return call_wrong(call, "%s: %s", call->name, missing);
	if (call_open(call, &code))
		code = lists ? list(call) : order(&pausing);
	call_close(call);
	return code;
}

enum exit_code pause_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "pause", .usage = pause_usage, .config_path = config_path };
	return run(&call, argc, argv);
}

enum exit_code resume_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "resume", .usage = resume_usage, .config_path = config_path };
	return run(&call, argc, argv);
}
