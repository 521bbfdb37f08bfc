/* counterfoil replay --all, resolve --all: the keys are selected into a draft, counted, and when it
 * is the count that was expected the draft becomes an order, which a ledger carries out. */
#include "commands/command_bulk.h"

#include <stdio.h>
#include <string.h>

#include "data/lists.h"
#include "data/operation.h"
#include "data/order.h"
#include "data/sql_console.h"
#include "data/sql_operations.h"
#include "words/format.h"
#include "words/table.h"

#define LOOKED_AT 5000 /* keys of one transaction */

#define USAGE_SELECTION                                                                            \
	"  --error E, --target T, --tenant T, --effect E, --topic T, --key-prefix P\n"             \
	"                   only keys of this error class, ...\n"                                  \
	"  --older-than D   only keys that were in this state for so long already: 2h, 30m\n"
#define USAGE_ORDER                                                                                \
	"  --dry-run        only select and count\n"                                               \
	"  --yes            do it\n"                                                               \
	"  --expect N       only if there are so many\n"                                           \
	"  --reason TEXT    for the audit\n"                                                       \
	"  --rate R         so many keys a second at most, 20/s, or 600/m; else as many as "       \
	"their\n"                                                                                  \
	"                   targets keep busy with\n"
#define USAGE_END                                                                                  \
	"  --wait           until it has ended; 3 when not all of it is done\n"                    \
	"Ends with 5 when --expect is another number: then nothing is done. `counterfoil ops` "    \
	"tells\n"                                                                                  \
	"how it goes on, pauses and cancels it.\n"

static const char replay_usage[] =
	"usage: counterfoil replay --all --state STATE [--uncertain] [SELECTION] --yes --expect N\n"
	"                          --reason TEXT [--rate R] [--stop-after N] [--canary] [--wait]\n"
	"                          [--dry-run] [--json] [--config FILE]\n"
	"Orders a ledger to run keys again with the same idempotency keys, each once: those that "
	"are\n"
	"of this state now and when their turn comes.\n"
	"  --state STATE    dead, or retry_wait or pending: those run at once; more than once\n"
	"  --uncertain      uncertain keys too, as long as their provider knows "
	"them\n" USAGE_SELECTION USAGE_ORDER
	"  --stop-after N   ends when so many are dead or uncertain again: 25; 0: never\n"
	"  --canary         one key first, and the others when it is completed\n" USAGE_END;

static const char resolve_usage[] =
	"usage: counterfoil resolve --all --happened|--did-not-happen [SELECTION] --yes --expect "
	"N\n"
	"                           --reason TEXT [--rate R] [--wait] [--dry-run] [--json]\n"
	"                           [--config FILE]\n"
	"Decides about uncertain keys, by what you have found out at their provider.\n"
	"  --happened       they count as completed\n"
	"  --did-not-happen they count as dead, and can be replayed\n" USAGE_SELECTION USAGE_ORDER
		USAGE_END;

struct bulk {
	struct call *call;
	struct bulk_options options;
	char operation[ORDER_OPERATION];
	int64_t total;
	int64_t closed; /* left out */
	PGresult *figures;
};

/* --- statements --- */

/* A transaction of its own, which may write. */
static bool give(struct call *call, const char *sql, const struct pg_params *params,
		 PGresult **answer_r)
{
	call->sqlstate[0] = '\0';
	return pg_session_script(call->session, SQL_BEGIN_ORDER, &call->err, call->sqlstate) &&
	       call_query(call, sql, params, answer_r) &&
	       pg_session_script(call->session, "COMMIT", &call->err, call->sqlstate);
}

static bool draft(struct bulk *bulk)
{
	PG_RESULT_AUTO PGresult *answer = NULL;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	BUF_AUTO struct buf selection = { 0 };
	BUF_AUTO struct buf claims = { 0 };
	order_operation(bulk->operation);
	bulk_options_params(&bulk->options, &selection);
	order_claims(&claims);
	pg_add_text(&params, bulk->operation);
	pg_add_text(&params, bulk->call->name);
	pg_add_text(&params, buf_text(&selection));
	pg_add_text(&params, bulk->call->reason);
	pg_add_text(&params, buf_text(&claims));
	return give(bulk->call, SQL_BULK_DRAFT, &params, &answer);
}

static bool fill(struct bulk *bulk)
{
	bool finished = false;
	while (!finished) {
		PG_RESULT_AUTO PGresult *answer = NULL;
		PG_PARAMS_AUTO struct pg_params params = { 0 };
		pg_add_text(&params, bulk->operation);
		pg_add_int8(&params, LOOKED_AT);
		if (!give(bulk->call, SQL_BULK_FILL, &params, &answer))
			return false;
		bulk->total = pg_get_int8(answer, 0, FILL_TOTAL);
		bulk->closed = pg_get_int8(answer, 0, FILL_CLOSED);
		finished = pg_get_bool(answer, 0, FILL_FINISHED);
	}
	return true;
}

static bool count(struct bulk *bulk)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_text(&params, bulk->operation);
	return call_query(bulk->call, SQL_BULK_FIGURES, &params, &bulk->figures);
}

static bool queue(struct bulk *bulk, PGresult **answer_r)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	char rate[32];
	(void)snprintf(rate, sizeof(rate), "%.9g", bulk->options.rate);
	pg_add_text(&params, bulk->operation);
	pg_add_int8(&params, bulk->call->expect);
	pg_add_text(&params, bulk->options.rate > 0 ? rate : NULL);
	pg_add_bool(&params, bulk->options.canary);
	pg_add_int8(&params, bulk->options.stop_after);
	return give(bulk->call, SQL_BULK_QUEUE, &params, answer_r);
}

