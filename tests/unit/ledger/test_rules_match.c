/* Which effects an event meets, and of which target. */
#include "ledger/rules_world.h"

static const char routed[] =
	EFFECT("one", "topic = \"orders\"; type = \"placed\";", "") ", " EFFECT(
		"two", "topic = \"orders\"; type = (\"placed\", \"paid\");",
		"") ", " EFFECT("any", "topic = \"orders\";",
				"") ", " EFFECT("gone", "topic = \"orders\"; type = \"gone\";",
						"tombstone = true;") ", " EFFECT("other",
										 "topic = "
										 "\"users\"; type "
										 "= \"placed\";",
										 "");

static void events_find_their_effects(void **state)
{
	(void)state;
	static const struct {
		const char *topic, *type, *value;
		const char *effects;
	} cases[] = {
		{ "orders", "placed", "x", "one two any " },
		{ "orders", "paid", "x", "two any " },
		{ "orders", "gone", "x", "any gone " },
		{ "orders", "gone", NULL, "gone " },
		{ "orders", "placed", NULL, "" },
		{ "orders", "Placed", "x", "any " },
		{ "orders", "", "x", "any " },
		{ "users", "placed", "x", "other " },
		{ "users", "paid", "x", "" },
		{ "users", "", "x", "" },
		{ "elsewhere", "placed", "x", "" },
	};
	struct world world;
	static struct applied applied;

	if (!load(&world, PAYMENTS, "", routed))
		fail_msg("%s", world.faults.data);
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct event_header header = { "ce_type", cases[i].type, strlen(cases[i].type) };
		struct event_source source = placed(cases[i].value);
		char names[64] = "";
		source.topic = cases[i].topic;
		source.headers = &header;
		source.header_count = 1;
		enum rules_verdict verdict = apply(&world, &source, &applied);
		for (size_t k = 0; k < applied.count; k++)
			(void)snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s ",
				       applied.drafts[k].effect);
		assert_string_equal(names, cases[i].effects);
		assert_int_equal(verdict, *cases[i].effects ? RULES_MATCHED : RULES_UNMATCHED);
	}
	assert_int_equal(rules_topic_count(world.rules), 2);
	assert_string_equal(rules_topic(world.rules, 0), "orders");
	assert_string_equal(rules_topic(world.rules, 1), "users");
	assert_int_equal(rules_target_count(world.rules), 1);
	assert_string_equal(rules_target(world.rules, 0)->base, "https://pay.test/api");
	assert_string_equal(rules_find(world.rules, "two!", 3)->conf->name, "two");
	assert_null(rules_find(world.rules, "tw", 2));
	assert_null(rules_find(world.rules, "twoo", 4));
	assert_null(rules_find(world.rules, "", 0));
	unload(&world);
}

/* A value that cannot be read is poison for those who read it, and no one else. (L17) */
static void poison_for_one_is_not_poison_for_all(void **state)
{
	(void)state;
	static const char effects[] =
		EFFECT("blind", "topic = \"orders\"; type = \"placed\";",
		       "") ", "
			   "{ name = \"reads\"; " ON
			   "target = \"payments\"; key = \"r:${/id}\"; }, "
			   "{ name = \"too\"; " ON
			   "target = \"payments\"; key = \"t:${event_id}\"; "
			   "request = { path = \"/${/id}\"; }; }, " EFFECT(
				   "elsewhere", "topic = \"orders\"; type = \"paid\";",
				   "request = { path = \"/${/dup}\"; };");
	struct world world;
	static struct applied applied;
	struct event_source broken = placed("{"), whole = placed("{\"id\":1,\"dup\":1,\"dup\":2}");
	struct event_source lacking = placed("{}");

	if (!load(&world, PAYMENTS, "", effects))
		fail_msg("%s", world.faults.data);
	assert_int_equal(apply(&world, &broken, &applied), RULES_POISON);
	assert_int_equal(applied.count, 1);
	assert_string_equal(applied.drafts[0].effect, "blind");
	assert_non_null(strstr(applied.why.text, "effect \"reads\": the value cannot be read"));
	assert_non_null(strstr(applied.why.text, "; effect \"too\": the value cannot be read"));
	/* A member that only the effect of another type reads is not looked at. */
	assert_int_equal(apply(&world, &whole, &applied), RULES_MATCHED);
	assert_int_equal(applied.count, 3);
	/* The key's pointer is missing: poison for one; the path's: dead. */
	assert_int_equal(apply(&world, &lacking, &applied), RULES_POISON);
	assert_int_equal(applied.count, 2);
	assert_string_equal(applied.why.text, "effect \"reads\": key: ${/id} finds nothing");
	assert_true(applied.drafts[1].dead);
	assert_string_equal(applied.drafts[1].why, "request.path: ${/id} finds nothing");
	unload(&world);
}

