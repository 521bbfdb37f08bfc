/* Intake: consumed messages become rows, in one transaction with the position of their partition.
 *
 *   OUT --assigned--> RESTING --> LOCATING --> COLLECTING --full or late--> WRITING --> COLLECTING
 *                        ^           |             |  pause                    |
 *                        \-----------+-------------+------- any failure -------/
 *   any --revoked--> OUT        any --stop--> LEAVING --> STOPPED
 *
 * Whatever goes wrong, what is in hand is dropped and read again from the positions in the
 * database: there is one way back, and it begins with the truth. */
#include "intake.h"

#include <stdlib.h>

#include "batch.h"
#include "consumer.h"
#include "database.h"
#include "intake_report.h"
#include "locator.h"
#include "mem.h"
#include "positions.h"
#include "record.h"

#define POLL_EVERY    (200 * USEC_MS) /* a wake-up is written only for an empty queue */
#define POLL_LEAVING  (20 * USEC_MS)
#define LEAVE_TIMEOUT (3 * USEC_SEC)
#define BACKOFF_MIN   (100 * USEC_MS)
#define BACKOFF_MAX   (5 * USEC_SEC)
#define SHOW_EVERY    USEC_SEC        /* offsets to Kafka, for displays */
#define LOOK_AGAIN    (10 * USEC_SEC) /* at partitions of a topic that could not be begun */

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
	struct batch batch;
	size_t done;  /* messages of the batch that are recorded */
	size_t slice; /* recorded at once; halved when the database refuses something in it */

	struct positions positions;
	uint64_t generation;         /* of the assignment */
	uint64_t located_generation; /* which the locator was asked for */
	int64_t instance;
	bool joined; /* the group has told us what is ours */
	bool held;   /* by back-pressure */
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
	struct intake_report report;
};

static void go_on(struct intake *intake);
static void write_slice(struct intake *intake);

static void set_state(struct intake *intake, enum intake_state state)
{
	intake->state = state;
}

/* --- giving up what is in hand --- */

static void drop_batch(struct intake *intake)
{
	loop_timer_cancel(intake->late);
	batch_clear(&intake->batch);
	intake->done = 0;
}

static void rest(struct intake *intake)
{
	drop_batch(intake);
	consumer_rest(intake->consumer);
	loop_timer_cancel(intake->look_again);
	set_state(intake, INTAKE_RESTING);
}

static void back_off(struct intake *intake)
{
	rest(intake);
	loop_timer_set(intake->rested, intake->backoff);
	if (intake->backoff < BACKOFF_MAX / 2)
		intake->backoff *= 2;
	else
		intake->backoff = BACKOFF_MAX;
	if (intake->stopping)
		go_on(intake);
}

static void on_rested(void *arg)
{
	struct intake *intake = arg;

	if (intake->state == INTAKE_RESTING)
		go_on(intake);
}

static void on_look_again(void *arg)
{
	struct intake *intake = arg;

	if (intake->state != INTAKE_COLLECTING)
		return;
	rest(intake);
	go_on(intake);
}

static void say_failure(struct intake *intake, enum failure failure, const char *error)
{
	report_failure(&intake->report, usec_boot(), failure, error);
}

/* --- leaving --- */

static void stopped(struct intake *intake)
{
	loop_timer_cancel(intake->poll);
	loop_timer_cancel(intake->leave_timeout);
	set_state(intake, INTAKE_STOPPED);
	intake->on_stopped(intake->stopped_arg);
}

static void on_leave_timeout(void *arg)
{
	struct intake *intake = arg;

	log_warn(intake->log, "consumer group left without its answer");
	stopped(intake);
}

static void leave(struct intake *intake)
{
	positions_show(&intake->positions, intake->consumer);
	drop_batch(intake);
	set_state(intake, INTAKE_LEAVING);
	loop_timer_set(intake->leave_timeout, LEAVE_TIMEOUT);
	loop_timer_set(intake->poll, 0);
	consumer_leave(intake->consumer);
}

/* A member of the group whose database answers, and that reads what it was given, if anything. */
static bool is_ready(const struct intake *intake)
{
	if (intake->positions.count == 0)
		return intake->joined && pg_up(intake->pg);
	return intake->state == INTAKE_COLLECTING && positions_known(&intake->positions) > 0;
}

static void say_ready(struct intake *intake)
{
	if (intake->said_ready || !is_ready(intake))
		return;
	intake->said_ready = true;
	intake->events.ready(intake->events.arg);
}

/* --- collecting --- */

/* Out of range: it goes on with what there is. */
static void check_offset(struct intake *intake, struct position *position, int64_t offset)
{
	int64_t expected = position->seen;
	enum position_step step = position_step(position, offset, intake->consumer);

	if (step == POSITION_NEXT)
		return;
	series_add(intake->meter->position_mismatch, 1);
	report_position(&intake->report, usec_boot(), position, step, expected, offset);
}

