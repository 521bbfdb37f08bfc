/* counterfoil outbox: the outboxes, as their relays report them. */
#include "commands/command_outbox.h"

#include <stdio.h>
#include <string.h>

#include "commands/call.h"
#include "data/sql_relay.h"
#include "words/format.h"
#include "words/table.h"
#include "words/writer.h"

#define COUNT_CAP 100000
#define LATE      (10 * USEC_SEC) /* a relay tells every two seconds */

static const char usage[] =
	"usage: counterfoil outbox [SOURCE] [--json] [--config FILE]\n"
	"       counterfoil outbox dead|parked|show|requeue|discard ... (--help tells more)\n"
	"The outboxes: what waits, what is dead or parked, which relay publishes. The figures are "
	"those\n"
	"that the relay reported when it was last seen.\n"
	"  dead, parked      rows that no broker will take, and those behind them\n"
	"  show ID           one of them in full\n"
	"  requeue ID...     back into the outbox, with what is parked behind\n"
	"  discard ID...     dropped for good; what is parked behind goes back\n";

static const struct part {
	const char *name;
	command_fn *run;
} parts[] = {
	{ "dead", outbox_dead_run },       { "parked", outbox_parked_run },
	{ "show", outbox_show_run },       { "requeue", outbox_requeue_run },
	{ "discard", outbox_discard_run },
};

static void json_figure(struct writer *writer, const char *name, const PGresult *rows, int row,
			int column)
{
	if (pg_null(rows, row, column))
		writer_text(writer, name, NULL);
	else
		writer_int(writer, name, pg_get_int8(rows, row, column));
}

static void json_age(struct writer *writer, const char *name, const PGresult *rows, int row,
		     int column)
{
	if (pg_null(rows, row, column))
		writer_text(writer, name, NULL);
	else
		writer_age(writer, name, pg_get_int8(rows, row, column));
}

/* Nobody tells any more: what is shown is what the last relay said. */
static bool is_old(const PGresult *rows, int row)
{
	return !pg_null(rows, row, SOURCE_RELAY) && pg_get_int8(rows, row, SOURCE_SEEN) > LATE;
}

static void say_old(const PGresult *rows, int row, struct buf *out)
{
	char text[FORMAT_SIZE];
	if (is_old(rows, row))
		buf_addf(out, "OLD: no relay of %s was seen for %s; its figures are of then\n",
			 pg_get_text(rows, row, SOURCE_NAME),
			 format_age(pg_get_int8(rows, row, SOURCE_SEEN), text));
}

static void json_source(struct writer *writer, const PGresult *rows, int row)
{
	writer_open(writer, NULL, '{');
	writer_text(writer, "source", pg_get_text(rows, row, SOURCE_NAME));
	json_figure(writer, "backlog", rows, row, SOURCE_BACKLOG);
	json_age(writer, "oldest_seconds", rows, row, SOURCE_OLDEST);
	writer_int(writer, "dead", pg_get_int8(rows, row, SOURCE_DEAD));
	writer_int(writer, "parked", pg_get_int8(rows, row, SOURCE_PARKED));
	json_figure(writer, "blocked_topics", rows, row, SOURCE_BLOCKED);
	json_figure(writer, "in_flight", rows, row, SOURCE_IN_FLIGHT);
	json_figure(writer, "published", rows, row, SOURCE_PUBLISHED);
	json_figure(writer, "order_violations", rows, row, SOURCE_VIOLATIONS);
	json_figure(writer, "latency_p50_us", rows, row, SOURCE_P50);
	json_figure(writer, "latency_p99_us", rows, row, SOURCE_P99);
	writer_int(writer, "relays", pg_get_int8(rows, row, SOURCE_RELAYS));
	writer_text(writer, "relay", pg_get_text(rows, row, SOURCE_RELAY));
	writer_text(writer, "role", pg_get_text(rows, row, SOURCE_ROLE));
	json_age(writer, "relay_seen_seconds", rows, row, SOURCE_SEEN);
	writer_bool(writer, "old", is_old(rows, row));
	writer_close(writer, '}');
}

static const char *figure(const PGresult *rows, int row, int column, char *text)
{
	return pg_null(rows, row, column) ? "-"
					  : format_count(pg_get_int8(rows, row, column), text);
}

static const char *age(const PGresult *rows, int row, int column, char *text)
{
	return format_age(pg_null(rows, row, column) ? USEC_NEVER : pg_get_int8(rows, row, column),
			  text);
}

static void add_source(struct table *table, const PGresult *rows, int row)
{
	char text[FORMAT_SIZE];
	table_add(table, pg_get_text(rows, row, SOURCE_NAME));
	table_add(table, figure(rows, row, SOURCE_BACKLOG, text));
	table_add(table, age(rows, row, SOURCE_OLDEST, text));
	table_add(table, figure(rows, row, SOURCE_DEAD, text));
	table_add(table, figure(rows, row, SOURCE_PARKED, text));
	table_add(table, figure(rows, row, SOURCE_BLOCKED, text));
	table_add(table,
		  pg_null(rows, row, SOURCE_RELAY) ? "none" : pg_get_text(rows, row, SOURCE_RELAY));
	table_add(table, pg_get_text(rows, row, SOURCE_ROLE));
	table_add(table, age(rows, row, SOURCE_SEEN, text));
	table_add(table, figure(rows, row, SOURCE_RELAYS, text));
}

static bool is_asked_for(const struct call *call, const PGresult *rows, int row)
{
	return !call->word || strcmp(call->word, pg_get_text(rows, row, SOURCE_NAME)) == 0;
}

/* Returns how many there are. */
static int print_sources(const struct call *call, const PGresult *rows)
{
	static const char *const names[] = { "OUTBOX",  "BACKLOG", "OLDEST", "DEAD", "PARKED",
					     "BLOCKED", "RELAY",   "ROLE",   "SEEN", "RELAYS" };
	BUF_AUTO struct buf out = { 0 }, old = { 0 };
	TABLE_AUTO struct table table = { .columns = sizeof(names) / sizeof(names[0]) };
	struct writer writer = { .out = &out };
	int count = 0;
	writer_open(&writer, NULL, '[');
	for (int row = 0; row < pg_rows(rows); row++) {
		if (!is_asked_for(call, rows, row))
			continue;
		count++;
		json_source(&writer, rows, row);
		add_source(&table, rows, row);
		say_old(rows, row, &old);
	}
	writer_close(&writer, ']');
	buf_add_char(&out, '\n');
	if (!call->json) {
		buf_clear(&out);
		table_print(&table, names, true, &out);
		buf_add_text(&out, buf_text(&old));
	}
	if (count)
		fputs(buf_text(&out), stdout);
	return count;
}

static enum exit_code sources(struct call *call)
{
	PG_RESULT_AUTO PGresult *rows = NULL;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_int8(&params, COUNT_CAP);
	if (!call_query(call, SQL_OUTBOXES, &params, &rows))
		return call_failed(call);
	if (print_sources(call, rows) || !call->word)
		return EXIT_OK;
	return call_error(call, EXIT_NOT_FOUND, "there is no outbox \"%.512s\"", call->word);
}

enum exit_code outbox_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "outbox", .usage = usage, .config_path = config_path };
	enum exit_code code = EXIT_ERROR;
	for (size_t i = 0; argc > 1 && i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strcmp(argv[1], parts[i].name) == 0)
			return parts[i].run(config_path, argc - 1, argv + 1);
	if (!call_read(&call, 0, argc, argv, &code))
		return code;
	if (call_open(&call, &code))
		code = sources(&call);
	call_close(&call);
	return code;
}
