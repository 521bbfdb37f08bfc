/* The search for a row that crashes the relay, through whole lives of a relay that crashes, is
 * killed and loses its broker by chance; the same chances each time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "dead/suspects.h"

#define ROWS  200
#define KILLS 50

enum where {
	ABSENT, /* not inserted yet */
	WAITS,
	GONE, /* published and deleted */
	DEAD,
	TAKEN, /* deleted by others */
};

enum stage { AT_READ, AT_SEND, AT_DELIVERY };

struct model_row {
	int64_t id;
	enum where where;
	bool delivered;
	/* in the process */
	bool in_flight;
	bool acked;
	usec_t home; /* its delivery */
};

struct model {
	uint64_t chance;
	usec_t now;

	/* the plan */
	size_t rows;
	int64_t poison; /* 0: none */
	enum stage stage;
	usec_t slowest;    /* acknowledgement */
	usec_t row_every;  /* on average; 0: all are there from the beginning */
	usec_t kill_every; /* the same; 0: at `kill_at` */
	int kills;         /* to come */
	int stops;
	int thefts;
	int outages;
	unsigned long kill_at[2];

	/* the database and the broker */
	size_t inserted;
	struct model_row row[ROWS];
	bool recorded;
	struct suspects_record record;
	bool unclean;
	usec_t away_until;

	/* the process */
	struct suspects *suspects;
	bool alive;
	size_t position;
	unsigned long step;
	int crashes;
};

static uint64_t dice(struct model *model, uint64_t sides)
{
	model->chance = model->chance * 6364136223846793005ULL + 1442695040888963407ULL;
	return (model->chance >> 33) % sides;
}

static void die(struct model *model, bool unclean)
{
	model->alive = false;
	model->unclean = unclean;
	for (size_t i = 0; i < model->rows; i++)
		model->row[i].in_flight = model->row[i].acked = false;
}

static void crash(struct model *model, const struct model_row *row, enum stage stage)
{
	if (row->id != model->poison || stage != model->stage)
		return;
	model->crashes++;
	die(model, true);
}

static bool happens(struct model *model, usec_t every, usec_t time)
{
	return every > 0 && dice(model, (uint64_t)every) < (uint64_t)time;
}

/* Time passes, and something may happen to the process in it. False: it is dead. */
static bool live(struct model *model, usec_t time)
{
	model->now += time;
	model->step++;
	bool now = model->step == model->kill_at[0] || model->step == model->kill_at[1];
	bool by_chance = model->kills > 0 && happens(model, model->kill_every, time);
	if (model->inserted < model->rows && happens(model, model->row_every, time))
		model->row[model->inserted++].where = WAITS;
	if (by_chance)
		model->kills--;
	if (now || by_chance)
		die(model, true);
	if (model->outages > 0 && dice(model, 400) == 0) {
		model->outages--;
		model->away_until = model->now + (usec_t)dice(model, 20) * USEC_SEC;
	}
	if (model->thefts > 0 && dice(model, 50) == 0) {
		struct model_row *row = &model->row[dice(model, model->rows)];
		model->thefts--;
		if (row->where == WAITS)
			row->where = TAKEN;
	}
	return model->alive;
}

static usec_t moment(struct model *model)
{
	return (usec_t)dice(model, 5 * USEC_MS) + 100;
}

static size_t count_in(const struct model *model, int64_t first, int64_t last, bool process)
{
	size_t count = 0;
	for (size_t i = 0; i < model->rows; i++) {
		const struct model_row *row = &model->row[i];
		bool here = process ? row->in_flight || row->acked : row->where == WAITS;
		count += here && row->id >= first && row->id <= last;
	}
	return count;
}

/* What is in flight while rows run in groups is in the record, but for what takes too long. */
static void check_send(const struct model *model, const struct model_row *row)
{
	if (suspects_flow(model->suspects))
		return;
	assert_true(model->recorded);
	assert_true(row->id >= model->record.first && row->id <= model->record.last);
	if (model->slowest > USEC_SEC || model->outages > 0 || model->away_until > 0)
		return;
	for (size_t i = 0; i < model->rows; i++)
		if (model->row[i].in_flight)
			assert_true(model->row[i].id >= model->record.first &&
				    model->row[i].id <= model->record.last);
}

static void send(struct model *model, struct model_row *row)
{
	if (row->where != WAITS || row->in_flight || row->acked)
		return;
	check_send(model, row);
	crash(model, row, AT_SEND);
	if (!model->alive)
		return;
	row->in_flight = true;
	row->home = model->now + (usec_t)dice(model, (uint64_t)model->slowest);
}