static void take_message(struct intake *intake, struct message *message)
{
	const struct event_source *source = message_source(message);
	struct position *position =
		positions_find(&intake->positions, source->topic, source->partition);

	if (intake->state != INTAKE_COLLECTING || !position || !position->known) {
		message_free(message);
		return;
	}
	check_offset(intake, position, source->offset);
	if (intake->batch.count == 0)
		loop_timer_set(intake->late, intake->conf->ledger.intake_wait);
	batch_read(&intake->batch, intake->rules, source, message, usec_wall())->position =
		(size_t)(position - intake->positions.items);
}

static void collect(struct intake *intake)
{
	size_t most = (size_t)intake->conf->ledger.batch;
	struct message *message;

	while (!batch_is_full(&intake->batch, most)) {
		message = consumer_next(intake->consumer);
		if (!message)
			return;
		take_message(intake, message);
	}
	write_slice(intake);
}

/* Serves rebalances; there is nothing to fetch, but for what was on its way. */
static void serve(struct intake *intake)
{
	struct message *message;

	while ((message = consumer_next(intake->consumer)) != NULL)
		take_message(intake, message);
}

static void poll(struct intake *intake)
{
	switch (intake->state) {
	case INTAKE_COLLECTING:
		collect(intake);
		break;
	case INTAKE_OUT:
	case INTAKE_RESTING:
	case INTAKE_LOCATING:
		serve(intake);
		break;
	case INTAKE_LEAVING:
		serve(intake);
		if (consumer_left(intake->consumer))
			stopped(intake);
		break;
	case INTAKE_WRITING:
	case INTAKE_STOPPED:
		break;
	}
}

static void on_wake(void *arg)
{
	poll(arg);
}

static void on_poll(void *arg)
{
	struct intake *intake = arg;
	usec_t now = usec_boot();

	loop_timer_set(intake->poll, intake->state == INTAKE_LEAVING ? POLL_LEAVING : POLL_EVERY);
	if (now >= intake->show_at && intake->state != INTAKE_LEAVING) {
		positions_show(&intake->positions, intake->consumer);
		intake->show_at = now + SHOW_EVERY;
	}
	report_duplicates(&intake->report, now);
	poll(intake);
}

static void on_late(void *arg)
{
	struct intake *intake = arg;

	if (intake->state == INTAKE_COLLECTING && intake->batch.count > 0)
		write_slice(intake);
}

/* --- recording --- */

static size_t slice_end(const struct intake *intake)
{
	size_t end = intake->done + intake->slice;

	return end < intake->batch.count ? end : intake->batch.count;
}

static void write_slice(struct intake *intake)
{
	loop_timer_cancel(intake->late);
	set_state(intake, INTAKE_WRITING);
	record_start(intake->record, &intake->batch, intake->done, slice_end(intake),
		     &intake->positions, intake->instance);
}

static void count_recorded(const struct intake *intake, const struct record_counts *counts)
{
	const struct batch *batch = &intake->batch;
	struct meter *meter = intake->meter;

	meter_moved(meter, METER_NEW, EFFECT_PENDING, (uint64_t)(counts->effects - counts->dead));
	meter_moved(meter, METER_NEW, EFFECT_DEAD, (uint64_t)counts->dead);
	series_add(meter->conflicts, (uint64_t)counts->conflicts);
	series_add(meter->poison, (uint64_t)counts->poison);
	for (int64_t i = 0; i < counts->duplicates; i++)
		meter_duplicate(meter, batch->rows[counts->duplicate_rows[i]].rule->conf);
	for (size_t m = intake->done; m < slice_end(intake); m++)
		if (batch->messages[m].unmatched)
			meter_unmatched(meter, batch->messages[m].event.source.topic);
}

static void recorded(struct intake *intake, const struct record_counts *counts)
{
	size_t most = (size_t)intake->conf->ledger.batch;

	positions_moved(&intake->positions);
	report_counts(&intake->report, slice_end(intake) - intake->done, counts);
	count_recorded(intake, counts);
	intake->backoff = BACKOFF_MIN;
	intake->done = slice_end(intake);
	intake->slice = intake->slice < most / 2 ? 2 * intake->slice : most;
	if (counts->effects > counts->dead)
		intake->events.recorded(intake->events.arg, counts->effects - counts->dead);
	if (intake->done < intake->batch.count && !intake->stopping && !intake->held) {
		write_slice(intake);
		return;
	}
	drop_batch(intake);
	set_state(intake, INTAKE_COLLECTING);
	if (intake->stopping || intake->held) {
		rest(intake);
		go_on(intake);
	} else {
		collect(intake);
	}
}

