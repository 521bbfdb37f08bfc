/* What the orders to intake share while they are carried out. */
#include "intake_job.h"

#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "mem.h"
#include "sql_intake_orders.h"

void job_init(struct job *job, const struct job_kind *kind, struct workshop *shop,
	      const struct order *order)
{
	job->kind = kind;
	job->shop = shop;
	job->order = order;
	buf_add_text(&job->cursor, order->cursor);
}

static void leave(struct job *job)
{
	struct workshop *shop = job->shop;

	shop->gone(shop->arg);
	buf_done(&job->detail);
	buf_done(&job->cursor);
	buf_done(&job->step.cursor);
	job->kind->free(job);
}

void job_send(struct job *job, const char *sql, const struct pg_params *params, pg_done_fn *done)
{
	job->asked = true;
	pg_send(job->shop->pg, sql, params, done, job);
}

bool job_answered(struct job *job)
{
	job->asked = false;
	if (!job->given_up)
		return true;
	leave(job);
	return false;
}

void job_end(struct job *job, const char *state, const char *detail)
{
	struct orders *orders = job->shop->orders;

	orders_end(orders, state, detail);
	leave(job);
}

bool job_add_step(const struct job *job, struct pg_params *params)
{
	const struct job_step *step = &job->step;

	if (job->given_up) /* the order may be another one by now */
		return false;
	pg_add_int8(params, job->order->id);
	pg_add_int8(params, orders_owned_by(job->shop->orders));
	pg_add_int8(params, step->done);
	pg_add_int8(params, step->failed);
	pg_add_int8(params, step->skipped);
	pg_add_text(params, buf_text(&step->cursor));
	pg_add_text(params, buf_text(&job->cursor));
	return true;
}

void job_stepped(struct job *job)
{
	const struct job_step *step = &job->step;

	buf_clear(&job->cursor);
	buf_add_text(&job->cursor, buf_text(&step->cursor));
	orders_counted(job->shop->orders, step->done, step->failed, step->skipped);
}

static void on_total(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct job *job = arg;

	(void)result;
	if (!job_answered(job))
		return;
	if (error)
		job_yield(job, error->text);
	else
		job_end(job, job->state, job->detail.data);
}

void job_finish(struct job *job, int64_t total, const char *state, const char *detail)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };

	job->state = state;
	buf_clear(&job->detail);
	buf_add_text(&job->detail, detail);
	pg_add_int8(&params, job->order->id);
	pg_add_int8(&params, orders_owned_by(job->shop->orders));
	pg_add_int8(&params, total);
	job_send(job, SQL_ORDER_TOTAL, &params, on_total);
}

void job_yield(struct job *job, const char *error)
{
	struct orders *orders = job->shop->orders;

	log_warn(job->shop->log, "order interrupted", LOG_INT("order", job->order->id),
		 LOG_TEXT("error", error));
	orders_yield(orders);
	leave(job);
}

void job_give_up(struct job *job)
{
	job->given_up = true;
	if (!job->asked)
		leave(job);
}

/* --- params --- */

static bool read_param(const struct job *job, const char *pointer, struct buf *storage,
		       struct json_value *value)
{
	struct json_paths *paths = json_paths_new();
	const char *params = job->order->params;
	struct err err;
	size_t index;
	bool good = json_paths_add(paths, pointer, &err, &index) &&
		    json_read(paths, params, strlen(params), &err, storage, value);

	json_paths_free(paths);
	return good && (value->type == JSON_STRING || value->type == JSON_NUMBER ||
			value->type == JSON_BOOL);
}

char *job_param(const struct job *job, const char *pointer)
{
	struct buf storage BUF_AUTO = { 0 };
	struct json_value value;

	return read_param(job, pointer, &storage, &value) ? mem_text_n(value.text, value.length)
							  : NULL;
}

int64_t job_number(const struct job *job, const char *pointer)
{
	char *text = job_param(job, pointer);
	char *end = text;
	long long number = text ? strtoll(text, &end, 10) : -1;
	bool good = text && end > text && *end == '\0';

	free(text);
	return good ? number : -1;
}
