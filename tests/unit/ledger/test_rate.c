/* The token bucket: no second sees more than the rate and a bucket, alone or with others. */
#include "targets/rate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define NOW     (1000 * USEC_SEC)
#define MOST    4
#define SECONDS 20

static struct rate rate_of(int64_t events, usec_t period)
{
	const struct conf_rate conf = { .events = events, .period = period };
	struct rate rate;
	rate_init(&rate, &conf);
	rate_join(&rate, NOW, 0);
	return rate;
}

static void no_rate_is_no_limit(void **state)
{
	(void)state;
	struct rate rate = rate_of(0, 0);
	rate_share(&rate, 3, NOW);
	rate_take(&rate, 1000000, NOW);
	rate_put_back(&rate, 5, NOW);
	assert_int_equal(rate_tokens(&rate, NOW), INT64_MAX);
	assert_int_equal(rate_wait(&rate, NOW), 0);
}

static void tokens_come_one_by_one_and_are_not_saved_up(void **state)
{
	(void)state;
	static const struct {
		int64_t events;
		usec_t period, passed;
		int64_t ledgers, tokens;
	} cases[] = {
		{ 25, USEC_SEC, 0, 1, 0 },
		{ 25, USEC_SEC, 40 * USEC_MS - 1, 1, 0 },
		{ 25, USEC_SEC, 40 * USEC_MS, 1, 1 },
		{ 25, USEC_SEC, USEC_HOUR, 1, 1 }, /* a twentieth of a second's worth */
		{ 1000, USEC_SEC, 10 * USEC_MS, 1, 10 },
		{ 1000, USEC_SEC, USEC_HOUR, 1, 50 },
		{ 1000, USEC_SEC, USEC_HOUR, 2, 25 },
		{ 3, USEC_SEC, 333333, 1, 0 },
		{ 3, USEC_SEC, 333334, 1, 1 },
		{ 3, USEC_SEC, 666667, 2, 1 },
		{ 3, USEC_SEC, 666666, 2, 0 },
		{ 1, USEC_HOUR, USEC_HOUR - 1, 1, 0 },
		{ 1, USEC_HOUR, USEC_HOUR, 1, 1 },
		{ 1000000, USEC_SEC, 100 * USEC_DAY, 1, 50000 },
		{ 600, USEC_MIN, 100 * USEC_MS, 1, 1 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rate rate = rate_of(cases[i].events, cases[i].period);
		rate_share(&rate, cases[i].ledgers, NOW);
		assert_int_equal(rate_tokens(&rate, NOW + cases[i].passed), cases[i].tokens);
	}
}

static void the_wait_is_exact(void **state)
{
	(void)state;
	static const int64_t events[] = { 1, 3, 7, 25, 999, 1000000 };
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		struct rate rate = rate_of(events[i], USEC_SEC);
		rate_share(&rate, 3, NOW);
		const usec_t wait = rate_wait(&rate, NOW);
		assert_true(wait > 0);
		assert_int_equal(rate_tokens(&rate, NOW + wait - 1), 0);
		assert_true(rate_tokens(&rate, NOW + wait) > 0);
		assert_int_equal(rate_wait(&rate, NOW + wait), 0);
	}
}

static void what_a_claim_did_not_get_is_given_back(void **state)
{
	(void)state;
	struct rate rate = rate_of(100, USEC_SEC);
	usec_t now = NOW + USEC_SEC;
	assert_int_equal(rate_tokens(&rate, now), 5);
	rate_take(&rate, 5, now);
	assert_int_equal(rate_tokens(&rate, now), 0);
	rate_put_back(&rate, 4, now + USEC_MS);
	assert_int_equal(rate_tokens(&rate, now + USEC_MS), 4);
	rate_put_back(&rate, 4, now + USEC_MS); /* never more than the bucket holds */
	assert_int_equal(rate_tokens(&rate, now + USEC_MS), 5);
	assert_int_equal(rate_tokens(&rate, now + USEC_SEC), 5);
}

