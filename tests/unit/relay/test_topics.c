/* The states of topics: each state and each event that may come in it, and what follows from some
 * of them in a row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "publishing/topics.h"

#define NOW  (1000 * USEC_SEC)
#define LANE 7

enum start {
	OPEN,
	ERROR_FLYING, /* a row is still in flight */
	ERROR_DUE,    /* a probe may be sent */
	AGE,
	FULL_FLYING,
	FULL_ALONE, /* nothing of it is in flight: the lane is filled by others */
	SUSPECTS_FLYING,
	SUSPECTS,
	PARTITIONS,
	PROBING,
	PROBING_SUSPECT, /* more suspects behind it */
	CATCHING,
	JOINED,
	STARTS,
};

struct fixture {
	struct topics *topics;
	struct topic *topic;
	usec_t now;
	int64_t flying; /* id of the first row in flight; 0: none is */
	size_t blocked;
	size_t opened;
};

static void on_blocked(void *arg, const struct topic *topic)
{
	struct fixture *fixture = arg;
	assert_non_null(topic->reason);
	fixture->blocked++;
}

static void on_opened(void *arg, const struct topic *topic, usec_t took)
{
	struct fixture *fixture = arg;
	assert_true(took >= 0 && topic->from == TOPIC_NOTHING);
	fixture->opened++;
}

static struct topic *make(struct topics *topics, const char *name)
{
	return topics_make(topics, (struct row_bytes){ name, strlen(name) }, 42);
}

static void begin(struct fixture *fixture)
{
	const struct topics_events events = { on_blocked, on_opened, fixture };
	*fixture = (struct fixture){ .topics = topics_new(&events), .now = NOW };
	fixture->topic = make(fixture->topics, "orders");
}

static void fly(struct fixture *fixture, int64_t first, size_t rows)
{
	for (size_t i = 0; i < rows; i++)
		topic_sent(fixture->topic);
	fixture->flying = first;
}

static void age(struct fixture *fixture)
{
	fixture->now += TOPIC_AGE_MAX;
	topics_look_begin(fixture->topics);
	for (size_t i = 0; i < fixture->topic->in_flight; i++)
		topic_look(fixture->topic, fixture->now - TOPIC_AGE_MAX);
	topics_look_end(fixture->topics, fixture->now, fixture->now);
}

static void trouble(struct fixture *fixture, int64_t id, bool sent)
{
	topics_failed(fixture->topics, fixture->topic, id, sent, "unknown", fixture->now);
}

static bool reject(struct fixture *fixture, int64_t id, bool alone)
{
	return topics_rejected(fixture->topics, fixture->topic, id, true, alone, "too large",
			       fixture->now);
}

/* Its first row goes out alone. */
static void probe(struct fixture *fixture, int64_t id)
{
	assert_ptr_equal(topics_probe(fixture->topics, 1000, fixture->now), fixture->topic);
	fly(fixture, id, 1);
	topics_probe_sent(fixture->topics, fixture->topic);
}

static void suspect(struct fixture *fixture)
{
	fly(fixture, 100, 2);
	assert_false(reject(fixture, 100, false));
	assert_false(reject(fixture, 101, false));
	fixture->flying = 0;
}

static void bring(struct fixture *fixture, enum start start)
{
	int64_t from;
	switch (start) {
	case OPEN:
	case AGE:
	case FULL_FLYING:
	case PARTITIONS:
		fly(fixture, 100, 2);
		break;
	case ERROR_FLYING:
		fly(fixture, 100, 2);
		trouble(fixture, 100, true);
		fixture->flying = 101;
		break;
	case SUSPECTS_FLYING:
		fly(fixture, 100, 2);
		assert_false(reject(fixture, 100, false));
		fixture->flying = 101;
		break;
	case SUSPECTS:
	case PROBING_SUSPECT:
		suspect(fixture);
		break;
	case ERROR_DUE:
	case PROBING:
	case CATCHING:
	case JOINED:
		trouble(fixture, 100, false);
		fixture->now += TOPIC_PROBE_FIRST;
		break;
	case FULL_ALONE:
	case STARTS:
		break;
	}
	if (start == AGE)
		age(fixture);
	if (start == FULL_FLYING || start == FULL_ALONE)
		topics_full(fixture->topics, fixture->topic, 102, LANE, fixture->now);
	if (start == PARTITIONS)
		assert_false(topics_repartition(fixture->topics, fixture->topic, fixture->now));
	if (start >= PROBING && start <= JOINED)
		probe(fixture, 100);
	if (start == CATCHING || start == JOINED) {
		topics_delivered(fixture->topics, fixture->topic, 100, fixture->now);
		fixture->flying = 0;
	}
	if (start == JOINED) {
		assert_true(topics_join(fixture->topics, &from));
		assert_int_equal(from, 101);
	}
}

