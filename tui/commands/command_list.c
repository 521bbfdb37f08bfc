/* counterfoil list */
#include "commands/command_list.h"

#include <stdio.h>

#include "commands/call.h"
#include "commands/rows.h"
#include "data/lists.h"

enum { LIMIT_DEFAULT = 100, PAGE = 1000 };

static const char usage[] =
	"usage: counterfoil list [STATE] [--limit N] [--json | --jsonl] [--config FILE]\n"
	"Keys of a state, the newest first: all, pending, in_flight, stale, retry_wait, "
	"uncertain,\n"
	"dead, completed or cancelled; all when none is named.\n"
	"  --limit N      at most so many; default 100\n"
	"  --json         one array\n"
	"  --jsonl        one object a line, as they are read\n";

/* What is printed of it, and how far it has come. */
struct listing {
	struct call *call;
	struct list_query query;
	int64_t left;
	int64_t printed;
	struct buf out;
	struct writer writer;
};

static void flush(struct listing *listing)
{
	fputs(buf_text(&listing->out), stdout);
	buf_clear(&listing->out);
}

static void add_rows(struct listing *listing, const PGresult *rows)
{
	int count = list_rows(rows);
	if (!listing->call->json)
		rows_print(rows, 0, count, false, !listing->printed && count, &listing->out);
	for (int row = 0; listing->call->json && row < count; row++) {
		if (listing->call->jsonl)
			listing->writer.more = false;
		rows_json(&listing->writer, rows, row, false);
		if (listing->call->jsonl)
			buf_add_char(&listing->out, '\n');
	}
	/* an array is printed whole or, when something fails on the way, not at all */
	if (!listing->call->json || listing->call->jsonl)
		flush(listing);
	listing->printed += count;
	listing->left -= count;
}

/* Pending and completed keys are found among others. */
static bool is_filtered(enum list list)
{
	return list == LIST_PENDING || list == LIST_COMPLETED;
}

/* False: this was the last page. */
static bool next_page(struct listing *listing, const PGresult *rows)
{
	struct list_query *query = &listing->query;
	int count = list_rows(rows);
	bool filled = count == query->wanted;
	if (!listing->left || (!filled && list_examined(rows) < query->budget))
		return false;
	if (filled)
		list_place(query->list, rows, count - 1, &query->after);
	else
		list_end(rows, &query->after);
	return true;
}

static enum exit_code print_pages(struct listing *listing)
{
	bool more = true;
	while (more) {
		PG_RESULT_AUTO PGresult *rows = NULL;
		PG_PARAMS_AUTO struct pg_params params = { 0 };
		struct list_query *query = &listing->query;
		query->wanted = listing->left < PAGE ? listing->left : PAGE;
		query->budget = is_filtered(query->list) ? LIST_BUDGET_MAX : query->wanted;
		list_params(query, &params);
		if (!call_query(listing->call, list_sql(query), &params, &rows))
			return call_failed(listing->call);
		add_rows(listing, rows);
		more = next_page(listing, rows);
	}
	return EXIT_OK;
}

static enum exit_code print_list(struct call *call, enum list list)
{
	struct listing listing = { .call = call,
				   .query = { .list = list },
				   .left = call->limit ? call->limit : LIMIT_DEFAULT };
	listing.writer.out = &listing.out;
	bool array = call->json && !call->jsonl;
	if (array)
		writer_open(&listing.writer, NULL, '[');
	enum exit_code code = print_pages(&listing);
	if (code == EXIT_OK && array) {
		writer_close(&listing.writer, ']');
		buf_add_char(&listing.out, '\n');
		flush(&listing);
	}
	buf_done(&listing.out);
	return code;
}

enum exit_code list_run(const char *config_path, int argc, char **argv)
{
	struct call call = { .name = "list", .usage = usage, .config_path = config_path };
	enum list list = LIST_ALL;
	enum exit_code code = EXIT_ERROR;
	if (!call_read(&call, CALL_JSONL | CALL_LIMIT, argc, argv, &code))
		return code;
	if (call.word && !list_parse(call.word, &list))
		return call_wrong(&call, "there is no state \"%s\"", call.word);
	if (call_open(&call, &code))
		code = print_list(&call, list);
	call_close(&call);
	return code;
}