static void whoever_comes_anew_waits(void **state)
{
	(void)state;
	struct rate rate = rate_of(25, USEC_SEC);
	rate_join(&rate, NOW, 2 * USEC_SEC);
	rate_share(&rate, 2, NOW + USEC_SEC); /* a reading in between changes nothing of it */
	rate_put_back(&rate, 1, NOW + USEC_SEC);
	assert_int_equal(rate_tokens(&rate, NOW + 2 * USEC_SEC - 1), 0);
	rate_take(&rate, 1, NOW + 2 * USEC_SEC);
	assert_int_equal(rate_tokens(&rate, NOW + 2 * USEC_SEC + 80 * USEC_MS - 1), 0);
	assert_int_equal(rate_tokens(&rate, NOW + 2 * USEC_SEC + 80 * USEC_MS), 1);
	assert_int_equal(rate_wait(&rate, NOW + 2 * USEC_SEC + 30 * USEC_MS), 50 * USEC_MS);
}

/* Ledgers come and go, each asks at random times and takes what it may. */
static void no_second_sees_more(void **state)
{
	(void)state;
	static const int64_t rates[] = { 1, 7, 25, 300 };
	for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
		const int64_t events = rates[r], bucket = events / 20 > 1 ? events / 20 : 1;
		struct rate ledgers[MOST];
		int64_t *sent = calloc((SECONDS + 1) * 1000, sizeof(*sent)), total = 0;
		size_t living = 1;
		assert_non_null(sent);
		for (size_t i = 0; i < MOST; i++)
			ledgers[i] = rate_of(events, USEC_SEC);
		srandom(1);
		for (int64_t ms = 0; ms < SECONDS * 1000; ms++) {
			const usec_t now = NOW + ms * USEC_MS;
			if (ms % 5000 == 0) {
				living = (size_t)(ms / 5000) % MOST + 1;
				rate_join(&ledgers[living - 1], now, living > 1 ? 2 * USEC_SEC : 0);
				for (size_t i = 0; i < living; i++)
					rate_share(&ledgers[i], (int64_t)living, now);
			}
			for (size_t i = 0; i < living; i++) {
				if (random() % 3)
					continue;
				const int64_t tokens = rate_tokens(&ledgers[i], now);
				const int64_t got = tokens ? 1 + random() % tokens : 0;
				rate_take(&ledgers[i], tokens, now);
				rate_put_back(&ledgers[i], tokens - got, now);
				sent[ms] += got;
				total += got;
			}
			int64_t second = 0;
			for (int64_t back = ms; back >= 0 && back > ms - 1000; back--)
				second += sent[back];
			assert_true(second <= events + bucket + MOST);
		}
		/* nor much less, but for the seconds in which newcomers wait */
		assert_true(total >= events * (SECONDS - 8) / 2);
		free(sent);
	}
}

static void a_survivor_has_the_whole_rate(void **state)
{
	(void)state;
	struct rate rate = rate_of(10, USEC_SEC);
	int64_t sent[2] = { 0 };
	rate_share(&rate, 2, NOW);
	for (usec_t at = 0; at < 20 * USEC_SEC; at += 10 * USEC_MS) {
		if (at == 10 * USEC_SEC)
			rate_share(&rate, 1, NOW + at);
		const int64_t tokens = rate_tokens(&rate, NOW + at);
		rate_take(&rate, tokens, NOW + at);
		sent[at / (10 * USEC_SEC)] += tokens;
	}
	assert_in_range(sent[0], 49, 51);
	assert_in_range(sent[1], 99, 101);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_rate_is_no_limit),
		cmocka_unit_test(tokens_come_one_by_one_and_are_not_saved_up),
		cmocka_unit_test(the_wait_is_exact),
		cmocka_unit_test(what_a_claim_did_not_get_is_given_back),
		cmocka_unit_test(whoever_comes_anew_waits),
		cmocka_unit_test(no_second_sees_more),
		cmocka_unit_test(a_survivor_has_the_whole_rate),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
