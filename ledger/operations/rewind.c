/* Positions that go back, so that what was taken in is read again. Keys make that safe as far as
 * the ledger knows them: further back what is read would run as if it were new.
 *
 *   what has been taken in --> where to (the brokers may have to say) --> moved, with the order's
 * mark; keys were forgotten meanwhile: once more from the beginning */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "intake/consumer.h"
#include "intake_job.h"
#include "mem.h"
#include "sql_intake_orders.h"

struct place {
	int64_t next;  /* where intake stands */
	int64_t since; /* from where on the ledger knows keys */
};

struct rewind {
	struct job job;
	char *topic;
	struct partition *to;
	struct place *places;
	size_t count;
	bool forced;
	bool marked; /* in the transaction under way */
	int64_t moved, back;
};

static void rewind_free(struct job *job)
{
	struct rewind *rewind = (struct rewind *)(void *)job;

	free(rewind->topic);
	free(rewind->to);
	free(rewind->places);
	free(rewind);
}

/* --- moving --- */

/* The error of one fails those behind it too. */
static void on_begun(void *arg, const PGresult *result, const struct pg_error *error)
{
	(void)arg;
	(void)result;
	(void)error;
}

static void on_moved(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct rewind *rewind = arg;

	if (error)
		return;
	rewind->marked = pg_get_bool(result, 0, 0);
	rewind->moved = pg_get_int8(result, 0, 1);
	rewind->back = pg_get_int8(result, 0, 2);
}

static void on_committed(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct rewind *rewind = arg;
	struct buf detail BUF_AUTO = { 0 };

	(void)result;
	if (!job_answered(&rewind->job))
		return;
	if (error || !rewind->marked) {
		job_yield(&rewind->job, error ? error->text
					      : "the order is not ours any more, or keys were "
						"forgotten meanwhile");
		return;
	}
	crash_point("rewind.answered");
	buf_addf(&detail, "%" PRId64 " partitions went back, by %" PRId64 " offsets in sum",
		 rewind->moved, rewind->back);
	job_end(&rewind->job, "done", detail.data);
}

/* Should BEGIN alone fail, each of the others is right by itself, but for keys that are forgotten
 * in the same moment. */
static void send_move(struct rewind *rewind, const struct pg_array *partitions,
		      const struct pg_params *params)
{
	struct pg *pg = rewind->job.shop->pg;
	struct pg_params places PG_PARAMS_AUTO = { 0 };

	pg_add_text(&places, rewind->topic);
	pg_add_array(&places, partitions);
	crash_point("rewind.send");
	pg_send(pg, "BEGIN", NULL, on_begun, rewind);
	pg_send(pg, SQL_REWIND_LOCK, &places, on_begun, rewind);
	pg_send(pg, SQL_REWIND, params, on_moved, rewind);
	job_send(&rewind->job, "COMMIT", NULL, on_committed);
	crash_point("rewind.sent");
}

static void move(struct rewind *rewind)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	struct pg_array partitions PG_ARRAY_AUTO, next PG_ARRAY_AUTO;

	pg_array_init(&partitions, PG_INT4);
	pg_array_init(&next, PG_INT8);
	for (size_t i = 0; i < rewind->count; i++) {
		pg_array_int4(&partitions, rewind->to[i].partition);
		pg_array_int8(&next, rewind->to[i].offset);
	}
	pg_add_int8(&params, rewind->job.order->id);
	pg_add_int8(&params, orders_owned_by(rewind->job.shop->orders));
	pg_add_text(&params, "moved");
	pg_add_text(&params, rewind->topic);
	pg_add_array(&params, &partitions);
	pg_add_array(&params, &next);
	pg_add_bool(&params, rewind->forced);
	send_move(rewind, &partitions, &params);
}

/* --- how far --- */

static void say_known(const struct rewind *rewind, struct buf *out)
{
	buf_add_text(out, "keys are known");
	for (size_t i = 0; i < rewind->count; i++)
		buf_addf(out, "%s of partition %" PRId32 " from offset %" PRId64 " on",
			 i > 0 ? "," : "", rewind->to[i].partition, rewind->places[i].since);
}

static bool goes_back(const struct rewind *rewind, size_t i)
{
	return rewind->to[i].offset >= 0 && rewind->to[i].offset < rewind->places[i].next;
}

