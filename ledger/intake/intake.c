/* Intake: its parts, and what comes from the group and the database. The states are in
 * intake_flow.c. */
#include "intake.h"

#include <stdlib.h>

#include "database.h"
#include "intake_meter.h"
#include "intake_private.h"
#include "mem.h"

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
	intake_drop_batch(intake);
	positions_set(&intake->positions, partitions, count);
	intake_set_state(intake, INTAKE_RESTING);
	intake_go_on(intake);
	intake_say_ready(intake);
}

/* Nothing is committed here: the partitions may be another's already. */
static void on_revoked(void *arg)
{
	struct intake *intake = arg;

	intake->generation++;
	intake->joined = false;
	log_info(intake->log, "partitions revoked", LOG_INT("count", intake->positions.count));
	intake_drop_batch(intake);
	positions_clear(&intake->positions);
	loop_timer_cancel(intake->look_again);
	if (intake->state != INTAKE_LEAVING)
		intake_set_state(intake, INTAKE_OUT);
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
		intake_go_on(intake);
	intake_say_ready(intake);
}

static void on_down(void *arg, const char *reason)
{
	struct intake *intake = arg;

	log_warn(intake->log, "database away", LOG_TEXT("part", "intake"),
		 LOG_TEXT("reason", reason));
	if (intake->state == INTAKE_COLLECTING)
		intake_back_off(intake);
}

/* --- publics --- */

static bool make_consumer(struct intake *intake, struct loop *loop, struct err *err)
{
	const struct consumer_events events = {
		.assigned = on_assigned,
		.revoked = on_revoked,
		.uncommitted = on_uncommitted,
		.wake = intake_on_wake,
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
	intake->locator = locator_new(intake->log, intake->pg, intake->consumer,
				      &intake->conf->ledger, intake->rules);
	intake->lookout = lookout_new(intake->log, intake->pg, intake->conf->ledger.poison_limit,
				      intake_on_changed, intake);
	intake->record = record_new(intake->pg, intake->conf->ledger.poison_max_bytes,
				    intake_on_recorded, intake);
}

static void make_timers(struct intake *intake, struct loop *loop)
{
	intake->poll = loop_timer_new(loop, intake_on_poll, intake);
	intake->late = loop_timer_new(loop, intake_on_late, intake);
	intake->rested = loop_timer_new(loop, intake_on_rested, intake);
	intake->look_again = loop_timer_new(loop, intake_on_look_again, intake);
	intake->leave_timeout = loop_timer_new(loop, intake_on_leave_timeout, intake);
	loop_timer_set(intake->poll, INTAKE_POLL_EVERY);
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
	intake->state = INTAKE_RESTING; /* until the database is there */
	intake->backoff = INTAKE_BACKOFF_MIN;
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
		intake_rest(intake);
	else if (!pause && intake->state == INTAKE_RESTING)
		intake_go_on(intake);
}

void intake_stop(struct intake *intake, loop_fn *done, void *arg)
{
	intake->stopping = true;
	intake->on_stopped = done;
	intake->stopped_arg = arg;
	if (intake->state != INTAKE_WRITING)
		intake_leave(intake);
}

bool intake_joined(const struct intake *intake)
{
	return intake->joined;
}

size_t intake_unbegun(const struct intake *intake)
{
	return intake->positions.count - positions_known(&intake->positions);
}

size_t intake_full(const struct intake *intake, const char **topic_r)
{
	size_t full = 0;

	for (size_t i = 0; i < intake->positions.count; i++) {
		if (!intake->positions.items[i].full)
			continue;
		full++;
		*topic_r = intake->positions.items[i].topic;
	}
	return full;
}

void intake_measure(const struct intake *intake)
{
	intake_meter_lag(intake->meter, intake->consumer, &intake->positions);
}

void intake_free(struct intake *intake)
{
	if (!intake)
		return;
	intake_set_state(intake, INTAKE_STOPPED);
	pg_free(intake->pg);
	locator_free(intake->locator);
	lookout_free(intake->lookout);
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
