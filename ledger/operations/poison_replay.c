/* Poison that is taken in after all: what was kept of each message goes through the rules as they
 * are today and through intake, as if it had come again from where it was. Its row is settled in
 * the transaction that records what came of it; what is still poison stays open, with today's
 * reason.
 *
 *   page --empty--> the end
 *    ^  \--> record a slice --> the page is through?
 *    +---------------------------/     \--next slice; refused: half of it */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cursor.h"
#include "intake/batch.h"
#include "intake/intake_meter.h"
#include "intake/record.h"
#include "intake_job.h"
#include "kept_headers.h"
#include "mem.h"
#include "sql_intake_orders.h"

#define PAGE_ROWS  200
#define PAGE_BYTES (4 * 1024 * 1024)

/* The cursor: the last row, and what came of all up to it. */
struct sums {
	int64_t after;
	int64_t taken, still, cut, effects, duplicates, conflicts;
};

struct poison_replay {
	struct job job;
	char *topic;            /* NULL: by ids */
	int64_t upto;           /* of the topic */
	struct pg_array ids;    /* else */
	struct sums sums, next; /* next: behind the step under way */

	PGresult *page; /* what the batch borrows from */
	struct batch batch;
	struct kept_headers *headers; /* by message */
	int64_t *message_ids;
	int64_t *cut_before; /* rows of the page before the message that were cut */
	size_t done, slice;
	int64_t page_cut, cut_done; /* of which so many are counted */
	int64_t last;               /* id of the page */
	struct record *record;
};

static void next_page(struct poison_replay *replay);

static struct poison_replay *of(void *arg)
{
	return arg;
}

static void drop_page(struct poison_replay *replay)
{
	for (size_t i = 0; i < replay->batch.count; i++)
		kept_headers_done(&replay->headers[i]);
	batch_clear(&replay->batch);
	pg_drop(replay->page);
	replay->page = NULL;
	replay->done = 0;
	replay->page_cut = replay->cut_done = 0;
}

static void poison_free(struct job *job)
{
	struct poison_replay *replay = of(job);

	drop_page(replay);
	batch_done(&replay->batch);
	record_free(replay->record);
	pg_array_done(&replay->ids);
	free(replay->topic);
	free(replay->headers);
	free(replay->message_ids);
	free(replay->cut_before);
	free(replay);
}

/* --- the end --- */

static void say(struct buf *out, int64_t count, const char *what)
{
	if (count > 0)
		buf_addf(out, ", %" PRId64 " %s", count, what);
}

static void end(struct poison_replay *replay)
{
	const struct sums *sums = &replay->sums;
	struct buf detail BUF_AUTO = { 0 };

	buf_addf(&detail, "%" PRId64 " taken in: %" PRId64 " new", sums->taken, sums->effects);
	say(&detail, sums->duplicates, "known already");
	say(&detail, sums->conflicts, "in conflict");
	if (sums->still > 0)
		buf_addf(&detail, "; %" PRId64 " still poison", sums->still);
	if (sums->cut > 0)
		buf_addf(&detail,
			 "; %" PRId64 " were cut when they were kept: have them read again from "
			 "Kafka, counterfoil redeliver",
			 sums->cut);
	job_finish(&replay->job, sums->taken + sums->still + sums->cut, "done", detail.data);
}

static void write_cursor(const struct sums *sums, struct buf *cursor)
{
	buf_addf(cursor,
		 "%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64,
		 sums->after, sums->taken, sums->still, sums->cut, sums->effects, sums->duplicates,
		 sums->conflicts);
}

static void read_cursor(struct poison_replay *replay)
{
	struct sums *sums = &replay->sums;
	int64_t *const numbers[] = { &sums->after,   &sums->taken,      &sums->still,    &sums->cut,
				     &sums->effects, &sums->duplicates, &sums->conflicts };
	const char *text = replay->job.order->cursor;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (!cursor_number(&text, numbers[i]))
			return; /* there is none yet */
}

/* --- a slice --- */

static size_t slice_end(const struct poison_replay *replay)
{
	size_t end = replay->done + replay->slice;

	return end < replay->batch.count ? end : replay->batch.count;
}

