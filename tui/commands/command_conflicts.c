/* counterfoil conflicts list and show */
#include "commands/command_conflicts.h"

#include <stdio.h>
#include <string.h>

#include "commands/call.h"
#include "data/sql_conflicts.h"
#include "words/clean.h"
#include "words/format.h"
#include "words/table.h"
#include "words/writer.h"

enum { LIMIT_DEFAULT = 50, LIMIT_MAX = 10000 };

static const char usage[] =
	"usage: counterfoil conflicts [list] [--topic T] [--limit N] [--json] [--config FILE]\n"
	"       counterfoil conflicts show ID [--json] [--config FILE]\n"
	"       counterfoil conflicts settle ID...|--topic T ... (--help tells more)\n"
	"Events whose key stands for something else: the first was performed, these were not, and "
	"each\n"
	"has a dead letter. Open ones, the newest first.\n"
	"  show ID       one of them, and what differs from the key that stands\n"
	"  settle ID...  somebody has looked, and the first stands\n";

/* --- what differs --- */

struct difference {
	const char *name;
	enum clash_column same;
};

static const struct difference differences[] = {
	{ "method", SAME_METHOD },
	{ "url", SAME_URL },
	{ "headers", SAME_HEADERS },
	{ "body", SAME_BODY },
};
enum { DIFFERENCES = sizeof(differences) / sizeof(differences[0]) };

static bool differs(const PGresult *rows, enum clash_column same)
{
	return !pg_null(rows, 0, (int)same) && !pg_get_bool(rows, 0, (int)same);
}

/* Names of the parts, or why they are not known. */
static void say_differences(const PGresult *rows, struct buf *out)
{
	const size_t before = out->length;
	if (pg_null(rows, 0, SAME_EFFECT))
		buf_add_text(out, "not known: the key that stood there was forgotten");
	else if (differs(rows, SAME_EFFECT))
		buf_addf(out, "the effect: \"%s\" holds the key",
			 pg_get_text(rows, 0, CLASH_HOLDER_EFFECT));
	else if (differs(rows, SAME_KEY))
		buf_add_text(out, "the key: the event of this id is recorded under another one");
	else if (!pg_get_bool(rows, 0, HELD_KEPT))
		buf_add_text(out, "not known: the request that stands is no longer kept");
	else if (pg_null(rows, 0, HELD_METHOD))
		buf_add_text(out, "the request that stands could not be rendered");
	else if (pg_null(rows, 0, CLASH_METHOD))
		buf_add_text(out, "the request of this event could not be rendered");
	if (out->length > before)
		return;
	for (size_t i = 0; i < DIFFERENCES; i++)
		if (differs(rows, differences[i].same))
			buf_addf(out, "%s%s", out->length > before ? ", " : "",
				 differences[i].name);
	if (out->length == before)
		buf_add_text(out, "headers");
}

/* --- list --- */

static void json_facts(struct writer *writer, const PGresult *rows, int row)
{
	writer_open(writer, NULL, '{');
	writer_int(writer, "id", pg_get_int8(rows, row, CLASH_ID));
	writer_text(writer, "topic", pg_get_text(rows, row, CLASH_TOPIC));
	writer_int(writer, "partition", pg_get_int4(rows, row, CLASH_PARTITION));
	writer_int(writer, "offset", pg_get_int8(rows, row, CLASH_OFFSET));
	writer_text(writer, "event_id", pg_get_text(rows, row, CLASH_EVENT_ID));
	writer_text(writer, "effect", pg_get_text(rows, row, CLASH_EFFECT));
	writer_text(writer, "key", pg_get_text(rows, row, CLASH_KEY));
	writer_text(writer, "target", pg_get_text(rows, row, CLASH_TARGET));
	writer_text(writer, "tenant", pg_get_text(rows, row, CLASH_TENANT));
	writer_time(writer, "seen_at", pg_get_time(rows, row, CLASH_SEEN));
	writer_text(writer, "dead_letter", pg_get_text(rows, row, CLASH_LETTER));
	writer_int(writer, "held_by", pg_get_int8(rows, row, CLASH_HOLDER));
	writer_text(writer, "held_by_key", pg_get_text(rows, row, CLASH_HOLDER_KEY));
	writer_text(writer, "held_by_effect", pg_get_text(rows, row, CLASH_HOLDER_EFFECT));
	writer_text(writer, "held_by_state", pg_get_text(rows, row, CLASH_HOLDER_STATE));
	writer_time(writer, "settled_at", pg_get_time(rows, row, CLASH_SETTLED));
	writer_text(writer, "settled_by", pg_get_text(rows, row, CLASH_SETTLED_BY));
	writer_text(writer, "note", pg_get_text(rows, row, CLASH_NOTE));
}