/* Something in the slice is more than the database takes: halves find it, and alone it is poison.
 */
static void refused(struct intake *intake, const char *error)
{
	size_t count = slice_end(intake) - intake->done;
	bool spoilt = intake->batch.messages[intake->done].poison == POISON_DATABASE;

	say_failure(intake, FAILURE_REFUSED, error);
	if (intake->stopping || (count == 1 && spoilt)) {
		back_off(intake);
		return;
	}
	if (count > 1)
		intake->slice = count / 2;
	else
		batch_spoil(&intake->batch, intake->done, POISON_DATABASE, error);
	write_slice(intake);
}

static void on_recorded(void *arg, enum record_end end, const struct record_counts *counts,
			const char *error)
{
	struct intake *intake = arg;

	if (intake->state != INTAKE_WRITING)
		return; /* being freed */
	switch (end) {
	case RECORD_DONE:
		recorded(intake, counts);
		break;
	case RECORD_MOVED:
		series_add(intake->meter->position_mismatch, 1);
		say_failure(intake, FAILURE_MOVED, error);
		back_off(intake);
		break;
	case RECORD_CONTENT:
		refused(intake, error);
		break;
	case RECORD_FAILED:
		say_failure(intake, FAILURE_GIVEN_UP, error);
		back_off(intake);
		break;
	}
}

/* --- positions --- */

static void located(struct intake *intake)
{
	size_t known = positions_known(&intake->positions);
	struct err err;

	if (!positions_fetch(&intake->positions, intake->consumer, &err)) {
		say_failure(intake, FAILURE_NOT_READ, err.text);
		back_off(intake);
		return;
	}
	positions_unshown(&intake->positions);
	set_state(intake, INTAKE_COLLECTING);
	log_debug(intake->log, "reading", LOG_INT("partitions", known));
	if (known < intake->positions.count)
		loop_timer_set(intake->look_again, LOOK_AGAIN);
	say_ready(intake);
}

/* The assignment, a pause or the end may have come while the database was asked. */
static void on_located(void *arg, bool good)
{
	struct intake *intake = arg;

	if (intake->state != INTAKE_LOCATING)
		return;
	if (!good) {
		back_off(intake);
	} else if (intake->held || intake->generation != intake->located_generation) {
		set_state(intake, INTAKE_RESTING);
		go_on(intake);
	} else {
		located(intake);
	}
}

static void locate(struct intake *intake)
{
	set_state(intake, INTAKE_LOCATING);
	if (locator_busy(intake->locator))
		return; /* for an assignment that is gone; its answer asks again */
	intake->located_generation = intake->generation;
	locator_start(intake->locator, &intake->positions, on_located, intake);
}

/* What is to be done now that nothing is in hand. */
static void go_on(struct intake *intake)
{
	if (intake->stopping)
		leave(intake);
	else if (intake->positions.count == 0)
		set_state(intake, INTAKE_OUT);
	else if (!intake->held && pg_up(intake->pg) && !loop_timer_pending(intake->rested))
		locate(intake);
}

/* --- the group --- */

static void on_assigned(void *arg, const struct partition *partitions, size_t count)
{
	struct intake *intake = arg;

	intake->generation++;
	intake->joined = true;
	series_add(intake->meter->rebalances, 1);
	log_info(intake->log, "partitions assigned", LOG_INT("count", count));
	if (intake->state == INTAKE_LEAVING)
		return;
	drop_batch(intake);
	positions_set(&intake->positions, partitions, count);
	set_state(intake, INTAKE_RESTING);
	go_on(intake);
	say_ready(intake);
}

/* Nothing is committed here: the partitions may be another's already. */
static void on_revoked(void *arg)
{
	struct intake *intake = arg;

	intake->generation++;
	intake->joined = false;
	log_info(intake->log, "partitions revoked", LOG_INT("count", intake->positions.count));
	drop_batch(intake);
	positions_clear(&intake->positions);
	loop_timer_cancel(intake->look_again);
	if (intake->state != INTAKE_LEAVING)
		set_state(intake, INTAKE_OUT);
}

static void on_uncommitted(void *arg)
{
	struct intake *intake = arg;

	positions_unshown(&intake->positions);
}

/* --- the database --- */

static void on_up(void *arg)
{
	struct intake *intake = arg;

	if (intake->state == INTAKE_RESTING)
		go_on(intake);
	say_ready(intake);
}

static void on_down(void *arg, const char *reason)
{
	struct intake *intake = arg;

	log_warn(intake->log, "database away", LOG_TEXT("part", "intake"),
		 LOG_TEXT("reason", reason));
	if (intake->state == INTAKE_COLLECTING)
		back_off(intake);
}

