/* The times of a target's claims. */
#include "execution/claim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static char payments[] = "payments", mails[] = "mails";

struct fixture {
	struct conf_profile profile;
	struct conf_target target_conf;
	struct target target;
	struct conf_effect effects[3];
	struct conf conf;
};

/* Two effects of the target and one of another. */
static void set_up(struct fixture *f)
{
	*f = (struct fixture){
		.profile = { .window = USEC_DAY },
		.target_conf = { .name = payments,
				 .connect_timeout = 3 * USEC_SEC,
				 .timeout = 30 * USEC_SEC },
		.effects = {
			{ .target = payments,
			  .retry = { .strategy = CONF_RETRY_FIXED, .first = USEC_MIN } },
			{ .target = payments,
			  .retry = { .strategy = CONF_RETRY_EXPONENTIAL, .max = 10 * USEC_MIN } },
			{ .target = mails,
			  .retry = { .strategy = CONF_RETRY_EXPONENTIAL, .max = USEC_DAY } },
		},
	};
	f->target = (struct target){ .conf = &f->target_conf, .profile = &f->profile };
	f->conf = (struct conf){ .ledger = { .lease = 10 * USEC_SEC },
				 .effects = f->effects,
				 .effect_count = 3 };
}

static struct claim_plan plan_of(const struct fixture *f)
{
	struct claim_plan plan;
	claim_plan(&f->conf, &f->target, &plan);
	return plan;
}

static void the_margin_is_the_widest_of_the_targets_effects(void **state)
{
	(void)state;
	struct fixture f;
	set_up(&f);
	const struct claim_plan plan = plan_of(&f);
	assert_int_equal(plan.window, USEC_DAY);
	for (size_t i = 0; i < 2; i++)
		assert_true(plan.margin >= life_margin(&f.effects[i].retry, 3 * USEC_SEC,
						       30 * USEC_SEC, USEC_DAY));
	assert_int_equal(plan.margin - 10 * USEC_SEC, /* the lease */
			 life_margin(&f.effects[1].retry, 3 * USEC_SEC, 30 * USEC_SEC, USEC_DAY));
}

static void a_target_without_effects_still_has_its_timeouts(void **state)
{
	(void)state;
	struct fixture f;
	set_up(&f);
	f.conf.effect_count = 0;
	/* and the lease: a claim may be sent as long after it was asked for */
	assert_int_equal(plan_of(&f).margin, 43 * USEC_SEC + USEC_DAY / 10);
}

static void no_window_is_none_and_an_endless_one_is_endless(void **state)
{
	(void)state;
	struct fixture f;
	set_up(&f);
	f.profile.window = 0;
	assert_int_equal(plan_of(&f).window, 0); /* nothing is ever sent twice */
	f.profile.window = USEC_NEVER;
	assert_int_equal(plan_of(&f).window, USEC_NEVER);
	assert_true(plan_of(&f).margin < USEC_DAY);
}

/* L37: whatever is configured, a claim outlives its request, started at the last allowed moment. */
static void the_deadline_is_longer_than_the_request(void **state)
{
	(void)state;
	static const usec_t times[] = { 1, USEC_MS, USEC_SEC, 30 * USEC_SEC, 6 * USEC_HOUR };
	const size_t count = sizeof(times) / sizeof(times[0]);
	for (size_t i = 0; i < count * count * count; i++) {
		struct fixture f;
		set_up(&f);
		f.target_conf.connect_timeout = times[i % count];
		f.target_conf.timeout = times[i / count % count];
		f.conf.ledger.lease = times[i / count / count];
		const struct claim_plan plan = plan_of(&f);
		assert_true(plan.length >=
			    plan.spare + f.target_conf.connect_timeout + f.target_conf.timeout);
		assert_true(plan.spare > 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_margin_is_the_widest_of_the_targets_effects),
		cmocka_unit_test(a_target_without_effects_still_has_its_timeouts),
		cmocka_unit_test(no_window_is_none_and_an_endless_one_is_endless),
		cmocka_unit_test(the_deadline_is_longer_than_the_request),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