static void print_json(const PGresult *rows)
{
	BUF_AUTO struct buf out = { 0 };
	struct writer writer = { .out = &out };
	writer_open(&writer, NULL, '[');
	for (int row = 0; row < pg_rows(rows); row++) {
		json_facts(&writer, rows, row);
		writer_close(&writer, '}');
	}
	writer_close(&writer, ']');
	puts(buf_text(&out));
}

static void add_row(struct table *table, const PGresult *rows, int row)
{
	BUF_AUTO struct buf place = { 0 };
	char text[FORMAT_SIZE];
	(void)snprintf(text, sizeof(text), "%lld", (long long)pg_get_int8(rows, row, CLASH_ID));
	table_add(table, text);
	buf_addf(&place, "%s[%d]@%lld", pg_get_text(rows, row, CLASH_TOPIC),
		 pg_get_int4(rows, row, CLASH_PARTITION),
		 (long long)pg_get_int8(rows, row, CLASH_OFFSET));
	table_add(table, buf_text(&place));
	table_add(table,
		  format_age(pg_get_time(rows, row, CLASH_NOW) - pg_get_time(rows, row, CLASH_SEEN),
			     text));
	table_add(table, pg_get_text(rows, row, CLASH_EFFECT));
	table_add(table, pg_get_text(rows, row, CLASH_KEY));
	(void)snprintf(text, sizeof(text), "%lld", (long long)pg_get_int8(rows, row, CLASH_HOLDER));
	table_add(table, text);
	table_add(table, pg_get_text(rows, row, CLASH_HOLDER_STATE));
	table_add(table, pg_get_text(rows, row, CLASH_LETTER));
}

static void print_table(const PGresult *rows)
{
	static const char *const names[] = { "ID",  "PLACE",   "AGE",   "EFFECT",
					     "KEY", "HELD BY", "STATE", "DEAD LETTER" };
	BUF_AUTO struct buf out = { 0 };
	TABLE_AUTO struct table table = { .columns = sizeof(names) / sizeof(names[0]) };
	for (int row = 0; row < pg_rows(rows); row++)
		add_row(&table, rows, row);
	table_print(&table, names, true, &out);
	fputs(buf_text(&out), stdout);
}

static enum exit_code list(struct call *call)
{
	PG_RESULT_AUTO PGresult *rows = NULL;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	int64_t limit = call->limit ? call->limit : LIMIT_DEFAULT;
	pg_add_text(&params, call->topic);
	pg_add_int8(&params, limit < LIMIT_MAX ? limit : LIMIT_MAX);
	if (!call_query(call, SQL_CLASH_LIST, &params, &rows))
		return call_failed(call);
	if (call->json)
		print_json(rows);
	else if (pg_rows(rows))
		print_table(rows);
	else
		puts("no open conflict");
	return EXIT_OK;
}

/* --- show --- */

static void json_same(struct writer *writer, const PGresult *rows, const struct difference *part)
{
	if (pg_null(rows, 0, (int)part->same))
		writer_text(writer, part->name, NULL);
	else
		writer_bool(writer, part->name, pg_get_bool(rows, 0, (int)part->same));
}

static void print_one_json(const PGresult *rows)
{
	BUF_AUTO struct buf out = { 0 };
	BUF_AUTO struct buf text = { 0 };
	struct writer writer = { .out = &out };
	say_differences(rows, &text);
	json_facts(&writer, rows, 0);
	writer_text(&writer, "differs", buf_text(&text));
	writer_text(&writer, "fingerprint", pg_get_text(rows, 0, CLASH_FINGERPRINT));
	writer_text(&writer, "held_by_fingerprint", pg_get_text(rows, 0, HELD_FINGERPRINT));
	writer_text(&writer, "held_by_event_id", pg_get_text(rows, 0, HELD_EVENT_ID));
	writer_text(&writer, "method", pg_get_text(rows, 0, CLASH_METHOD));
	writer_text(&writer, "held_by_method", pg_get_text(rows, 0, HELD_METHOD));
	writer_text(&writer, "held_by_url", pg_get_text(rows, 0, HELD_URL));
	writer_open(&writer, "same", '{');
	for (size_t i = 0; i < DIFFERENCES; i++)
		json_same(&writer, rows, &differences[i]);
	writer_close(&writer, '}');
	writer_close(&writer, '}');
	puts(buf_text(&out));
}

static void add_field(struct buf *out, const char *name, const char *text)
{
	if (!text || !*text)
		return;
	buf_addf(out, "%-13s", name);
	clean_add(out, text, strlen(text));
	buf_add_char(out, '\n');
}

static void add_time(struct buf *out, const char *name, const PGresult *rows, int column,
		     enum conf_zone zone)
{
	char text[FORMAT_SIZE];
	if (!pg_null(rows, 0, column))
		add_field(out, name, format_time(pg_get_time(rows, 0, column), zone, text));
}

