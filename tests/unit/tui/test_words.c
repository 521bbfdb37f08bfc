/* What the console says of a key and of the whole, and what a key on the keyboard asks for. */
#include "data/order.h"
#include "terminal/key.h"
#include "terminal/text_view.h"
#include "words/attention.h"
#include "words/story.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const usec_t now = 1748786551 * USEC_SEC; /* 2025-06-01 14:02:31 UTC */

static struct story story_of(const char *state)
{
	return (struct story){ .state = state,
			       .mode = "idempotent",
			       .target = "payments",
			       .effect = "charge",
			       .tenant = "acme",
			       .error_class = "",
			       .now = now,
			       .due = now,
			       .window_until = USEC_NEVER,
			       .paused_until = USEC_NEVER,
			       .not_after = USEC_NEVER,
			       .rendered = true,
			       .ledgers = true };
}

static void tells(const struct story *story, const char *words)
{
	BUF_AUTO struct buf out = { 0 };
	story_tell(story, CONF_ZONE_UTC, &out);
	assert_string_equal(buf_text(&out), words);
}

static void why_a_key_waits(void **state)
{
	(void)state;
	struct story story = story_of("pending");
	tells(&story, "Recorded, and not sent yet; due now.");
	story.ledgers = false;
	tells(&story, "Recorded, and not sent yet; due now. No ledger is running.");
	story = story_of("retry_wait");
	story.due = now + 250 * USEC_SEC;
	story.error_class = "http 503";
	tells(&story, "Will be sent again with the same key, in 4m 10s. Last: http 503.");
	story.held = true;
	story.hold_reason = "401 unauthorized";
	tells(&story, "Will be sent again with the same key, in 4m 10s. Last: http 503. "
		      "Target payments is held: 401 unauthorized.");
	story.held = false;
	story.paused_until = now + 60 * USEC_SEC;
	tells(&story, "Will be sent again with the same key, in 4m 10s. Last: http 503. "
		      "Target payments asked for a pause until 2025-06-01 14:03:31 "
		      "UTC.");
}

static void what_stops_a_key(void **state)
{
	(void)state;
	static const char recorded[] = "Recorded, and not sent yet.";
	static const struct {
		bool all, effect, tenant, behind;
		const char *words;
	} rows[] = {
		{ .all = true,
		  .words = " Everything is paused: nothing is sent until `counterfoil resume "
			   "--all`." },
		{ .effect = true,
		  .words = " Its effect is paused: nothing of it is sent until `counterfoil resume "
			   "--effect charge`." },
		{ .tenant = true,
		  .words = " Its tenant is paused: nothing of it is sent until `counterfoil resume "
			   "--tenant acme`." },
		{ .behind = true,
		  .words = " It waits behind an older key of the same serial key." },
		{ .effect = true,
		  .tenant = true,
		  .words = " Its effect is paused: nothing of it is sent until `counterfoil resume "
			   "--effect charge`. Its tenant is paused: nothing of it is sent until "
			   "`counterfoil resume --tenant acme`." },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		BUF_AUTO struct buf words = { 0 };
		struct story story = story_of("pending");
		story.all_paused = rows[i].all;
		story.effect_paused = rows[i].effect;
		story.tenant_paused = rows[i].tenant;
		story.behind = rows[i].behind;
		buf_addf(&words, "%s%s", recorded, rows[i].words);
		tells(&story, buf_text(&words));
	}
	struct story story = story_of("retry_wait");
	story.error_class = "http 503";
	story.behind = true;
	tells(&story,
	      "Will be sent again with the same key. Last: http 503. It waits behind an older "
	      "key of the same serial key.");
	story.due = now + 10 * USEC_SEC;
	tells(&story,
	      "Will be sent again with the same key, in 10s. Last: http 503. It waits behind "
	      "an older key of the same serial key.");
	story.state = "cancelled";
	story.all_paused = true;
	tells(&story, "Withdrawn by a person. Certainly not applied.");
}

static void who_has_it(void **state)
{
	(void)state;
	struct story story = story_of("in_flight");
	story.owner = "ledger-1";
	tells(&story, "An attempt by ledger-1 is running.");
	story.stale = true;
	tells(&story, "ledger-1 has not answered for it in time. Another ledger takes it over.");
	story.ledgers = false;
	story.owner = NULL;
	tells(&story, "A ledger that is gone has not answered for it in time. "
		      "No ledger is running that could take it over.");
}

