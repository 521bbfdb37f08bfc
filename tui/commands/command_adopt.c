/* counterfoil adopt: tells whose the database was and what waits in it, and makes it that of this
 * server and environment once somebody has said so. */
#include "commands/command_adopt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/call.h"
#include "commands/sql_adopt.h"
#include "data/order.h"
#include "data/sql_console.h"
#include "mem.h"
#include "words/clean.h"
#include "words/format.h"
#include "words/writer.h"

#define COUNT_CAP  100000
#define ANSWER_MAX 500 /* of an answer at the terminal */

static const char usage[] =
	"usage: counterfoil adopt [--yes --reason TEXT] [--dry-run] [--json] [--config FILE]\n"
	"Makes a restored or copied database that of this server and of general.environment. Until "
	"then\n"
	"relay and ledger do nothing on it: a copy must not send what the original has sent, or "
	"will.\n"
	"Tells first whose the database was and what waits in it; asks, on a terminal.\n"
	"  --yes          do it without asking; needs --reason\n"
	"  --reason TEXT  for the audit\n"
	"  --dry-run      only tell\n";

static const struct {
	enum adopt_column column;
	const char *words;
	const char *name; /* in JSON */
} waiting[] = {
#define ROW(symbol_, words_, name_, from_) { ADOPT_##symbol_, words_, name_ },
	ADOPT_WAITING(ROW)
#undef ROW
};
enum { WAITING_COUNT = sizeof(waiting) / sizeof(waiting[0]) };

/* The database as it was shown, and what was decided. */
struct adoption {
	struct call *call;
	PGresult *seen;
	const char *reason;
	const char *result; /* as in SQL_ADOPT; NULL: nothing was asked for */
	char operation[ORDER_OPERATION];
};

static const char *environment_of(const struct adoption *adoption)
{
	return adoption->call->conf->general.environment;
}

static const char *seen(const struct adoption *adoption, enum adopt_column column)
{
	return pg_get_text(adoption->seen, 0, (int)column);
}

static bool is_ours(const struct adoption *adoption)
{
	const char *identifier = seen(adoption, ADOPT_IDENTIFIER);
	return identifier && strcmp(identifier, seen(adoption, ADOPT_SERVER)) == 0 &&
	       strcmp(seen(adoption, ADOPT_ENVIRONMENT), environment_of(adoption)) == 0;
}

static bool look(struct adoption *adoption)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_int8(&params, COUNT_CAP);
	return call_query(adoption->call, SQL_ADOPT_LOOK, &params, &adoption->seen);
}

/* --- what is shown --- */

static void print_json(const struct adoption *adoption)
{
	BUF_AUTO struct buf out = { 0 };
	struct writer writer = { .out = &out };
	writer_open(&writer, NULL, '{');
	writer_text(&writer, "result", adoption->result ? adoption->result : "told");
	writer_open(&writer, "was", '{');
	writer_text(&writer, "system_identifier", seen(adoption, ADOPT_IDENTIFIER));
	writer_text(&writer, "environment", seen(adoption, ADOPT_ENVIRONMENT));
	writer_time(&writer, "adopted_at", pg_get_time(adoption->seen, 0, ADOPT_ADOPTED_AT));
	writer_text(&writer, "adopted_by", seen(adoption, ADOPT_ADOPTED_BY));
	writer_close(&writer, '}');
	writer_open(&writer, "is", '{');
	writer_text(&writer, "system_identifier", seen(adoption, ADOPT_SERVER));
	writer_text(&writer, "environment", environment_of(adoption));
	writer_close(&writer, '}');
	writer_open(&writer, "waiting", '{');
	for (size_t i = 0; i < WAITING_COUNT; i++)
		writer_int(&writer, waiting[i].name,
			   pg_get_int8(adoption->seen, 0, (int)waiting[i].column));
	writer_close(&writer, '}');
	writer_int(&writer, "counted_up_to", COUNT_CAP);
	writer_text(&writer, "operation", *adoption->operation ? adoption->operation : NULL);
	writer_close(&writer, '}');
	puts(buf_text(&out));
}

static void print_owner(const char *title, const char *identifier, const char *environment)
{
	BUF_AUTO struct buf name = { 0 };
	if (!identifier) {
		printf("  %s  not recorded\n", title);
		return;
	}
	clean_add(&name, environment, strlen(environment));
	if (*environment)
		printf("  %s  system identifier %s, environment \"%s\"\n", title, identifier,
		       buf_text(&name));
	else
		printf("  %s  system identifier %s, no environment\n", title, identifier);
}

static void print_since(const struct adoption *adoption)
{
	BUF_AUTO struct buf who = { 0 };
	const char *by = seen(adoption, ADOPT_ADOPTED_BY);
	char time[FORMAT_SIZE];
	if (!by)
		return;
	clean_add(&who, by, strlen(by));
	printf("       since %s, by %s\n",
	       format_time(pg_get_time(adoption->seen, 0, ADOPT_ADOPTED_AT),
			   adoption->call->conf->console.zone, time),
	       buf_text(&who));
}

