/* What an effect emits, and what is done without sending. */
#include "ledger/rules_world.h"

#define EMIT(more)                                                                                 \
	"{ name = \"e\"; " ON                                                                      \
	"target = \"payments\"; key = \"${/id}\"; emit = { topic = \"done\"; "                     \
	"type = \"paid\"; " more " }; }"
#define EMITTED(key, hops, trace, payload)                                                         \
	"{\"topic\":\"done\",\"type\":\"paid\"," key                                               \
	"\"headers\":{\"content-type\":\"application/json\",\"cf-hops\":\"" hops "\"" trace        \
	"},\"payload\":\"" payload "\"}"

static void what_is_emitted_is_rendered_at_intake(void **state)
{
	(void)state;
	static const char trace[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
	static const struct {
		const char *effect, *value, *hops, *subject;
		const char *emit;
	} cases[] = {
		{ EMIT("payload = \"{\\\"o\\\":${/id}}\";"), "{\"id\":1.10}", NULL, NULL,
		  EMITTED("", "1", "", "{\\\"o\\\":1.10}") },
		{ EMIT("payload = \"{\\\"o\\\":\\\"${/id}\\\"}\";"), "{\"id\":\"a\\u0000\\\"\\n\"}",
		  NULL, "s", NULL },
		{ EMIT("payload = \"{\\\"o\\\":\\\"${/n}\\\"}\";"), "{\"id\":1,\"n\":\"a\\\"\\n\"}",
		  "3", "customer 9",
		  EMITTED("\"key\":\"customer 9\",", "4", "",
			  "{\\\"o\\\":\\\"a\\\\\\\"\\\\n\\\"}") },
		{ EMIT("payload = \"[${provider_id},\\\"${provider_id}\\\"]\"; ordering_key = "
		       "\"o-${/id}\";"),
		  "{\"id\":7}", "15", "s",
		  EMITTED("\"key\":\"o-7\",", "16", "", "[\\u0002,\\\"\\u0001\\\"]") },
		/* and where there can be none, why */
		{ EMIT("payload = \"{}\";"), "{\"id\":7}", "16", "s",
		  "!its event is the end of a chain of 16, each emitted for the one before: the "
		  "longest "
		  "that is let go on" },
		{ EMIT("payload = \"{}\";"), "{\"id\":7}", "999", "s",
		  "!its event is the end of a chain" },
		{ EMIT("payload = \"{}\";"), "{\"id\":7}", "2x", "s",
		  "!its event is the end of a chain" },
		{ EMIT("payload = \"{}\";"), "{\"id\":7}", "", "s",
		  "!its event is the end of a chain" },
		{ EMIT("payload = \"[${/none}]\";"), "{\"id\":7}", NULL, "s",
		  "!emit.payload: ${/none} finds nothing" },
		{ EMIT("payload = \"{}\"; ordering_key = \"${/none}\";"), "{\"id\":7}", NULL, "s",
		  "!emit.ordering_key: ${/none} finds nothing" },
		{ EMIT("payload = \"{}\"; ordering_key = \"${/k}\";"), "{\"id\":7,\"k\":\"a\\nb\"}",
		  NULL, "s", "!emit.ordering_key: ${/k} holds CR, LF or NUL, which no header may" },
		{ EMIT("payload = \"{}\"; ordering_key = \"${/k|}\";"), "{\"id\":7}", NULL, "s",
		  EMITTED("", "1", "", "{}") },
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct event_header headers[4] = { HEADER("ce_type", "placed") };
		struct event_source source = placed(cases[i].value);
		static struct applied applied;
		struct world world;
		size_t count = 1;
		if (cases[i].subject)
			headers[count++] = (struct event_header){ "ce_subject", cases[i].subject,
								  strlen(cases[i].subject) };
		if (cases[i].hops)
			headers[count++] = (struct event_header){ "cf-hops", cases[i].hops,
								  strlen(cases[i].hops) };
		source.headers = headers;
		source.header_count = count;
		if (!load(&world, PAYMENTS, "", cases[i].effect))
			fail_msg("%s", world.faults.data);
		if (!cases[i].emit) { /* poison: a NUL on a path that is used */
			assert_int_equal(apply(&world, &source, &applied), RULES_POISON);
			unload(&world);
			continue;
		}
		assert_int_equal(apply(&world, &source, &applied), RULES_MATCHED);
		assert_false(applied.drafts[0]
				     .dead); /* it never keeps the effect from being performed */
		const char *emit = applied.drafts[0].emit;
		if (*cases[i].emit == '!' ? strncmp(emit, cases[i].emit, strlen(cases[i].emit)) != 0
					  : strcmp(emit, cases[i].emit) != 0)
			fail_msg("case %zu: %s", i, emit);
		unload(&world);
	}

	/* the trace goes on */
	const struct event_header headers[] = { HEADER("ce_type", "placed"),
						{ "traceparent", trace, strlen(trace) } };
	struct event_source source = placed("{\"id\":1}");
	static struct applied applied;
	struct world world;
	source.headers = headers;
	source.header_count = LENGTH(headers);
	assert_true(load(&world, PAYMENTS, "", EMIT("payload = \"{}\";")));
	assert_int_equal(apply(&world, &source, &applied), RULES_MATCHED);
	assert_string_equal(applied.drafts[0].emit,
			    EMITTED("", "1",
				    ",\"traceparent\":\"00-0af7651916cd43dd8448eb211c80319c-"
				    "b7ad6b7169203331-01\"",
				    "{}"));
	unload(&world);
}

/* It goes along with the request, and is no part of it; where it is configured it is as configured.
 */
static void the_trace_goes_on_to_the_request(void **state)
{
	(void)state;
	static const char trace[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
	static const struct {
		const char *trace, *more, *line;
	} cases[] = {
		{ NULL, "", NULL },
		{ trace, "",
		  "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n" },
		{ "a\nb", "", NULL },
		{ "\xc3\xa9", "", NULL },
		{ "", "", NULL },
		{ trace, "request = { headers = ( (\"Traceparent\", \"own\") ); };",
		  "Traceparent: own\n" },
	};
	uint8_t first[EFFECT_FINGERPRINT_SIZE];
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct event_header headers[2] = { HEADER("ce_type", "placed") };
		struct event_source source = placed("{\"id\":1}");
		struct buf effect BUF_AUTO = { 0 };
		static struct applied applied;
		struct world world;
		if (cases[i].trace)
			headers[1] = (struct event_header){ "traceparent", cases[i].trace,
							    strlen(cases[i].trace) };
		source.headers = headers;
		source.header_count = cases[i].trace ? 2 : 1;
		buf_addf(&effect,
			 "{ name = \"e\"; " ON "target = \"payments\"; key = \"${/id}\"; %s }",
			 cases[i].more);
		assert_true(load(&world, PAYMENTS, "", effect.data));
		assert_int_equal(apply(&world, &source, &applied), RULES_MATCHED);
		const char *sent = applied.drafts[0].headers;
		const char *found = strcasestr(sent, "traceparent");
		if (!cases[i].line)
			assert_null(found);
		else
			assert_string_equal(found, cases[i].line);
		if (i == 0)
			memcpy(first, applied.drafts[0].fingerprint, sizeof(first));
		assert_int_equal(memcmp(first, applied.drafts[0].fingerprint, sizeof(first)) == 0,
				 !*cases[i].more);
		unload(&world);
	}
}

/* The request does not tell what follows from it: the same request is the same effect. */
static void what_is_emitted_is_not_part_of_the_request(void **state)
{
	(void)state;
	static const char *const effects[] = {
		EMIT("payload = \"{}\";"),
		EMIT("payload = \"[${/x}]\"; ordering_key = \"k\";"),
	};
	uint8_t prints[LENGTH(effects)][EFFECT_FINGERPRINT_SIZE];
	for (size_t i = 0; i < LENGTH(effects); i++) {
		struct event_source source = placed("{\"id\":1,\"x\":2}");
		static struct applied applied;
		struct world world;
		assert_true(load(&world, PAYMENTS, "", effects[i]));
		assert_int_equal(apply(&world, &source, &applied), RULES_MATCHED);
		memcpy(prints[i], applied.drafts[0].fingerprint, sizeof(prints[i]));
		unload(&world);
	}
	assert_memory_equal(prints[0], prints[1], sizeof(prints[0]));
}

/* A payload that no broker would take, or a key that no header holds, is refused before anything is
 * sent, and says so. */
static void what_is_too_large_is_not_emitted(void **state)
{
	(void)state;
	static const char *const effects[] = {
		EMIT("payload = \"\\\"${/x}\\\"\";"),
		EMIT("payload = \"{}\"; ordering_key = \"${/x}\";"),
	};
	static const char *const faults[] = { "!emit.payload: 971002 bytes long",
					      "!emit.ordering_key: 971000 bytes long" };
	struct buf value BUF_AUTO = { 0 };
	buf_add_text(&value, "{\"id\":1,\"x\":\"");
	for (int i = 0; i < 971000; i++)
		buf_add_char(&value, 'x');
	buf_add_text(&value, "\"}");
	for (size_t i = 0; i < LENGTH(effects); i++) {
		struct event_source source = placed(value.data);
		static struct applied applied;
		struct world world;
		assert_true(load(&world, PAYMENTS, "", effects[i]));
		assert_int_equal(apply(&world, &source, &applied), RULES_MATCHED);
		assert_false(applied.drafts[0].dead);
		if (strncmp(applied.drafts[0].emit, faults[i], strlen(faults[i])) != 0)
			fail_msg("%s", applied.drafts[0].emit);
		unload(&world);
	}
}

static void a_chain_that_bites_its_tail_is_warned_of(void **state)
{
	(void)state;
	static const struct {
		const char *effect;
		bool warns;
	} cases[] = {
		{ "emit = { topic = \"orders\"; type = \"placed\"; payload = \"{}\"; };", true },
		{ "emit = { topic = \"orders\"; type = \"paid\"; payload = \"{}\"; };", false },
		{ "emit = { topic = \"other\"; type = \"placed\"; payload = \"{}\"; };", false },
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct world world;
		struct buf effect BUF_AUTO = { 0 };
		buf_addf(&effect,
			 "{ name = \"e\"; on = { topic = \"orders\"; type = \"placed\"; }; "
			 "target = \"payments\"; retention = \"forever\"; key = \"${/id}\"; %s }",
			 cases[i].effect);
		if (!load(&world, PAYMENTS, "", effect.data))
			fail_msg("%s", world.faults.data);
		assert_int_equal(strstr(buf_text(&world.warnings),
					"leads to this very effect again") != NULL,
				 cases[i].warns);
		unload(&world);
	}
}

static void a_shadow_is_known_from_the_start(void **state)
{
	(void)state;
	struct world world;
	assert_true(load(&world, PAYMENTS, "",
			 "{ name = \"e\"; " ON
			 "target = \"payments\"; key = \"${/id}\"; shadow = true; }, "
			 "{ name = \"f\"; " ON "target = \"payments\"; key = \"${/id}\"; }"));
	assert_true(rules_find(world.rules, "e", 1)->shadow);
	assert_false(rules_find(world.rules, "f", 1)->shadow);
	unload(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_emitted_is_rendered_at_intake),
		cmocka_unit_test(the_trace_goes_on_to_the_request),
		cmocka_unit_test(what_is_emitted_is_not_part_of_the_request),
		cmocka_unit_test(what_is_too_large_is_not_emitted),
		cmocka_unit_test(a_chain_that_bites_its_tail_is_warned_of),
		cmocka_unit_test(a_shadow_is_known_from_the_start),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
