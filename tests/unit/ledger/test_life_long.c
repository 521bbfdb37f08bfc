/* The life of a key, by every short sequence of answers, and at random against a provider. */
#include "usual_life.h"

#include "provider_model.h"

/* --- every short sequence ------------------------------------------------------------------- */

static void begin_claim(struct life *life, usec_t now)
{
	life->sent = true;
	life->tries++;
	life->unknown_sends++;
	if (life->first_sent_at == USEC_NEVER) {
		life->first_sent_at = now;
		life->window_until = life->mode == EFFECT_IDEMPOTENT ? now + USEC_DAY : USEC_NEVER;
	}
}

static void take_step(struct life *life, const struct life_step *step)
{
	life->unknown_sends += step->unknown_delta;
	life->attempts += step->attempts_delta;
	life->throttled += step->throttled_delta;
	life->stalled += step->stalled_delta;
	life->sent = false;
	assert_true(life->unknown_sends >= 0);
	assert_true(life->attempts >= 0);
}

/* What no step may ever break. */
static void check_step(const struct life *after, const struct life_policy *policy,
		       const struct life_step *step, usec_t now)
{
	const int32_t unknown = after->unknown_sends + after->unknown_before;
	const bool waits = step->state == EFFECT_RETRY_WAIT || step->state == EFFECT_PENDING;
	if (step->state == EFFECT_DEAD)
		assert_int_equal(unknown, 0);
	if (step->state == EFFECT_UNCERTAIN)
		assert_true(unknown > 0);
	if (!waits)
		return;
	assert_true(step->due_at >= now);
	assert_true(step->due_at < after->not_after);
	if (after->unknown_sends > 0) {
		assert_true(after->mode != EFFECT_AT_MOST_ONCE || after->resend);
		if (after->window_until != USEC_NEVER)
			assert_true(step->due_at <= after->window_until - policy->margin);
	}
}

/* Counted apart from the machine: may anything that was sent so far have been applied? */
static bool may_be_applied(bool before, const struct verdict *verdict, bool sent)
{
	switch (verdict->outcome) {
	case OUTCOME_NOT_SENT:
	case OUTCOME_ABORTED:
	case OUTCOME_THROTTLED:
	case OUTCOME_TRY_LATER:
	case OUTCOME_MISMATCH:
	case OUTCOME_CREDENTIALS:
	case OUTCOME_FORBIDDEN:
	case OUTCOME_UNRENDERED:
	case OUTCOME_SHADOW:
		return before;
	case OUTCOME_REFUSED:
		return before && !verdict->settles_key;
	case OUTCOME_LOST:
		return before || sent;
	case OUTCOME_APPLIED:
	case OUTCOME_NO_ANSWER:
	case OUTCOME_SERVER_ERROR:
	case OUTCOME_IN_PROGRESS:
	case OUTCOME_UNREADABLE:
	case OUTCOME_COUNT:
		break;
	}
	return true;
}

struct walk {
	const struct life_policy *policy;
	uint64_t sequences;
};

/* One of the answers that there are, numbered. A loss may have come before the marker, where that
 * is a step of its own. */
static struct verdict answer_of(int i, struct life *life)
{
	const enum outcome outcome = (enum outcome)(i / 2);
	struct verdict verdict = { .outcome = outcome };
	verdict.unsent = outcome == OUTCOME_NOT_SENT || outcome == OUTCOME_ABORTED ||
			 outcome == OUTCOME_SHADOW;
	if (outcome == OUTCOME_REFUSED || outcome == OUTCOME_APPLIED) {
		verdict.settles_key = i % 2;
	} else if (outcome == OUTCOME_SERVER_ERROR || outcome == OUTCOME_UNREADABLE) {
		verdict.replayed = i % 2;
	} else if (outcome == OUTCOME_CREDENTIALS) {
		verdict.unsent = i % 2;
	} else if (outcome == OUTCOME_LOST && life->mode == EFFECT_AT_MOST_ONCE && i % 2) {
		life->sent = false;
		life->unknown_sends--;
	} else {
		verdict.retry_after = i % 2 ? 7 * USEC_HOUR : 0;
	}
	return verdict;
}

/* No dead key was ever applied, and none that a person may cancel: one that waits with every send
 * accounted for. */
