/* Reads where the partitions go on, and begins the topics that have never been read. */
#include "locator.h"

#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "mem.h"
#include "sql_positions.h"

#define SAY_EVERY    USEC_MIN
#define AWAIT_MARGIN USEC_MIN /* the clocks of database and producers */

struct topic {
	const char *name;
	bool begun;   /* it has rows */
	bool awaited; /* it was not there when it was first asked for */
	usec_t since; /* when that was */
};

/*   read --all is known--------------------------------------------------> done
 *     \--add partitions that are new--read the awaited--begin topics--read--> done */
struct locator {
	struct log *log;
	struct pg *pg;
	struct consumer *consumer;
	const struct conf_ledger *conf;

	struct positions *positions;
	locator_done_fn *done; /* NULL: not busy */
	void *arg;
	struct topic *topics; /* all that are subscribed to */
	size_t topic_count;
	size_t topic_at; /* the next to begin */
	bool again;      /* this is the second reading */
	struct log_limit unset;
};

static void topics_reset(struct locator *locator)
{
	for (size_t i = 0; i < locator->topic_count; i++)
		locator->topics[i] = (struct topic){ .name = locator->topics[i].name };
	locator->topic_at = 0;
}

static struct topic *find_topic(struct locator *locator, const char *name)
{
	for (size_t i = 0; i < locator->topic_count; i++)
		if (strcmp(locator->topics[i].name, name) == 0)
			return &locator->topics[i];
	return NULL;
}

static bool all_begun(const struct locator *locator)
{
	for (size_t i = 0; i < locator->topic_count; i++)
		if (!locator->topics[i].begun)
			return false;
	return true;
}

/* Partitions of it are ours. */
static bool is_ours(const struct locator *locator, const char *topic)
{
	for (size_t i = 0; i < locator->positions->count; i++)
		if (strcmp(locator->positions->items[i].topic, topic) == 0)
			return true;
	return false;
}

static void finish(struct locator *locator, bool good)
{
	locator_done_fn *done = locator->done;

	locator->done = NULL;
	done(locator->arg, good);
}

static void complain(struct locator *locator, const char *step, const char *text)
{
	log_warn(locator->log, "positions", LOG_TEXT("step", step), LOG_TEXT("error", text));
}

static void read_positions(struct locator *locator);
static void begin_topics(struct locator *locator);

static void add_topics(const struct locator *locator, struct pg_params *params)
{
	struct pg_array topics PG_ARRAY_AUTO;

	pg_array_init(&topics, PG_TEXT);
	for (size_t i = 0; i < locator->topic_count; i++)
		pg_array_text(&topics, locator->topics[i].name);
	pg_add_array(params, &topics);
}

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
	if (!error && pg_get_int8(result, 0, 0) > 0)
		log_info(locator->log, "topic begun",
			 LOG_TEXT("topic", locator->topics[locator->topic_at - 1].name),
			 LOG_INT("partitions", pg_get_int8(result, 0, 0)));
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
			  LOG_TEXT("remedy", LOCATOR_UNSET));
}

/* A topic that is not there yet will have no history but what comes from now on; the time is kept,
 * for a broker may err about what there is. */
static void await_topic(struct locator *locator, const char *topic)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };

	log_info(locator->log, "topic not there yet", LOG_TEXT("topic", topic));
	pg_add_text(&params, topic);
	pg_send(locator->pg, SQL_AWAIT, &params, on_begun, locator);
}

/* Whether a statement is on its way. */
static bool begin_by(struct locator *locator, const struct topic *topic, enum conf_start start,
		     usec_t start_time)
{
	struct topic_offsets offsets;
	struct err err;

	if (consumer_start_offsets(locator->consumer, topic->name, start, start_time, &err,
				   &offsets)) {
		send_begin(locator, topic->name, offsets.items, offsets.count);
		free(offsets.items);
		return true;
	}
	if (offsets.missing && !is_ours(locator, topic->name)) {
		await_topic(locator, topic->name);
		return true;
	}
	complain(locator, "begin topic", err.text);
	return false;
}

/* Only "latest" must know of a topic before it is ours: what comes between is not to be skipped. */
static bool begin_topic(struct locator *locator, const struct topic *topic)
{
	const struct conf_ledger *conf = locator->conf;
	bool ours = is_ours(locator, topic->name);

	switch (conf->start) {
	case CONF_START_UNSET:
		if (ours)
			say_unset(locator, topic->name);
		return false;
	case CONF_START_EARLIEST:
	case CONF_START_TIME:
		return ours && begin_by(locator, topic, conf->start, conf->start_time);
	case CONF_START_LATEST:
		break;
	}
	if (!topic->awaited)
		return begin_by(locator, topic, CONF_START_LATEST, 0);
	return ours && begin_by(locator, topic, CONF_START_TIME, topic->since - AWAIT_MARGIN);
}

/* One after the other, with a turn of the loop between them: each may block. */
static void begin_topics(struct locator *locator)
{
	while (locator->topic_at < locator->topic_count) {
		const struct topic *topic = &locator->topics[locator->topic_at++];

		if (!topic->begun && begin_topic(locator, topic))
			return;
	}
	locator->again = true;
	read_positions(locator);
}

static void on_awaited(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct locator *locator = arg;

	if (error) {
		complain(locator, "read", error->text);
		finish(locator, false);
		return;
	}
	for (int row = 0; row < pg_rows(result); row++) {
		struct topic *topic = find_topic(locator, pg_get_text(result, row, 0));

		if (!topic)
			continue;
		topic->awaited = true;
		topic->since = pg_get_time(result, row, 1);
	}
	begin_topics(locator);
}

static void read_awaited(struct locator *locator)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };

	add_topics(locator, &params);
	pg_send(locator->pg, SQL_AWAITED, &params, on_awaited, locator);
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
	read_awaited(locator);
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
	struct topic *known = find_topic(locator, topic);
	struct position *position =
		positions_find(locator->positions, topic, pg_get_int4(result, row, 1));

	if (known)
		known->begun = true;
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
	if (locator->again || (all_begun(locator) &&
			       positions_known(locator->positions) == locator->positions->count))
		finish(locator, true);
	else
		add_partitions(locator);
}

static void read_positions(struct locator *locator)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };

	add_topics(locator, &params);
	pg_send(locator->pg, SQL_POSITIONS, &params, on_read, locator);
}

struct locator *locator_new(struct log *log, struct pg *pg, struct consumer *consumer,
			    const struct conf_ledger *conf, const struct rules *rules)
{
	struct locator *locator = mem_zero(sizeof(*locator));
	size_t count = rules_topic_count(rules);

	locator->topics = mem_zero((count + 1) * sizeof(*locator->topics));
	locator->topic_count = count;
	for (size_t i = 0; i < count; i++)
		locator->topics[i].name = rules_topic(rules, i);

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
	free(locator->topics);
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
	topics_reset(locator);
	read_positions(locator);
}
