/* Send markers.
 *
 * A mark waits in the queue, then in a batch: one statement and one transaction. A batch that the
 * database refuses for what it holds is halved, so that one bad row stops no other. A statement
 * whose answer was lost is not sent again: nothing of its keys was sent, and they go back. */
#include "marker.h"

#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "database.h"
#include "mem.h"
#include "result_batch.h"
#include "sql_execution.h"

#define BATCHES_MAX 2 /* on their way: one is made while one commits */
#define SAY_EVERY   (10 * USEC_SEC)

struct mark {
	struct mark *next;
	int64_t id, owner;
	int32_t epoch;
	bool set;
	mark_fn *fn; /* NULL: forgotten */
	void *arg;
};

struct markers {
	struct loop *loop;
	struct log *log;
	const struct conf *conf;
	struct meter *meter;
	struct pg *pg;           /* NULL: nobody has asked yet */
	struct loop_timer *turn; /* gathers what is asked for in one turn of the loop */
	struct mark *first;      /* the queue */
	struct mark **end;
	size_t batches; /* on their way */
	struct log_limit limit;
};

/* In the order of their ids; each once, for a key has one claim of ours. */
struct batch {
	struct markers *markers;
	size_t count;
	struct mark *items[];
};

static void finish(struct mark *mark, enum mark_end end)
{
	mark_fn *fn = mark->fn;
	void *arg = mark->arg;
	free(mark);
	if (fn)
		fn(arg, end);
}

/* --- batches --- */

static void send(struct batch *batch);
static void flush(struct markers *markers);

static struct batch *batch_new(struct markers *markers, size_t count)
{
	struct batch *batch = mem_zero(sizeof(*batch) + count * sizeof(struct mark *));
	batch->markers = markers;
	return batch;
}

static void batch_end(struct batch *batch, enum mark_end end)
{
	for (size_t i = 0; i < batch->count; i++)
		finish(batch->items[i], batch->items[i]->set ? MARK_SET : end);
	free(batch);
}

static void send_part(const struct batch *batch, size_t from, size_t to)
{
	struct batch *part = batch_new(batch->markers, to - from);
	part->count = to - from;
	memcpy(part->items, batch->items + from, part->count * sizeof(struct mark *));
	send(part);
}

static void on_refused(struct batch *batch, const struct pg_error *error)
{
	struct markers *markers = batch->markers;
	uint64_t held;
	if (log_limit_pass(&markers->limit, usec_boot(), SAY_EVERY, &held))
		log_error(markers->log, "send markers refused", LOG_TEXT("error", error->text),
			  LOG_INT("keys", batch->count), LOG_INT("first", batch->items[0]->id),
			  LOG_INT("held_back", held));
	if (batch->count == 1 || refusal_passes(error->sqlstate))
		return batch_end(batch, MARK_REFUSED);
	send_part(batch, 0, batch->count / 2);
	send_part(batch, batch->count / 2, batch->count);
	free(batch);
}

static int compare_id(const void *id, const void *item)
{
	const int64_t wanted = *(const int64_t *)id, has = (*(struct mark *const *)item)->id;
	return (wanted > has) - (wanted < has);
}

static void on_set(struct batch *batch, const PGresult *result)
{
	crash_point("marker.answered");
	for (int row = 0; row < pg_rows(result); row++) {
		const int64_t id = pg_get_int8(result, row, 0);
		struct mark **mark =
			bsearch(&id, batch->items, batch->count, sizeof(*mark), compare_id);
		if (mark)
			(*mark)->set = true;
	}
	batch_end(batch, MARK_UNSET);
}

static void on_done(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct batch *batch = arg;
	struct markers *markers = batch->markers;
	markers->batches--;
	if (!error)
		on_set(batch, result);
	else if (error->kind == PG_REFUSED)
		on_refused(batch, error);
	else
		batch_end(batch, MARK_UNSET);
	flush(markers);
}

