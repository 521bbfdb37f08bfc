/* Reads where the partitions go on, and begins the topics that have never been read. */
#include "locator.h"

#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "mem.h"
#include "sql_intake.h"

#define SAY_EVERY USEC_MIN

struct topic {
	char *name;
	bool begun; /* it has rows */
};

/*   read --all are known------------------------------------------------> done
 *     \--add partitions that are new--begin the topics that have none--read--> done */
struct locator {
	struct log *log;
	struct pg *pg;
	struct consumer *consumer;
	const struct conf_ledger *conf;

	struct positions *positions;
	locator_done_fn *done; /* NULL: not busy */
	void *arg;
	struct topic *topics; /* of the positions that were asked for */
	size_t topic_count;
	size_t topic_at; /* the next to begin */
	bool again;      /* this is the second reading */
	struct log_limit unset;
};

static void topics_clear(struct locator *locator)
{
	for (size_t i = 0; i < locator->topic_count; i++)
		free(locator->topics[i].name);
	free(locator->topics);
	locator->topics = NULL;
	locator->topic_count = 0;
	locator->topic_at = 0;
}

static void topics_set(struct locator *locator, const struct positions *positions)
{
	const struct position *items = positions->items;

	topics_clear(locator);
	locator->topics = mem_zero((positions->count + 1) * sizeof(*locator->topics));
	for (size_t i = 0; i < positions->count; i++)
		if (i == 0 || strcmp(items[i].topic, items[i - 1].topic) != 0)
			locator->topics[locator->topic_count++].name = mem_text(items[i].topic);
}

static void topic_is_begun(struct locator *locator, const char *name)
{
	for (size_t i = 0; i < locator->topic_count; i++)
		if (strcmp(locator->topics[i].name, name) == 0)
			locator->topics[i].begun = true;
}

static void finish(struct locator *locator, bool good)
{
	locator_done_fn *done = locator->done;

	locator->done = NULL;
	topics_clear(locator);
	done(locator->arg, good);
}

static void complain(struct locator *locator, const char *step, const char *text)
{
	log_warn(locator->log, "positions", LOG_TEXT("step", step), LOG_TEXT("error", text));
}

static void read_positions(struct locator *locator);
static void begin_topics(struct locator *locator);

/* --- topics that have never been read --- */

static void on_beginning(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct locator *locator = arg;

	(void)result;
	if (error)
		complain(locator, "begin topic", error->text);
}

/* Another process may have been first. */
static void on_inserted(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct locator *locator = arg;

	on_beginning(arg, result, error);
	if (!error && pg_affected(result) > 0)
		log_info(locator->log, "topic begun",
			 LOG_TEXT("topic", locator->topics[locator->topic_at - 1].name),
			 LOG_INT("partitions", pg_affected(result)));
}

static void on_begun(void *arg, const PGresult *result, const struct pg_error *error)
{
	on_beginning(arg, result, error);
	if (error) {
		finish(arg, false);
		return;
	}
	crash_point("positions_begin.answered");
	begin_topics(arg);
}

/* Should BEGIN alone fail, each of the others is right by itself. */
static void send_begin(struct locator *locator, const char *topic, const int64_t *offsets,
		       size_t count)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	struct pg_array next PG_ARRAY_AUTO;

	crash_point("positions_begin.send");
	pg_send(locator->pg, "BEGIN", NULL, on_beginning, locator);
	pg_add_text(&params, topic);
	pg_send(locator->pg, SQL_POSITIONS_LOCK, &params, on_beginning, locator);
	pg_array_init(&next, PG_INT8);
	for (size_t i = 0; i < count; i++)
		pg_array_int8(&next, offsets[i]);
	pg_add_array(&params, &next);
	pg_send(locator->pg, SQL_POSITIONS_BEGIN, &params, on_inserted, locator);
	pg_send(locator->pg, "COMMIT", NULL, on_begun, locator);
	crash_point("positions_begin.sent");
}

static void say_unset(struct locator *locator, const char *topic)
{
	uint64_t held;

	if (log_limit_pass(&locator->unset, usec_boot(), SAY_EVERY, &held))
		log_error(locator->log, "topic not begun", LOG_TEXT("topic", topic),
			  LOG_TEXT("remedy",
				   "it has never been read: set ledger.start to \"earliest\" (its "
				   "whole history is performed), \"latest\" (only what comes from "
				   "now on) or a time, \"2026-01-31T00:00:00Z\""));
}

