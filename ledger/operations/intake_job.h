/* An order to intake while it is carried out: what the kinds of them share.
 *
 * One statement, or one transaction, is under way at a time. A job that is given up meanwhile lives
 * until its answer has come: the next one must not find itself in the midst of a transaction. */
#ifndef LEDGER_INTAKE_JOB_H
#define LEDGER_INTAKE_JOB_H

#include "conf.h"
#include "log.h"
#include "loop.h"
#include "meter.h"
#include "orders.h"
#include "pg.h"
#include "rules/rules.h"

struct job_kind;

/* What they all need. */
struct workshop {
	struct loop *loop;
	struct log *log;
	const struct conf *conf;
	struct rules *rules;
	struct meter *meter;
	struct orders *orders;
	struct pg *pg; /* nobody else's */
	void (*recorded)(void *arg, int64_t effects);
	void (*gone)(void *arg); /* the job is about to be freed */
	void *arg;
};

/* What was done of an order, and its cursor behind that. */
struct job_step {
	int64_t done, failed, skipped;
	struct buf cursor;
};

struct job { /* the first member of each kind's own */
	const struct job_kind *kind;
	struct workshop *shop;
	const struct order *order;
	bool asked; /* an answer is to come */
	bool given_up;
	struct buf cursor;    /* as it stands in the order */
	struct job_step step; /* under way */
	const char *state;    /* in which it ends, once its total is written */
	struct buf detail;
};

struct job_kind {
	const char *name;
	/* Made and begun; its first member is a struct job. */
	struct job *(*begin)(struct workshop *shop, const struct order *order);
	void (*free)(struct job *job);
};

extern const struct job_kind poison_job, redeliver_job, rewind_job;

void job_init(struct job *job, const struct job_kind *kind, struct workshop *shop,
	      const struct order *order);
void job_send(struct job *job, const char *sql, const struct pg_params *params, pg_done_fn *done);
/* The answer has come. False: the job was given up meanwhile, and is gone. */
MUST_USE bool job_answered(struct job *job);
/* The parameters $1 to $7 of SQL_ORDER_STEP, for the step that is under way. False: the order was
 * given up. */
MUST_USE bool job_add_step(const struct job *job, struct pg_params *params);
void job_stepped(struct job *job); /* it is committed */
/* job_end(), with the number of things that the order was about, now that it is known. */
void job_finish(struct job *job, int64_t total, const char *state, const char *detail);
/* The order is ended, or begins again in a while; the job is gone. */
void job_end(struct job *job, const char *state, const char *detail);
void job_yield(struct job *job, const char *error);
void job_give_up(struct job *job);

/* A text of the order's params; the caller frees. NULL: there is none. */
char *job_param(const struct job *job, const char *pointer);
/* -1: there is none, or no number. */
int64_t job_number(const struct job *job, const char *pointer);

#endif