/* The step behind messages up to `to`, with the rows between them that were cut. */
static void add_step(struct poison_replay *replay, size_t to, const struct record_counts *counts)
{
	int64_t count = (int64_t)(to - replay->done);
	bool whole = to == replay->batch.count;
	int64_t cut = (whole ? replay->page_cut : replay->cut_before[to]) - replay->cut_done;
	struct job_step *step = &replay->job.step;
	struct sums *next = &replay->next;

	*next = replay->sums;
	next->after = whole ? replay->last : replay->message_ids[to] - 1;
	next->taken += count - counts->poison;
	next->still += counts->poison;
	next->cut += cut;
	next->effects += counts->effects;
	next->duplicates += counts->duplicates;
	next->conflicts += counts->conflicts;
	step->done = count - counts->poison;
	step->failed = counts->poison;
	step->skipped = cut;
	buf_clear(&step->cursor);
	write_cursor(next, &step->cursor);
}

static const char *end_slice(void *arg, const struct record_counts *counts,
			     struct pg_params *params)
{
	struct poison_replay *replay = arg;

	add_step(replay, slice_end(replay), counts);
	return job_add_step(&replay->job, params) ? SQL_ORDER_STEP : NULL;
}

static void write_slice(struct poison_replay *replay)
{
	const struct record_task task = {
		.batch = &replay->batch,
		.from = replay->done,
		.to = slice_end(replay),
		.poison = replay->message_ids,
		.instance = orders_owned_by(replay->job.shop->orders),
		.last = end_slice,
	};

	replay->job.asked = true;
	record_start(replay->record, &task);
}

static void stepped(struct poison_replay *replay)
{
	replay->sums = replay->next;
	replay->cut_done += replay->job.step.skipped;
	job_stepped(&replay->job);
}

static void turn_page(struct poison_replay *replay)
{
	drop_page(replay);
	next_page(replay);
}

static void recorded(struct poison_replay *replay, const struct record_counts *counts)
{
	struct workshop *shop = replay->job.shop;

	intake_meter_recorded(shop->meter, &replay->batch, replay->done, slice_end(replay), counts);
	stepped(replay);
	replay->done = slice_end(replay);
	shop->recorded(shop->arg, counts->effects - counts->dead);
	if (replay->done < replay->batch.count)
		write_slice(replay);
	else
		turn_page(replay);
}

/* Something in it is more than the database takes: alone it is poison still. */
static void refused(struct poison_replay *replay, const char *error)
{
	size_t count = slice_end(replay) - replay->done;

	if (count == 1 && replay->batch.messages[replay->done].poison == POISON_DATABASE) {
		job_yield(&replay->job, error);
		return;
	}
	if (count > 1)
		replay->slice = count / 2;
	else
		batch_spoil(&replay->batch, replay->done, POISON_DATABASE, error);
	write_slice(replay);
}

static void on_recorded(void *arg, enum record_end how, const struct record_counts *counts,
			const char *error)
{
	struct poison_replay *replay = arg;

	if (!job_answered(&replay->job))
		return;
	switch (how) {
	case RECORD_DONE:
		recorded(replay, counts);
		break;
	case RECORD_MOVED: /* some of it is settled by now */
		turn_page(replay);
		break;
	case RECORD_CONTENT:
		refused(replay, error);
		break;
	case RECORD_FAILED:
		job_yield(&replay->job, error);
		break;
	}
}

/* --- a page --- */

static void take_row(struct poison_replay *replay, int row)
{
	const PGresult *page = replay->page;
	struct workshop *shop = replay->job.shop;
	struct kept_headers *headers = &replay->headers[replay->batch.count];
	size_t length;
	const char *json = pg_get_bytes(page, row, POISON_HEADERS, &length);
	struct event_source source = {
		.topic = pg_get_text(page, row, POISON_TOPIC),
		.partition = pg_get_int4(page, row, POISON_PARTITION),
		.offset = pg_get_int8(page, row, POISON_OFFSET),
		.sent_at = pg_get_time(page, row, POISON_SENT_AT),
	};
	struct err err;

	source.key = pg_get_bytes(page, row, POISON_KEY_COLUMN, &source.key_length);
	source.value = pg_get_bytes(page, row, POISON_VALUE, &source.value_length);
	replay->cut_before[replay->batch.count] = replay->page_cut;
	replay->message_ids[replay->batch.count] = pg_get_int8(page, row, POISON_ID);
	if (kept_headers_read(json, length, &err, headers)) {
		source.headers = headers->items;
		source.header_count = headers->count;
		(void)batch_read(&replay->batch, shop->rules, &source, NULL, usec_wall());
		return;
	}
	*headers = (struct kept_headers){ 0 };
	(void)batch_add(&replay->batch, &source, NULL);
	batch_spoil(&replay->batch, replay->batch.count - 1, POISON_EVENT, err.text);
}

