/* Rows of keys, printed. */
#include "commands/rows.h"

#include "data/sql_console.h"
#include "words/format.h"
#include "words/row_text.h"
#include "words/table.h"

void rows_json(struct writer *writer, const PGresult *rows, int row, bool matched)
{
	writer_open(writer, NULL, '{');
	writer_int(writer, "id", pg_get_int8(rows, row, ROW_ID));
	writer_text(writer, "key", pg_get_text(rows, row, ROW_KEY));
	writer_text(writer, "target", pg_get_text(rows, row, ROW_TARGET));
	writer_text(writer, "tenant", pg_get_text(rows, row, ROW_TENANT));
	writer_text(writer, "state", pg_get_text(rows, row, ROW_STATE));
	writer_bool(writer, "shadow", pg_get_bool(rows, row, ROW_SHADOW));
	writer_time(writer, "since", pg_get_time(rows, row, ROW_SINCE));
	writer_age(writer, "age_seconds", pg_get_int8(rows, row, ROW_AGE));
	writer_text(writer, "effect", pg_get_text(rows, row, ROW_EFFECT));
	writer_text(writer, "topic", pg_get_text(rows, row, ROW_TOPIC));
	writer_int(writer, "partition", pg_get_int8(rows, row, ROW_PARTITION));
	writer_int(writer, "offset", pg_get_int8(rows, row, ROW_OFFSET));
	writer_text(writer, "event_id", pg_get_text(rows, row, ROW_EVENT_ID));
	writer_text(writer, "subject", pg_get_text(rows, row, ROW_SUBJECT));
	writer_int(writer, "tries", pg_get_int8(rows, row, ROW_TRIES));
	writer_int(writer, "attempts", pg_get_int8(rows, row, ROW_ATTEMPTS));
	writer_time(writer, "due_at", pg_get_time(rows, row, ROW_DUE));
	writer_text(writer, "waits_behind", pg_get_text(rows, row, ROW_BEHIND));
	writer_text(writer, "stopped", pg_get_text(rows, row, ROW_STOPPED));
	writer_text(writer, "error", pg_get_text(rows, row, ROW_ERROR));
	writer_text(writer, "provider_id", pg_get_text(rows, row, ROW_PROVIDER_ID));
	writer_text(writer, "owner", pg_get_text(rows, row, ROW_OWNER));
	if (matched)
		writer_text(writer, "matched", pg_get_text(rows, row, ROW_MATCHED));
	writer_close(writer, '}');
}

void rows_print(const PGresult *rows, int from, int count, bool matched, bool titles,
		struct buf *out)
{
	static const char *const names[] = { "STATE", "KEY",   "TARGET", "TENANT", "TRY",
					     "AGE",   "ERROR", "WAITS",  "MATCHED" };
	TABLE_AUTO struct table table = { .columns = sizeof(names) / sizeof(names[0]) };
	char text[FORMAT_SIZE];
	for (int row = from; row < from + count; row++) {
		BUF_AUTO struct buf waits = { 0 };
		row_waits(rows, row, &waits);
		table_add(&table, row_state(rows, row));
		table_add(&table, pg_get_text(rows, row, ROW_KEY));
		table_add(&table, pg_get_text(rows, row, ROW_TARGET));
		table_add(&table, pg_get_text(rows, row, ROW_TENANT));
		table_add_count(&table, pg_get_int8(rows, row, ROW_TRIES));
		table_add(&table, format_age(pg_get_int8(rows, row, ROW_AGE), text));
		table_add(&table, pg_get_text(rows, row, ROW_ERROR));
		table_add(&table, buf_text(&waits));
		table_add(&table, matched ? pg_get_text(rows, row, ROW_MATCHED) : "");
	}
	table_print(&table, names, titles, out);
}
