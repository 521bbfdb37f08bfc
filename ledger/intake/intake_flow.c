/* The states of intake, and what leads from one to the next.
 *
 *   OUT --assigned--> RESTING --> LOCATING --> COLLECTING --full or late--> WRITING --> COLLECTING
 *                        ^           |             |  pause                    |
 *                        \-----------+-------------+------- any failure -------/
 *   any --revoked--> OUT        any --stop--> LEAVING --> STOPPED
 *
 * Whatever goes wrong, what is in hand is dropped and read again from the positions in the
 * database: there is one way back, and it begins with the truth. */
#include "intake_meter.h"
#include "intake_private.h"

#define POLL_LEAVING  (20 * USEC_MS)
#define LEAVE_TIMEOUT (3 * USEC_SEC)
#define BACKOFF_MAX   (5 * USEC_SEC)
#define SHOW_EVERY    USEC_SEC        /* offsets to Kafka, for displays */
#define LOOK_AGAIN    (10 * USEC_SEC) /* at partitions of a topic that could not be begun */
#define LOOK_EVERY    USEC_SEC        /* at what others may have done */

static void write_slice(struct intake *intake);

void intake_set_state(struct intake *intake, enum intake_state state)
{
	intake->state = state;
}

/* --- giving up what is in hand --- */

void intake_drop_batch(struct intake *intake)
{
	loop_timer_cancel(intake->late);
	batch_clear(&intake->batch);
	intake->done = 0;
}

void intake_rest(struct intake *intake)
{
	intake->stale = false;
	intake_drop_batch(intake);
	if (intake->positions.count > 0)
		consumer_rest(intake->consumer);
	loop_timer_cancel(intake->look_again);
	intake_set_state(intake, INTAKE_RESTING);
}

void intake_back_off(struct intake *intake)
{
	intake_rest(intake);
	loop_timer_set(intake->rested, intake->backoff);
	if (intake->backoff < BACKOFF_MAX / 2)
		intake->backoff *= 2;
	else
		intake->backoff = BACKOFF_MAX;
	if (intake->stopping)
		intake_go_on(intake);
}

void intake_on_rested(void *arg)
{
	struct intake *intake = arg;

	if (intake->state == INTAKE_RESTING)
		intake_go_on(intake);
}

void intake_on_look_again(void *arg)
{
	struct intake *intake = arg;

	if (intake->state != INTAKE_COLLECTING)
		return;
	intake_rest(intake);
	intake_go_on(intake);
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
	intake_set_state(intake, INTAKE_STOPPED);
	intake->on_stopped(intake->stopped_arg);
}

void intake_on_leave_timeout(void *arg)
{
	struct intake *intake = arg;

	log_warn(intake->log, "consumer group left without its answer");
	stopped(intake);
}