/* --- what was selected --- */

static const char *window_of(const PGresult *figures, int row)
{
	if (pg_null(figures, row, FIGURE_OPEN))
		return "";
	return pg_get_bool(figures, row, FIGURE_OPEN) ? "open" : "closed";
}

static void add_figures(const PGresult *figures, struct buf *out)
{
	static const char *const names[] = { "KEYS", "STATE", "TARGET", "ERROR", "WINDOW" };
	TABLE_AUTO struct table table = { .columns = sizeof(names) / sizeof(names[0]) };
	for (int row = 0; row < pg_rows(figures); row++) {
		table_add_count(&table, pg_get_int8(figures, row, FIGURE_KEYS));
		table_add(&table, list_state_title(pg_get_text(figures, row, FIGURE_STATE)));
		table_add(&table, pg_get_text(figures, row, FIGURE_TARGET));
		table_add(&table, pg_get_text(figures, row, FIGURE_ERROR));
		table_add(&table, window_of(figures, row));
	}
	table_print(&table, names, true, out);
}

static void print_selection(const struct bulk *bulk)
{
	BUF_AUTO struct buf out = { 0 };
	char number[FORMAT_SIZE];
	buf_addf(&out, "%s keys\n", format_count(bulk->total, number));
	add_figures(bulk->figures, &out);
	if (bulk->closed)
		buf_addf(&out,
			 "%s uncertain keys are left out: their provider may have forgotten them\n",
			 format_count(bulk->closed, number));
	fputs(buf_text(&out), stdout);
}

static void print_json(const struct bulk *bulk, int64_t id)
{
	BUF_AUTO struct buf out = { 0 };
	struct writer writer = { .out = &out };
	writer_open(&writer, NULL, '{');
	writer_text(&writer, "result", bulk->call->dry_run ? "draft" : "queued");
	writer_text(&writer, "kind", bulk->call->name);
	if (id)
		writer_int(&writer, "id", id);
	writer_text(&writer, "operation", bulk->operation);
	writer_int(&writer, "keys", bulk->total);
	writer_int(&writer, "left_out", bulk->closed);
	writer_open(&writer, "figures", '[');
	for (int row = 0; row < pg_rows(bulk->figures); row++) {
		writer_open(&writer, NULL, '{');
		writer_text(&writer, "state", pg_get_text(bulk->figures, row, FIGURE_STATE));
		writer_text(&writer, "target", pg_get_text(bulk->figures, row, FIGURE_TARGET));
		writer_text(&writer, "error", pg_get_text(bulk->figures, row, FIGURE_ERROR));
		if (!pg_null(bulk->figures, row, FIGURE_OPEN))
			writer_bool(&writer, "window_open",
				    pg_get_bool(bulk->figures, row, FIGURE_OPEN));
		writer_int(&writer, "keys", pg_get_int8(bulk->figures, row, FIGURE_KEYS));
		writer_close(&writer, '}');
	}
	writer_close(&writer, ']');
	writer_close(&writer, '}');
	puts(buf_text(&out));
}

/* --- the order --- */

static enum exit_code tell_queued(const struct bulk *bulk, int64_t id)
{
	char number[FORMAT_SIZE];
	if (bulk->call->json && !bulk->options.wait)
		print_json(bulk, id);
	else if (!bulk->call->json)
		printf("operation %lld: %s keys are queued; counterfoil ops show %lld\n",
		       (long long)id, format_count(bulk->total, number), (long long)id);
	(void)fflush(stdout);
	return bulk->options.wait ? operation_follow(bulk->call, id) : EXIT_OK;
}

static enum exit_code order(struct bulk *bulk)
{
	PG_RESULT_AUTO PGresult *answer = NULL;
	if (!queue(bulk, &answer))
		return call_failed(bulk->call);
	const char *result = pg_get_text(answer, 0, QUEUE_RESULT);
	const char *detail = pg_get_text(answer, 0, QUEUE_DETAIL);
	if (strcmp(result, "done") == 0)
		return tell_queued(bulk, pg_get_int8(answer, 0, QUEUE_ID));
	return call_error(bulk->call,
			  strcmp(result, "missing") == 0 ? EXIT_NOT_FOUND : EXIT_CONFLICT, "%s",
			  detail);
}

static enum exit_code carry_out(struct bulk *bulk)
{
	if (bulk->call->conf->console.read_only)
		return call_error(bulk->call, EXIT_PERMISSION,
				  "console.read_only is set: nothing is changed, and a selection "
				  "is kept in the database");
	if (!draft(bulk) || !fill(bulk) || !count(bulk))
		return call_failed(bulk->call);
	if (!bulk->call->dry_run)
		return order(bulk);
	if (bulk->call->json)
		print_json(bulk, 0);
	else
		print_selection(bulk);
	return EXIT_OK;
}

static enum exit_code run(struct call *call, int argc, char **argv)
{
	struct bulk bulk = { .call = call };
	enum exit_code code = EXIT_ERROR;
	if (!bulk_options_read(call, argc, argv, &bulk.options, &code))
		return code;
	if (call_open(call, &code))
		code = carry_out(&bulk);
	pg_result_done(&bulk.figures);
	call_close(call);
	return code;
}

enum exit_code bulk_replay_run(const char *config_path, int argc, char **argv)
{
	struct call call = {
		.name = "replay", .usage = replay_usage, .config_path = config_path, .patient = true
	};
	return run(&call, argc, argv);
}

enum exit_code bulk_resolve_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "resolve",
			     .usage = resolve_usage,
			     .config_path = config_path,
			     .patient = true };
	return run(&call, argc, argv);
}