static void check_world(const struct life *after, const struct life_step *step, bool applied)
{
	if (step->state == EFFECT_DEAD)
		assert_false(applied);
	if (step->state == EFFECT_RETRY_WAIT || step->state == EFFECT_PENDING)
		assert_true(!applied || after->unknown_sends + after->unknown_before > 0);
}

static void walk(struct walk *w, const struct life *from, bool applied, usec_t now, int depth)
{
	for (int i = 0; i < OUTCOME_COUNT * 2; i++) {
		struct life life = *from;
		struct life_step step;
		begin_claim(&life, now);
		const struct verdict verdict = answer_of(i, &life);
		const bool maybe = may_be_applied(applied, &verdict, life.sent);
		life_result(&life, w->policy, &verdict, now, (uint64_t)now * 7919, &step);
		take_step(&life, &step);
		check_step(&life, w->policy, &step, now);
		check_world(&life, &step, maybe || life.unknown_before > 0);
		w->sequences++;
		if (depth > 1 && (step.state == EFFECT_RETRY_WAIT || step.state == EFFECT_PENDING))
			walk(w, &life, maybe, step.due_at, depth - 1);
	}
}

static void every_sequence_of_four(void **state)
{
	(void)state;
	static const enum conf_retry_strategy strategies[] = { CONF_RETRY_NONE, CONF_RETRY_FIXED,
							       CONF_RETRY_EXPONENTIAL };
	static const int64_t budgets[] = { 1, 2, 3, 12 };
	static const int32_t before[] = { 0, 1 };
	static const usec_t ends[] = { USEC_NEVER, NOW + USEC_HOUR, NOW + 30 * USEC_HOUR };
	uint64_t sequences = 0;
	for (int mode = 0; mode <= EFFECT_MODE_COUNT; mode++) {
		const bool resend = mode == EFFECT_MODE_COUNT; /* of at_most_once */
		for (size_t i = 0;
		     i < COUNT(strategies) * COUNT(budgets) * COUNT(before) * COUNT(ends); i++) {
			struct life_policy policy = usual;
			policy.retry.strategy = strategies[i % 3];
			policy.retry.attempts = budgets[i / 3 % 4];
			policy.stores_errors = i / 12 % 2;
			struct walk w = { .policy = &policy };
			const struct life life = { .mode = resend ? EFFECT_AT_MOST_ONCE
								  : (enum effect_mode)mode,
						   .resend = resend,
						   .unknown_before = before[i / 12 % 2],
						   .window_until = USEC_NEVER,
						   .first_sent_at = USEC_NEVER,
						   .not_after = ends[i / 24] };
			walk(&w, &life, false, NOW, 4);
			sequences += w.sequences;
		}
	}
	assert_true(sequences > 1000000);
}

/* --- at random, against a provider --------------------------------------------------------------
 */

static void at_random_against_a_provider(void **state)
{
	(void)state;
	struct model_totals totals = { 0 };
	for (uint64_t seed = 1; seed <= 600000; seed++) {
		const char *fault = model_run(seed, &totals);
		if (fault)
			fail_msg("seed %llu: %s", (unsigned long long)seed, fault);
	}
	for (int kind = 0; kind < MODEL_KIND_COUNT; kind++) {
		const struct model_ends *ends = &totals.ends[kind];
		print_message("%s: completed %ld, dead %ld, uncertain %ld, twice %ld\n",
			      model_kinds[kind], ends->completed, ends->dead, ends->uncertain,
			      ends->twice);
		/* it is worth something only if all of it was met */
		assert_true(ends->completed > 3000 && ends->dead > 3000);
		assert_true(ends->uncertain > 3000);
	}
	print_message("sends %ld, windows %ld, forgotten %ld, settled %ld, unmarked %ld\n",
		      totals.sends, totals.windows, totals.forgotten, totals.settled,
		      totals.unmarked);
	print_message("replayed %ld, with a new key %ld, of these uncertain %ld\n", totals.again,
		      totals.anew, totals.accepted);
	assert_int_equal(totals.ends[MODEL_IDEMPOTENT].twice, 0);
	assert_int_equal(totals.ends[MODEL_ONCE].twice, 0);
	assert_true(totals.ends[MODEL_RESENT].twice > 500 && totals.unmarked > 500);
	assert_true(totals.windows > 500 && totals.forgotten > 500 && totals.settled > 500);
	assert_true(totals.again > 3000 && totals.anew > totals.accepted + 3000);
	assert_true(totals.accepted > 3000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_sequence_of_four),
		cmocka_unit_test(at_random_against_a_provider),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
