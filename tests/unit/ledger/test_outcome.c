/* The outcome table, by mode and by what the provider stores. */
#include "outcome/outcome.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char status_409[] = "409", status_422[] = "422";
static char *in_progress[] = { status_409 };
static char *mismatch[] = { status_422 };

static struct conf_profile profile_of(enum conf_stores stores)
{
	return (struct conf_profile){ .window = USEC_DAY,
				      .stores = stores,
				      .in_progress = { in_progress, COUNT(in_progress) },
				      .mismatch = { mismatch, COUNT(mismatch) } };
}

static struct verdict judge(const struct conf_profile *profile, const char *method,
			    enum effect_mode mode, int status, bool replayed)
{
	const struct answer answer = { .end = TRANSFER_DONE,
				       .status = status,
				       .replayed = replayed };
	struct verdict verdict;
	memset(&verdict, 0xa5, sizeof(verdict));
	outcome_of(&answer, profile, method, mode, "", 0, &verdict);
	return verdict;
}

static void statuses_have_their_outcome(void **state)
{
	(void)state;
	static const struct {
		int status;
		enum outcome outcome;
		const char *error_class;
		bool settles[3]; /* where the provider stores none, 2xx, all */
	} rows[] = {
		{ 200, OUTCOME_APPLIED, "", { false, true, true } },
		{ 201, OUTCOME_APPLIED, "", { false, true, true } },
		{ 202, OUTCOME_APPLIED, "", { false, true, true } },
		{ 204, OUTCOME_APPLIED, "", { false, true, true } },
		{ 299, OUTCOME_APPLIED, "", { false, true, true } },
		{ 300, OUTCOME_REFUSED, "http 300", { 0 } },
		{ 301, OUTCOME_REFUSED, "http 301", { 0 } },
		{ 302, OUTCOME_SERVER_ERROR, "http 302", { 0 } },
		{ 303, OUTCOME_SERVER_ERROR, "http 303", { 0 } },
		{ 304, OUTCOME_REFUSED, "http 304", { 0 } },
		{ 307, OUTCOME_REFUSED, "http 307", { 0 } },
		{ 308, OUTCOME_REFUSED, "http 308", { 0 } },
		{ 400, OUTCOME_REFUSED, "http 400", { false, false, true } },
		{ 401, OUTCOME_CREDENTIALS, "http 401", { 0 } },
		{ 402, OUTCOME_REFUSED, "http 402", { false, false, true } },
		{ 403, OUTCOME_FORBIDDEN, "http 403", { 0 } },
		{ 404, OUTCOME_REFUSED, "http 404", { 0 } },
		{ 405, OUTCOME_REFUSED, "http 405", { 0 } },
		{ 408, OUTCOME_SERVER_ERROR, "http 408", { 0 } },
		{ 409, OUTCOME_IN_PROGRESS, "in progress", { 0 } },
		{ 410, OUTCOME_REFUSED, "http 410", { false, false, true } },
		{ 413, OUTCOME_REFUSED, "http 413", { 0 } },
		{ 417, OUTCOME_REFUSED, "http 417", { 0 } },
		{ 418, OUTCOME_REFUSED, "http 418", { 0 } },
		{ 421, OUTCOME_TRY_LATER, "http 421", { 0 } },
		{ 422, OUTCOME_MISMATCH, "key mismatch", { 0 } },
		{ 425, OUTCOME_TRY_LATER, "http 425", { 0 } },
		{ 429, OUTCOME_THROTTLED, "http 429", { 0 } },
		{ 451, OUTCOME_REFUSED, "http 451", { 0 } },
		{ 499, OUTCOME_REFUSED, "http 499", { 0 } },
		{ 500, OUTCOME_SERVER_ERROR, "http 500", { 0 } },
		{ 501, OUTCOME_REFUSED, "http 501", { 0 } },
		{ 502, OUTCOME_NO_ANSWER, "http 502", { 0 } },
		{ 503, OUTCOME_SERVER_ERROR, "http 503", { 0 } },
		{ 504, OUTCOME_NO_ANSWER, "http 504", { 0 } },
		{ 505, OUTCOME_REFUSED, "http 505", { 0 } },
		{ 507, OUTCOME_SERVER_ERROR, "http 507", { 0 } },
		{ 520, OUTCOME_SERVER_ERROR, "http 520", { 0 } },
		{ 599, OUTCOME_SERVER_ERROR, "http 599", { 0 } },
		/* no HTTP at all */
		{ 0, OUTCOME_NO_ANSWER, "http 0", { 0 } },
		{ 101, OUTCOME_NO_ANSWER, "http 101", { 0 } },
		{ 600, OUTCOME_NO_ANSWER, "http 600", { 0 } },
		{ 999, OUTCOME_NO_ANSWER, "http 999", { 0 } },
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		for (int stores = CONF_STORES_NONE; stores <= CONF_STORES_ALL; stores++) {
			const struct conf_profile profile = profile_of((enum conf_stores)stores);
			const struct verdict verdict =
				judge(&profile, "POST", EFFECT_IDEMPOTENT, rows[i].status, false);
			if (verdict.outcome != rows[i].outcome ||
			    verdict.settles_key != rows[i].settles[stores] ||
			    strcmp(verdict.error_class, rows[i].error_class) != 0 ||
			    verdict.unsent || verdict.replayed)
				fail_msg("%d, stores %d: %s, settles %d, %s", rows[i].status,
					 stores, outcome_name(verdict.outcome), verdict.settles_key,
					 verdict.error_class);
		}
	}
}

