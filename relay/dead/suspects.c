/* The search for a row that crashes the relay, as states.
 *
 * What must hold: the record is written before any row of its range is read, and rows outside of it
 * stay where they are until it is replaced. */
#include "suspects.h"

#include <stdlib.h>

#include "mem.h"

#define MANY        1000 /* rows of a group */
#define FEW         64
#define CRASHES_RUN 2 /* at so many the rows run in groups */
#define CRASHES_ONE 3 /* and from so many on alone, if they are few */
#define ALONE_MAX   3

#define LIVED       (2 * USEC_SEC) /* before a row goes alone; four times that after each crash */
#define CALM_BITS   2
#define SURVIVED    (500 * USEC_MS) /* alone in flight: it is not what kills */
#define PATIENCE    (2 * USEC_SEC)  /* with a group that does not come home: a partition's fault */
#define LOOK_EVERY  USEC_SEC
#define LOOK_BROKER (100 * USEC_MS) /* whether there is a connection */
#define TRY_AGAIN   USEC_SEC
#define POLL_AGAIN  (20 * USEC_MS) /* after a page of which no row could be sent */

#define FROM_NOWHERE INT64_MAX

enum suspects_state {
	STATE_OFF,      /* nothing is recorded: the rows flow */
	STATE_READING,  /* what is recorded? */
	STATE_CHECKING, /* which rows of that range still wait? */
	STATE_RANGING,  /* which rows wait at all? They are the range of a first crash */
	STATE_OPENING,  /* the record of this ownership is written; nothing was sent yet */
	STATE_WATCHING, /* the rows flow; does any of the range still wait? */
	STATE_PICKING,  /* which rows are the next group? */
	STATE_CALMING,  /* it is one row: not before this process has lived for a while */
	STATE_NAMING,   /* the group is written into the record */
	STATE_RUNNING,  /* it is read, sent and deleted */
	STATE_CLEARING, /* its one row has flown for a while without harm, and this is written */
	STATE_BURYING,  /* a row that was alone at too many crashes is moved aside */
	STATE_ERASING,  /* the range has passed: the record goes */
};

struct suspects {
	enum suspects_state state;
	bool unclean;       /* the owner before was, and that is not recorded yet */
	bool asked;         /* the action of this state is on its way */
	uint64_t number;    /* of that action, or of the next one */
	usec_t not_before;  /* is it tried again, after a failure */
	usec_t lived_since; /* with a connection */

	bool recorded; /* there is a record */
	struct suspects_record record;

	/* What this owner goes through: the rows below the range, which may only be met before
	 * those of the range for the order of their keys, then the range itself. */
	int64_t first;
	int64_t last;
	int64_t rows;   /* of a group in the range */
	int32_t alone;  /* crashes that its one row has on it */
	int64_t from;   /* where the next group begins */
	usec_t look_at; /* whether any of the range still waits, while the rows flow */

	/* The group; its range is that of the record. */
	bool single;      /* it is one row */
	bool cleared;     /* which has flown for a while */
	int64_t position; /* the rows up to here were read */
	usec_t sent;      /* the last of them */
};

static void set_state(struct suspects *suspects, enum suspects_state state)
{
	suspects->state = state;
	suspects->asked = false;
	suspects->number++;
	suspects->not_before = 0;
}

static void turn_off(struct suspects *suspects)
{
	suspects->unclean = false;
	suspects->recorded = false;
	set_state(suspects, STATE_OFF);
}

/* --- groups --- */

/* The narrower the range, the smaller its groups; alone only what few rows are left. */
static int64_t group_rows(const struct suspects_record *record, int64_t count)
{
	if (count > MANY)
		return MANY;
	return count > FEW || record->crashes < CRASHES_ONE ? FEW : 1;
}

static bool below(const struct suspects *suspects)
{
	return suspects->from < suspects->first;
}

static int64_t picks_to(const struct suspects *suspects)
{
	return below(suspects) ? suspects->first - 1 : suspects->last;
}

static void pick_behind(struct suspects *suspects, int64_t id)
{
	int64_t to = picks_to(suspects);
	if (id < to)
		suspects->from = id + 1;
	else
		suspects->from = below(suspects) ? suspects->first : FROM_NOWHERE;
}