static void look_in(const struct model *model, const struct suspects_next *next,
		    struct suspects_found *found)
{
	*found = (struct suspects_found){ 0 };
	for (size_t i = 0; i < model->rows; i++) {
		const struct model_row *row = &model->row[i];
		if (row->where != WAITS || row->id < next->first || row->id > next->last)
			continue;
		if (found->count == 0)
			found->first = row->id;
		if (found->count < next->rows) {
			found->count++;
			found->end = row->id;
		}
		found->last = row->id;
	}
}

static void poll_range(struct model *model, const struct suspects_next *next)
{
	int64_t upto = next->last;
	size_t most = 1 + (size_t)dice(model, 100), count = 0;
	for (size_t i = 0; i < model->rows && model->alive; i++) {
		struct model_row *row = &model->row[i];
		if (row->where != WAITS || row->id < next->first || row->id > next->last)
			continue;
		if (count++ == most) {
			upto = row->id - 1;
			break;
		}
		crash(model, row, AT_READ);
	}
	if (!live(model, moment(model)))
		return;
	for (size_t i = 0; i < model->rows && model->alive; i++)
		if (model->row[i].id >= next->first && model->row[i].id <= upto)
			send(model, &model->row[i]);
	if (model->alive)
		suspects_page(model->suspects, next->number, upto, model->now);
}

static void bury(struct model *model, int64_t id)
{
	for (size_t i = 0; i < model->rows; i++)
		if (model->row[i].id == id && model->row[i].where == WAITS)
			model->row[i].where = DEAD;
}

/* A statement: what may kill comes before it, between it and its answer, and after that. */
static void act(struct model *model, const struct suspects_next *next)
{
	struct suspects *suspects = model->suspects;
	struct suspects_found found;
	struct suspects_record record = model->record;
	bool recorded = model->recorded;
	if (!live(model, moment(model)))
		return;
	if (dice(model, 100) == 0) {
		suspects_failed(suspects, next->number, model->now);
		return;
	}
	switch (next->action) {
	case SUSPECTS_NONE:
		return;
	case SUSPECTS_POLL:
		poll_range(model, next);
		return;
	case SUSPECTS_READ:
		if (live(model, moment(model)))
			suspects_read(suspects, next->number, recorded ? &record : NULL);
		return;
	case SUSPECTS_LOOK:
		look_in(model, next, &found);
		if (live(model, moment(model)))
			suspects_looked(suspects, next->number, &found, model->now);
		return;
	case SUSPECTS_WRITE:
		model->recorded = true;
		model->record = next->record;
		break;
	case SUSPECTS_ERASE:
		model->recorded = false;
		break;
	case SUSPECTS_BURY:
		assert_int_equal(next->first, next->last);
		bury(model, next->first);
		if (live(model, moment(model)))
			suspects_page(suspects, next->number, next->first, model->now);
		return;
	}
	if (live(model, moment(model)))
		suspects_done(suspects, next->number, model->now);
}

static void flow(struct model *model)
{
	for (int rows = 0; rows < 20 && model->position < model->rows && model->alive; rows++) {
		struct model_row *row = &model->row[model->position++];
		if (row->where == WAITS)
			crash(model, row, AT_READ);
		if (model->alive)
			send(model, row);
	}
}

static void deliver(struct model *model)
{
	for (size_t i = 0; i < model->rows && model->alive; i++) {
		struct model_row *row = &model->row[i];
		if (!row->in_flight || row->home > model->now || model->now < model->away_until)
			continue;
		row->delivered = true;
		crash(model, row, AT_DELIVERY);
		row->acked = row->in_flight && model->alive;
		row->in_flight = false;
	}
}

static void delete_acked(struct model *model)
{
	for (size_t i = 0; i < model->rows; i++) {
		struct model_row *row = &model->row[i];
		if (row->acked && row->where == WAITS)
			row->where = GONE;
		row->acked = false;
	}
}

/* One turn of the loop. */
static void turn(struct model *model)
{
	int64_t first, last;
	struct suspects_view view = {
		.now = model->now,
		.connected = model->now >= model->away_until,
		.may_poll = true,
	};
	if (suspects_group(model->suspects, &first, &last))
		view.busy = count_in(model, first, last, true);
	struct suspects_next next = suspects_next(model->suspects, &view);
	if (next.action != SUSPECTS_NONE)
		act(model, &next);
	else if (!live(model, next.wait < 10 * USEC_MS ? next.wait : moment(model)))
		return;
	if (model->alive && suspects_flow(model->suspects))
		flow(model);
	if (model->alive && live(model, moment(model)))
		deliver(model);
	if (model->alive && live(model, moment(model)))
		delete_acked(model);
	if (model->position == model->rows)
		model->position = 0; /* a sweep */
}

