/* Two looks: at what waits, as often as health needs it, and at all that is told of relays. */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "pg.h"
#include "sql_report.h"
#include "version.h"

#define COUNTED     10000          /* rows are counted up to so many */
#define EVERY       (2 * USEC_SEC) /* a report */
#define TOPICS_TOLD 200
#define PER_MILLE   1000

struct report {
	struct outbox *outbox;
	struct topics *topics;
	struct meter *meter;
	struct report_settings settings;
	struct loop_timer *look;
	struct loop_timer *tell;
	usec_t looked; /* when the last look was asked for */
	struct health_wait oldest;
	int64_t backlog; /* -1: not known */
	int64_t lowest;  /* the lowest id, and since when it is that */
	usec_t lowest_since;

	usec_t made;
	usec_t told;
	uint64_t published; /* when it was told last */
	bool asking;        /* for what waits of each topic */
};

/* --- what waits --- */

static void look_again(struct report *report)
{
	usec_t took = usec_boot() - report->looked;
	if (outbox_ready(report->outbox))
		loop_timer_set(report->look,
			       health_look_again(report->settings.ready_max_age, took));
}

/* Of a table whose rows bear no time it is known how long its first row has been the same. */
static usec_t age_of(struct report *report, const PGresult *result, usec_t now)
{
	int64_t lowest = pg_null(result, 0, 2) ? INT64_MIN : pg_get_int8(result, 0, 2);
	if (lowest != report->lowest) {
		report->lowest = lowest;
		report->lowest_since = now;
	}
	if (!pg_null(result, 0, 1))
		return pg_get_int8(result, 0, 1);
	return now - report->lowest_since;
}

static void on_measured(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct report *report = arg;
	usec_t now = usec_boot();
	report->backlog = error ? -1 : pg_get_int8(result, 0, 0);
	series_set(report->meter->rows, error ? (double)NAN : (double)report->backlog);
	if (error) {
		outbox_say_refusal(report->outbox, "measure", error);
		series_set_usec(report->meter->oldest_age, USEC_NEVER);
	} else {
		usec_t age = age_of(report, result, now);
		report->oldest = (struct health_wait){ .seen_at = now, .age = age };
		series_set_usec(report->meter->oldest_age, age);
	}
	look_again(report);
}

static void on_dead_counted(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct report *report = arg;
	if (error)
		outbox_say_refusal(report->outbox, "dead rows", error);
	series_set(report->meter->dead_rows,
		   error ? (double)NAN : (double)pg_get_int8(result, 0, 0));
	series_set(report->meter->parked_rows,
		   error ? (double)NAN : (double)pg_get_int8(result, 0, 1));
}

static void on_look(void *arg)
{
	struct report *report = arg;
	PG_PARAMS_AUTO struct pg_params dead = { 0 }, measure = { 0 };
	const struct source *source = outbox_source(report->outbox);
	report->looked = usec_boot();
	pg_add_text(&dead, source->name);
	pg_add_int8(&dead, COUNTED);
	pg_send(outbox_pg(report->outbox), sql_dead_counts, &dead, on_dead_counted, report);
	pg_add_int8(&measure, COUNTED);
	pg_send(outbox_pg(report->outbox), source->measure, &measure, on_measured, report);
}

/* --- telling --- */

static int64_t rate(uint64_t now, uint64_t before, usec_t took)
{
	return took > 0
		       ? (int64_t)((now - before) * PER_MILLE * (uint64_t)USEC_SEC / (uint64_t)took)
		       : 0;
}

static void on_told(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct report *report = arg;
	(void)result;
	if (error)
		outbox_say_refusal(report->outbox, "report", error);
}

static void add_interval(struct pg_params *params, usec_t usec)
{
	pg_add_interval(params, usec > 0 ? usec : USEC_NEVER);
}

static void tell_relay(struct report *report, const struct report_figures *figures, usec_t took)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	size_t blocked;
	(void)topics_shut(report->topics, &blocked);
	pg_add_text(&params, report->settings.owner);
	pg_add_text(&params, report->settings.name);
	pg_add_text(&params, outbox_source(report->outbox)->name);
	pg_add_text(&params, figures->role);
	pg_add_text(&params, COUNTERFOIL_VERSION);
	pg_add_interval(&params, usec_boot() - report->made);
	if (report->backlog >= 0)
		pg_add_int8(&params, report->backlog);
	else
		pg_add_text(&params, NULL);
	add_interval(&params, report->backlog > 0 ? report->oldest.age : 0);
	pg_add_int8(&params, (int64_t)figures->in_flight);
	pg_add_int8(&params, (int64_t)figures->batch);
	pg_add_int8(&params, (int64_t)figures->published);
	pg_add_int8(&params, rate(figures->published, report->published, took));
	add_interval(&params, figures->median);
	add_interval(&params, figures->p99);
	pg_add_int8(&params, (int64_t)figures->violations);
	pg_add_int8(&params, (int64_t)blocked);
	pg_send(outbox_pg(report->outbox), sql_report_relay, &params, on_told, report);
}

static const char *state_name(enum topic_state state)
{
	switch (state) {
	case TOPIC_OPEN:
		break;
	case TOPIC_BLOCKED:
		return "blocked";
	case TOPIC_PROBING:
		return "probing";
	case TOPIC_CATCHING_UP:
		return "catching up";
	}
	return "open";
}

struct columns {
	int32_t count;
	struct pg_array names, pending, oldest, rates, published, states, reasons, since;
};