static void pick_next(struct suspects *suspects)
{
	bool more = suspects->from != FROM_NOWHERE;
	set_state(suspects, more ? STATE_PICKING : STATE_ERASING);
}

static void picked(struct suspects *suspects, const struct suspects_found *found)
{
	struct suspects_record *record = &suspects->record;
	bool its_row = found->first == suspects->first && found->first == suspects->last;
	if (found->count == 0) {
		pick_behind(suspects, picks_to(suspects));
		pick_next(suspects);
		return;
	}
	pick_behind(suspects, found->end);
	record->first = found->first;
	record->last = found->end;
	record->alone = its_row ? suspects->alone : 0;
	suspects->single = found->count == 1;
	suspects->cleared = false;
	set_state(suspects, suspects->single ? STATE_CALMING : STATE_NAMING);
}

static usec_t calm_wait(const struct suspects *suspects, const struct suspects_view *view)
{
	usec_t calm = LIVED << (CALM_BITS * suspects->record.alone);
	usec_t lived = view->now - suspects->lived_since;
	if (!view->connected)
		return LOOK_BROKER;
	return lived < calm ? calm - lived : 0;
}

static void read_group(struct suspects *suspects, enum suspects_state state)
{
	suspects->position = suspects->record.first - 1;
	set_state(suspects, state);
}

/* How much longer a time lasts that has begun then. */
static usec_t rest(usec_t since, usec_t length, usec_t now)
{
	return since + length > now ? since + length - now : 0;
}

/* All of the group was read. Until it comes home, or has shown that it does not kill, or does not
 * come home whatever the others do. */
static usec_t settle_wait(struct suspects *suspects, const struct suspects_view *view)
{
	usec_t sent = suspects->sent, since = suspects->lived_since;
	usec_t wait = LOOK_BROKER;
	if (view->busy == 0) {
		pick_next(suspects);
		return 0;
	}
	if (suspects->single && !suspects->cleared) {
		wait = rest(sent, SURVIVED, view->now);
		if (wait == 0)
			set_state(suspects, STATE_CLEARING);
	} else if (view->connected) {
		wait = rest(sent > since ? sent : since, PATIENCE, view->now);
		if (wait == 0)
			pick_next(suspects);
	}
	return wait;
}

static usec_t buried_wait(struct suspects *suspects, const struct suspects_view *view)
{
	if (view->busy > 0)
		return USEC_NEVER;
	set_state(suspects, STATE_ERASING);
	return 0;
}

/* --- what to do --- */

/* How long until there is something to do, in this state or in the one that it goes on to. */
static usec_t wait_of(struct suspects *suspects, const struct suspects_view *view)
{
	switch (suspects->state) {
	case STATE_OFF:
		return USEC_NEVER;
	case STATE_WATCHING:
		return rest(suspects->look_at, 0, view->now);
	case STATE_CALMING:
		return calm_wait(suspects, view);
	case STATE_RUNNING:
	case STATE_BURYING:
		if (suspects->position < suspects->record.last)
			return view->may_poll ? 0 : USEC_NEVER;
		return suspects->state == STATE_RUNNING ? settle_wait(suspects, view)
							: buried_wait(suspects, view);
	case STATE_READING:
	case STATE_CHECKING:
	case STATE_RANGING:
	case STATE_OPENING:
	case STATE_PICKING:
	case STATE_NAMING:
	case STATE_CLEARING:
	case STATE_ERASING:
		break;
	}
	return 0;
}

static struct suspects_next look(int64_t first, int64_t last, int64_t rows)
{
	return (struct suspects_next){
		.action = SUSPECTS_LOOK, .first = first, .last = last, .rows = rows
	};
}

static struct suspects_next write_record(struct suspects *suspects, bool alone_now)
{
	suspects->record.alone_now = alone_now;
	suspects->recorded = true;
	return (struct suspects_next){ .action = SUSPECTS_WRITE, .record = suspects->record };
}

static struct suspects_next with_rows(enum suspects_action action, int64_t first, int64_t last)
{
	return (struct suspects_next){ .action = action, .first = first, .last = last };
}

