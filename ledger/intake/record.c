/* Writes a slice of a batch in one transaction.
 *
 * Steps, each a statement that is left out when it has nothing to do:
 *
 *   BEGIN -> effects -> compare -> conflicts -> letters -> poison -> settle -> unmatched -> last ->
 * COMMIT
 *
 * One after the other, so that no statement can run outside the transaction that has failed. */
#include "record.h"

#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "mem.h"
#include "record_rows.h"
#include "record_settle.h"
#include "sql_intake.h"
#include "sql_poison.h"

struct record {
	struct pg *pg;
	size_t poison_max_bytes;
	record_done_fn *done;
	void *arg;

	struct record_task task;

	size_t *sent; /* rows of the statement under way, by their number in it */
	size_t sent_count;
	struct clash *clashes; /* keys that stand for something else */
	size_t clash_count;
	size_t *duplicates; /* rows whose key was recorded before, from the same content */
	size_t *letters;    /* rows that have a dead letter */
	size_t letter_count;
	struct record_counts counts;

	enum record_end end; /* while ROLLBACK is under way */
	struct err error;
};

static void finish(struct record *record, enum record_end end, const char *error)
{
	record->counts.duplicate_rows = record->duplicates;
	record->done(record->arg, end, &record->counts, error);
}

/* --- failures --- */

static void on_rolled_back(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct record *record = arg;

	(void)result;
	if (error && error->kind == PG_REFUSED)
		pg_reset(record->pg, "a transaction could not be rolled back");
	finish(record, record->end, record->error.text);
}

static void roll_back(struct record *record, enum record_end end, const char *error)
{
	record->end = end;
	err_set(&record->error, "%s", error);
	pg_send(record->pg, "ROLLBACK", NULL, on_rolled_back, record);
}

/* Data exception, integrity constraint violation, program limit exceeded: smaller may pass. */
static bool is_content(const char *sqlstate)
{
	return strncmp(sqlstate, "22", 2) == 0 || strncmp(sqlstate, "23", 2) == 0 ||
	       strncmp(sqlstate, "54", 2) == 0;
}

static void fail(struct record *record, const char *step, const struct pg_error *error)
{
	struct err err;

	err_set(&err, "%s: %s", step, error->text);
	switch (error->kind) {
	case PG_REFUSED:
		roll_back(record, is_content(error->sqlstate) ? RECORD_CONTENT : RECORD_FAILED,
			  err.text);
		break;
	case PG_LOST:
	case PG_UNSENT:
		finish(record, RECORD_FAILED, err.text);
		break;
	}
}

/* --- commit --- */

static void on_committed(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct record *record = arg;

	(void)result;
	if (error) {
		fail(record, "commit", error);
		return;
	}
	crash_point("intake_commit.answered");
	finish(record, RECORD_DONE, "");
}

static void commit(struct record *record)
{
	crash_point("intake_commit.send");
	pg_send(record->pg, "COMMIT", NULL, on_committed, record);
	crash_point("intake_commit.sent");
}

/* --- what the task has to say in the end --- */

static void on_last(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct record *record = arg;

	if (error)
		fail(record, "order", error);
	else if (pg_affected(result) != 1)
		roll_back(record, RECORD_FAILED, "the order does not stand as it did");
	else
		commit(record);
}

static void write_last(struct record *record)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	const char *sql;

	if (!record->task.last) {
		commit(record);
		return;
	}
	sql = record->task.last(record->arg, &record->counts, &params);
	if (sql)
		pg_send(record->pg, sql, &params, on_last, record);
	else
		roll_back(record, RECORD_FAILED, "the order was given up");
}

/* --- unmatched --- */

static void on_unmatched(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct record *record = arg;

	(void)result;
	if (error)
		fail(record, "unmatched", error);
	else
		write_last(record);
}

static void write_unmatched(struct record *record)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };

	if (!record->task.positions && !record->task.poison) {
		write_last(record); /* read again, so counted before */
		return;
	}
	record->counts.unmatched = rows_unmatched(record->task.batch, record->task.from,
						  record->task.to, record->task.instance, &params);
	if (record->counts.unmatched == 0)
		write_last(record);
	else
		pg_send(record->pg, SQL_UNMATCHED, &params, on_unmatched, record);
}

/* --- poison that is none any more --- */