/* Never "not applied" of what may have been, and never "safe" of what is not. */
static void what_is_uncertain(void **state)
{
	(void)state;
	struct story story = story_of("uncertain");
	story.tries = 2;
	story.unknown = 2;
	story.window_until = now + 21 * USEC_HOUR;
	tells(&story, "Tried 2 times, 2 without a clear answer: it may have happened. "
		      "The provider knows the key until 2025-06-02 11:02:31 UTC (21h "
		      "00m left).");
	story.window_until = now - 1;
	story.tries = story.unknown = 1;
	tells(&story, "Tried once, 1 without a clear answer: it may have happened. "
		      "The provider may have forgotten the key: sent again it could happen twice.");
	story.mode = "at_most_once";
	tells(&story, "Tried once, 1 without a clear answer: it may have happened. "
		      "It is at_most_once, and never sent again by itself.");
}

static void how_a_key_ended(void **state)
{
	(void)state;
	struct story story = story_of("dead");
	story.tries = 12;
	story.outcome = "try_later";
	story.error_class = "http 503";
	tells(&story,
	      "Given up after it was tried 12 times. Certainly not applied. Last: http 503.");
	story.outcome = "refused";
	story.error_class = "http 402";
	tells(&story, "The provider said no: http 402. Certainly not applied.");
	story.outcome = NULL;
	story.error_class = "";
	tells(&story, "Its time was over before it was sent.");
	story.rendered = false;
	tells(&story, "The request could not be made from the event: nothing was ever sent.");
	story = story_of("completed");
	story.tries = 1;
	story.provider_id = "ch_3N";
	tells(&story, "The provider said yes, its id is ch_3N. Tried once.");
	story.emit_failed = true;
	tells(&story, "The provider said yes, its id is ch_3N. Tried once. The event that should "
		      "follow from it was not written: the ledger's log says why.");
	story.emit_due = true;
	tells(&story, "The provider said yes, its id is ch_3N. Tried once. The event that follows "
		      "from it is still to be written.");
	story = story_of("completed");
	story.outcome = "shadow";
	tells(&story, "Recorded and rendered, and on purpose not sent: its effect was in shadow "
		      "when the event came.");
	story = story_of("cancelled");
	tells(&story, "Withdrawn by a person. Certainly not applied.");
}

static void what_persons_did(void **state)
{
	(void)state;
	struct story story = story_of("dead");
	story.tries = 1;
	story.outcome = "no_answer";
	story.resolution = "it did not happen";
	tells(&story, "A person found out that it did not happen.");
	story.resolution = "given up";
	story.note = "INC-7";
	tells(&story, "A person gave it up. Certainly not applied. Note: INC-7");
	story = story_of("completed");
	story.tries = 2;
	story.resolution = "it happened";
	story.provider_id = "ch_77";
	story.key_number = 1;
	tells(&story, "A person found out that it happened, its id is ch_77. Tried 2 times. By "
		      "order of a person its key at the provider is a new one, ~r1.");
	story = story_of("completed");
	story.tries = 1;
	story.forced = "order:1~r1";
	tells(&story, "The provider said yes. Tried once. It was done again, by order of a person: "
		      "order:1~r1.");
	story.forced = NULL;
	story.replay_of = "order:1";
	story.key_number = 1;
	tells(&story, "The provider said yes. Tried once. It repeats order:1, by order of a "
		      "person.");
}

static void nothing_needs_a_person(void **state)
{
	(void)state;
	struct attention attention;
	struct attention_facts facts = { .cap = 100000,
					 .ledgers = 2,
					 .relay = true,
					 .outbox = 3,
					 .pending = 9,
					 .in_flight = 4,
					 .outbox_oldest = USEC_SEC,
					 .next_window = USEC_NEVER };
	attention_judge(&facts, &attention);
	assert_int_equal(attention.count, 0);
}

static void says(const struct attention *attention, size_t index, const char *glyph, enum list list,
		 const char *text)
{
	assert_true(index < attention->count);
	assert_string_equal(attention->items[index].text, text);
	assert_string_equal(attention->items[index].glyph, glyph);
	assert_int_equal(attention->items[index].list, list);
}