static struct suspects_next action_of(struct suspects *suspects)
{
	const struct suspects_record *record = &suspects->record;
	switch (suspects->state) {
	case STATE_READING:
		return (struct suspects_next){ .action = SUSPECTS_READ };
	case STATE_CHECKING:
		return look(record->first, record->last, MANY + 1);
	case STATE_RANGING:
		return look(INT64_MIN, INT64_MAX, MANY + 1);
	case STATE_WATCHING:
		return look(record->first, record->last, 1);
	case STATE_PICKING:
		return look(suspects->from, picks_to(suspects),
			    below(suspects) ? MANY : suspects->rows);
	case STATE_OPENING:
	case STATE_CLEARING:
		return write_record(suspects, false);
	case STATE_CALMING: /* for long enough */
		set_state(suspects, STATE_NAMING);
		return write_record(suspects, true);
	case STATE_NAMING:
		return write_record(suspects, suspects->single);
	case STATE_RUNNING:
		return with_rows(SUSPECTS_POLL, suspects->position + 1, record->last);
	case STATE_BURYING:
		return with_rows(SUSPECTS_BURY, suspects->position + 1, record->last);
	case STATE_ERASING:
		return (struct suspects_next){ .action = SUSPECTS_ERASE };
	case STATE_OFF:
		break;
	}
	return (struct suspects_next){ .action = SUSPECTS_NONE };
}

static struct suspects_next nothing(usec_t wait)
{
	return (struct suspects_next){ .action = SUSPECTS_NONE, .wait = wait };
}

struct suspects_next suspects_next(struct suspects *suspects, const struct suspects_view *view)
{
	if (!view->connected)
		suspects->lived_since = view->now;
	if (suspects->asked)
		return nothing(USEC_NEVER);
	if (view->now < suspects->not_before)
		return nothing(suspects->not_before - view->now);
	usec_t wait = wait_of(suspects, view);
	if (wait > 0)
		return nothing(wait);
	struct suspects_next next = action_of(suspects);
	next.number = suspects->number;
	suspects->asked = true;
	return next;
}

/* --- answers --- */

bool suspects_awaits(const struct suspects *suspects, uint64_t number)
{
	return suspects->asked && number == suspects->number;
}

static void void_action(struct suspects *suspects)
{
	suspects->asked = false;
	suspects->number++;
}

/* Is it the answer that is waited for? Then it no longer is. */
static bool answered(struct suspects *suspects, uint64_t number)
{
	bool awaited = suspects_awaits(suspects, number);
	if (awaited)
		void_action(suspects);
	return awaited;
}

void suspects_read(struct suspects *suspects, uint64_t number, const struct suspects_record *record)
{
	if (!answered(suspects, number))
		return;
	if (record) {
		suspects->recorded = true;
		suspects->record = *record;
		set_state(suspects, STATE_CHECKING);
	} else if (suspects->unclean) {
		set_state(suspects, STATE_RANGING);
	} else {
		turn_off(suspects);
	}
}

/* What is left of the recorded range has seen one crash more. */
static void checked(struct suspects *suspects, const struct suspects_found *found)
{
	struct suspects_record *record = &suspects->record;
	if (found->count == 0) {
		set_state(suspects, suspects->unclean ? STATE_RANGING : STATE_ERASING);
		return;
	}
	record->first = found->first;
	record->last = found->last;
	if (suspects->unclean) {
		record->crashes++;
		record->alone += record->alone_now;
	}
	suspects->rows = group_rows(record, found->count);
	set_state(suspects, STATE_OPENING);
}

static void ranged(struct suspects *suspects, const struct suspects_found *found)
{
	if (found->count == 0) {
		if (suspects->recorded)
			set_state(suspects, STATE_ERASING);
		else
			turn_off(suspects);
		return;
	}
	suspects->record = (struct suspects_record){ .first = found->first,
						     .last = found->last,
						     .crashes = 1 };
	set_state(suspects, STATE_OPENING);
}

void suspects_looked(struct suspects *suspects, uint64_t number, const struct suspects_found *found,
		     usec_t now)
{
	if (!answered(suspects, number))
		return;
	switch (suspects->state) {
	case STATE_CHECKING:
		checked(suspects, found);
		break;
	case STATE_RANGING:
		ranged(suspects, found);
		break;
	case STATE_PICKING:
		picked(suspects, found);
		break;
	case STATE_WATCHING:
		suspects->look_at = now + LOOK_EVERY;
		if (found->count == 0)
			set_state(suspects, STATE_ERASING);
		break;
	case STATE_OFF:
	case STATE_READING:
	case STATE_OPENING:
	case STATE_CALMING:
	case STATE_NAMING:
	case STATE_RUNNING:
	case STATE_CLEARING:
	case STATE_BURYING:
	case STATE_ERASING:
		break;
	}
}