static void on_settled(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct record *record = arg;
	const struct record_task *task = &record->task;

	if (error)
		fail(record, "settle", error);
	else if (task->poison && pg_get_int8(result, 0, 0) != (int64_t)(task->to - task->from))
		roll_back(record, RECORD_MOVED, "poison was settled meanwhile");
	else
		write_unmatched(record);
}

/* What was consumed from its position has no row to settle. */
static void settle(struct record *record)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	const struct record_task *task = &record->task;
	const char *sql = task->poison ? SQL_SETTLE : SQL_SETTLE_READ;

	if (task->positions) {
		write_unmatched(record);
		return;
	}
	if (task->poison)
		settle_rows(task->batch, task->from, task->to, task->poison, &params);
	else if (settle_places(task->batch, task->from, task->to, &params) == 0)
		sql = NULL;
	if (sql)
		pg_send(record->pg, sql, &params, on_settled, record);
	else
		write_unmatched(record);
}

/* --- poison --- */

static void on_poison(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct record *record = arg;

	(void)result;
	if (error)
		fail(record, "poison", error);
	else
		settle(record);
}

static void write_poison(struct record *record)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };

	record->counts.poison = rows_poison(record->task.batch, record->task.from, record->task.to,
					    record->poison_max_bytes, &params);
	if (record->counts.poison == 0 || record->task.poison)
		settle(record);
	else
		pg_send(record->pg, SQL_POISON, &params, on_poison, record);
}

/* --- dead letters --- */

static void on_letters(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct record *record = arg;

	(void)result;
	if (error)
		fail(record, "dead letters", error);
	else
		write_poison(record);
}

static void write_letters(struct record *record)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };

	if (record->letter_count == 0) {
		write_poison(record);
		return;
	}
	rows_letters(record->task.batch, record->letters, record->letter_count, &params);
	pg_send(record->pg, SQL_LETTERS, &params, on_letters, record);
}

/* --- conflicts --- */

static void on_conflicts(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct record *record = arg;
	int64_t *numbers;
	size_t count;

	if (error) {
		fail(record, "conflicts", error);
		return;
	}
	numbers = pg_get_int8_array(result, 0, 0, &count);
	for (size_t i = 0; i < count; i++)
		record->letters[record->letter_count++] = record->clashes[numbers[i] - 1].row;
	free(numbers);
	record->counts.conflicts = (int64_t)count;
	write_letters(record);
}

static void write_conflicts(struct record *record)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };

	if (record->clash_count == 0) {
		write_letters(record);
		return;
	}
	rows_conflicts(record->task.batch, record->clashes, record->clash_count, &params);
	pg_send(record->pg, SQL_CONFLICT, &params, on_conflicts, record);
}

/* --- what was not inserted --- */

/* False: who held the key is gone again; the whole must be tried anew. */
static bool take_verdict(struct record *record, const PGresult *result, int line)
{
	size_t row = record->sent[pg_get_int8(result, line, 0) - 1];
	const char *verdict = pg_get_text(result, line, 2);

	if (strcmp(verdict, "vanished") == 0)
		return false;
	if (strcmp(verdict, "duplicate") == 0) {
		record->duplicates[record->counts.duplicates++] = row;
		return true;
	}
	record->clashes[record->clash_count++] =
		(struct clash){ .row = row, .holder = pg_get_int8(result, line, 1) };
	return true;
}

static void on_compared(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct record *record = arg;

	if (error) {
		fail(record, "compare", error);
		return;
	}
	for (int line = 0; line < pg_rows(result); line++) {
		if (!take_verdict(record, result, line)) {
			roll_back(record, RECORD_FAILED, "compare: the holder of a key vanished");
			return;
		}
	}
	write_conflicts(record);
}

static void compare(struct record *record)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };

	if (record->sent_count == 0) {
		write_conflicts(record);
		return;
	}
	rows_compare(record->task.batch, record->sent, record->sent_count, &params);
	pg_send(record->pg, SQL_COMPARE, &params, on_compared, record);
}

/* --- effects --- */

/* Sets `sent` to the rows of the slice that were folded, or else to those that were not. */
static void select_rows(struct record *record, bool folded)
{
	record->sent_count = 0;
	for (size_t m = record->task.from; m < record->task.to; m++) {
		const struct batch_message *message = &record->task.batch->messages[m];

		for (size_t i = 0; i < message->row_count; i++)
			if (record->task.batch->rows[message->first_row + i].folded == folded)
				record->sent[record->sent_count++] = message->first_row + i;
	}
}