static void the_gravest_comes_first(void **state)
{
	(void)state;
	struct attention attention;
	const struct attention_facts facts = {
		.cap = 1000,
		.uncertain = 1,
		.stale = 3,
		.pending = 2,
		.dead = 1001,
		.outbox = 57,
		.outbox_oldest = 90 * USEC_SEC,
		.next_window = 2 * USEC_HOUR,
		.poison = 1,
		.conflicts = 2,
		.targets = { { .name = "crm",
			       .reason = "http 401",
			       .held = true,
			       .probed = true,
			       .since = USEC_HOUR },
			     { .name = "hook",
			       .reason = "410 gone",
			       .held = true,
			       .since = USEC_MIN },
			     { .name = "slow",
			       .reason = "",
			       .failing = true,
			       .for_more = 21 * USEC_SEC },
			     { .name = "mail", .reason = "", .for_more = 48 * USEC_SEC } },
		.target_count = 4,
		.unmatched = { { "orders", "order.placedv2", 1204 }, { "orders", "", 1 } },
		.unmatched_count = 2,
	};
	attention_judge(&facts, &attention);
	assert_int_equal(attention.count, 13);
	says(&attention, 0, "!!", LIST_UNCERTAIN,
	     "1 uncertain key: may have happened; the first window closes in 2h 00m");
	says(&attention, 1, "!!", LIST_PENDING,
	     "no ledger is running, and keys wait: nothing is sent");
	says(&attention, 2, "!", LIST_STALE, "3 stale keys: no ledger is there to take them over");
	says(&attention, 3, "!!", LIST_COUNT,
	     "no relay publishes, and 57 outbox rows wait, the oldest for 1m 30s");
	says(&attention, 4, "!", LIST_COUNT,
	     "target crm is held for 1h 00m: http 401; opens by "
	     "itself when a key succeeds");
	says(&attention, 5, "!", LIST_COUNT, "target hook is held for 1m 00s: 410 gone");
	says(&attention, 6, "!", LIST_COUNT,
	     "target slow fails and is left alone; tried again in 21s");
	says(&attention, 7, "-", LIST_COUNT, "target mail asked for a pause, another 48s");
	says(&attention, 8, "!", LIST_DEAD,
	     "1,000 or more dead keys: certainly not applied, and given up");
	says(&attention, 9, "!", LIST_COUNT, "1 message could not be turned into effects");
	says(&attention, 10, "-", LIST_COUNT,
	     "2 events asked for a key that stands for something else");
	says(&attention, 11, "-", LIST_COUNT,
	     "1,204 events of order.placedv2 in orders matched nothing in the last hour");
	says(&attention, 12, "-", LIST_COUNT,
	     "1 event of no type in orders matched nothing in the last hour");
}

static void what_is_paused(void **state)
{
	(void)state;
	struct attention attention;
	struct attention_facts facts = {
		.cap = 1000,
		.ledgers = 1,
		.relay = true,
		.outbox_oldest = USEC_NEVER,
		.next_window = USEC_NEVER,
		.pauses = { { "everything", "", "duty1", "INC-7", 3 * USEC_MIN, 0 },
			    { "effect", "charge", "duty2", "", USEC_SEC, 1001 },
			    { "tenant", "acme", "duty1", "", USEC_HOUR, 0 } },
		.pause_count = 3,
	};
	attention_judge(&facts, &attention);
	assert_int_equal(attention.count, 3);
	says(&attention, 0, "!", LIST_COUNT, "everything is paused for 3m 00s, by duty1: INC-7");
	says(&attention, 1, "!", LIST_COUNT,
	     "effect charge is paused for 1s, by duty2; put aside: 1,000 or more keys");
	says(&attention, 2, "!", LIST_COUNT, "tenant acme is paused for 1h 00m, by duty1");
	facts.pauses[2].name = "";
	facts.pause_count = 5;
	attention_judge(&facts, &attention);
	assert_int_equal(attention.count, 4);
	says(&attention, 2, "!", LIST_COUNT, "tenant '' is paused for 1h 00m, by duty1");
	says(&attention, 3, "!", LIST_COUNT, "2 more paused: `counterfoil pause` lists all");
}

