/* One statement for each action, and its answer. */
#include "inquest.h"

#include <stdlib.h>

#include "crash.h"
#include "mem.h"
#include "pg.h"
#include "source/row.h"
#include "sql_suspects.h"
#include "suspects.h"

#define CRASHES_SAID 2 /* from so many on rows are held back, which the log tells */
#define KILLS        "the relay crashed three times while this row alone was in flight"
#define KILLS_REMEDY                                                                               \
	"find out from its log or core dump what the row does to it, then requeue or discard it"

struct inquest {
	struct log *log;
	const struct conf_relay *conf;
	struct outbox *outbox;
	struct publisher *publisher;
	struct window *window;
	struct inquest_events events;
	struct suspects *suspects;
	struct loop_timer *timer;
	bool polling;
	struct suspects_next poll; /* the one on its way, or the last one */
	int64_t token;
	bool said;    /* that rows are held back */
	int *numbers; /* 0, 1, 2, ...: the rows of a range come in the order of their ids */
};

/* What a callback needs to know of its statement. */
struct errand {
	struct inquest *inquest;
	uint64_t number;
};

static struct errand *errand_new(struct inquest *inquest, const struct suspects_next *next)
{
	struct errand *errand = mem_zero(sizeof(*errand));
	*errand = (struct errand){ .inquest = inquest, .number = next->number };
	return errand;
}

/* False: the statement has failed, and that was told. */
static bool succeeded(const struct errand *errand, const char *statement,
		      const struct pg_error *error)
{
	struct inquest *inquest = errand->inquest;
	if (!error)
		return true;
	outbox_say_refusal(inquest->outbox, statement, error);
	suspects_failed(inquest->suspects, errand->number, usec_boot());
	return false;
}

static void come_back(struct errand *errand)
{
	struct inquest *inquest = errand->inquest;
	free(errand);
	inquest->events.again(inquest->events.arg);
}

/* --- reading --- */

static void on_read(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct errand *errand = arg;
	struct suspects_record record;
	if (succeeded(errand, "suspect read", error)) {
		bool recorded = pg_rows(result) > 0;
		if (recorded)
			record = (struct suspects_record){
				.first = pg_get_int8(result, 0, 0),
				.last = pg_get_int8(result, 0, 1),
				.crashes = pg_get_int4(result, 0, 2),
				.alone = pg_get_int4(result, 0, 3),
				.alone_now = pg_get_bool(result, 0, 4),
			};
		suspects_read(errand->inquest->suspects, errand->number, recorded ? &record : NULL);
	}
	come_back(errand);
}

static void read_record(struct inquest *inquest, const struct suspects_next *next)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	pg_add_text(&params, outbox_source(inquest->outbox)->name);
	pg_send(outbox_pg(inquest->outbox), sql_suspect_read, &params, on_read,
		errand_new(inquest, next));
}

static void on_looked(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct errand *errand = arg;
	if (succeeded(errand, "suspects that wait", error)) {
		const struct suspects_found found = {
			.first = pg_get_int8(result, 0, 0),
			.end = pg_get_int8(result, 0, 1),
			.last = pg_get_int8(result, 0, 2),
			.count = pg_get_int8(result, 0, 3),
		};
		suspects_looked(errand->inquest->suspects, errand->number, &found, usec_boot());
	}
	come_back(errand);
}

static void look(struct inquest *inquest, const struct suspects_next *next)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	const struct source *source = outbox_source(inquest->outbox);
	bool all = next->first > source->start_after;
	pg_add_int8(&params, all ? next->first : source->start_after + 1);
	pg_add_int8(&params, next->last);
	pg_add_int8(&params, next->rows);
	pg_send(outbox_pg(inquest->outbox), source->waiting, &params, on_looked,
		errand_new(inquest, next));
}

/* --- writing --- */

static void say_held_back(struct inquest *inquest, const struct suspects_record *record)
{
	if (inquest->said || record->crashes < CRASHES_SAID)
		return;
	inquest->said = true;
	log_warn(inquest->log,
		 "the same rows were there when owners died: they are sent in groups, all others "
		 "wait",
		 LOG_INT("first", record->first), LOG_INT("last", record->last),
		 LOG_INT("crashes", record->crashes), LOG_INT("alone", record->alone));
}