static int compare_indexes(const void *a, const void *b)
{
	size_t left = *(const size_t *)a, right = *(const size_t *)b;

	return (left > right) - (left < right);
}

static void inserted(struct record *record, size_t row)
{
	if (record->counts.effects++ == 0)
		record->counts.first = row;
	if (!record->task.batch->rows[row].dead)
		return;
	record->counts.dead++;
	record->letters[record->letter_count++] = row;
}

/* Leaves in `sent` what is to be compared: the rows that were skipped, and those folded onto an
 * earlier one, in the order of their offsets. */
static void take_inserted(struct record *record, const int64_t *numbers, size_t count)
{
	size_t *tried = record->sent;
	size_t tried_count = record->sent_count, next = 0, skipped;

	record->sent = mem_zero((record->task.batch->row_count + 1) * sizeof(*record->sent));
	select_rows(record, true);
	skipped = record->sent_count;
	for (size_t i = 0; i < tried_count; i++) {
		if (next < count && (size_t)numbers[next] == i + 1) {
			inserted(record, tried[i]);
			next++;
		} else {
			record->sent[skipped++] = tried[i];
		}
	}
	record->sent_count = skipped;
	qsort(record->sent, record->sent_count, sizeof(*record->sent), compare_indexes);
	free(tried);
}

static void on_effects(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct record *record = arg;
	int64_t *numbers;
	size_t count;

	if (error) {
		fail(record, "effects", error);
		return;
	}
	if (!pg_get_bool(result, 0, 0)) {
		roll_back(record, RECORD_MOVED, "a position is not where we left it");
		return;
	}
	numbers = pg_get_int8_array(result, 0, 1, &count);
	take_inserted(record, numbers, count);
	free(numbers);
	compare(record);
}

static void on_begun(void *arg, const PGresult *result, const struct pg_error *error)
{
	static const struct positions no_positions;
	struct record *record = arg;
	struct pg_params params PG_PARAMS_AUTO = { 0 };

	(void)result;
	if (error) {
		fail(record, "begin", error);
		return;
	}
	batch_fold(record->task.batch, record->task.from, record->task.to);
	select_rows(record, false);
	rows_positions(record->task.positions ? record->task.positions : &no_positions, &params);
	rows_effects(record->task.batch, record->sent, record->sent_count, &params);
	pg_send(record->pg, SQL_RECORD, &params, on_effects, record);
}

/* --- the whole --- */

/* The last message of a partition decides, also when the topic was made anew and counts from 0. */
static void move_positions(const struct record_task *task)
{
	const struct positions *positions = task->positions;

	for (size_t i = 0; i < positions->count; i++)
		positions->items[i].moves = false;
	for (size_t m = task->from; m < task->to; m++) {
		const struct batch_message *message = &task->batch->messages[m];
		struct position *position = &positions->items[message->position];

		position->moves = true;
		position->moved = message->event.source.offset + 1;
	}
}

static size_t *indexes_for(const struct batch *batch, size_t *old)
{
	return mem_grow(old, batch->row_count + 1, sizeof(*old));
}

void record_start(struct record *record, const struct record_task *task)
{
	record->task = *task;
	record->sent = indexes_for(task->batch, record->sent);
	record->duplicates = indexes_for(task->batch, record->duplicates);
	record->letters = indexes_for(task->batch, record->letters);
	record->clashes =
		mem_grow(record->clashes, task->batch->row_count + 1, sizeof(*record->clashes));
	record->sent_count = record->clash_count = record->letter_count = 0;
	record->counts = (struct record_counts){ 0 };
	if (task->positions)
		move_positions(task);
	crash_point("intake_begin.send");
	pg_send(record->pg, "BEGIN", NULL, on_begun, record);
}

struct record *record_new(struct pg *pg, int64_t poison_max_bytes, record_done_fn *done, void *arg)
{
	struct record *record = mem_zero(sizeof(*record));

	record->pg = pg;
	record->poison_max_bytes = (size_t)poison_max_bytes;
	record->done = done;
	record->arg = arg;
	return record;
}

void record_free(struct record *record)
{
	if (!record)
		return;
	free(record->sent);
	free(record->clashes);
	free(record->duplicates);
	free(record->letters);
	free(record);
}