void intake_leave(struct intake *intake)
{
	positions_show(&intake->positions, intake->consumer);
	intake_drop_batch(intake);
	intake_set_state(intake, INTAKE_LEAVING);
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

void intake_say_ready(struct intake *intake)
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

	if (intake->state != INTAKE_COLLECTING || !position || !position->known || position->full) {
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

void intake_on_wake(void *arg)
{
	poll(arg);
}

static void look(struct intake *intake, usec_t now)
{
	if (intake->state != INTAKE_COLLECTING || now < intake->look_at)
		return;
	lookout_look(intake->lookout, &intake->positions);
	intake->look_at = now + LOOK_EVERY;
}

void intake_on_poll(void *arg)
{
	struct intake *intake = arg;
	usec_t now = usec_boot();

	loop_timer_set(intake->poll,
		       intake->state == INTAKE_LEAVING ? POLL_LEAVING : INTAKE_POLL_EVERY);
	if (now >= intake->show_at && intake->state != INTAKE_LEAVING) {
		positions_show(&intake->positions, intake->consumer);
		intake->show_at = now + SHOW_EVERY;
	}
	report_duplicates(&intake->report, now);
	look(intake, now);
	poll(intake);
}

void intake_on_late(void *arg)
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
	const struct record_task task = {
		.batch = &intake->batch,
		.from = intake->done,
		.to = slice_end(intake),
		.positions = &intake->positions,
		.instance = intake->instance,
	};

	loop_timer_cancel(intake->late);
	intake_set_state(intake, INTAKE_WRITING);
	record_start(intake->record, &task);
}

static bool must_rest(const struct intake *intake)
{
	return intake->stopping || intake->held || intake->stale;
}

static void recorded(struct intake *intake, const struct record_counts *counts)
{
	size_t most = (size_t)intake->conf->ledger.batch;

	positions_moved(&intake->positions);
	report_counts(&intake->report, slice_end(intake) - intake->done, counts);
	intake_meter_recorded(intake->meter, &intake->batch, intake->done, slice_end(intake),
			      counts);
	intake->backoff = INTAKE_BACKOFF_MIN;
	intake->done = slice_end(intake);
	intake->slice = intake->slice < most / 2 ? 2 * intake->slice : most;
	if (counts->effects > counts->dead)
		intake->events.recorded(intake->events.arg, counts->effects - counts->dead);
	if (lookout_wrote(intake->lookout, counts->poison))
		intake->stale = true;
	if (intake->done < intake->batch.count && !must_rest(intake)) {
		write_slice(intake);
		return;
	}
	intake_drop_batch(intake);
	intake_set_state(intake, INTAKE_COLLECTING);
	if (must_rest(intake)) {
		intake_rest(intake);
		intake_go_on(intake);
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
		intake_back_off(intake);
		return;
	}
	if (count > 1)
		intake->slice = count / 2;
	else
		batch_spoil(&intake->batch, intake->done, POISON_DATABASE, error);
	write_slice(intake);
}

void intake_on_recorded(void *arg, enum record_end end, const struct record_counts *counts,
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
		intake_back_off(intake);
		break;
	case RECORD_CONTENT:
		refused(intake, error);
		break;
	case RECORD_FAILED:
		say_failure(intake, FAILURE_GIVEN_UP, error);
		intake_back_off(intake);
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
		intake_back_off(intake);
		return;
	}
	positions_unshown(&intake->positions);
	intake_set_state(intake, INTAKE_COLLECTING);
	intake->look_at = usec_boot() + LOOK_EVERY;
	log_debug(intake->log, "reading", LOG_INT("partitions", known));
	if (known < intake->positions.count)
		loop_timer_set(intake->look_again, LOOK_AGAIN);
	intake_say_ready(intake);
}

/* The assignment, a pause or the end may have come while the database was asked. */
static bool asked_in_vain(struct intake *intake, bool good)
{
	if (!good) {
		intake_back_off(intake);
		return true;
	}
	if (!intake->held && intake->generation == intake->located_generation)
		return false;
	intake_set_state(intake, INTAKE_RESTING);
	intake_go_on(intake);
	return true;
}

static void on_counted(void *arg, bool good)
{
	struct intake *intake = arg;

	if (intake->state == INTAKE_LOCATING && !asked_in_vain(intake, good))
		located(intake);
}

static void on_located(void *arg, bool good)
{
	struct intake *intake = arg;

	if (intake->state != INTAKE_LOCATING || asked_in_vain(intake, good))
		return;
	intake->surveyed = true;
	if (intake->positions.count > 0)
		lookout_count(intake->lookout, &intake->positions, on_counted);
	else
		intake_set_state(intake, INTAKE_OUT);
}

static void locate(struct intake *intake)
{
	intake_set_state(intake, INTAKE_LOCATING);
	if (locator_busy(intake->locator))
		return; /* for an assignment that is gone; its answer asks again */
	intake->located_generation = intake->generation;
	locator_start(intake->locator, &intake->positions, on_located, intake);
}

void intake_go_on(struct intake *intake)
{
	if (intake->stopping)
		intake_leave(intake);
	else if (intake->positions.count == 0 && intake->surveyed)
		intake_set_state(intake, INTAKE_OUT);
	else if (!intake->held && pg_up(intake->pg) && !loop_timer_pending(intake->rested))
		locate(intake);
}

/* --- what others did --- */

/* Seen while a batch is being written it waits for its end. */
void intake_on_changed(void *arg, const char *what)
{
	struct intake *intake = arg;

	log_debug(intake->log, "reading anew", LOG_TEXT("reason", what));
	intake->stale = true;
	if (intake->state != INTAKE_COLLECTING)
		return;
	intake_rest(intake);
	intake_go_on(intake);
}