static bool begin_topic(struct locator *locator, const char *topic)
{
	struct err err;
	int64_t *offsets;
	size_t count;

	if (locator->conf->start == CONF_START_UNSET) {
		say_unset(locator, topic);
		return false;
	}
	if (!consumer_start_offsets(locator->consumer, topic, locator->conf->start,
				    locator->conf->start_time, &err, &offsets, &count)) {
		complain(locator, "begin topic", err.text);
		return false;
	}
	send_begin(locator, topic, offsets, count);
	free(offsets);
	return true;
}

/* One after the other, with a turn of the loop between them: each may block. */
static void begin_topics(struct locator *locator)
{
	while (locator->topic_at < locator->topic_count) {
		const struct topic *topic = &locator->topics[locator->topic_at++];

		if (!topic->begun && begin_topic(locator, topic->name))
			return;
	}
	locator->again = true;
	read_positions(locator);
}

/* --- partitions that are new in their topic --- */

static void on_added(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct locator *locator = arg;

	(void)result;
	if (error) {
		complain(locator, "add partitions", error->text);
		finish(locator, false);
		return;
	}
	crash_point("positions_add.answered");
	begin_topics(locator);
}

static void add_partitions(struct locator *locator)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	struct pg_array topics PG_ARRAY_AUTO, partitions PG_ARRAY_AUTO;

	pg_array_init(&topics, PG_TEXT);
	pg_array_init(&partitions, PG_INT4);
	for (size_t i = 0; i < locator->positions->count; i++) {
		const struct position *position = &locator->positions->items[i];

		if (position->known)
			continue;
		pg_array_text(&topics, position->topic);
		pg_array_int4(&partitions, position->partition);
	}
	pg_add_array(&params, &topics);
	pg_add_array(&params, &partitions);
	crash_point("positions_add.send");
	pg_send(locator->pg, SQL_POSITIONS_ADD, &params, on_added, locator);
	crash_point("positions_add.sent");
}

/* --- reading --- */

static void take_row(struct locator *locator, const PGresult *result, int row)
{
	const char *topic = pg_get_text(result, row, 0);
	struct position *position =
		positions_find(locator->positions, topic, pg_get_int4(result, row, 1));

	topic_is_begun(locator, topic);
	if (!position)
		return;
	position->known = true;
	position->next = pg_get_int8(result, row, 2);
	position->seen = position->next;
}

static void on_read(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct locator *locator = arg;

	if (error) {
		complain(locator, "read", error->text);
		finish(locator, false);
		return;
	}
	for (int row = 0; row < pg_rows(result); row++)
		take_row(locator, result, row);
	if (locator->again || positions_known(locator->positions) == locator->positions->count)
		finish(locator, true);
	else
		add_partitions(locator);
}

static void read_positions(struct locator *locator)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	struct pg_array topics PG_ARRAY_AUTO;

	pg_array_init(&topics, PG_TEXT);
	for (size_t i = 0; i < locator->topic_count; i++)
		pg_array_text(&topics, locator->topics[i].name);
	pg_add_array(&params, &topics);
	pg_send(locator->pg, SQL_POSITIONS, &params, on_read, locator);
}

struct locator *locator_new(struct log *log, struct pg *pg, struct consumer *consumer,
			    const struct conf_ledger *conf)
{
	struct locator *locator = mem_zero(sizeof(*locator));

	locator->log = log;
	locator->pg = pg;
	locator->consumer = consumer;
	locator->conf = conf;
	return locator;
}

void locator_free(struct locator *locator)
{
	if (!locator)
		return;
	topics_clear(locator);
	free(locator);
}

bool locator_busy(const struct locator *locator)
{
	return locator->done != NULL;
}

void locator_start(struct locator *locator, struct positions *positions, locator_done_fn *done,
		   void *arg)
{
	locator->positions = positions;
	locator->done = done;
	locator->arg = arg;
	locator->again = false;
	for (size_t i = 0; i < positions->count; i++)
		positions->items[i].known = false;
	topics_set(locator, positions);
	read_positions(locator);
}