/* The same words where no key is honoured; but no answer speaks for any send but its own, unless
 * all of them did the very same. */
static void modes_without_a_key(void **state)
{
	(void)state;
	const struct conf_profile profile = profile_of(CONF_STORES_ALL);
	for (int status = 0; status <= 999; status++) {
		const enum outcome usual =
			judge(&profile, "PUT", EFFECT_IDEMPOTENT, status, false).outcome;
		for (int replayed = 0; replayed <= 1; replayed++) {
			struct verdict verdict =
				judge(&profile, "PUT", EFFECT_AT_MOST_ONCE, status, replayed != 0);
			assert_false(verdict.settles_key);
			if (!replayed)
				assert_int_equal(verdict.outcome, usual);
			verdict = judge(&profile, "PUT", EFFECT_NATURAL, status, replayed != 0);
			assert_int_equal(verdict.settles_key, verdict.outcome == OUTCOME_APPLIED);
			if (!replayed)
				assert_int_equal(verdict.outcome, usual);
		}
	}
}

/* What a provider has stored for the key is about the key and not about the target. */
static void stored_answers_are_about_the_key(void **state)
{
	(void)state;
	static const struct {
		int status;
		enum outcome outcome;
		bool settles;
	} rows[] = {
		{ 200, OUTCOME_APPLIED, true },       { 400, OUTCOME_REFUSED, true },
		{ 401, OUTCOME_REFUSED, true },       { 403, OUTCOME_REFUSED, true },
		{ 404, OUTCOME_REFUSED, true },       { 408, OUTCOME_SERVER_ERROR, false },
		{ 409, OUTCOME_REFUSED, true },       { 422, OUTCOME_REFUSED, true },
		{ 429, OUTCOME_REFUSED, true },       { 500, OUTCOME_SERVER_ERROR, false },
		{ 502, OUTCOME_SERVER_ERROR, false }, { 503, OUTCOME_SERVER_ERROR, false },
		{ 504, OUTCOME_SERVER_ERROR, false }, { 501, OUTCOME_REFUSED, true },
	};
	struct conf_profile profile = profile_of(CONF_STORES_ALL);
	profile.safe_503 = true;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct verdict verdict =
			judge(&profile, "POST", EFFECT_IDEMPOTENT, rows[i].status, true);
		assert_true(verdict.replayed);
		if (verdict.outcome != rows[i].outcome || verdict.settles_key != rows[i].settles)
			fail_msg("%d: %s, settles %d", rows[i].status,
				 outcome_name(verdict.outcome), verdict.settles_key);
	}
}

static void a_provider_that_does_not_store_is_not_believed(void **state)
{
	(void)state;
	const struct conf_profile none = profile_of(CONF_STORES_NONE);
	const struct conf_profile successes = profile_of(CONF_STORES_2XX);
	struct verdict verdict = judge(&none, "POST", EFFECT_IDEMPOTENT, 402, true);
	assert_false(verdict.replayed);
	assert_false(verdict.settles_key);
	verdict = judge(&successes, "POST", EFFECT_IDEMPOTENT, 402, true);
	assert_false(verdict.replayed);
	assert_false(verdict.settles_key);
	verdict = judge(&successes, "POST", EFFECT_IDEMPOTENT, 401, true);
	assert_int_equal(verdict.outcome, OUTCOME_CREDENTIALS);
	verdict = judge(&successes, "POST", EFFECT_IDEMPOTENT, 200, true);
	assert_true(verdict.replayed);
	assert_true(verdict.settles_key);
}