/* O open; E error, A age, F full, S suspects, P partitions: blocked; p probing; c catching up, j
 * joined. */
static char letter(const struct topic *topic)
{
	switch (topic->state) {
	case TOPIC_BLOCKED:
		return "EAFSP"[topic->cause];
	case TOPIC_PROBING:
		return 'p';
	case TOPIC_CATCHING_UP:
		return topic->joined ? 'j' : 'c';
	case TOPIC_OPEN:
		break;
	}
	return 'O';
}

/* The events, a letter each. True: the row in flight was settled, one way or the other. */
static bool happen(struct fixture *fixture, char event)
{
	struct topics *topics = fixture->topics;
	struct topic *topic = fixture->topic;
	usec_t now = fixture->now;
	switch (event) {
	case 'w':
		topic_withheld(topic, 50);
		break;
	case 'W':
		topic_withheld(topic, 900);
		break;
	case 'd':
		topics_delivered(topics, topic, fixture->flying, now);
		return true;
	case 'f':
		topics_forgot(topics, topic, fixture->flying, now);
		break;
	case 'x':
		trouble(fixture, fixture->flying, true);
		break;
	case 'X':
		trouble(fixture, 60, false);
		break;
	case 'r':
		assert_false(reject(fixture, fixture->flying, false));
		break;
	case 'a':
		assert_true(reject(fixture, fixture->flying, true));
		return true;
	case 'u':
		topics_full(topics, topic, 60, LANE + 1, now);
		break;
	case 'g':
		age(fixture);
		break;
	case 'l':
		topics_look_begin(topics);
		topics_look_end(topics, now, now);
		break;
	case 'm':
		topics_room(topics, LANE);
		break;
	case 'n':
		topics_room(topics, LANE + 1);
		break;
	case 't':
		assert_int_equal(topics_repartition(topics, topic, now), topic->in_flight == 0);
		break;
	case 'q':
		topics_probe_read(topics, topic, 200, true, now);
		break;
	case 'Q':
		topics_probe_read(topics, topic, 200, false, now);
		break;
	case 'c':
		(void)topics_caught(topics, 200, false, now);
		break;
	case 'C':
		(void)topics_caught(topics, 200, true, now);
		break;
	case 'v':
		topics_give_up_standing(topics, now);
		break;
	default:
		fail_msg("no such event: %c", event);
	}
	return false;
}

static const char events[] = "wWdfxXraugl"
			     "mntqQcCv";

/* What a state becomes by each of the events, in their order; '.': it cannot come. A probe is being
 * read where one is due. */