static void tombstones_hold_nothing(void **state)
{
	(void)state;
	static const char effects[] =
		"{ name = \"gone\"; " ON "target = \"payments\"; key = \"${subject}:${/v|none}\"; "
		"tombstone = true; request = { method = \"DELETE\"; path = \"/c/${subject}\"; "
		"body = \"\"; }; }, "
		"{ name = \"strict\"; " ON "target = \"payments\"; key = \"${/id}\"; "
		"tombstone = true; }";
	struct world world;
	static struct applied applied;
	struct event_source source = placed(NULL);

	source.key = "c 1";
	source.key_length = 3;
	if (!load(&world, PAYMENTS, "", effects))
		fail_msg("%s", world.faults.data);
	assert_int_equal(apply(&world, &source, &applied), RULES_POISON);
	assert_int_equal(applied.count, 1);
	assert_string_equal(applied.drafts[0].key, "c%201:none");
	assert_string_equal(applied.drafts[0].url, "https://pay.test/api/c/c%201");
	assert_string_equal(applied.drafts[0].headers, "Stripe-Version: 2023\nX-Own: target\n");
	assert_string_equal(applied.why.text, "effect \"strict\": key: ${/id} finds nothing");
	unload(&world);
}

static void not_after_counts_from_the_event(void **state)
{
	(void)state;
	static const char effects[] = "{ name = \"e\"; " ON "target = \"payments\"; "
				      "key = \"${event_id}\"; not_after = \"100y\"; }";
	static const struct {
		const char *time;
		usec_t sent_at;
		usec_t not_after;
	} cases[] = {
		{ "1970-01-01T00:00:01Z", 5, USEC_SEC + 36500 * USEC_DAY },
		{ "junk", 5, 5 + 36500 * USEC_DAY },
		{ "junk", USEC_NEVER, NOW + 36500 * USEC_DAY },
		{ "junk", USEC_NEVER - 1, USEC_NEVER },
	};
	struct world world;
	static struct applied applied;

	if (!load(&world, PAYMENTS, "", effects))
		fail_msg("%s", world.faults.data);
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct event_header headers[] = {
			HEADER("ce_type", "placed"),
			{ "ce_time", cases[i].time, strlen(cases[i].time) },
		};
		struct event_source source = placed("x");
		source.headers = headers;
		source.header_count = 2;
		source.sent_at = cases[i].sent_at;
		assert_int_equal(apply(&world, &source, &applied), RULES_MATCHED);
		assert_true(applied.drafts[0].not_after == cases[i].not_after);
	}
	unload(&world);
}

static void a_target_is_known_by_its_former_names(void **state)
{
	(void)state;
	struct world world;
	if (!load(&world,
		  "{ name = \"payments\"; url = \"https://pay.test\"; "
		  "profile = \"stripe-v1\"; alias = (\"stripe\", \"money\"); }",
		  "", "{ name = \"e\"; " ON "target = \"payments\"; key = \"${/id}\"; }"))
		fail_msg("%s", world.faults.data);
	const struct target *target = rules_target(world.rules, 0);
	assert_string_equal(target_name(target, 0), "stripe"); /* as new keys are recorded */
	assert_string_equal(target_name(target, 1), "money");
	assert_string_equal(target_name(target, 2), "payments");
	assert_null(target_name(target, 3));
	assert_ptr_equal(rules_target_called(world.rules, "money"), target);
	assert_ptr_equal(rules_target_called(world.rules, "payments"), target);
	assert_null(rules_target_called(world.rules, "another"));
	unload(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_find_their_effects),
		cmocka_unit_test(poison_for_one_is_not_poison_for_all),
		cmocka_unit_test(tombstones_hold_nothing),
		cmocka_unit_test(not_after_counts_from_the_event),
		cmocka_unit_test(a_target_is_known_by_its_former_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
