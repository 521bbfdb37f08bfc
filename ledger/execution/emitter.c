/* What keys still owe.
 *
 *   idle --round--> a page --written, or refused: halved, at last passed over--> the next page
 *        --no more, or too much was refused--> idle
 *
 * The ids are those that the key's result would have used, and owing is cleared in the transaction
 * that writes the row: however often a round is cut off, the row is written once. */
#include "emitter.h"

#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "mem.h"
#include "result_batch.h"
#include "rules/key.h"
#include "sql_execution.h"

#define PAGE        200
#define REFUSED_MAX 20 /* of a round: when nothing is taken, what is behind is not tried */
#define REST        10 /* rounds, after such a one */
#define SAY_EVERY   (10 * USEC_SEC)

/* The columns of SQL_OWING. */
enum {
	OWING_ID,
	OWING_EPOCH,
	OWING_REPLAYS,
	OWING_STATE,
	OWING_FAILED,
	OWING_EFFECT,
	OWING_TOPIC,
	OWING_NAME,
	OWING_OUTCOME,
	OWING_EMITS,
	OWING_FAULT
};

/* The parameters of SQL_SETTLE, in their order. */
enum {
	SETTLE_ID,
	SETTLE_EPOCH,
	SETTLE_FAILED,
	SETTLE_LETTER_ID,
	SETTLE_LETTER_TOPIC,
	SETTLE_LETTER_REASON,
	SETTLE_EMIT_ID,
	SETTLE_COUNT
};

static const enum pg_type settle_types[SETTLE_COUNT] = {
	[SETTLE_ID] = PG_INT8,           [SETTLE_EPOCH] = PG_INT4,
	[SETTLE_FAILED] = PG_BOOL,       [SETTLE_LETTER_ID] = PG_UUID,
	[SETTLE_LETTER_TOPIC] = PG_TEXT, [SETTLE_LETTER_REASON] = PG_TEXT,
	[SETTLE_EMIT_ID] = PG_UUID,
};

struct owing {
	struct key key; /* its id, epoch, replays, effect and topic */
	char *reason;   /* of a dead letter; NULL: it emits */
	char *fault;    /* why nothing can be emitted; NULL: it can */
	bool failed;    /* flagged already */
};

struct emitter {
	struct log *log;
	struct pg *pg;
	const struct rules *rules;
	struct meter *meter;
	emitter_done_fn *done;
	void *arg;
	struct log_limit limit;

	struct owing *page;
	size_t count;
	size_t at, span; /* the items in the statement that is out */
	bool more;       /* the page was full */
	int64_t after;   /* the id where the walk goes on; 0: at the beginning */
	size_t refused;  /* statements of this round */
	int rest;        /* rounds that are left out */
	size_t written;
};

static void page_clear(struct emitter *emitter)
{
	for (size_t i = 0; i < emitter->count; i++) {
		key_done(&emitter->page[i].key);
		free(emitter->page[i].reason);
		free(emitter->page[i].fault);
	}
	free(emitter->page);
	emitter->page = NULL;
	emitter->count = 0;
}

static void end(struct emitter *emitter, const struct pg_error *error)
{
	page_clear(emitter);
	if (emitter->written > 0)
		log_info(emitter->log, "events written that were owed",
			 LOG_INT("events", emitter->written));
	emitter->done(emitter->arg, error);
}

/* --- writing a page --- */

static void read_page(struct emitter *emitter);

static void report_fault(struct emitter *emitter, const struct owing *owing)
{
	if (!owing->fault)
		return;
	if (!owing->failed)
		series_add(emitter->meter->emit_failed, 1);
	log_error(emitter->log, "nothing is emitted for a completed key", LOG_KEY(&owing->key),
		  LOG_TEXT("effect", owing->key.effect), LOG_TEXT("reason", owing->fault));
}

static void add_letter(struct emitter *emitter, const struct owing *owing, struct pg_array *columns)
{
	struct key_letter letter = { 0 };
	if (owing->reason)
		key_letter(&owing->key, emitter->rules, &letter);
	pg_array_bytes(&columns[SETTLE_LETTER_ID], owing->reason ? letter.id : NULL,
		       sizeof(letter.id));
	pg_array_text(&columns[SETTLE_LETTER_TOPIC], owing->reason ? letter.topic.data : NULL);
	pg_array_text(&columns[SETTLE_LETTER_REASON], owing->reason);
	buf_done(&letter.topic);
}

static void add_owing(struct emitter *emitter, const struct owing *owing, struct pg_array *columns)
{
	uint8_t id[16];
	key_emit_id(&owing->key, id);
	pg_array_int8(&columns[SETTLE_ID], owing->key.id);
	pg_array_int4(&columns[SETTLE_EPOCH], owing->key.epoch);
	pg_array_bool(&columns[SETTLE_FAILED], owing->fault != NULL);
	add_letter(emitter, owing, columns);
	pg_array_bytes(&columns[SETTLE_EMIT_ID], owing->reason || owing->fault ? NULL : id,
		       sizeof(id));
}

static void write_span(struct emitter *emitter);