static void a_profile_may_call_503_safe(void **state)
{
	(void)state;
	struct conf_profile profile = profile_of(CONF_STORES_2XX);
	profile.safe_503 = true;
	assert_int_equal(judge(&profile, "POST", EFFECT_IDEMPOTENT, 503, false).outcome,
			 OUTCOME_TRY_LATER);
	assert_int_equal(judge(&profile, "POST", EFFECT_AT_MOST_ONCE, 503, false).outcome,
			 OUTCOME_TRY_LATER);
	assert_int_equal(judge(&profile, "POST", EFFECT_IDEMPOTENT, 500, false).outcome,
			 OUTCOME_SERVER_ERROR);
}

static void without_a_list_a_409_is_a_refusal(void **state)
{
	(void)state;
	const struct conf_profile profile = { .stores = CONF_STORES_ALL };
	const struct verdict verdict = judge(&profile, "POST", EFFECT_IDEMPOTENT, 409, false);
	assert_int_equal(verdict.outcome, OUTCOME_REFUSED);
	assert_false(verdict.settles_key); /* an earlier send may be what it waits for */
	assert_string_equal(verdict.error_class, "http 409");
}

static void modes_differ(void **state)
{
	(void)state;
	static const struct {
		const char *method;
		enum effect_mode mode;
		int status;
		enum outcome outcome;
		bool settles;
	} rows[] = {
		{ "DELETE", EFFECT_NATURAL, 200, OUTCOME_APPLIED, true },
		{ "DELETE", EFFECT_NATURAL, 404, OUTCOME_APPLIED, true },
		{ "DELETE", EFFECT_NATURAL, 410, OUTCOME_APPLIED, true },
		{ "DELETE", EFFECT_NATURAL, 400, OUTCOME_REFUSED, false },
		{ "DELETE", EFFECT_IDEMPOTENT, 404, OUTCOME_REFUSED, false },
		{ "PUT", EFFECT_NATURAL, 404, OUTCOME_REFUSED, false },
		{ "PUT", EFFECT_NATURAL, 304, OUTCOME_APPLIED, true },
		{ "PUT", EFFECT_IDEMPOTENT, 304, OUTCOME_APPLIED, true },
		{ "POST", EFFECT_NATURAL, 304, OUTCOME_REFUSED, false },
		{ "PUT", EFFECT_NATURAL, 400, OUTCOME_REFUSED, false },
		{ "POST", EFFECT_AT_MOST_ONCE, 200, OUTCOME_APPLIED, false },
		{ "POST", EFFECT_AT_MOST_ONCE, 402, OUTCOME_REFUSED, false },
		{ "DELETE", EFFECT_AT_MOST_ONCE, 404, OUTCOME_REFUSED, false },
	};
	const struct conf_profile profile = profile_of(CONF_STORES_ALL);
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct verdict verdict =
			judge(&profile, rows[i].method, rows[i].mode, rows[i].status, false);
		if (verdict.outcome != rows[i].outcome || verdict.settles_key != rows[i].settles)
			fail_msg("row %zu: %s, settles %d", i, outcome_name(verdict.outcome),
				 verdict.settles_key);
	}
}

static struct verdict judge_body(enum conf_stores stores, enum effect_mode mode, int status,
				 bool replayed, enum body_says says)
{
	const struct conf_profile profile = profile_of(stores);
	const struct answer answer = {
		.end = TRANSFER_DONE, .status = status, .replayed = replayed, .says = says
	};
	struct verdict verdict;
	outcome_of(&answer, &profile, "POST", mode, "", 0, &verdict);
	return verdict;
}

/* A 2xx is what its body says, and where it says nothing it is neither yes nor no. A no speaks for
 * the key only when it is the stored answer; a yes as ever. */