static void what_the_relay_left_out(void **state)
{
	(void)state;
	struct attention attention;
	struct attention_facts facts = {
		.cap = 1000,
		.ledgers = 1,
		.relay = true,
		.outbox_oldest = USEC_NEVER,
		.next_window = USEC_NEVER,
		.dead_rows = 1,
		.parked_rows = 1001,
		.blocked = { { "ordres", "Unknown topic", 3 * USEC_MIN },
			     { "mail", "", USEC_SEC } },
		.blocked_count = 2,
	};
	attention_judge(&facts, &attention);
	assert_int_equal(attention.count, 4);
	says(&attention, 0, "!", LIST_COUNT, "topic ordres is blocked for 3m 00s: Unknown topic");
	says(&attention, 1, "!", LIST_COUNT, "topic mail is blocked for 1s: its rows wait");
	says(&attention, 2, "!", LIST_COUNT,
	     "1 outbox row is dead: a person puts it back or discards it");
	says(&attention, 3, "-", LIST_COUNT,
	     "1,000 outbox rows or more are parked behind the dead one of the same ordering key");
	for (size_t i = 0; i < attention.count; i++)
		assert_true(attention.items[i].relay);
	facts.dead_rows = 2;
	facts.parked_rows = 1;
	facts.dead = 1;
	facts.blocked_count = 0;
	attention_judge(&facts, &attention);
	assert_int_equal(attention.count, 3);
	says(&attention, 0, "!", LIST_COUNT,
	     "2 outbox rows are dead: a person puts them back or discards them");
	says(&attention, 1, "-", LIST_COUNT,
	     "1 outbox row is parked behind dead ones of the same ordering key");
	assert_false(attention.items[2].relay);
}

static enum request asks(bool special, uint32_t code)
{
	const struct key key = { .special = special, .code = code };
	return request_of(&key);
}

static void keys_ask_for_requests(void **state)
{
	(void)state;
	assert_int_equal(asks(false, 'j'), REQUEST_DOWN);
	assert_int_equal(asks(true, KEY_DOWN), REQUEST_DOWN);
	assert_int_equal(asks(false, KEY_DOWN), REQUEST_NONE); /* U+0102 is a letter */
	assert_int_equal(asks(false, 0x1b), REQUEST_BACK);
	assert_int_equal(asks(false, 'r'), REQUEST_NONE); /* no single key changes anything */
	assert_int_equal(asks(false, 0x12), REQUEST_REFRESH);
	const struct key pasted = { .code = 'q', .pasted = true };
	assert_int_equal(request_of(&pasted), REQUEST_NONE);
}

static void every_request_has_its_words(void **state)
{
	(void)state;
	assert_non_null(request_words((enum request)0)->keys);
	for (int i = 0; i < REQUEST_COUNT; i++) {
		const struct request_words *words = request_words((enum request)i);
		assert_int_equal(!words->keys, !words->words);
	}
}

static void an_operation_is_unique(void **state)
{
	(void)state;
	struct order one, other;
	order_init(&one, ORDER_REPLAY, 7, 3, "dead");
	order_init(&other, ORDER_REPLAY, 7, 3, "dead");
	assert_int_equal(strlen(one.operation), 36);
	assert_int_equal(one.operation[14], '4');
	assert_string_not_equal(one.operation, other.operation);
}

static void lines_break_at_blanks(void **state)
{
	(void)state;
	setlocale(LC_CTYPE, "C.UTF-8");
	static const struct {
		const char *line;
		int width;
		size_t fits;
	} rows[] = {
		{ "one two three", 13, 13 },
		{ "one two three", 12, 8 },
		{ "one two three", 8, 8 },
		{ "one two three", 7, 4 },
		{ "onetwothree", 4, 4 },
		{ "世世", 1, 3 },
		{ "世世", 3, 3 },
		{ "", 5, 0 },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(text_view_break(rows[i].line, strlen(rows[i].line), rows[i].width),
				 rows[i].fits);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(why_a_key_waits),
		cmocka_unit_test(what_stops_a_key),
		cmocka_unit_test(who_has_it),
		cmocka_unit_test(what_is_uncertain),
		cmocka_unit_test(how_a_key_ended),
		cmocka_unit_test(what_persons_did),
		cmocka_unit_test(nothing_needs_a_person),
		cmocka_unit_test(the_gravest_comes_first),
		cmocka_unit_test(what_is_paused),
		cmocka_unit_test(what_the_relay_left_out),
		cmocka_unit_test(keys_ask_for_requests),
		cmocka_unit_test(every_request_has_its_words),
		cmocka_unit_test(an_operation_is_unique),
		cmocka_unit_test(lines_break_at_blanks),
	};
	return cmocka_run_group_tests_name("words", tests, NULL, NULL);
}