static const struct expected {
	const char *name;
	const char *becomes;
} table[STARTS] = {
	/*                       wWdfxXraugl   mntqQcCv */
	[OPEN] = { "open", "OOOOEES.FAO"
			   "OOPOOOOO" },
	[ERROR_FLYING] = { "error, in flight", "EEEEEES.FAE"
					       "EEEEEEEE" },
	[ERROR_DUE] = { "error, due", "EE...E..FEE"
				      "EEEEOEEE" },
	[AGE] = { "age", "AAAAEES.FAA"
			 "AAAAAAAE" },
	[FULL_FLYING] = { "full", "FFFFEES.FAF"
				  "cFFFFFFF" },
	[FULL_ALONE] = { "full by others", "FF...E..Fcc"
					   "cFFFFFFF" },
	[SUSPECTS_FLYING] = { "suspects, in flight", "SSSSEES.FAS"
						     "SSSSSSSS" },
	[SUSPECTS] = { "suspects", "SS...E..FSS"
				   "SSSSOSSS" },
	[PARTITIONS] = { "partitions", "PPPPEES.FAP"
				       "PPPPPPPP" },
	[PROBING] = { "probing", "ppcEEESc.pp"
				 "ppppppp"
				 "p" },
	[PROBING_SUSPECT] = { "probing a suspect", "ppSSEESS.pp"
						   "ppppppp"
						   "p" },
	[CATCHING] = { "catching up", "cc...E..Fcc"
				      "cccccccc" },
	[JOINED] = { "joined", "cj...E..Fjj"
			       "jjcjjjOj" },
};

/* Whatever happens: nothing that waits lies below `from`, the rows in flight are counted, and the
 * list of those that are not open is right. */
static void check(const struct fixture *fixture, char event, int64_t waits, size_t in_flight)
{
	const struct topic *topic = fixture->topic;
	size_t shut;
	(void)topics_shut(fixture->topics, &shut);
	assert_int_equal(shut, topic->state != TOPIC_OPEN);
	assert_int_equal(topic->in_flight, in_flight);
	if (topic->state == TOPIC_OPEN)
		assert_true(topic->from == TOPIC_NOTHING && topic->alone_to == INT64_MIN);
	else if (strchr("qcC", event) == NULL) /* these say that nothing waits up to 200 */
		assert_true(topic->from <= waits);
	assert_int_equal(fixture->blocked - fixture->opened, topic->said);
	assert_true(topic->said || topic->state == TOPIC_OPEN || topic->cause != TOPIC_AGE);
	assert_true(!topic->said || topic->state != TOPIC_OPEN);
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void each_event_in_each_state(void **state)
{
	(void)state;
	for (int start = 0; start < STARTS; start++) {
		for (size_t i = 0; events[i]; i++) {
			char expected = table[start].becomes[i], event = events[i];
			struct fixture fixture;
			if (expected == '.')
				continue;
			begin(&fixture);
			bring(&fixture, (enum start)start);
			if (start == ERROR_DUE || start == SUSPECTS)
				(void)topics_probe(fixture.topics, 1000, fixture.now);
			int64_t flying = fixture.flying;
			int64_t waits = fixture.topic->from;
			size_t in_flight = fixture.topic->in_flight;
			bool settled = happen(&fixture, event);
			if (letter(fixture.topic) != expected)
				fail_msg("%s, %c: %c instead of %c", table[start].name, event,
					 letter(fixture.topic), expected);
			if (strchr("dfxra", event))
				in_flight--;
			if (strchr("fxr", event) && start != OPEN)
				waits = least(waits, flying);
			if (strchr("Xu", event))
				waits = least(waits, 60);
			if (event == 'w' && start != OPEN)
				waits = 50;
			if (settled && waits == flying)
				waits = flying + 1;
			if (start == OPEN && event == 'w')
				fixture.topic->from = TOPIC_NOTHING; /* it is not asked to */
			if (start == OPEN && event == 'W')
				fixture.topic->from = TOPIC_NOTHING;
			check(&fixture, event, waits, in_flight);
			topics_free(fixture.topics);
		}
	}
}

/* --- in a row --- */

static void probes_come_ever_later(void **state)
{
	(void)state;
	static const int seconds[] = { 1, 2, 4, 8, 16, 30, 30 };
	struct fixture fixture;
	begin(&fixture);
	trouble(&fixture, 100, false);
	for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
		usec_t wait = seconds[i] * USEC_SEC;
		assert_null(topics_probe(fixture.topics, 1000, fixture.now + wait - 1));
		fixture.now += wait;
		if (i % 2) { /* it makes no difference whether it was handed over */
			probe(&fixture, 100);
			trouble(&fixture, 100, true);
		} else {
			assert_non_null(topics_probe(fixture.topics, 1000, fixture.now));
			trouble(&fixture, 100, false);
			trouble(&fixture, 101, false); /* of the same trouble */
		}
	}
	fixture.now += TOPIC_PROBE_LAST;
	probe(&fixture, 100);
	topics_delivered(fixture.topics, fixture.topic, 100, fixture.now);
	trouble(&fixture, 101, false);
	assert_int_equal(fixture.topic->retry_at, fixture.now + TOPIC_PROBE_FIRST);
	topics_free(fixture.topics);
}

