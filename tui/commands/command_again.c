/* counterfoil redeliver and rewind */
#include "commands/command_again.h"

#include <stdio.h>
#include <string.h>

#include "commands/call.h"
#include "data/intake_order.h"
#include "data/sql_intake.h"
#include "words/table.h"
#include "words/writer.h"

static const char redeliver_usage[] =
	"usage: counterfoil redeliver --topic T --last N|--from TIME [--to TIME] --yes --reason "
	"TEXT\n"
	"                             [--apply] [--json] [--config FILE]\n"
	"A ledger reads events again that were taken in, and looks each up: they should all be "
	"known, and\n"
	"then nothing happens. Keys that are missing are told, and the order ends as failed; "
	"nothing is\n"
	"recorded for them unless --apply is said. Positions do not move.\n"
	"  --last N       the last N of the topic, shared evenly by its partitions\n"
	"  --from TIME    what was sent from then on, \"2026-01-31T08:00:00Z\"; --to TIME: and "
	"before\n"
	"  --apply        record what is missing, as if it came now: it is performed\n"
	"  --yes          do it\n"
	"  --reason TEXT  for the audit\n";

static const char rewind_usage[] =
	"usage: counterfoil rewind TOPIC [--json] [--config FILE]\n"
	"       counterfoil rewind TOPIC --to TIME|OFFSET|earliest [--partition P] --yes --reason "
	"TEXT\n"
	"                          [--force] [--json] [--config FILE]\n"
	"Alone it tells where intake stands, and from where on the ledger knows keys. With --to "
	"the "
	"positions\n"
	"go back, and ledgers read on from there: what is known is a duplicate, and nothing "
	"happens. What is\n"
	"further back than keys are known would be performed as if it were new: refused.\n"
	"  --to TIME      to what was sent from then on, \"2026-01-31T08:00:00Z\"\n"
	"  --to OFFSET    of each partition that is further\n"
	"  --partition P  only this one\n"
	"  --force        further back than keys are known too: that is PERFORMED AGAIN\n"
	"  --yes          do it\n"
	"  --reason TEXT  for the audit\n";

/* The database reads times as it writes them, too. */
static bool add_ms(struct call *call, struct writer *writer, const char *name, const char *text,
		   enum exit_code *code_r)
{
	PG_RESULT_AUTO PGresult *ms = NULL;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_text(&params, text);
	if (call_query(call, SQL_MS, &params, &ms)) {
		writer_int(writer, name, pg_get_int8(ms, 0, 0));
		return true;
	}
	*code_r = strncmp(call->sqlstate, "22", 2) == 0
			  ? call_wrong(call,
				       "%s: \"%.64s\" is no time such as "
				       "\"2026-01-31T08:00:00Z\"",
				       call->name, text)
			  : call_failed(call);
	return false;
}

/* --- redeliver --- */

/* NULL: it is said well. */
static const char *missing(const struct call *call)
{
	if (call->word || call->dry_run || call->partition >= 0 || call->force)
		return "what is that?";
	if (!call->topic)
		return "say which topic, with --topic";
	if ((call->last > 0) == (call->from != NULL) || (call->to && !call->from))
		return "say --last N, or --from TIME and perhaps --to TIME";
	return NULL;
}

static enum exit_code redeliver(struct call *call)
{
	BUF_AUTO struct buf params = { 0 };
	struct writer writer = { .out = &params };
	enum exit_code code = EXIT_ERROR;
	writer_open(&writer, NULL, '{');
	writer_text(&writer, "topic", call->topic);
	if (call->last > 0)
		writer_int(&writer, "last", call->last);
	if (call->from && !add_ms(call, &writer, "from_ms", call->from, &code))
		return code;
	if (call->to && !add_ms(call, &writer, "to_ms", call->to, &code))
		return code;
	writer_bool(&writer, "apply", call->apply);
	writer_close(&writer, '}');
	return intake_order(call, "redeliver", buf_text(&params));
}