static void stop(struct model *model)
{
	model->stops--;
	deliver(model);
	delete_acked(model);
	die(model, false);
}

/* An owner, from its lease to its end. */
static void run(struct model *model)
{
	bool waiting = true;
	model->alive = true;
	model->position = 0;
	model->suspects = suspects_new();
	model->now += USEC_SEC;
	suspects_begin(model->suspects, model->unclean, model->now);
	for (int turns = 0; model->alive && waiting; turns++) {
		turn(model);
		if (model->alive && model->stops > 0 && dice(model, 200) == 0)
			stop(model);
		waiting = model->recorded || count_in(model, INT64_MIN, INT64_MAX, false) > 0 ||
			  model->kills > 0 || model->inserted < model->rows ||
			  !suspects_flow(model->suspects);
		assert_true(turns < 1000000);
	}
	suspects_free(model->suspects);
}

static void fill(struct model *model, size_t rows)
{
	int64_t id = 0;
	model->rows = rows;
	for (size_t i = 0; i < rows; i++) {
		id += 1 + (int64_t)dice(model, 4);
		model->row[i].id = id;
		model->row[i].where = model->row_every > 0 ? ABSENT : WAITS;
	}
	model->inserted = model->row_every > 0 ? 0 : rows;
}

static void judge(const struct model *model)
{
	assert_false(model->recorded);
	for (size_t i = 0; i < model->rows; i++) {
		const struct model_row *row = &model->row[i];
		assert_int_not_equal(row->where, WAITS);
		if (row->id == model->poison)
			assert_int_not_equal(row->where, GONE);
		else
			assert_int_not_equal(row->where, DEAD);
		if (row->where == GONE)
			assert_true(row->delivered);
	}
}

static void play(struct model *model)
{
	int owners = 0;
	do {
		run(model);
		assert_true(++owners < 2000);
	} while (!model->alive);
	judge(model);
}

static void poison_some(struct model *model)
{
	model->poison = model->row[dice(model, model->rows)].id;
	model->stage = (enum stage)dice(model, 3);
}

/* Seven crashes at most: the first is recorded, then groups, fewer, alone; and alone three times.
 */
static void the_row_is_found(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 150; seed++) {
		struct model model = { .chance = seed, .slowest = 50 * USEC_MS, .unclean = true };
		fill(&model, ROWS);
		poison_some(&model);
		play(&model);
		assert_in_range(model.crashes, 5, 7);
	}
}

/* With kills, clean stops, outages and rows that others delete. */
static void the_row_is_found_whatever_else_happens(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct model model = { .chance = seed,
				       .slowest = 50 * USEC_MS,
				       .kill_every = 3 * USEC_SEC,
				       .kills = 5,
				       .stops = 5,
				       .outages = 3,
				       .thefts = 20 };
		fill(&model, ROWS);
		poison_some(&model);
		play(&model);
		assert_in_range(model.crashes, 0, 7 * 14);
	}
}

/* From a kill every 50 ms to one every 20 s; the broker quick, slow, or away. */
static void fifty_kills_condemn_nobody(void **state)
{
	(void)state;
	static const usec_t every[] = { 50 * USEC_MS, 300 * USEC_MS, USEC_SEC, 3 * USEC_SEC,
					20 * USEC_SEC };
	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct model model = { .chance = seed,
				       .slowest = seed % 3 ? 50 * USEC_MS : 3 * USEC_SEC,
				       .kill_every = every[seed % 5],
				       .row_every = seed % 2 ? every[seed % 5] / 4 : 0,
				       .kills = KILLS,
				       .stops = seed % 7 ? 0 : 5,
				       .outages = seed % 2 ? 0 : 10 };
		fill(&model, seed % 4 ? ROWS : 3);
		play(&model);
	}
}

/* At every step, and at every second one after it. */
static void no_two_kills_condemn_anybody(void **state)
{
	(void)state;
	for (unsigned long first = 1; first < 45; first++) {
		for (unsigned long second = first + 1; second < first + 45; second++) {
			struct model model = { .chance = first,
					       .slowest = 20 * USEC_MS,
					       .kill_at = { first, second },
					       .unclean = true };
			fill(&model, 6);
			play(&model);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_row_is_found),
		cmocka_unit_test(the_row_is_found_whatever_else_happens),
		cmocka_unit_test(fifty_kills_condemn_nobody),
		cmocka_unit_test(no_two_kills_condemn_anybody),
	};
	return cmocka_run_group_tests_name("life of suspects", tests, NULL, NULL);
}