static void a_body_may_say_what_a_2xx_means(void **state)
{
	(void)state;
	static const struct {
		int status;
		bool replayed;
		enum body_says says;
		enum outcome outcome;
		const char *error_class;
		bool settles[3]; /* where the provider stores none, 2xx, all */
	} rows[] = {
		{ 200, false, BODY_UNASKED, OUTCOME_APPLIED, "", { false, true, true } },
		{ 200, false, BODY_YES, OUTCOME_APPLIED, "", { false, true, true } },
		{ 201, true, BODY_YES, OUTCOME_APPLIED, "", { false, true, true } },
		{ 200, false, BODY_NO, OUTCOME_REFUSED, "no success", { 0 } },
		{ 202, false, BODY_NO, OUTCOME_REFUSED, "no success", { 0 } },
		{ 200, true, BODY_NO, OUTCOME_REFUSED, "no success", { false, true, true } },
		{ 200, false, BODY_UNREADABLE, OUTCOME_UNREADABLE, "success unknown", { 0 } },
		{ 204, false, BODY_UNREADABLE, OUTCOME_UNREADABLE, "success unknown", { 0 } },
		{ 200, true, BODY_UNREADABLE, OUTCOME_UNREADABLE, "success unknown", { 0 } },
		/* nobody asks another answer */
		{ 402, false, BODY_YES, OUTCOME_REFUSED, "http 402", { false, false, true } },
		{ 402, false, BODY_UNREADABLE, OUTCOME_REFUSED, "http 402", { 0, 0, true } },
		{ 500, false, BODY_YES, OUTCOME_SERVER_ERROR, "http 500", { 0 } },
		{ 500, false, BODY_NO, OUTCOME_SERVER_ERROR, "http 500", { 0 } },
		{ 304, false, BODY_NO, OUTCOME_REFUSED, "http 304", { 0 } },
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		for (int stores = CONF_STORES_NONE; stores <= CONF_STORES_ALL; stores++) {
			const struct verdict verdict =
				judge_body((enum conf_stores)stores, EFFECT_IDEMPOTENT,
					   rows[i].status, rows[i].replayed, rows[i].says);
			if (verdict.outcome != rows[i].outcome ||
			    verdict.settles_key != rows[i].settles[stores] ||
			    strcmp(verdict.error_class, rows[i].error_class) != 0)
				fail_msg("row %zu, stores %d: %s, settles %d, %s", i, stores,
					 outcome_name(verdict.outcome), verdict.settles_key,
					 verdict.error_class);
			const enum effect_mode modes[] = { EFFECT_AT_MOST_ONCE, EFFECT_NATURAL };
			for (size_t m = 0; m < COUNT(modes); m++) {
				const struct verdict other =
					judge_body((enum conf_stores)stores, modes[m],
						   rows[i].status, rows[i].replayed, rows[i].says);
				assert_int_equal(other.outcome, rows[i].outcome);
				assert_int_equal(other.settles_key,
						 modes[m] == EFFECT_NATURAL &&
							 other.outcome == OUTCOME_APPLIED);
			}
		}
	}
}

static void a_transfer_without_an_answer(void **state)
{
	(void)state;
	static const struct {
		enum transfer_end end;
		enum outcome outcome;
		bool unsent;
	} rows[] = {
		{ TRANSFER_NOT_SENT, OUTCOME_NOT_SENT, true },
		{ TRANSFER_CERTIFICATE, OUTCOME_CREDENTIALS, true },
		{ TRANSFER_ABORTED, OUTCOME_ABORTED, true },
		{ TRANSFER_CUT, OUTCOME_NO_ANSWER, false },
	};
	const struct conf_profile profile = profile_of(CONF_STORES_ALL);
	for (size_t i = 0; i < COUNT(rows); i++) {
		/* what is known of an answer that did not end well is not listened to */
		const struct answer answer = {
			.end = rows[i].end, .status = 200, .replayed = true, .retry_after = "30"
		};
		struct verdict verdict;
		outcome_of(&answer, &profile, "POST", EFFECT_IDEMPOTENT, "reset", 0, &verdict);
		assert_int_equal(verdict.outcome, rows[i].outcome);
		assert_int_equal(verdict.unsent, rows[i].unsent);
		assert_false(verdict.settles_key);
		assert_int_equal(verdict.retry_after, 0);
		assert_string_equal(verdict.error_class, "reset");
	}
}

