/* Events that were taken in before are read again, by a consumer outside of the group; positions
 * stay where they are. Each is looked up: what is known is a duplicate. What is new should have
 * been there: it is only told, unless the order says to record it. What is further back than keys
 * are known (counterfoil.reach) is not read: all of it would seem new, and be performed.
 *
 *   ranges (the brokers may have to say) --> READING --a batch--> ASKING --> READING --all read-->
 * end */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "intake/batch.h"
#include "intake/consumer.h"
#include "intake/intake_meter.h"
#include "intake/record.h"
#include "intake/record_rows.h"
#include "intake/sql_intake.h"
#include "intake_job.h"
#include "mem.h"
#include "ranges.h"
#include "sql_intake_orders.h"

#define POLL_EVERY (100 * USEC_MS)

struct redeliver {
	struct job job;
	char *topic;
	bool apply;
	bool reading;
	struct ranges ranges;
	struct consumer *consumer;
	struct loop_timer *poll;
	struct batch batch;
	size_t *rows; /* of the batch, that are looked up */
	size_t row_count;
	size_t done, slice; /* of what is recorded */
	struct ranges next; /* behind the slice under way */
	struct record *record;
};

static void redeliver_free(struct job *job)
{
	struct redeliver *redeliver = (struct redeliver *)(void *)job;

	batch_done(&redeliver->batch);
	consumer_free(redeliver->consumer);
	loop_timer_free(redeliver->poll);
	record_free(redeliver->record);
	ranges_done(&redeliver->ranges);
	ranges_done(&redeliver->next);
	free(redeliver->topic);
	free(redeliver->rows);
	free(redeliver);
}

/* --- the end, and how far it is --- */

static void end(struct redeliver *redeliver)
{
	const struct ranges *ranges = &redeliver->ranges;
	struct buf detail BUF_AUTO = { 0 };
	bool missing = !redeliver->apply && ranges->fresh > 0;

	ranges_say(ranges, redeliver->apply, &detail);
	if (missing)
		buf_add_text(&detail, "; nothing was recorded: --apply does that");
	job_finish(&redeliver->job, ranges->read, missing ? "failed" : "done", detail.data);
}

/* Behind these messages. */
static void pass(const struct redeliver *redeliver, size_t from, size_t to, struct ranges *ranges)
{
	ranges->read += (int64_t)(to - from);
	for (size_t m = from; m < to; m++) {
		const struct batch_message *message = &redeliver->batch.messages[m];
		struct range *range = ranges_find(ranges, message->event.source.partition);

		range->at = message->event.source.offset + 1;
		ranges->poison += message->poison != POISON_NONE;
		ranges->unmatched += message->unmatched != NULL;
	}
}

static void next_batch(struct redeliver *redeliver)
{
	batch_clear(&redeliver->batch);
	redeliver->done = 0;
	loop_timer_set(redeliver->poll, 0);
}

/* --- only looked up --- */

static void looked_up(struct redeliver *redeliver)
{
	struct buf cursor BUF_AUTO = { 0 };
	size_t count = redeliver->batch.count;

	pass(redeliver, 0, count, &redeliver->ranges);
	ranges_write(&redeliver->ranges, &cursor);
	orders_progress(redeliver->job.shop->orders, (int64_t)count, 0, 0, cursor.data);
	next_batch(redeliver);
}

static void count_verdict(struct redeliver *redeliver, size_t row, const char *verdict)
{
	struct ranges *ranges = &redeliver->ranges;
	const struct batch *batch = &redeliver->batch;

	if (strcmp(verdict, "duplicate") == 0) {
		ranges->duplicates++;
	} else if (strcmp(verdict, "conflict") == 0) {
		ranges->conflicts++;
	} else {
		ranges->fresh++;
		ranges_first(ranges, batch_text(batch, batch->rows[row].key));
	}
}

static void on_compared(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct redeliver *redeliver = arg;

	if (!job_answered(&redeliver->job))
		return;
	if (error) {
		job_yield(&redeliver->job, error->text);
		return;
	}
	for (int line = 0; line < pg_rows(result); line++)
		count_verdict(redeliver, redeliver->rows[pg_get_int8(result, line, 0) - 1],
			      pg_get_text(result, line, 2));
	looked_up(redeliver);
}

