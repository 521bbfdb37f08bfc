/* Looks at what others may do to what we read by, while we read. */
#include "lookout.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "sql_positions.h"

#define COUNT_PAUSE 50 /* times as long as a count took: it reads what it counts */

struct lookout {
	struct log *log;
	struct pg *pg;
	int64_t limit;
	lookout_changed_fn *changed;
	lookout_counted_fn *counted; /* NULL: only a look */
	void *arg;
	struct positions *positions;
	size_t asked;    /* answers of a look that are still to come */
	usec_t asked_at; /* when poison was counted */
	usec_t count_at; /* when it is to be counted again */
	int64_t nearest; /* so much more may be written before a topic can be full */
	int64_t written;
};

/* --- poison --- */

static void say_full(const struct lookout *lookout, const char *topic, bool full)
{
	if (full)
		log_error(lookout->log, "topic paused: too much of it is poison",
			  LOG_TEXT("topic", topic), LOG_INT("open", lookout->limit),
			  LOG_TEXT("remedy", "counterfoil poison list shows it; once it is "
					     "replayed or discarded the topic goes on"));
	else
		log_info(lookout->log, "topic goes on", LOG_TEXT("topic", topic));
}

/* Whether it changed anything. */
static bool set_full(const struct lookout *lookout, const char *topic, bool full)
{
	bool changed = false;

	for (size_t i = 0; i < lookout->positions->count; i++) {
		struct position *position = &lookout->positions->items[i];

		if (strcmp(position->topic, topic) != 0 || position->full == full)
			continue;
		position->full = full;
		changed = true;
	}
	if (changed)
		say_full(lookout, topic, full);
	return changed;
}

static bool take_counts(struct lookout *lookout, const PGresult *result)
{
	usec_t now = usec_boot();
	bool changed = false;

	lookout->count_at = now + COUNT_PAUSE * (now - lookout->asked_at);
	lookout->nearest = lookout->limit;
	for (int row = 0; row < pg_rows(result); row++) {
		int64_t left = lookout->limit - pg_get_int8(result, row, 1);

		if (set_full(lookout, pg_get_text(result, row, 0), left <= 0))
			changed = true;
		if (left > 0 && left < lookout->nearest)
			lookout->nearest = left;
	}
	return changed;
}

static void add_topics(const struct positions *positions, struct pg_params *params)
{
	const struct position *items = positions->items;
	struct pg_array topics PG_ARRAY_AUTO;

	pg_array_init(&topics, PG_TEXT);
	for (size_t i = 0; i < positions->count; i++)
		if (i == 0 || strcmp(items[i].topic, items[i - 1].topic) != 0)
			pg_array_text(&topics, items[i].topic);
	pg_add_array(params, &topics);
}

static void ask_poison(struct lookout *lookout, pg_done_fn *done)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };

	lookout->written = 0;
	lookout->asked_at = usec_boot();
	add_topics(lookout->positions, &params);
	pg_add_int8(&params, lookout->limit);
	pg_send(lookout->pg, SQL_POISON_OPEN, &params, done, lookout);
}

static void on_counted(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct lookout *lookout = arg;

	if (!error)
		(void)take_counts(lookout, result);
	lookout->counted(lookout->arg, !error);
}

/* --- a look --- */

static bool was_moved(const struct lookout *lookout, const PGresult *result, int row)
{
	const struct position *position = positions_find(
		lookout->positions, pg_get_text(result, row, 0), pg_get_int4(result, row, 1));

	return position && position->known && position->next != pg_get_int8(result, row, 2);
}

/* An error is one of the connection, which whoever reads hears of anyway. */
static void on_positions(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct lookout *lookout = arg;
	bool moved = false;

	lookout->asked--;
	for (int row = 0; !error && row < pg_rows(result); row++)
		moved = moved || was_moved(lookout, result, row);
	if (moved)
		lookout->changed(lookout->arg, "positions were moved");
}

static void on_poison(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct lookout *lookout = arg;

	lookout->asked--;
	if (!error && take_counts(lookout, result))
		lookout->changed(lookout->arg, "poison was counted");
}

void lookout_look(struct lookout *lookout, struct positions *positions)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };

	if (lookout->asked > 0 || positions->count == 0)
		return;
	lookout->positions = positions;
	lookout->asked = 1;
	add_topics(positions, &params);
	pg_send(lookout->pg, SQL_POSITIONS, &params, on_positions, lookout);
	if (usec_boot() < lookout->count_at)
		return;
	lookout->asked++;
	ask_poison(lookout, on_poison);
}

void lookout_count(struct lookout *lookout, struct positions *positions, lookout_counted_fn *done)
{
	lookout->positions = positions;
	lookout->counted = done;
	ask_poison(lookout, on_counted);
}

bool lookout_wrote(struct lookout *lookout, int64_t poison)
{
	lookout->written += poison;
	return poison > 0 && lookout->written >= lookout->nearest;
}

struct lookout *lookout_new(struct log *log, struct pg *pg, int64_t limit,
			    lookout_changed_fn *changed, void *arg)
{
	struct lookout *lookout = mem_zero(sizeof(*lookout));

	lookout->log = log;
	lookout->pg = pg;
	lookout->limit = limit;
	lookout->nearest = limit;
	lookout->changed = changed;
	lookout->arg = arg;
	return lookout;
}

void lookout_free(struct lookout *lookout)
{
	free(lookout);
}