static void add_place(struct buf *out, const PGresult *rows, int topic)
{
	BUF_AUTO struct buf place = { 0 };
	if (pg_null(rows, 0, topic))
		return;
	buf_addf(&place, "%s[%d]@%lld", pg_get_text(rows, 0, topic),
		 pg_get_int4(rows, 0, topic + 1), (long long)pg_get_int8(rows, 0, topic + 2));
	add_field(out, "place", buf_text(&place));
}

static void print_this(const PGresult *rows, enum conf_zone zone, struct buf *out)
{
	add_place(out, rows, CLASH_TOPIC);
	add_field(out, "event", pg_get_text(rows, 0, CLASH_EVENT_ID));
	add_field(out, "effect", pg_get_text(rows, 0, CLASH_EFFECT));
	add_field(out, "key", pg_get_text(rows, 0, CLASH_KEY));
	add_field(out, "target", pg_get_text(rows, 0, CLASH_TARGET));
	add_field(out, "tenant", pg_get_text(rows, 0, CLASH_TENANT));
	add_time(out, "seen", rows, CLASH_SEEN, zone);
	add_field(out, "dead letter", pg_get_text(rows, 0, CLASH_LETTER));
	add_field(out, "fingerprint", pg_get_text(rows, 0, CLASH_FINGERPRINT));
	add_field(out, "method", pg_get_text(rows, 0, CLASH_METHOD));
	add_time(out, "settled", rows, CLASH_SETTLED, zone);
	add_field(out, "by", pg_get_text(rows, 0, CLASH_SETTLED_BY));
	add_field(out, "note", pg_get_text(rows, 0, CLASH_NOTE));
}

static void print_held(const PGresult *rows, enum conf_zone zone, struct buf *out)
{
	char id[FORMAT_SIZE];
	(void)snprintf(id, sizeof(id), "%lld", (long long)pg_get_int8(rows, 0, CLASH_HOLDER));
	buf_add_text(out, "\nwhat stands:\n");
	add_field(out, "id", id);
	add_field(out, "key", pg_get_text(rows, 0, CLASH_HOLDER_KEY));
	add_field(out, "state", pg_get_text(rows, 0, CLASH_HOLDER_STATE));
	add_field(out, "effect", pg_get_text(rows, 0, CLASH_HOLDER_EFFECT));
	add_place(out, rows, HELD_TOPIC);
	add_field(out, "event", pg_get_text(rows, 0, HELD_EVENT_ID));
	add_time(out, "recorded", rows, HELD_RECORDED, zone);
	add_field(out, "fingerprint", pg_get_text(rows, 0, HELD_FINGERPRINT));
	add_field(out, "method", pg_get_text(rows, 0, HELD_METHOD));
	add_field(out, "url", pg_get_text(rows, 0, HELD_URL));
}

static void print_one(const PGresult *rows, enum conf_zone zone)
{
	BUF_AUTO struct buf out = { 0 };
	BUF_AUTO struct buf text = { 0 };
	say_differences(rows, &text);
	print_this(rows, zone, &out);
	print_held(rows, zone, &out);
	buf_add_char(&out, '\n');
	add_field(&out, "differs", buf_text(&text));
	fputs(buf_text(&out), stdout);
}

static enum exit_code show(struct call *call, int64_t id)
{
	PG_RESULT_AUTO PGresult *rows = NULL;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_int8(&params, id);
	if (!call_query(call, SQL_CLASH_SHOW, &params, &rows))
		return call_failed(call);
	if (pg_rows(rows) == 0)
		return call_error(call, EXIT_NOT_FOUND, "there is no conflict %lld", (long long)id);
	if (call->json)
		print_one_json(rows);
	else
		print_one(rows, call->conf->console.zone);
	return EXIT_OK;
}

/* --- which --- */

static enum exit_code run(const char *config_path, int argc, char **argv, bool shows)
{
	struct call call = { .name = shows ? "conflicts show" : "conflicts list",
			     .usage = usage,
			     .config_path = config_path };
	enum exit_code code = EXIT_ERROR;
	int64_t id = 0;
	if (!call_read(&call, shows ? 0 : CALL_TOPIC | CALL_LIMIT, argc, argv, &code))
		return code;
	if (shows && (!call.word || !call_number(call.word, &id)))
		return call_wrong(&call, "conflicts show: say which, by its number");
	if (!shows && call.word)
		return call_wrong(&call, "conflicts: what is \"%.64s\"?", call.word);
	if (call.key)
		return call_wrong(&call, "conflicts: --key is not one of its options");
	if (call_open(&call, &code))
		code = shows ? show(&call, id) : list(&call);
	call_close(&call);
	return code;
}

enum exit_code conflicts_run(const char *config_path, int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";
	if (strcmp(word, "settle") == 0)
		return conflicts_settle_run(config_path, argc - 1, argv + 1);
	if (strcmp(word, "list") == 0 || strcmp(word, "show") == 0)
		return run(config_path, argc - 1, argv + 1, strcmp(word, "show") == 0);
	return run(config_path, argc, argv, false);
}