/* Rows that are folded onto an earlier one are what that one is, at best. */
static void look_up(struct redeliver *redeliver)
{
	struct batch *batch = &redeliver->batch;
	struct pg_params params PG_PARAMS_AUTO = { 0 };

	redeliver->rows = mem_grow(redeliver->rows, batch->row_count + 1, sizeof(*redeliver->rows));
	redeliver->row_count = 0;
	batch_fold(batch, 0, batch->count);
	for (size_t row = 0; row < batch->row_count; row++)
		if (!batch->rows[row].folded)
			redeliver->rows[redeliver->row_count++] = row;
		else
			redeliver->ranges.duplicates++;
	if (redeliver->row_count == 0) {
		looked_up(redeliver);
		return;
	}
	rows_compare(batch, redeliver->rows, redeliver->row_count, &params);
	job_send(&redeliver->job, SQL_COMPARE, &params, on_compared);
}

/* --- recorded --- */

static size_t slice_end(const struct redeliver *redeliver)
{
	size_t end = redeliver->done + redeliver->slice;

	return end < redeliver->batch.count ? end : redeliver->batch.count;
}

/* What of it would be new only because its key was forgotten meanwhile is not recorded. */
static void add_places(const struct redeliver *redeliver, struct pg_params *params)
{
	const struct ranges *ranges = &redeliver->ranges;
	struct pg_array partitions PG_ARRAY_AUTO, first PG_ARRAY_AUTO;

	pg_array_init(&partitions, PG_INT4);
	pg_array_init(&first, PG_INT8);
	for (size_t i = 0; i < ranges->count; i++) {
		pg_array_int4(&partitions, ranges->items[i].partition);
		pg_array_int8(&first, ranges->items[i].at);
	}
	pg_add_text(params, redeliver->topic);
	pg_add_array(params, &partitions);
	pg_add_array(params, &first);
}

static const char *end_slice(void *arg, const struct record_counts *counts,
			     struct pg_params *params)
{
	struct redeliver *redeliver = arg;
	const struct batch *batch = &redeliver->batch;
	struct ranges *next = &redeliver->next;
	struct job_step *step = &redeliver->job.step;

	ranges_done(next);
	*next = ranges_copy(&redeliver->ranges);
	pass(redeliver, redeliver->done, slice_end(redeliver), next);
	next->fresh += counts->effects;
	next->duplicates += counts->duplicates;
	next->conflicts += counts->conflicts;
	if (counts->effects > 0)
		ranges_first(next, batch_text(batch, batch->rows[counts->first].key));
	step->done = (int64_t)(slice_end(redeliver) - redeliver->done);
	buf_clear(&step->cursor);
	ranges_write(next, &step->cursor);
	if (!job_add_step(&redeliver->job, params))
		return NULL;
	add_places(redeliver, params);
	return SQL_ORDER_STEP_READ;
}

static void write_slice(struct redeliver *redeliver)
{
	const struct record_task task = {
		.batch = &redeliver->batch,
		.from = redeliver->done,
		.to = slice_end(redeliver),
		.instance = orders_owned_by(redeliver->job.shop->orders),
		.last = end_slice,
	};

	redeliver->job.asked = true;
	record_start(redeliver->record, &task);
}

static void recorded(struct redeliver *redeliver, const struct record_counts *counts)
{
	struct workshop *shop = redeliver->job.shop;

	intake_meter_recorded(shop->meter, &redeliver->batch, redeliver->done, slice_end(redeliver),
			      counts);
	job_stepped(&redeliver->job);
	ranges_done(&redeliver->ranges);
	redeliver->ranges = redeliver->next;
	redeliver->next = (struct ranges){ 0 };
	redeliver->done = slice_end(redeliver);
	shop->recorded(shop->arg, counts->effects - counts->dead);
	if (redeliver->done < redeliver->batch.count)
		write_slice(redeliver);
	else
		next_batch(redeliver);
}

/* Something in it is more than the database takes: alone it is poison. */
static void refused(struct redeliver *redeliver, const char *error)
{
	size_t count = slice_end(redeliver) - redeliver->done;

	if (count == 1 && redeliver->batch.messages[redeliver->done].poison == POISON_DATABASE) {
		job_yield(&redeliver->job, error);
		return;
	}
	if (count > 1)
		redeliver->slice = count / 2;
	else
		batch_spoil(&redeliver->batch, redeliver->done, POISON_DATABASE, error);
	write_slice(redeliver);
}