static void print_seen(const struct adoption *adoption)
{
	char number[FORMAT_SIZE];
	puts(pg_session_name(adoption->call->session));
	print_owner("was", seen(adoption, ADOPT_IDENTIFIER), seen(adoption, ADOPT_ENVIRONMENT));
	print_since(adoption);
	print_owner("is ", seen(adoption, ADOPT_SERVER), environment_of(adoption));
	puts("What waits in it, and goes to the brokers and targets of whichever configuration "
	     "runs on it:");
	for (size_t i = 0; i < WAITING_COUNT; i++) {
		int64_t count = pg_get_int8(adoption->seen, 0, (int)waiting[i].column);
		printf("  %8s%s  %s\n", format_count(count, number), count < COUNT_CAP ? " " : "+",
		       waiting[i].words);
	}
}

/* --- asking --- */

/* The line without its end; NULL: there is none, or it is too long to be an answer. */
static char *ask(const char *question)
{
	char line[ANSWER_MAX];
	fputs(question, stdout);
	(void)fflush(stdout);
	if (!fgets(line, sizeof(line), stdin) || !strchr(line, '\n'))
		return NULL;
	line[strcspn(line, "\n")] = '\0';
	return mem_text(line);
}

static bool confirmed(void)
{
	char *answer = ask("Adopt it? Say yes: ");
	bool yes = answer && strcmp(answer, "yes") == 0;
	free(answer);
	return yes;
}

/* --- doing --- */

static bool give_order(struct adoption *adoption, PGresult **verdict_r)
{
	struct call *call = adoption->call;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	BUF_AUTO struct buf claims = { 0 };
	order_claims(&claims);
	order_operation(adoption->operation);
	pg_add_text(&params, environment_of(adoption));
	pg_add_text(&params, seen(adoption, ADOPT_SERVER));
	pg_add_text(&params, seen(adoption, ADOPT_IDENTIFIER));
	pg_add_text(&params, seen(adoption, ADOPT_ENVIRONMENT));
	pg_add_text(&params, adoption->operation);
	pg_add_text(&params, adoption->reason);
	pg_add_text(&params, buf_text(&claims));
	call->sqlstate[0] = '\0';
	return pg_session_script(call->session, SQL_BEGIN_ORDER, &call->err, call->sqlstate) &&
	       call_query(call, SQL_ADOPT, &params, verdict_r) &&
	       pg_session_script(call->session, "COMMIT", &call->err, call->sqlstate);
}

static enum exit_code carry_out(struct adoption *adoption)
{
	PG_RESULT_AUTO PGresult *verdict = NULL;
	if (!give_order(adoption, &verdict))
		return call_failed(adoption->call);
	const char *result = pg_get_text(verdict, 0, ADOPT_RESULT);
	const char *detail = pg_get_text(verdict, 0, ADOPT_DETAIL);
	if (strcmp(result, "done") != 0 && strcmp(result, "already") != 0)
		return call_error(adoption->call, EXIT_CONFLICT, "not adopted: %s", detail);
	adoption->result = result;
	if (adoption->call->json)
		print_json(adoption);
	else
		printf("%s: %s\n", result, detail);
	return EXIT_OK;
}

static enum exit_code say_nothing_to_do(const struct adoption *adoption)
{
	if (adoption->call->json)
		print_json(adoption);
	else
		puts("nothing to do: it belongs to this server and environment");
	return EXIT_OK;
}

static enum exit_code ask_and_carry_out(struct adoption *adoption)
{
	char *reason = NULL;
	enum exit_code code = EXIT_ERROR;
	if (!adoption->reason)
		adoption->reason = reason = ask("Reason, for the audit: ");
	if (adoption->reason && *adoption->reason && confirmed())
		code = carry_out(adoption);
	else
		puts("nothing was changed");
	free(reason);
	return code;
}

static enum exit_code adopt(struct adoption *adoption)
{
	struct call *call = adoption->call;
	if (!look(adoption))
		return call_failed(call);
	const char *recorded = seen(adoption, ADOPT_ENVIRONMENT);
	if (!call->json)
		print_seen(adoption);
	if (is_ours(adoption)) {
		adoption->result = "already";
		return say_nothing_to_do(adoption);
	}
	if (call->dry_run) {
		if (call->json)
			print_json(adoption);
		return EXIT_OK;
	}
	if (call->conf->console.read_only)
		return call_error(call, EXIT_PERMISSION,
				  "console.read_only is set: nothing is changed");
	if (!*environment_of(adoption) && recorded && *recorded)
		return call_error(
			call, EXIT_CONFIG,
			"general.environment is empty: name this environment there first");
	return call->yes ? carry_out(adoption) : ask_and_carry_out(adoption);
}

enum exit_code adopt_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "adopt", .usage = usage, .config_path = config_path };
	enum exit_code code = EXIT_ERROR;
	if (!call_read(&call, CALL_ORDER, argc, argv, &code))
		return code;
	if (call.word)
		return call_wrong(&call, "adopt: one word too many, \"%s\"", call.word);
	bool asks = !call.json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	if (!call.dry_run && !call.yes && !asks)
		return call_wrong(&call,
				  "adopt changes something: say --yes --reason, or --dry-run");
	if (call.yes && !call.dry_run && !(call.reason && *call.reason))
		return call_wrong(&call, "adopt: --yes needs --reason");
	if (call_open(&call, &code)) {
		struct adoption adoption = { .call = &call, .reason = call.reason };
		code = adopt(&adoption);
		pg_drop(adoption.seen);
	}
	call_close(&call);
	return code;
}