static void say_passed(struct inquest *inquest)
{
	if (inquest->said && suspects_flow(inquest->suspects))
		log_info(inquest->log, "these rows have passed: all others go on");
	inquest->said = inquest->said && !suspects_flow(inquest->suspects);
}

static void written(struct errand *errand, bool any)
{
	struct inquest *inquest = errand->inquest;
	crash_point("suspect_write.answered");
	if (any) {
		suspects_done(inquest->suspects, errand->number, usec_boot());
		return;
	}
	suspects_failed(inquest->suspects, errand->number, usec_boot());
	inquest->events.doubt(inquest->events.arg);
}

static void on_written(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct errand *errand = arg;
	if (succeeded(errand, "suspect write", error))
		written(errand, pg_affected(result) > 0);
	come_back(errand);
}

static void write_record(struct inquest *inquest, const struct suspects_next *next)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	const struct source *source = outbox_source(inquest->outbox);
	const struct suspects_record *record = &next->record;
	say_held_back(inquest, record);
	pg_add_text(&params, source->name);
	pg_add_int8(&params, record->first);
	pg_add_int8(&params, record->last);
	pg_add_int4(&params, record->crashes);
	pg_add_int4(&params, record->alone);
	pg_add_bool(&params, record->alone_now);
	pg_add_text(&params, source->lease);
	pg_add_int8(&params, inquest->token);
	crash_point("suspect_write.send");
	pg_send(outbox_pg(inquest->outbox), sql_suspect_write, &params, on_written,
		errand_new(inquest, next));
	crash_point("suspect_write.sent");
}

static void on_erased(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct errand *errand = arg;
	struct inquest *inquest = errand->inquest;
	(void)result; /* gone is gone */
	if (succeeded(errand, "suspect erase", error)) {
		crash_point("suspect_erase.answered");
		suspects_done(inquest->suspects, errand->number, usec_boot());
		say_passed(inquest);
	}
	come_back(errand);
}

static void erase_record(struct inquest *inquest, const struct suspects_next *next)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	const struct source *source = outbox_source(inquest->outbox);
	pg_add_text(&params, source->name);
	pg_add_text(&params, source->lease);
	pg_add_int8(&params, inquest->token);
	crash_point("suspect_erase.send");
	pg_send(outbox_pg(inquest->outbox), sql_suspect_erase, &params, on_erased,
		errand_new(inquest, next));
	crash_point("suspect_erase.sent");
}

/* --- polls --- */

static size_t least(size_t a, int64_t b)
{
	return a < (size_t)b ? a : (size_t)b;
}

/* By their ids, and nothing beyond. A row to be given up comes without what it carries. */
static void poll_range(struct inquest *inquest, const struct suspects_next *next, size_t rows,
		       size_t bytes)
{
	const struct gap gap = { .first = next->first, .last = next->last };
	const struct reader_poll poll = {
		.cursor = READER_HEAD,
		.after = INT64_MAX,
		.rows = least(rows, inquest->conf->batch),
		.bytes = least(bytes, inquest->conf->batch_bytes),
		.gaps = 1,
		.sent = usec_boot(),
	};
	bool bury = next->action == SUSPECTS_BURY;
	size_t count;
	struct topic *const *shut = topics_shut(publisher_topics(inquest->publisher), &count);
	inquest->polling = true;
	inquest->poll = *next;
	outbox_poll(inquest->outbox, &poll, &gap, shut, bury ? 0 : count, bury);
}

/* How far in its range the poll has come. */
static int64_t send_rows(struct inquest *inquest, const struct reader_poll *poll,
			 const PGresult *result)
{
	const struct publisher_page page = {
		.result = result,
		.numbers = inquest->numbers,
		.count = (size_t)row_count(result),
		.cursor = READER_HEAD,
	};
	int64_t stopped;
	size_t bytes = 0;
	for (size_t i = 0; i < page.count; i++)
		bytes += row_weight(result, (int)i);
	if (publisher_rows(inquest->publisher, &page, &stopped) != PUBLISHER_ALL)
		return stopped - 1;
	if (page.count > 0 && (page.count >= poll->rows || bytes >= poll->bytes))
		return row_id(result, (int)page.count - 1);
	return inquest->poll.last;
}

static int64_t bury_row(struct inquest *inquest, const PGresult *result)
{
	bool done = row_count(result) == 0 ||
		    publisher_condemn(inquest->publisher, result, 0, KILLS, KILLS_REMEDY);
	return done ? inquest->poll.last : inquest->poll.first - 1;
}