static void on_recorded(void *arg, enum record_end how, const struct record_counts *counts,
			const char *error)
{
	struct redeliver *redeliver = arg;

	if (!job_answered(&redeliver->job))
		return;
	switch (how) {
	case RECORD_DONE:
		recorded(redeliver, counts);
		break;
	case RECORD_CONTENT:
		refused(redeliver, error);
		break;
	case RECORD_MOVED:
	case RECORD_FAILED:
		job_yield(&redeliver->job, error);
		break;
	}
}

/* --- reading --- */

static void take_message(struct redeliver *redeliver, struct message *message)
{
	const struct event_source *source = message_source(message);
	struct range *range = ranges_find(&redeliver->ranges, source->partition);

	if (range && source->offset >= range->at && source->offset < range->end) {
		(void)batch_read(&redeliver->batch, redeliver->job.shop->rules, source, message,
				 usec_wall());
		return;
	}
	if (range && source->offset >= range->end)
		range->ended = true;
	message_free(message);
}

static bool all_ended(const struct redeliver *redeliver)
{
	for (size_t i = 0; i < redeliver->ranges.count; i++) {
		const struct range *range = &redeliver->ranges.items[i];

		if (!range->ended && range->at < range->end)
			return false;
	}
	return true;
}

static void ask(struct redeliver *redeliver)
{
	redeliver->slice = redeliver->batch.count;
	loop_timer_cancel(redeliver->poll);
	if (redeliver->apply)
		write_slice(redeliver);
	else
		look_up(redeliver);
}

/* All that is there now, up to a batch; what waits in the client is bounded by its settings. */
static void read_on(struct redeliver *redeliver)
{
	size_t most = (size_t)redeliver->job.shop->conf->ledger.batch;
	struct message *message;

	while (!batch_is_full(&redeliver->batch, most)) {
		message = consumer_next(redeliver->consumer);
		if (!message)
			break;
		take_message(redeliver, message);
	}
	if (redeliver->batch.count > 0)
		ask(redeliver);
	else if (all_ended(redeliver))
		end(redeliver);
	else
		loop_timer_set(redeliver->poll, POLL_EVERY);
}

static void on_poll(void *arg)
{
	struct redeliver *redeliver = arg;

	if (!redeliver->job.asked)
		read_on(redeliver);
}

/* From inside consumer_next(): the rest is left to the timer. */
static void on_ended(void *arg, const char *topic, int32_t partition)
{
	struct redeliver *redeliver = arg;
	struct range *range = ranges_find(&redeliver->ranges, partition);

	(void)topic;
	if (range)
		range->ended = true;
}

static void on_wake(void *arg)
{
	struct redeliver *redeliver = arg;

	if (redeliver->reading && !redeliver->job.asked)
		loop_timer_set(redeliver->poll, 0);
}

static void read_again(struct redeliver *redeliver)
{
	const struct ranges *ranges = &redeliver->ranges;
	struct partition *list = mem_zero((ranges->count + 1) * sizeof(*list));
	size_t count = 0;
	struct err err;
	bool good;

	for (size_t i = 0; i < ranges->count; i++)
		if (ranges->items[i].at < ranges->items[i].end)
			list[count++] = (struct partition){ .topic = redeliver->topic,
							    .partition = ranges->items[i].partition,
							    .offset = ranges->items[i].at };
	good = consumer_fetch(redeliver->consumer, list, count, &err);
	free(list);
	redeliver->reading = true;
	if (good)
		loop_timer_set(redeliver->poll, 0);
	else
		job_yield(&redeliver->job, err.text);
}

/* --- what is to be read --- */

static void on_begun(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct redeliver *redeliver = arg;

	if (!job_answered(&redeliver->job))
		return;
	if (error || pg_affected(result) == 0) {
		job_yield(&redeliver->job, error ? error->text : "the order is not ours any more");
		return;
	}
	ranges_write(&redeliver->ranges, &redeliver->job.cursor);
	read_again(redeliver);
}

static void write_ranges(struct redeliver *redeliver)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	struct buf cursor BUF_AUTO = { 0 };

	ranges_write(&redeliver->ranges, &cursor);
	pg_add_int8(&params, redeliver->job.order->id);
	pg_add_int8(&params, orders_owned_by(redeliver->job.shop->orders));
	pg_add_int8(&params, ranges_left(&redeliver->ranges));
	pg_add_text(&params, cursor.data);
	job_send(&redeliver->job, SQL_ORDER_BEGUN, &params, on_begun);
}