/* One bad row must not hide the others. */
static void narrow(struct emitter *emitter, const struct pg_error *error)
{
	const struct owing *first = &emitter->page[emitter->at];
	uint64_t held;
	emitter->refused++;
	if (emitter->span > 1) {
		emitter->span /= 2;
	} else {
		if (log_limit_pass(&emitter->limit, usec_boot(), SAY_EVERY, &held))
			log_error(emitter->log, "the outbox does not take what a key owes",
				  LOG_KEY(&first->key), LOG_TEXT("error", error->text),
				  LOG_INT("held_back", held));
		emitter->after = first->key.id;
		emitter->at++;
	}
	if (emitter->refused < REFUSED_MAX)
		return write_span(emitter);
	emitter->rest = REST;
	end(emitter, NULL);
}

static void on_written(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct emitter *emitter = arg;
	if (error && error->kind == PG_REFUSED && !refusal_passes(error->sqlstate))
		return narrow(emitter, error);
	if (error)
		return end(emitter, error);
	crash_point("emit.answered");
	for (size_t i = 0; i < emitter->span; i++)
		report_fault(emitter, &emitter->page[emitter->at + i]);
	emitter->written += (size_t)pg_get_int8(result, 0, 0);
	emitter->at += emitter->span;
	emitter->after = emitter->page[emitter->at - 1].key.id;
	write_span(emitter);
}

static void page_written(struct emitter *emitter)
{
	if (emitter->more)
		return read_page(emitter);
	emitter->after = 0;
	end(emitter, NULL);
}

/* The rest of the page, or as much of it as was taken last. */
static void write_span(struct emitter *emitter)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	struct pg_array columns[SETTLE_COUNT];
	const size_t left = emitter->count - emitter->at;
	if (left == 0)
		return page_written(emitter);
	emitter->span = emitter->span < left ? emitter->span : left;
	for (size_t i = 0; i < SETTLE_COUNT; i++)
		pg_array_init(&columns[i], settle_types[i]);
	for (size_t i = 0; i < emitter->span; i++)
		add_owing(emitter, &emitter->page[emitter->at + i], columns);
	for (size_t i = 0; i < SETTLE_COUNT; i++) {
		pg_add_array(&params, &columns[i]);
		pg_array_done(&columns[i]);
	}
	crash_point("emit.send");
	pg_send(emitter->pg, SQL_SETTLE, &params, on_written, emitter);
	crash_point("emit.sent");
}

/* --- reading a page --- */

static char *reason_of(const PGresult *result, int row)
{
	const char *outcome = pg_get_text(result, row, OWING_OUTCOME);
	if (strcmp(pg_get_text(result, row, OWING_STATE), "dead") != 0)
		return NULL;
	return mem_text(*outcome ? outcome : outcome_name(OUTCOME_LOST));
}

static char *fault_of(const PGresult *result, int row)
{
	if (!pg_get_bool(result, row, OWING_EMITS))
		return mem_text("its request is not kept any more");
	return mem_text(pg_get_text(result, row, OWING_FAULT));
}

static void read_row(struct emitter *emitter, const PGresult *result, int row)
{
	emitter->page = mem_grow(emitter->page, emitter->count + 1, sizeof(*emitter->page));
	struct owing *owing = &emitter->page[emitter->count++];
	*owing = (struct owing){
		.key = { .id = pg_get_int8(result, row, OWING_ID),
			 .epoch = pg_get_int4(result, row, OWING_EPOCH),
			 .replays = pg_get_int4(result, row, OWING_REPLAYS),
			 .effect = mem_text(pg_get_text(result, row, OWING_EFFECT)),
			 .topic = mem_text(pg_get_text(result, row, OWING_TOPIC)) },
		.reason = reason_of(result, row),
		.failed = pg_get_bool(result, row, OWING_FAILED),
	};
	size_t length;
	const char *name = pg_get_bytes(result, row, OWING_NAME, &length);
	key_name_set(&owing->key, name, length);
	owing->fault = owing->reason ? NULL : fault_of(result, row);
}

static void on_page(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct emitter *emitter = arg;
	if (error)
		return end(emitter, error);
	for (int row = 0; row < pg_rows(result); row++)
		read_row(emitter, result, row);
	emitter->more = emitter->count == PAGE;
	emitter->at = 0;
	emitter->span = PAGE;
	write_span(emitter);
}

static void read_page(struct emitter *emitter)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	page_clear(emitter);
	pg_add_int8(&params, emitter->after);
	pg_add_int8(&params, PAGE);
	pg_send(emitter->pg, SQL_OWING, &params, on_page, emitter);
}

/* --- publics --- */

struct emitter *emitter_new(struct log *log, struct pg *pg, const struct rules *rules,
			    struct meter *meter, emitter_done_fn *done, void *arg)
{
	struct emitter *emitter = mem_zero(sizeof(*emitter));
	emitter->log = log;
	emitter->pg = pg;
	emitter->rules = rules;
	emitter->meter = meter;
	emitter->done = done;
	emitter->arg = arg;
	return emitter;
}

void emitter_free(struct emitter *emitter)
{
	if (!emitter)
		return;
	page_clear(emitter);
	free(emitter);
}

void emitter_round(struct emitter *emitter)
{
	emitter->refused = 0;
	emitter->written = 0;
	if (emitter->rest == 0)
		return read_page(emitter);
	emitter->rest--;
	end(emitter, NULL);
}