/* A refusal at once, and the page went on to its end: what it could not send still waits. */
static void a_probe_that_is_refused_moves_nothing(void **state)
{
	(void)state;
	for (int more = 0; more < 2; more++) {
		struct fixture fixture;
		begin(&fixture);
		bring(&fixture, ERROR_DUE);
		(void)topics_probe(fixture.topics, 1000, fixture.now);
		assert_true(fixture.topic->probed);
		trouble(&fixture, 100, false);
		assert_false(fixture.topic->probed); /* no other row of this page */
		topics_probe_read(fixture.topics, fixture.topic, 200, more, fixture.now);
		assert_int_equal(letter(fixture.topic), 'E');
		assert_int_equal(fixture.topic->from, 100);
		topics_free(fixture.topics);
	}
}

/* The head meets an older row, which was committed late, while a probe is on its way. */
static void a_probe_passes_over_no_row(void **state)
{
	(void)state;
	static const struct {
		const char *when;
		int64_t met;
		int64_t from;
	} rows[] = { { "read", 99, 99 },  { "read", 100, 100 }, { "read", 150, 150 },
		     { "sent", 99, 99 },  { "sent", 120, 120 }, { "sent", 140, 131 },
		     { "none", 300, 201 } };
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fixture fixture;
		begin(&fixture);
		bring(&fixture, ERROR_DUE);
		if (strcmp(rows[i].when, "sent") == 0) {
			probe(&fixture, 130);
			topic_withheld(fixture.topic, rows[i].met);
			topics_delivered(fixture.topics, fixture.topic, 130, fixture.now);
		} else {
			(void)topics_probe(fixture.topics, 1000, fixture.now);
			topic_withheld(fixture.topic, rows[i].met);
			assert_int_equal(fixture.topic->probed, rows[i].met >= 100);
			topics_probe_read(fixture.topics, fixture.topic, 200, true, fixture.now);
		}
		assert_int_equal(fixture.topic->from, rows[i].from);
		topics_free(fixture.topics);
	}
}

static void a_probe_waits_for_the_head(void **state)
{
	(void)state;
	struct fixture fixture;
	begin(&fixture);
	bring(&fixture, ERROR_DUE); /* from 100 */
	assert_null(topics_probe(fixture.topics, INT64_MIN, fixture.now));
	assert_null(topics_probe(fixture.topics, 98, fixture.now));
	assert_non_null(topics_probe(fixture.topics, 99, fixture.now));
	topics_set_back(fixture.topics);
	assert_false(fixture.topic->probed);
	assert_non_null(topics_probe(fixture.topics, INT64_MIN, fixture.now));
	topics_free(fixture.topics);
}

static void suspects_go_one_by_one(void **state)
{
	(void)state;
	struct fixture fixture;
	begin(&fixture);
	fly(&fixture, 100, 3);
	for (int64_t id = 102; id >= 100; id--)
		assert_false(reject(&fixture, id, false));
	assert_int_equal(fixture.topic->from, 100);
	probe(&fixture, 100);
	assert_null(topics_probe(fixture.topics, 1000, fixture.now)); /* one at a time */
	topics_delivered(fixture.topics, fixture.topic, 100, fixture.now);
	probe(&fixture, 101);
	assert_true(reject(&fixture, 101, true));
	probe(&fixture, 102);
	topics_delivered(fixture.topics, fixture.topic, 102, fixture.now);
	assert_int_equal(letter(fixture.topic), 'c');
	assert_int_equal(fixture.topic->from, 103);
	assert_int_equal(fixture.topic->in_flight, 0);
	topics_free(fixture.topics);
}