enum exit_code redeliver_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "redeliver",
			     .usage = redeliver_usage,
			     .config_path = config_path };
	enum exit_code code = EXIT_ERROR;
	if (!call_read(&call, CALL_TOPIC | CALL_ORDER | CALL_AGAIN | CALL_FORCE, argc, argv, &code))
		return code;
	if (missing(&call))
		return call_wrong(&call, "redeliver: %s", missing(&call));
	if (!intake_order_fits(&call, &code))
		return code;
	if (call_open(&call, &code))
		code = redeliver(&call);
	call_close(&call);
	return code;
}

/* --- rewind --- */

static enum exit_code go_back(struct call *call)
{
	BUF_AUTO struct buf params = { 0 };
	struct writer writer = { .out = &params };
	enum exit_code code = EXIT_ERROR;
	int64_t offset = 0;
	writer_open(&writer, NULL, '{');
	writer_text(&writer, "topic", call->word);
	if (call->partition >= 0)
		writer_int(&writer, "partition", call->partition);
	if (call_number(call->to, &offset))
		writer_int(&writer, "to_offset", offset);
	else if (strcmp(call->to, "earliest") != 0 &&
		 !add_ms(call, &writer, "to_ms", call->to, &code))
		return code;
	writer_bool(&writer, "force", call->force);
	writer_close(&writer, '}');
	return intake_order(call, "rewind", buf_text(&params));
}

static void print_places_json(const PGresult *rows)
{
	BUF_AUTO struct buf out = { 0 };
	struct writer writer = { .out = &out };
	writer_open(&writer, NULL, '[');
	for (int row = 0; row < pg_rows(rows); row++) {
		writer_open(&writer, NULL, '{');
		writer_int(&writer, "partition", pg_get_int4(rows, row, PLACE_PARTITION));
		writer_int(&writer, "next_offset", pg_get_int8(rows, row, PLACE_NEXT));
		writer_int(&writer, "known_from", pg_get_int8(rows, row, PLACE_SINCE));
		writer_close(&writer, '}');
	}
	writer_close(&writer, ']');
	puts(buf_text(&out));
}

static void print_places(const PGresult *rows)
{
	static const char *const names[] = { "PARTITION", "NEXT OFFSET", "KEYS KNOWN FROM" };
	BUF_AUTO struct buf out = { 0 };
	TABLE_AUTO struct table table = { .columns = sizeof(names) / sizeof(names[0]) };
	for (int row = 0; row < pg_rows(rows); row++) {
		int64_t next = pg_get_int8(rows, row, PLACE_NEXT);
		table_add_count(&table, pg_get_int4(rows, row, PLACE_PARTITION));
		if (next < 0)
			table_add(&table, "not begun");
		else
			table_add_count(&table, next);
		table_add_count(&table, pg_get_int8(rows, row, PLACE_SINCE));
	}
	table_print(&table, names, true, &out);
	fputs(buf_text(&out), stdout);
}

static enum exit_code rewind_topic(struct call *call)
{
	PG_RESULT_AUTO PGresult *rows = NULL;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_text(&params, call->word);
	if (!call_query(call, SQL_PLACES, &params, &rows))
		return call_failed(call);
	if (pg_rows(rows) == 0)
		return call_error(call, EXIT_NOT_FOUND, "topic %s has not been begun", call->word);
	if (call->to)
		return go_back(call);
	if (call->json)
		print_places_json(rows);
	else
		print_places(rows);
	return EXIT_OK;
}

enum exit_code rewind_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "rewind", .usage = rewind_usage, .config_path = config_path };
	enum exit_code code = EXIT_ERROR;
	if (!call_read(&call, CALL_ORDER | CALL_AGAIN | CALL_FORCE, argc, argv, &code))
		return code;
	if (!call.word || call.dry_run || call.apply || call.from || call.last)
		return call_wrong(&call, "rewind: say which topic, and perhaps --to");
	if (call.to && !intake_order_fits(&call, &code))
		return code;
	if (call_open(&call, &code))
		code = rewind_topic(&call);
	call_close(&call);
	return code;
}