static void columns_init(struct columns *columns)
{
	columns->count = 0;
	pg_array_init(&columns->names, PG_TEXT);
	pg_array_init(&columns->pending, PG_INT8);
	pg_array_init(&columns->oldest, PG_INTERVAL);
	pg_array_init(&columns->rates, PG_INT8);
	pg_array_init(&columns->published, PG_INT8);
	pg_array_init(&columns->states, PG_TEXT);
	pg_array_init(&columns->reasons, PG_TEXT);
	pg_array_init(&columns->since, PG_INTERVAL);
}

static void columns_move(struct columns *columns, struct pg_params *params)
{
	struct pg_array *all[] = { &columns->names,   &columns->pending,   &columns->oldest,
				   &columns->rates,   &columns->published, &columns->states,
				   &columns->reasons, &columns->since };
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (params)
			pg_add_array(params, all[i]);
		pg_array_done(all[i]);
	}
}

/* What waits of a topic, or nothing of it does. */
struct waiting {
	int64_t rows;
	usec_t oldest; /* USEC_NEVER: not known */
};

static void add_topic(struct columns *columns, struct topic *topic, const struct waiting *waiting,
		      usec_t took)
{
	usec_t since = topic->state == TOPIC_OPEN ? USEC_NEVER : usec_boot() - topic->since;
	if (columns->count == TOPICS_TOLD)
		return;
	columns->count++;
	pg_array_text(&columns->names, topic->name);
	pg_array_int8(&columns->pending, waiting->rows);
	pg_array_usec(&columns->oldest, waiting->oldest);
	pg_array_int8(&columns->rates, rate(topic->delivered, topic->reported, took));
	pg_array_int8(&columns->published, (int64_t)topic->delivered);
	pg_array_text(&columns->states, state_name(topic->state));
	pg_array_text(&columns->reasons, topic->reason);
	pg_array_usec(&columns->since, since);
	topic->reported = topic->delivered;
}

static struct waiting waiting_of(const PGresult *result, const struct topic *topic)
{
	for (int i = 0; i < pg_rows(result); i++)
		if (strcmp(pg_get_text(result, i, 0), topic->name) == 0)
			return (struct waiting){ .rows = pg_get_int8(result, i, 1),
						 .oldest = pg_null(result, i, 2)
								   ? USEC_NEVER
								   : pg_get_int8(result, i, 2) };
	return (struct waiting){ .oldest = USEC_NEVER };
}

static void tell_topics(struct report *report, const PGresult *waiting, usec_t took)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	struct columns columns;
	columns_init(&columns);
	for (struct topic *t = topics_first(report->topics); t; t = t->next_made) {
		struct waiting of_it = waiting_of(waiting, t);
		if (t->delivered > 0 || of_it.rows > 0 || t->state != TOPIC_OPEN)
			add_topic(&columns, t, &of_it, took);
	}
	pg_add_text(&params, outbox_source(report->outbox)->name);
	bool any = columns.count > 0;
	columns_move(&columns, &params);
	if (any)
		pg_send(outbox_pg(report->outbox), sql_report_topics, &params, on_told, report);
}

static void tell(struct report *report, const PGresult *waiting)
{
	struct report_figures figures = { 0 };
	usec_t now = usec_boot();
	usec_t took = report->told > 0 ? now - report->told : 0;
	report->settings.figures(report->settings.arg, &figures);
	tell_relay(report, &figures, took);
	if (waiting && figures.owner)
		tell_topics(report, waiting, took);
	report->told = now;
	report->published = figures.published;
	loop_timer_set(report->tell, EVERY);
}

static void on_topics(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct report *report = arg;
	report->asking = false;
	if (error)
		outbox_say_refusal(report->outbox, "topics", error);
	if (outbox_ready(report->outbox))
		tell(report, result);
}

static void on_tell(void *arg)
{
	struct report *report = arg;
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	if (report->asking)
		return;
	report->asking = true;
	pg_add_int8(&params, COUNTED);
	pg_send(outbox_pg(report->outbox), outbox_source(report->outbox)->topics, &params,
		on_topics, report);
}

/* --- from outside --- */

void report_begin(struct report *report)
{
	loop_timer_set(report->look, 0);
	loop_timer_set(report->tell, 0);
}

void report_end(struct report *report)
{
	loop_timer_cancel(report->look);
	loop_timer_cancel(report->tell);
	report->backlog = -1;
	series_set(report->meter->rows, (double)NAN);
	series_set(report->meter->oldest_age, (double)NAN);
	series_set(report->meter->dead_rows, (double)NAN);
	series_set(report->meter->parked_rows, (double)NAN);
}

struct health_wait report_oldest(const struct report *report)
{
	return report->oldest;
}

struct report *report_new(struct loop *loop, struct outbox *outbox, struct topics *topics,
			  struct meter *meter, const struct report_settings *settings)
{
	struct report *report = mem_zero(sizeof(*report));
	report->outbox = outbox;
	report->topics = topics;
	report->meter = meter;
	report->settings = *settings;
	report->backlog = -1;
	report->lowest = INT64_MIN;
	report->made = usec_boot();
	report->look = loop_timer_new(loop, on_look, report);
	report->tell = loop_timer_new(loop, on_tell, report);
	return report;
}

void report_free(struct report *report)
{
	if (!report)
		return;
	loop_timer_free(report->look);
	loop_timer_free(report->tell);
	free(report);
}
