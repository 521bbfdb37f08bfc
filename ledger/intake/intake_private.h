/* What the files of intake share. */
#ifndef LEDGER_INTAKE_PRIVATE_H
#define LEDGER_INTAKE_PRIVATE_H

#include "batch.h"
#include "consumer.h"
#include "intake.h"
#include "intake_report.h"
#include "locator.h"
#include "lookout.h"
#include "pg.h"
#include "positions.h"
#include "record.h"

#define INTAKE_POLL_EVERY  (200 * USEC_MS) /* a wake-up is written only for an empty queue */
#define INTAKE_BACKOFF_MIN (100 * USEC_MS)

enum intake_state {
	INTAKE_OUT,        /* no partition is ours */
	INTAKE_RESTING,    /* held back, backing off, or without a database; nothing is fetched */
	INTAKE_LOCATING,   /* positions are being read or begun; nothing is fetched */
	INTAKE_COLLECTING, /* messages go into the batch */
	INTAKE_WRITING,    /* the batch is being recorded; the consumer is not asked for more, so no
			    * partition can be taken from us meanwhile */
	INTAKE_LEAVING,    /* leaving the group */
	INTAKE_STOPPED,    /* left it, and said so */
};

struct intake {
	struct log *log;
	const struct conf *conf;
	struct rules *rules;
	struct meter *meter;
	struct intake_events events;
	enum intake_state state;

	struct consumer *consumer;
	struct pg *pg;
	struct locator *locator;
	struct record *record;
	struct lookout *lookout;
	struct batch batch;
	size_t done;  /* messages of the batch that are recorded */
	size_t slice; /* recorded at once; halved when the database refuses something in it */

	struct positions positions;
	uint64_t generation;         /* of the assignment */
	uint64_t located_generation; /* which the locator was asked for */
	int64_t instance;
	bool joined;   /* the group has told us what is ours */
	bool held;     /* by back-pressure */
	bool stale;    /* positions or poison are not as they were read */
	bool surveyed; /* topics that are not there yet have been noted */
	bool stopping;
	bool said_ready;
	usec_t backoff; /* before the next try after a failure */

	struct loop_timer *poll;
	struct loop_timer *late; /* the batch has waited long enough */
	struct loop_timer *rested;
	struct loop_timer *look_again;
	struct loop_timer *leave_timeout;
	loop_fn *on_stopped;
	void *stopped_arg;

	usec_t show_at;
	usec_t look_at;
	struct intake_report report;
};

/* --- intake_flow.c: the states ------------------------------------------------------------------
 */

void intake_set_state(struct intake *intake, enum intake_state state);
/* What is to be done now that nothing is in hand. */
void intake_go_on(struct intake *intake);
void intake_drop_batch(struct intake *intake);
/* Fetches nothing any more; what is in hand is dropped. */
void intake_rest(struct intake *intake);
void intake_back_off(struct intake *intake);
void intake_leave(struct intake *intake);
void intake_say_ready(struct intake *intake);

/* Callbacks of its parts. */
loop_fn intake_on_wake, intake_on_poll, intake_on_late, intake_on_rested, intake_on_look_again,
	intake_on_leave_timeout;
record_done_fn intake_on_recorded;
lookout_changed_fn intake_on_changed;

#endif