/* The offsets of a time, which the brokers know; those after the last message are left out. */
static bool ask_time(struct redeliver *redeliver, int64_t time_ms, bool begins, struct err *err)
{
	struct ranges *ranges = &redeliver->ranges;
	struct partition *list = mem_zero((ranges->count + 1) * sizeof(*list));
	bool good;

	for (size_t i = 0; i < ranges->count; i++)
		list[i] = (struct partition){ .topic = redeliver->topic,
					      .partition = ranges->items[i].partition };
	good = consumer_ask_offsets(redeliver->consumer, time_ms, list, ranges->count, err);
	for (size_t i = 0; good && i < ranges->count; i++) {
		struct range *range = &ranges->items[i];
		int64_t offset = list[i].offset >= 0 ? list[i].offset : range->end;

		if (begins)
			range->at = offset < range->at    ? range->at
				    : offset < range->end ? offset
							  : range->end;
		else if (offset < range->end)
			range->end = offset > range->at ? offset : range->at;
	}
	free(list);
	return good;
}

static bool make_consumer(struct redeliver *redeliver, struct err *err)
{
	const struct workshop *shop = redeliver->job.shop;
	const struct consumer_events events = { .wake = on_wake,
						.ended = on_ended,
						.arg = redeliver };

	return consumer_new(shop->loop, shop->log, shop->conf, NULL, 0, &events, err,
			    &redeliver->consumer);
}

static bool choose(struct redeliver *redeliver, struct err *err)
{
	int64_t last = job_number(&redeliver->job, "/last");
	int64_t from = job_number(&redeliver->job, "/from_ms");
	int64_t to = job_number(&redeliver->job, "/to_ms");

	if (last >= 0)
		ranges_last(&redeliver->ranges, last);
	return (from < 0 || ask_time(redeliver, from, true, err)) &&
	       (to < 0 || ask_time(redeliver, to, false, err));
}

/* Again, by whoever takes the order up. */
static void go_on(struct redeliver *redeliver, const PGresult *taken_in)
{
	if (!ranges_read(redeliver->job.order->cursor, &redeliver->ranges)) {
		job_end(&redeliver->job, "failed", "its cursor cannot be read");
		return;
	}
	for (int row = 0; row < pg_rows(taken_in); row++)
		ranges_known(&redeliver->ranges, pg_get_int4(taken_in, row, 0),
			     pg_get_int8(taken_in, row, 2));
	read_again(redeliver);
}

static void on_taken_in(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct redeliver *redeliver = arg;
	struct err err;

	if (!job_answered(&redeliver->job))
		return;
	if (error) {
		job_yield(&redeliver->job, error->text);
		return;
	}
	if (!make_consumer(redeliver, &err)) {
		job_end(&redeliver->job, "failed", err.text);
		return;
	}
	if (*redeliver->job.order->cursor != '\0') {
		go_on(redeliver, result);
		return;
	}
	for (int row = 0; row < pg_rows(result); row++)
		ranges_add(&redeliver->ranges, pg_get_int4(result, row, 0),
			   pg_get_int8(result, row, 2), pg_get_int8(result, row, 1));
	if (redeliver->ranges.count == 0)
		job_end(&redeliver->job, "failed", "nothing of it has been taken in");
	else if (!choose(redeliver, &err))
		job_end(&redeliver->job, "failed", err.text);
	else
		write_ranges(redeliver);
}

static struct job *redeliver_begin(struct workshop *shop, const struct order *order)
{
	struct redeliver *redeliver = mem_zero(sizeof(*redeliver));
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	char *apply;

	job_init(&redeliver->job, &redeliver_job, shop, order);
	redeliver->topic = job_param(&redeliver->job, "/topic");
	apply = job_param(&redeliver->job, "/apply");
	redeliver->apply = apply && strcmp(apply, "true") == 0;
	free(apply);
	batch_init(&redeliver->batch, shop->conf->ledger.unmatched, message_free);
	redeliver->record =
		record_new(shop->pg, shop->conf->ledger.poison_max_bytes, on_recorded, redeliver);
	redeliver->poll = loop_timer_new(shop->loop, on_poll, redeliver);
	pg_add_text(&params, redeliver->topic);
	job_send(&redeliver->job, SQL_TAKEN_IN, &params, on_taken_in);
	return &redeliver->job;
}

const struct job_kind redeliver_job = { "redeliver", redeliver_begin, redeliver_free };