static void opened(struct suspects *suspects, usec_t now)
{
	const struct suspects_record *record = &suspects->record;
	suspects->unclean = false; /* it has been counted */
	suspects->first = record->first;
	suspects->last = record->last;
	suspects->alone = record->alone;
	suspects->from = INT64_MIN;
	suspects->look_at = now + LOOK_EVERY;
	if (record->crashes < CRASHES_RUN)
		set_state(suspects, STATE_WATCHING);
	else if (record->alone < ALONE_MAX)
		set_state(suspects, STATE_PICKING);
	else
		read_group(suspects, STATE_BURYING);
}

void suspects_done(struct suspects *suspects, uint64_t number, usec_t now)
{
	if (!answered(suspects, number))
		return;
	switch (suspects->state) {
	case STATE_OPENING:
		opened(suspects, now);
		break;
	case STATE_NAMING:
		read_group(suspects, STATE_RUNNING);
		break;
	case STATE_CLEARING:
		suspects->cleared = true;
		set_state(suspects, STATE_RUNNING);
		break;
	case STATE_ERASING:
		turn_off(suspects);
		break;
	case STATE_OFF:
	case STATE_READING:
	case STATE_CHECKING:
	case STATE_RANGING:
	case STATE_WATCHING:
	case STATE_PICKING:
	case STATE_CALMING:
	case STATE_RUNNING:
	case STATE_BURYING:
		break;
	}
}

void suspects_page(struct suspects *suspects, uint64_t number, int64_t upto, usec_t now)
{
	if (!answered(suspects, number))
		return;
	if (upto <= suspects->position)
		suspects->not_before = now + POLL_AGAIN;
	suspects->position = upto;
	suspects->sent = now;
}

void suspects_failed(struct suspects *suspects, uint64_t number, usec_t now)
{
	if (answered(suspects, number))
		suspects->not_before = now + TRY_AGAIN;
}

/* --- the rest --- */

bool suspects_flow(const struct suspects *suspects)
{
	return suspects->state == STATE_OFF || suspects->state == STATE_WATCHING;
}

bool suspects_group(const struct suspects *suspects, int64_t *first_r, int64_t *last_r)
{
	if (suspects->state != STATE_RUNNING && suspects->state != STATE_CLEARING &&
	    suspects->state != STATE_BURYING)
		return false;
	*first_r = suspects->record.first;
	*last_r = suspects->record.last;
	return true;
}

static bool has_picked(const struct suspects *suspects)
{
	return suspects->state == STATE_CALMING || suspects->state == STATE_NAMING ||
	       suspects->state == STATE_RUNNING || suspects->state == STATE_CLEARING;
}

/* What was asked for from a later row on is void. Where rows before the group have to be read, they
 * go first, for the order of their keys. */
void suspects_rewind(struct suspects *suspects, int64_t id)
{
	int64_t first, last;
	bool overtakes = has_picked(suspects) && id < suspects->record.first;
	if (overtakes || suspects->state == STATE_PICKING) {
		suspects->from = id < suspects->from ? id : suspects->from;
		set_state(suspects, STATE_PICKING);
		return;
	}
	if (!suspects_group(suspects, &first, &last))
		return;
	if (id <= suspects->position)
		suspects->position = (id > first ? id : first) - 1;
	void_action(suspects);
}

void suspects_begin(struct suspects *suspects, bool unclean, usec_t now)
{
	suspects->unclean = suspects->unclean || unclean;
	suspects->recorded = false;
	suspects->lived_since = now;
	set_state(suspects, STATE_READING);
}

void suspects_stop(struct suspects *suspects)
{
	set_state(suspects, STATE_OFF);
}

struct suspects *suspects_new(void)
{
	return mem_zero(sizeof(struct suspects));
}

void suspects_free(struct suspects *suspects)
{
	free(suspects);
}