bool inquest_polled(struct inquest *inquest)
{
	bool ours = inquest->polling;
	inquest->polling = false;
	return ours;
}

void inquest_rows(struct inquest *inquest, const struct reader_poll *poll, const PGresult *result)
{
	uint64_t number = inquest->poll.number;
	if (!suspects_awaits(inquest->suspects, number))
		return;
	if (!result) {
		suspects_failed(inquest->suspects, number, usec_boot());
		return;
	}
	int64_t upto = inquest->poll.action == SUSPECTS_BURY ? bury_row(inquest, result)
							     : send_rows(inquest, poll, result);
	suspects_page(inquest->suspects, number, upto, usec_boot());
}

/* --- the rest --- */

static struct suspects_view view_of(const struct inquest *inquest, bool may_poll, size_t *rows_r,
				    size_t *bytes_r)
{
	bool away =
		publisher_unreachable(inquest->publisher) && window_in_flight(inquest->window) > 0;
	int64_t first, last;
	bool group = suspects_group(inquest->suspects, &first, &last);
	usec_t now = usec_boot();
	*rows_r = *bytes_r = 0;
	if (!suspects_flow(inquest->suspects))
		*rows_r = window_room(inquest->window, now, bytes_r);
	return (struct suspects_view){
		.now = now,
		.connected = publisher_connected(inquest->publisher) && !away,
		.may_poll = may_poll && *rows_r > 0 && *bytes_r > 0,
		.busy = group ? window_within(inquest->window, first, last) : 0,
	};
}

void inquest_step(struct inquest *inquest, bool may_poll)
{
	size_t rows, bytes;
	const struct suspects_view view = view_of(inquest, may_poll, &rows, &bytes);
	struct suspects_next next = suspects_next(inquest->suspects, &view);
	switch (next.action) {
	case SUSPECTS_NONE:
		if (next.wait != USEC_NEVER)
			loop_timer_set(inquest->timer, next.wait);
		break;
	case SUSPECTS_READ:
		read_record(inquest, &next);
		break;
	case SUSPECTS_LOOK:
		look(inquest, &next);
		break;
	case SUSPECTS_WRITE:
		write_record(inquest, &next);
		break;
	case SUSPECTS_ERASE:
		erase_record(inquest, &next);
		break;
	case SUSPECTS_POLL:
	case SUSPECTS_BURY:
		poll_range(inquest, &next, rows, bytes);
		break;
	}
}

bool inquest_flow(const struct inquest *inquest)
{
	return suspects_flow(inquest->suspects);
}

bool inquest_suspects(const struct inquest *inquest)
{
	return inquest->said;
}

void inquest_rewind(struct inquest *inquest)
{
	suspects_rewind(inquest->suspects, READER_ALL);
}

void inquest_begin(struct inquest *inquest, int64_t token, bool unclean)
{
	inquest->token = token;
	suspects_begin(inquest->suspects, unclean, usec_boot());
}

void inquest_stop(struct inquest *inquest)
{
	inquest->said = false;
	suspects_stop(inquest->suspects);
	loop_timer_cancel(inquest->timer);
}

static void on_timer(void *arg)
{
	struct inquest *inquest = arg;
	inquest->events.again(inquest->events.arg);
}

static int *count_up(int64_t count)
{
	int *numbers = mem_grow(NULL, (size_t)count, sizeof(*numbers));
	for (int i = 0; i < count; i++)
		numbers[i] = i;
	return numbers;
}

struct inquest *inquest_new(struct loop *loop, const struct inquest_settings *settings,
			    const struct inquest_events *events)
{
	struct inquest *inquest = mem_zero(sizeof(*inquest));
	inquest->log = settings->log;
	inquest->conf = settings->conf;
	inquest->outbox = settings->outbox;
	inquest->publisher = settings->publisher;
	inquest->window = settings->window;
	inquest->events = *events;
	inquest->suspects = suspects_new();
	inquest->timer = loop_timer_new(loop, on_timer, inquest);
	inquest->numbers = count_up(settings->conf->batch);
	return inquest;
}

void inquest_free(struct inquest *inquest)
{
	if (!inquest)
		return;
	suspects_free(inquest->suspects);
	loop_timer_free(inquest->timer);
	free(inquest->numbers);
	free(inquest);
}
