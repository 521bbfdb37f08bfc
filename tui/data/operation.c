/* Operations: in words, in JSON, until they have ended. */
#include "data/operation.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "data/sql_operations.h"
#include "words/clean.h"
#include "words/format.h"

#define LOOK_EVERY    500 /* ms */
#define LOOKS_PATIENT 6   /* then it is told that nobody has begun */

/* What the database made is JSON already; behind other members. */
static void add_raw(struct writer *writer, const char *name, const char *json)
{
	buf_addf(writer->out, ",\"%s\":%s", name, json ? json : "null");
}

void operation_json(struct writer *writer, const PGresult *rows, int row)
{
	writer_open(writer, NULL, '{');
	writer_int(writer, "id", pg_get_int8(rows, row, OPERATION_ID));
	writer_text(writer, "operation", pg_get_text(rows, row, OPERATION_UUID));
	writer_text(writer, "kind", pg_get_text(rows, row, OPERATION_KIND));
	writer_text(writer, "state", pg_get_text(rows, row, OPERATION_STATE));
	writer_int(writer, "total", pg_get_int8(rows, row, OPERATION_TOTAL));
	writer_int(writer, "done", pg_get_int8(rows, row, OPERATION_DONE));
	writer_int(writer, "failed", pg_get_int8(rows, row, OPERATION_FAILED));
	writer_int(writer, "skipped", pg_get_int8(rows, row, OPERATION_SKIPPED));
	writer_text(writer, "detail", pg_get_text(rows, row, OPERATION_DETAIL));
	add_raw(writer, "rate", pg_get_text(rows, row, OPERATION_RATE));
	writer_bool(writer, "canary", pg_get_bool(rows, row, OPERATION_CANARY));
	if (pg_null(rows, row, OPERATION_STOP_AFTER))
		writer_text(writer, "stop_after", NULL);
	else
		writer_int(writer, "stop_after", pg_get_int8(rows, row, OPERATION_STOP_AFTER));
	add_raw(writer, "params", pg_get_text(rows, row, OPERATION_PARAMS));
	writer_text(writer, "who", pg_get_text(rows, row, OPERATION_WHO));
	writer_text(writer, "user", pg_get_text(rows, row, OPERATION_USER));
	writer_text(writer, "reason", pg_get_text(rows, row, OPERATION_REASON));
	writer_text(writer, "owner", pg_get_text(rows, row, OPERATION_OWNER));
	writer_time(writer, "created_at", pg_get_time(rows, row, OPERATION_CREATED));
	writer_time(writer, "started_at", pg_get_time(rows, row, OPERATION_STARTED));
	writer_time(writer, "ended_at", pg_get_time(rows, row, OPERATION_ENDED));
}

static const char *count_of(const PGresult *rows, int row, int column, char *buffer)
{
	return format_count(pg_get_int8(rows, row, column), buffer);
}

void operation_line(const PGresult *rows, int row, struct buf *out)
{
	char total[FORMAT_SIZE], done[FORMAT_SIZE], failed[FORMAT_SIZE], skipped[FORMAT_SIZE];
	const char *detail = pg_get_text(rows, row, OPERATION_DETAIL);
	buf_addf(out, "operation %lld: %s %s, %s of %s done, %s failed, %s skipped",
		 (long long)pg_get_int8(rows, row, OPERATION_ID),
		 pg_get_text(rows, row, OPERATION_KIND), pg_get_text(rows, row, OPERATION_STATE),
		 count_of(rows, row, OPERATION_DONE, done),
		 count_of(rows, row, OPERATION_TOTAL, total),
		 count_of(rows, row, OPERATION_FAILED, failed),
		 count_of(rows, row, OPERATION_SKIPPED, skipped));
	if (*detail) {
		buf_add_text(out, ": ");
		clean_add(out, detail, strlen(detail));
	}
}

bool operation_read(struct call *call, int64_t id, PGresult **row_r, enum exit_code *code_r)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_int8(&params, id);
	if (!call_query(call, SQL_OPERATION, &params, row_r)) {
		*code_r = call_failed(call);
		return false;
	}
	if (pg_rows(*row_r) == 1)
		return true;
	*code_r = call_error(call, EXIT_NOT_FOUND, "there is no operation %lld", (long long)id);
	return false;
}

/* --- until it has ended --- */

static bool goes_on(const PGresult *row)
{
	const char *state = pg_get_text(row, 0, OPERATION_STATE);
	return strcmp(state, "queued") == 0 || strcmp(state, "running") == 0;
}

static enum exit_code tell_end(const struct call *call, const PGresult *row)
{
	BUF_AUTO struct buf out = { 0 };
	struct writer writer = { .out = &out };
	const bool all =
		strcmp(pg_get_text(row, 0, OPERATION_STATE), "done") == 0 &&
		pg_get_int8(row, 0, OPERATION_DONE) == pg_get_int8(row, 0, OPERATION_TOTAL);
	if (call->json) {
		operation_json(&writer, row, 0);
		writer_close(&writer, '}');
	} else {
		operation_line(row, 0, &out);
	}
	puts(buf_text(&out));
	return all ? EXIT_OK : EXIT_PARTLY;
}

static void tell_queued(const struct call *call, const PGresult *row)
{
	if (strcmp(pg_get_text(row, 0, OPERATION_STATE), "queued") == 0)
		(void)fprintf(stderr,
			      "counterfoil %s: operation %" PRId64
			      " is queued, and no ledger has taken it yet; it stays when this is "
			      "interrupted: "
			      "counterfoil ops show %" PRId64 "\n",
			      call->name, pg_get_int8(row, 0, OPERATION_ID),
			      pg_get_int8(row, 0, OPERATION_ID));
}

enum exit_code operation_follow(struct call *call, int64_t id)
{
	enum exit_code code = EXIT_ERROR;
	for (int looks = 1;; looks++) {
		PG_RESULT_AUTO PGresult *row = NULL;
		if (!operation_read(call, id, &row, &code))
			return code;
		if (!goes_on(row))
			return tell_end(call, row);
		if (looks == LOOKS_PATIENT)
			tell_queued(call, row);
		(void)poll(NULL, 0, LOOK_EVERY);
	}
}