/* What came in between does not let suspects go in company. */
static void suspects_are_not_forgotten(void **state)
{
	(void)state;
	struct fixture fixture;
	begin(&fixture);
	fly(&fixture, 100, 3);
	assert_false(reject(&fixture, 100, false));
	assert_false(reject(&fixture, 102, false));
	age(&fixture); /* 101 does not arrive */
	assert_int_equal(letter(fixture.topic), 'A');
	assert_int_equal(topics_stalled(fixture.topics), 1);
	topics_delivered(fixture.topics, fixture.topic, 101, fixture.now);
	assert_int_equal(letter(fixture.topic), 'S');
	topics_free(fixture.topics);
}

/* Rows that are rejected alone, one after the other, as if each had been a suspect. */
static void twenty_rejections_are_the_topic(void **state)
{
	(void)state;
	static const struct {
		int delivered; /* this one succeeds */
		int other;     /* from this one on the reason is another one */
		int blocked;   /* this one is not condemned */
	} rows[] = {
		{ 0, 1000, TOPIC_REJECTED_MAX },
		{ 15, 1000, 15 + TOPIC_REJECTED_MAX },
		{ 0, 15, 14 + TOPIC_REJECTED_MAX },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fixture fixture;
		begin(&fixture);
		fly(&fixture, 1, 2);
		assert_false(reject(&fixture, 1, false));
		assert_false(reject(&fixture, 500, false));
		for (int id = 1; id <= rows[i].blocked; id++) {
			assert_int_equal(letter(fixture.topic), 'S');
			probe(&fixture, id);
			if (id == rows[i].delivered)
				topics_delivered(fixture.topics, fixture.topic, id, fixture.now);
			else
				assert_int_equal(topics_rejected(fixture.topics, fixture.topic, id,
								 true, true,
								 id < rows[i].other ? "a" : "b",
								 fixture.now),
						 id < rows[i].blocked);
		}
		assert_int_equal(letter(fixture.topic), 'E');
		assert_int_equal(fixture.topic->from, rows[i].blocked);
		topics_free(fixture.topics);
	}
}

static void age_needs_progress_of_others(void **state)
{
	(void)state;
	static const struct {
		usec_t old;     /* of its oldest row in flight */
		usec_t younger; /* by so much is the youngest that was delivered */
		char becomes;
	} rows[] = {
		{ TOPIC_AGE_MAX, USEC_SEC, 'A' },
		{ TOPIC_AGE_MAX - 1, 5 * USEC_SEC, 'O' },
		{ TOPIC_AGE_MAX, USEC_SEC - 1, 'O' },
		{ 100 * USEC_SEC, -USEC_SEC, 'O' },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fixture fixture;
		begin(&fixture);
		struct topic *other = make(fixture.topics, "other");
		fly(&fixture, 100, 1);
		topics_look_begin(fixture.topics);
		topic_look(fixture.topic, NOW - rows[i].old + USEC_MS);
		topic_look(fixture.topic, NOW - rows[i].old);
		topics_look_end(fixture.topics, NOW - rows[i].old + rows[i].younger, NOW);
		assert_int_equal(letter(fixture.topic), rows[i].becomes);
		assert_int_equal(letter(other), 'O');
		assert_int_equal(topics_stalled(fixture.topics), rows[i].becomes == 'A');
		topics_free(fixture.topics);
	}
}

static void look_after(struct fixture *fixture, usec_t later)
{
	fixture->now += later;
	topics_look_begin(fixture->topics);
	topics_look_end(fixture->topics, fixture->now, fixture->now);
}