/* --- publics --- */

static bool make_consumer(struct intake *intake, struct loop *loop, struct err *err)
{
	const struct consumer_events events = {
		.assigned = on_assigned,
		.revoked = on_revoked,
		.uncommitted = on_uncommitted,
		.wake = on_wake,
		.arg = intake,
	};
	size_t count = rules_topic_count(intake->rules);
	const char **topics = mem_zero((count + 1) * sizeof(*topics));
	bool good;

	for (size_t i = 0; i < count; i++)
		topics[i] = rules_topic(intake->rules, i);
	good = consumer_new(loop, intake->log, intake->conf, topics, count, &events, err,
			    &intake->consumer);
	free(topics);
	return good;
}

static void make_database(struct intake *intake, struct loop *loop)
{
	const struct pg_events events = { .up = on_up, .down = on_down, .arg = intake };
	const struct pg_settings settings = database_busy_settings(intake->conf, intake->meter);

	intake->pg = pg_new(loop, intake->log, &settings, &events);
	intake->locator =
		locator_new(intake->log, intake->pg, intake->consumer, &intake->conf->ledger);
	intake->record =
		record_new(intake->pg, intake->conf->ledger.poison_max_bytes, on_recorded, intake);
}

static void make_timers(struct intake *intake, struct loop *loop)
{
	intake->poll = loop_timer_new(loop, on_poll, intake);
	intake->late = loop_timer_new(loop, on_late, intake);
	intake->rested = loop_timer_new(loop, on_rested, intake);
	intake->look_again = loop_timer_new(loop, on_look_again, intake);
	intake->leave_timeout = loop_timer_new(loop, on_leave_timeout, intake);
	loop_timer_set(intake->poll, POLL_EVERY);
}

bool intake_new(struct loop *loop, struct log *log, const struct conf *conf, struct rules *rules,
		struct meter *meter, const struct intake_events *events, struct err *err,
		struct intake **intake_r)
{
	struct intake *intake = mem_zero(sizeof(*intake));

	intake->log = log;
	report_init(&intake->report, log, usec_boot());
	intake->conf = conf;
	intake->rules = rules;
	intake->meter = meter;
	intake->events = *events;
	intake->slice = (size_t)conf->ledger.batch;
	intake->backoff = BACKOFF_MIN;
	batch_init(&intake->batch, conf->ledger.unmatched, message_free);
	if (!make_consumer(intake, loop, err)) {
		free(intake);
		return false;
	}
	make_timers(intake, loop);
	make_database(intake, loop);
	*intake_r = intake;
	return true;
}

void intake_instance_set(struct intake *intake, int64_t instance)
{
	intake->instance = instance;
}

void intake_pause(struct intake *intake, bool pause)
{
	intake->held = pause;
	if (pause && intake->state == INTAKE_COLLECTING)
		rest(intake);
	else if (!pause && intake->state == INTAKE_RESTING)
		go_on(intake);
}

void intake_stop(struct intake *intake, loop_fn *done, void *arg)
{
	intake->stopping = true;
	intake->on_stopped = done;
	intake->stopped_arg = arg;
	if (intake->state != INTAKE_WRITING)
		leave(intake);
}

bool intake_joined(const struct intake *intake)
{
	return intake->joined;
}

size_t intake_unbegun(const struct intake *intake)
{
	return intake->positions.count - positions_known(&intake->positions);
}

static void measure_lag(const struct intake *intake, const struct position *position)
{
	const struct partition partition = { .topic = position->topic,
					     .partition = position->partition };
	int64_t oldest = consumer_oldest(intake->consumer, &partition);
	int64_t end = consumer_end(intake->consumer, &partition);
	int64_t next = position->next > oldest ? position->next : oldest;

	if (position->known && end >= 0)
		meter_lag(intake->meter, position->topic, position->partition,
			  end > next ? end - next : 0);
}

void intake_measure(const struct intake *intake)
{
	metric_clear(intake->meter->lag);
	for (size_t i = 0; i < intake->positions.count; i++)
		measure_lag(intake, &intake->positions.items[i]);
}

void intake_free(struct intake *intake)
{
	if (!intake)
		return;
	set_state(intake, INTAKE_STOPPED);
	pg_free(intake->pg);
	locator_free(intake->locator);
	record_free(intake->record);
	batch_done(&intake->batch);
	positions_clear(&intake->positions);
	consumer_free(intake->consumer);
	loop_timer_free(intake->poll);
	loop_timer_free(intake->late);
	loop_timer_free(intake->rested);
	loop_timer_free(intake->look_again);
	loop_timer_free(intake->leave_timeout);
	free(intake);
}