static void on_passed(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct poison_replay *replay = arg;

	if (!job_answered(&replay->job))
		return;
	if (error || pg_affected(result) == 0) {
		job_yield(&replay->job, error ? error->text : "the order is not ours any more");
		return;
	}
	stepped(replay);
	turn_page(replay);
}

/* All of it was cut. */
static void pass_page(struct poison_replay *replay)
{
	static const struct record_counts nothing;
	struct pg_params params PG_PARAMS_AUTO = { 0 };

	add_step(replay, 0, &nothing);
	if (job_add_step(&replay->job, &params))
		job_send(&replay->job, SQL_ORDER_STEP, &params, on_passed);
}

static void on_page(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct poison_replay *replay = arg;

	if (!job_answered(&replay->job))
		return;
	if (error) {
		job_yield(&replay->job, error->text);
		return;
	}
	if (pg_rows(result) == 0) {
		end(replay);
		return;
	}
	replay->page = pg_keep(result);
	replay->last = pg_get_int8(result, pg_rows(result) - 1, POISON_ID);
	for (int row = 0; row < pg_rows(replay->page); row++)
		if (pg_get_bool(replay->page, row, POISON_CUT))
			replay->page_cut++;
		else
			take_row(replay, row);
	replay->slice = PAGE_ROWS;
	if (replay->batch.count > 0)
		write_slice(replay);
	else
		pass_page(replay);
}

static void next_page(struct poison_replay *replay)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };

	pg_add_int8(&params, replay->sums.after);
	pg_add_int8(&params, PAGE_ROWS);
	pg_add_int8(&params, PAGE_BYTES);
	if (replay->topic) {
		pg_add_text(&params, replay->topic);
		pg_add_int8(&params, replay->upto);
	} else {
		pg_add_array(&params, &replay->ids);
	}
	job_send(&replay->job, replay->topic ? SQL_POISON_OF_TOPIC : SQL_POISON_OF_IDS, &params,
		 on_page);
}

static void on_ids(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct poison_replay *replay = arg;
	int64_t *ids;
	size_t count;

	if (!job_answered(&replay->job))
		return;
	if (error) {
		job_yield(&replay->job, error->text);
		return;
	}
	ids = pg_get_int8_array(result, 0, 0, &count);
	for (size_t i = 0; i < count; i++)
		pg_array_int8(&replay->ids, ids[i]);
	free(ids);
	next_page(replay);
}

static struct job *poison_begin(struct workshop *shop, const struct order *order)
{
	struct poison_replay *replay = mem_zero(sizeof(*replay));
	struct pg_params params PG_PARAMS_AUTO = { 0 };

	job_init(&replay->job, &poison_job, shop, order);
	replay->topic = job_param(&replay->job, "/topic");
	replay->upto = job_number(&replay->job, "/upto");
	pg_array_init(&replay->ids, PG_INT8);
	replay->headers = mem_zero(PAGE_ROWS * sizeof(*replay->headers));
	replay->message_ids = mem_zero(PAGE_ROWS * sizeof(*replay->message_ids));
	replay->cut_before = mem_zero(PAGE_ROWS * sizeof(*replay->cut_before));
	batch_init(&replay->batch, shop->conf->ledger.unmatched, NULL);
	replay->record =
		record_new(shop->pg, shop->conf->ledger.poison_max_bytes, on_recorded, replay);
	read_cursor(replay);
	pg_add_int8(&params, order->id);
	if (replay->topic)
		next_page(replay);
	else
		job_send(&replay->job, SQL_ORDER_IDS, &params, on_ids);
	return &replay->job;
}

const struct job_kind poison_job = { "poison", poison_begin, poison_free };
