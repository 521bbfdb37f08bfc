/* counterfoil targets */
#include "commands/command_targets.h"

#include <stdio.h>

#include "commands/call.h"
#include "data/sql_targets.h"
#include "words/format.h"
#include "words/table.h"
#include "words/writer.h"

static const char usage[] =
	"usage: counterfoil targets [--json] [--config FILE]\n"
	"What is sent to each target, or why not: open; held, by whom and why; disabled, because "
	"its\n"
	"endpoint is gone; breaker open or half open; paused, as it asked for; no target, when it "
	"is "
	"not\n"
	"in this configuration. Waiting keys are counted up to console.count_cap.\n";

static bool read_targets(struct call *call, PGresult **rows_r)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	PG_ARRAY_AUTO struct pg_array names = { 0 };
	const struct conf *conf = call->conf;
	pg_array_init(&names, PG_TEXT);
	for (size_t i = 0; i < conf->target_count; i++) {
		const struct conf_target *target = &conf->targets[i];
		/* its keys are recorded under the first name that it ever had */
		pg_array_text(&names, target->alias.count ? target->alias.items[0] : target->name);
	}
	pg_add_array(&params, &names);
	pg_add_int8(&params, conf->console.count_cap);
	return call_query(call, SQL_TARGETS, &params, rows_r);
}

/* --- JSON --- */

static void write_target(struct writer *writer, const PGresult *rows, int row, int64_t cap)
{
	const int64_t waiting = pg_get_int8(rows, row, GATE_WAITING);
	writer_open(writer, NULL, '{');
	writer_text(writer, "target", pg_get_text(rows, row, GATE_NAME));
	writer_text(writer, "state", pg_get_text(rows, row, GATE_STATE));
	writer_time(writer, "since", pg_get_time(rows, row, GATE_SINCE));
	writer_time(writer, "until", pg_get_time(rows, row, GATE_UNTIL));
	writer_text(writer, "held_by", pg_get_text(rows, row, GATE_BY));
	writer_text(writer, "reason", pg_get_text(rows, row, GATE_REASON));
	writer_int(writer, "waiting", waiting);
	writer_bool(writer, "more_waiting", waiting >= cap);
	writer_close(writer, '}');
}

static void print_json(const PGresult *rows, int64_t cap)
{
	BUF_AUTO struct buf out = { 0 };
	struct writer writer = { .out = &out };
	writer_open(&writer, NULL, '[');
	for (int row = 0; row < pg_rows(rows); row++)
		write_target(&writer, rows, row, cap);
	writer_close(&writer, ']');
	puts(buf_text(&out));
}

/* --- words --- */

static void add_time(struct table *table, const PGresult *rows, int row, int column,
		     enum conf_zone zone)
{
	char text[FORMAT_SIZE];
	const usec_t time = pg_get_time(rows, row, column);
	table_add(table, time == USEC_NEVER ? NULL : format_time(time, zone, text));
}

static void add_waiting(struct table *table, int64_t count, int64_t cap)
{
	char number[FORMAT_SIZE], text[FORMAT_SIZE + 1];
	(void)snprintf(text, sizeof(text), "%s%s", format_count(count, number),
		       count >= cap ? "+" : "");
	table_add(table, text);
}

static void print_words(const PGresult *rows, int64_t cap, enum conf_zone zone)
{
	static const char *const names[] = { "TARGET", "STATE",   "UNTIL", "SINCE",
					     "BY",     "WAITING", "REASON" };
	TABLE_AUTO struct table table = { .columns = sizeof(names) / sizeof(names[0]) };
	BUF_AUTO struct buf out = { 0 };
	for (int row = 0; row < pg_rows(rows); row++) {
		table_add(&table, pg_get_text(rows, row, GATE_NAME));
		table_add(&table, pg_get_text(rows, row, GATE_STATE));
		add_time(&table, rows, row, GATE_UNTIL, zone);
		add_time(&table, rows, row, GATE_SINCE, zone);
		table_add(&table, pg_get_text(rows, row, GATE_BY));
		add_waiting(&table, pg_get_int8(rows, row, GATE_WAITING), cap);
		table_add(&table, pg_get_text(rows, row, GATE_REASON));
	}
	table_print(&table, names, true, &out);
	fputs(buf_text(&out), stdout);
}

static void print_ledgers(const PGresult *rows)
{
	const int64_t ledgers = pg_rows(rows) ? pg_get_int8(rows, 0, GATE_LEDGERS) : 0;
	if (pg_rows(rows) == 0)
		puts("no target is configured, and none has been seen");
	else if (ledgers == 0)
		puts("no ledger runs: nothing is sent at all");
}

enum exit_code targets_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "targets", .usage = usage, .config_path = config_path };
	PG_RESULT_AUTO PGresult *rows = NULL;
	enum exit_code code = EXIT_ERROR;
	if (!call_read(&call, 0, argc, argv, &code))
		return code;
	if (call.word)
		return call_wrong(&call, "targets: one word too many, \"%s\"", call.word);
	if (call_open(&call, &code)) {
		const int64_t cap = call.conf->console.count_cap;
		code = EXIT_OK;
		if (!read_targets(&call, &rows))
			code = call_failed(&call);
		else if (call.json)
			print_json(rows, cap);
		else
			print_words(rows, cap, call.conf->console.zone);
		if (code == EXIT_OK && !call.json)
			print_ledgers(rows);
	}
	call_close(&call);
	return code;
}