/* A topic that is full but moves is slow: what it has in flight will arrive, and is not dropped. */
static void what_moves_is_not_given_up(void **state)
{
	(void)state;
	struct fixture fixture;
	begin(&fixture);
	fly(&fixture, 100, 3);
	topics_full(fixture.topics, fixture.topic, 103, 7, fixture.now);
	look_after(&fixture, USEC_SEC);
	assert_int_equal(topics_standing(fixture.topics), 0);
	topics_delivered(fixture.topics, fixture.topic, 100, fixture.now);
	look_after(&fixture, USEC_SEC);
	assert_int_equal(topics_standing(fixture.topics), 0);
	topics_give_up_standing(fixture.topics, fixture.now);
	assert_int_equal(letter(fixture.topic), 'F');
	look_after(&fixture, USEC_SEC);
	assert_int_equal(topics_standing(fixture.topics), 2);
	topics_delivered(fixture.topics, fixture.topic, 101, fixture.now);
	assert_int_equal(topics_standing(fixture.topics), 0);
	topics_free(fixture.topics);
}

/* Which lane's room it waits for, whichever of its lanes something arrives from. */
static void a_full_topic_waits_for_its_lane(void **state)
{
	(void)state;
	struct fixture fixture;
	begin(&fixture);
	fly(&fixture, 100, 1);
	assert_int_equal(topic_lane(fixture.topic, 3), 3);
	topics_full(fixture.topics, fixture.topic, 103, 7, fixture.now);
	assert_int_equal(topic_lane(fixture.topic, 3), 7);
	topics_room(fixture.topics, 7);
	assert_int_equal(topic_lane(fixture.topic, 3), 3);
	topics_free(fixture.topics);
}

static void what_stalls_is_given_up_and_probed(void **state)
{
	(void)state;
	static const enum start starts[] = { AGE, FULL_FLYING };
	for (size_t i = 0; i < 2; i++) {
		struct fixture fixture;
		begin(&fixture);
		bring(&fixture, starts[i]);
		assert_int_equal(topics_stalled(fixture.topics), 2);
		look_after(&fixture, 2 * USEC_SEC);
		assert_int_equal(topics_standing(fixture.topics), 2);
		topics_give_up_standing(fixture.topics, fixture.now);
		topics_forgot(fixture.topics, fixture.topic, 100, fixture.now);
		topics_forgot(fixture.topics, fixture.topic, 101, fixture.now);
		assert_int_equal(topics_stalled(fixture.topics), 0);
		assert_int_equal(fixture.topic->from, 100);
		assert_null(topics_probe(fixture.topics, 1000, fixture.now));
		fixture.now += TOPIC_PROBE_FIRST;
		probe(&fixture, 100);
		topics_free(fixture.topics);
	}
}

/* Their rows are lost with the producer: what waits for what becomes of them? */
static void a_lost_producer_leaves_none_waiting(void **state)
{
	(void)state;
	static const struct {
		enum start start;
		char becomes;
	} rows[] = { { OPEN, 'O' },        { ERROR_FLYING, 'E' },    { AGE, 'E' },
		     { FULL_FLYING, 'c' }, { SUSPECTS_FLYING, 'S' }, { PARTITIONS, 'c' } };
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fixture fixture;
		begin(&fixture);
		bring(&fixture, rows[i].start);
		while (fixture.topic->in_flight > 0)
			topics_forgot(fixture.topics, fixture.topic, fixture.flying++, fixture.now);
		assert_int_equal(letter(fixture.topic), rows[i].becomes);
		if (rows[i].becomes == 'E') {
			fixture.now += TOPIC_PROBE_LAST;
			assert_non_null(topics_probe(fixture.topics, 1000, fixture.now));
		}
		if (rows[i].becomes != 'O')
			assert_int_equal(fixture.topic->from, 100);
		topics_free(fixture.topics);
	}
}