/* Leaves those that go back. */
static void select_moving(struct rewind *rewind)
{
	size_t kept = 0;

	for (size_t i = 0; i < rewind->count; i++) {
		if (!goes_back(rewind, i))
			continue;
		rewind->to[kept] = rewind->to[i];
		rewind->places[kept++] = rewind->places[i];
	}
	rewind->count = kept;
}

static bool is_known(const struct rewind *rewind)
{
	for (size_t i = 0; i < rewind->count; i++)
		if (rewind->to[i].offset < rewind->places[i].since)
			return false;
	return true;
}

static void judge(struct rewind *rewind)
{
	struct buf detail BUF_AUTO = { 0 };
	char *force = job_param(&rewind->job, "/force");

	rewind->forced = force && strcmp(force, "true") == 0;
	free(force);
	select_moving(rewind);
	if (rewind->count == 0) {
		job_end(&rewind->job, "failed",
			"nothing to go back to: positions are not moved forward");
		return;
	}
	if (!is_known(rewind) && !rewind->forced) {
		buf_add_text(&detail, "refused: what is before the keys that the ledger knows "
				      "would run as if it were new; ");
		say_known(rewind, &detail);
		job_end(&rewind->job, "failed", detail.data);
		return;
	}
	move(rewind);
}

/* --- where to --- */

/* Blocks the loop for up to a second: an order asks once. */
static bool ask_brokers(struct rewind *rewind, int64_t time, struct err *err)
{
	const struct consumer_events none = { 0 };
	const struct workshop *shop = rewind->job.shop;
	struct consumer *consumer;
	bool good;

	if (!consumer_new(shop->loop, shop->log, shop->conf, NULL, 0, &none, err, &consumer))
		return false;
	good = consumer_ask_offsets(consumer, time, rewind->to, rewind->count, err);
	consumer_free(consumer);
	return good;
}

static bool find_places(struct rewind *rewind, struct err *err)
{
	int64_t offset = job_number(&rewind->job, "/to_offset");
	int64_t time = job_number(&rewind->job, "/to_ms");

	if (offset < 0)
		return ask_brokers(rewind, time < 0 ? OFFSET_OF_FIRST : time, err);
	for (size_t i = 0; i < rewind->count; i++)
		rewind->to[i].offset = offset;
	return true;
}

static void on_taken_in(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct rewind *rewind = arg;
	int64_t only = job_number(&rewind->job, "/partition");
	struct err err;

	if (!job_answered(&rewind->job))
		return;
	if (error) {
		job_yield(&rewind->job, error->text);
		return;
	}
	rewind->to = mem_zero(((size_t)pg_rows(result) + 1) * sizeof(*rewind->to));
	rewind->places = mem_zero(((size_t)pg_rows(result) + 1) * sizeof(*rewind->places));
	for (int row = 0; row < pg_rows(result); row++) {
		int32_t partition = pg_get_int4(result, row, 0);

		if (only >= 0 && partition != only)
			continue;
		rewind->to[rewind->count] =
			(struct partition){ .topic = rewind->topic, .partition = partition };
		rewind->places[rewind->count++] =
			(struct place){ pg_get_int8(result, row, 1), pg_get_int8(result, row, 2) };
	}
	if (*rewind->job.order->cursor != '\0')
		job_end(&rewind->job, "done",
			"positions went back, by a ledger that has ended since");
	else if (rewind->count == 0)
		job_end(&rewind->job, "failed", "nothing of it has been taken in");
	else if (!find_places(rewind, &err))
		job_end(&rewind->job, "failed", err.text);
	else
		judge(rewind);
}

static struct job *rewind_begin(struct workshop *shop, const struct order *order)
{
	struct rewind *rewind = mem_zero(sizeof(*rewind));
	struct pg_params params PG_PARAMS_AUTO = { 0 };

	job_init(&rewind->job, &rewind_job, shop, order);
	rewind->topic = job_param(&rewind->job, "/topic");
	pg_add_text(&params, rewind->topic);
	job_send(&rewind->job, SQL_TAKEN_IN, &params, on_taken_in);
	return &rewind->job;
}

const struct job_kind rewind_job = { "rewind", rewind_begin, rewind_free };