static void send(struct batch *batch)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	struct pg_array ids PG_ARRAY_AUTO, epochs PG_ARRAY_AUTO, owners PG_ARRAY_AUTO;
	pg_array_init(&ids, PG_INT8);
	pg_array_init(&epochs, PG_INT4);
	pg_array_init(&owners, PG_INT8);
	for (size_t i = 0; i < batch->count; i++) {
		pg_array_int8(&ids, batch->items[i]->id);
		pg_array_int4(&epochs, batch->items[i]->epoch);
		pg_array_int8(&owners, batch->items[i]->owner);
	}
	pg_add_array(&params, &ids);
	pg_add_array(&params, &epochs);
	pg_add_array(&params, &owners);
	batch->markers->batches++;
	crash_point("marker.send");
	pg_send(batch->markers->pg, SQL_MARK, &params, on_done, batch);
	crash_point("marker.sent");
}

/* --- the queue --- */

static int by_id(const void *a, const void *b)
{
	const struct mark *x = *(struct mark *const *)a, *y = *(struct mark *const *)b;
	return (x->id > y->id) - (x->id < y->id);
}

/* All of it but what was forgotten meanwhile. */
static struct batch *take_queue(struct markers *markers)
{
	size_t count = 0;
	for (const struct mark *mark = markers->first; mark; mark = mark->next)
		count++;
	struct batch *batch = batch_new(markers, count);
	for (struct mark *mark = markers->first, *next; mark; mark = next) {
		next = mark->next;
		if (mark->fn)
			batch->items[batch->count++] = mark;
		else
			free(mark);
	}
	markers->first = NULL;
	markers->end = &markers->first;
	qsort(batch->items, batch->count, sizeof(struct mark *), by_id);
	return batch;
}

static void flush(struct markers *markers)
{
	if (!markers->first || markers->batches >= BATCHES_MAX || !pg_up(markers->pg))
		return;
	struct batch *batch = take_queue(markers);
	if (batch->count > 0)
		send(batch);
	else
		free(batch);
}

static void on_turn(void *arg)
{
	flush(arg);
}

/* --- the connection --- */

static void on_up(void *arg)
{
	flush(arg);
}

/* Claims have a connection of their own, and come to an end by themselves. */
static void on_down(void *arg, const char *reason)
{
	struct markers *markers = arg;
	log_warn(markers->log, "database away", LOG_TEXT("part", "markers"),
		 LOG_TEXT("reason", reason));
	batch_end(take_queue(markers), MARK_UNSET);
}

static void connect_once(struct markers *markers)
{
	const struct pg_settings settings = database_busy_settings(markers->conf, markers->meter);
	const struct pg_events events = { .up = on_up, .down = on_down, .arg = markers };
	if (!markers->pg)
		markers->pg = pg_new(markers->loop, markers->log, &settings, &events);
}

/* --- the public face --- */

struct mark *marker_ask(struct markers *markers, const struct key *key, mark_fn *fn, void *arg)
{
	struct mark *mark = mem_zero(sizeof(*mark));
	*mark = (struct mark){
		.id = key->id, .owner = key->owner, .epoch = key->epoch, .fn = fn, .arg = arg
	};
	connect_once(markers);
	*markers->end = mark;
	markers->end = &mark->next;
	loop_timer_set(markers->turn, 0);
	return mark;
}

void marker_forget(struct mark *mark)
{
	mark->fn = NULL;
}

struct markers *markers_new(struct loop *loop, struct log *log, const struct conf *conf,
			    struct meter *meter)
{
	struct markers *markers = mem_zero(sizeof(*markers));
	markers->loop = loop;
	markers->log = log;
	markers->conf = conf;
	markers->meter = meter;
	markers->end = &markers->first;
	markers->turn = loop_timer_new(loop, on_turn, markers);
	return markers;
}

void markers_free(struct markers *markers)
{
	if (!markers)
		return;
	pg_free(markers->pg);
	free(take_queue(markers));
	loop_timer_free(markers->turn);
	free(markers);
}