/* The catching up of two, one of which meets an older row on its way. */
static void catching_up_opens_those_who_joined(void **state)
{
	(void)state;
	struct fixture fixture;
	int64_t from;
	begin(&fixture);
	bring(&fixture, CATCHING); /* from 101 */
	struct topic *second = make(fixture.topics, "second");
	assert_null(fixture.topic->next);
	topics_full(fixture.topics, second, 50, LANE, fixture.now);
	topics_room(fixture.topics, LANE);
	assert_true(topics_join(fixture.topics, &from));
	assert_int_equal(from, 50);
	assert_true(topics_caught(fixture.topics, 80, false, fixture.now));
	assert_int_equal(second->from, 81);
	assert_int_equal(fixture.topic->from, 101);
	topic_withheld(second, 90);
	assert_true(second->joined); /* it will be met */
	topic_withheld(second, 60);
	assert_false(second->joined);
	assert_true(topics_caught(fixture.topics, 100, false, fixture.now));
	assert_false(topics_caught(fixture.topics, 150, true, fixture.now));
	assert_int_equal(letter(fixture.topic), 'O');
	assert_int_equal(letter(second), 'c');
	assert_int_equal(second->from, 60);
	assert_true(topics_join(fixture.topics, &from));
	assert_int_equal(from, 60);
	topic_withheld(second, 55);
	assert_false(topics_caught(fixture.topics, 150, false, fixture.now)); /* nobody goes on */
	assert_true(topics_join(fixture.topics, &from));
	(void)topics_caught(fixture.topics, 150, true, fixture.now);
	assert_false(topics_join(fixture.topics, &from));
	topics_free(fixture.topics);
}

static void a_new_owner_knows_nothing(void **state)
{
	(void)state;
	static const enum start starts[] = { ERROR_DUE, FULL_ALONE, SUSPECTS, CATCHING, JOINED };
	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		struct fixture fixture;
		size_t shut;
		begin(&fixture);
		bring(&fixture, starts[i]);
		topics_open_all(fixture.topics);
		(void)topics_shut(fixture.topics, &shut);
		assert_int_equal(shut, 0);
		assert_int_equal(letter(fixture.topic), 'O');
		assert_true(fixture.topic->from == TOPIC_NOTHING);
		assert_true(fixture.topic->alone_to == INT64_MIN);
		assert_int_equal(fixture.topic->rejected, 0);
		topics_free(fixture.topics);
	}
}

static void names_are_found_and_bounded(void **state)
{
	(void)state;
	struct fixture fixture;
	char name[16];
	begin(&fixture);
	for (uint32_t i = 1; i <= TOPICS_MAX; i++) {
		(void)snprintf(name, sizeof(name), "t%u", i);
		struct topic *topic = topics_make(
			fixture.topics, (struct row_bytes){ name, strlen(name) }, i % 3000);
		assert_int_equal(topic == NULL, i == TOPICS_MAX); /* "orders" is the first one */
	}
	for (uint32_t i = 1; i < TOPICS_MAX; i++) {
		(void)snprintf(name, sizeof(name), "t%u", i);
		const struct topic *topic = topics_find(
			fixture.topics, (struct row_bytes){ name, strlen(name) }, i % 3000);
		assert_non_null(topic);
		assert_string_equal(topic->name, name);
	}
	assert_null(topics_find(fixture.topics, (struct row_bytes){ "t", 1 }, 1));
	topics_free(fixture.topics);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_event_in_each_state),
		cmocka_unit_test(probes_come_ever_later),
		cmocka_unit_test(a_probe_that_is_refused_moves_nothing),
		cmocka_unit_test(a_probe_passes_over_no_row),
		cmocka_unit_test(a_probe_waits_for_the_head),
		cmocka_unit_test(suspects_go_one_by_one),
		cmocka_unit_test(suspects_are_not_forgotten),
		cmocka_unit_test(twenty_rejections_are_the_topic),
		cmocka_unit_test(age_needs_progress_of_others),
		cmocka_unit_test(what_stalls_is_given_up_and_probed),
		cmocka_unit_test(what_moves_is_not_given_up),
		cmocka_unit_test(a_full_topic_waits_for_its_lane),
		cmocka_unit_test(a_lost_producer_leaves_none_waiting),
		cmocka_unit_test(catching_up_opens_those_who_joined),
		cmocka_unit_test(a_new_owner_knows_nothing),
		cmocka_unit_test(names_are_found_and_bounded),
	};
	return cmocka_run_group_tests_name("topics", tests, NULL, NULL);
}