static void retry_after_is_passed_on(void **state)
{
	(void)state;
	const struct conf_profile profile = profile_of(CONF_STORES_ALL);
	const struct answer answer = { .end = TRANSFER_DONE,
				       .status = 503,
				       .retry_after = "Sun, 06 Nov 1994 08:50:07 GMT",
				       .date = "Sun, 06 Nov 1994 08:49:37 GMT" };
	struct verdict verdict;
	outcome_of(&answer, &profile, "POST", EFFECT_IDEMPOTENT, "", 0, &verdict);
	assert_int_equal(verdict.retry_after, 30 * USEC_SEC);
}

/* Whatever the status: only a 2xx (or its equals above) is applied, no 5xx settles a key, and a
 * class always fits. */
static void no_status_surprises(void **state)
{
	(void)state;
	for (int status = -1; status <= 1000; status++) {
		for (int replayed = 0; replayed <= 1; replayed++) {
			const struct conf_profile profile = profile_of(CONF_STORES_ALL);
			const struct verdict verdict =
				judge(&profile, "POST", EFFECT_IDEMPOTENT, status, replayed != 0);
			assert_int_equal(verdict.outcome == OUTCOME_APPLIED,
					 status >= 200 && status <= 299);
			if (status >= 500 && status != 501 && status != 505)
				assert_false(verdict.settles_key);
			assert_int_equal(!verdict.error_class[0],
					 verdict.outcome == OUTCOME_APPLIED);
			assert_true(strlen(verdict.error_class) < 20);
		}
	}
}

static void every_outcome_has_a_name(void **state)
{
	(void)state;
	for (int i = 0; i < OUTCOME_COUNT; i++)
		assert_true(strlen(outcome_name((enum outcome)i)) > 0);
	assert_string_equal(outcome_name(OUTCOME_COUNT), "");
	assert_string_equal(outcome_name(OUTCOME_APPLIED), "applied");
	assert_string_equal(outcome_name(OUTCOME_UNRENDERED), "unrendered");
}

static void mail_has_its_outcomes(void **state)
{
	(void)state;
	static const struct {
		enum smtp_end end;
		int reply;
		const char *class;
		enum outcome outcome;
		bool unsent;
		const char *error_class;
	} cases[] = {
		{ SMTP_ACCEPTED, 250, "", OUTCOME_APPLIED, false, "" },
		{ SMTP_REFUSED, 550, "", OUTCOME_REFUSED, false, "smtp 550" },
		{ SMTP_REFUSED, 0, "too large", OUTCOME_REFUSED, false, "too large" },
		{ SMTP_LATER, 451, "", OUTCOME_TRY_LATER, false, "smtp 451" },
		{ SMTP_LATER, 0, "reset", OUTCOME_TRY_LATER, false, "reset" },
		{ SMTP_NOT_SENT, 0, "dns", OUTCOME_NOT_SENT, true, "dns" },
		{ SMTP_CREDENTIALS, 0, "login", OUTCOME_CREDENTIALS, true, "login" },
		{ SMTP_CREDENTIALS, 530, "", OUTCOME_CREDENTIALS, true, "smtp 530" },
		{ SMTP_ABORTED, 0, "aborted", OUTCOME_ABORTED, true, "aborted" },
		{ SMTP_UNKNOWN, 0, "timeout", OUTCOME_NO_ANSWER, false, "timeout" },
		{ SMTP_UNKNOWN, 554, "", OUTCOME_NO_ANSWER, false, "smtp 554" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct verdict verdict;
		outcome_of_mail(cases[i].end, cases[i].reply, cases[i].class, &verdict);
		assert_int_equal(verdict.outcome, cases[i].outcome);
		assert_int_equal(verdict.unsent, cases[i].unsent);
		assert_string_equal(verdict.error_class, cases[i].error_class);
		assert_false(verdict.settles_key || verdict.replayed || verdict.retry_after);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mail_has_its_outcomes),
		cmocka_unit_test(statuses_have_their_outcome),
		cmocka_unit_test(modes_without_a_key),
		cmocka_unit_test(stored_answers_are_about_the_key),
		cmocka_unit_test(a_provider_that_does_not_store_is_not_believed),
		cmocka_unit_test(a_profile_may_call_503_safe),
		cmocka_unit_test(without_a_list_a_409_is_a_refusal),
		cmocka_unit_test(modes_differ),
		cmocka_unit_test(a_body_may_say_what_a_2xx_means),
		cmocka_unit_test(a_transfer_without_an_answer),
		cmocka_unit_test(retry_after_is_passed_on),
		cmocka_unit_test(no_status_surprises),
		cmocka_unit_test(every_outcome_has_a_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
