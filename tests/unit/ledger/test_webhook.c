/* Signatures of webhooks: the published example, secrets that are changed, secrets that are none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rules/webhook.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* The example of the standard's own documentation and libraries. */
#define SECRET    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define ID        "msg_p5jXN8AQM9LWM0D4loKWxJek"
#define BODY      "{\"test\": 2432232314}"
#define TIME      (1614265330 * USEC_SEC)
#define SIGNATURE "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
#define LINES(signatures)                                                                          \
	"webhook-timestamp: 1614265330\n"                                                          \
	"webhook-signature: " signatures "\n"

/* 24 and 64 bytes of zeros: the shortest and the longest. */
#define ZEROS  "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
#define ZERO64 "whsec_" ZERO60 "AAAAAA=="
#define ZERO60 "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

static struct webhook_keys *read_keys(const char *secrets)
{
	struct webhook_keys *keys = NULL;
	struct err err;
	if (!webhook_keys_read(secrets, &err, &keys))
		fail_msg("%s: %s", secrets, err.text);
	return keys;
}

static void assert_lines(const char *secrets, const char *body, size_t length, const char *lines)
{
	struct webhook_keys *keys = read_keys(secrets);
	struct buf out BUF_AUTO = { 0 };
	webhook_sign(keys, ID, TIME + USEC_SEC - 1, body, length, &out);
	assert_string_equal(out.data, lines);
	webhook_keys_free(keys);
}

static void the_published_example_is_signed_so(void **state)
{
	(void)state;
	assert_lines(SECRET, BODY, strlen(BODY), LINES(SIGNATURE));
}

/* While a secret is changed the receiver may know either. */
static void each_secret_signs(void **state)
{
	(void)state;
	const char *zeros = "v1,woH/1mJtZGSMCmpFTxRYbStS24eLLD/oXIYr4PYyZ7g=";
	struct buf lines BUF_AUTO = { 0 };
	buf_addf(&lines, LINES("%s " SIGNATURE), zeros);
	assert_lines("  " ZEROS "  " SECRET " ", BODY, strlen(BODY), lines.data);
}

static void every_byte_of_the_body_counts(void **state)
{
	(void)state;
	assert_lines(SECRET, NULL, 0, LINES("v1,v48jdbgvh29KJz2Qc+ghw8G6vG3nAKnujWBg8oM/62A="));
	assert_lines(SECRET, "a\0b\n", 4, LINES("v1,53qzCUzgWG29cu0XquD0bz0DGwVjNl3JjaFpti2L9FQ="));
	assert_lines(ZERO64, "x", 1, LINES("v1,qE5b+0xR+8S+zLIv48uBz8EBPEl1A2crZwTGeUiZZEY="));
}

static void what_is_no_secret_is_refused_and_not_shown(void **state)
{
	(void)state;
	static const char *const cases[][2] = {
		{ "", "holds no secret" },
		{ "   ", "holds no secret" },
		{ "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		  "secret 1 of the first line: does not begin with \"whsec_\"" },
		{ "whsec", "does not begin with" },
		{ "whsec_", "is a key of 0 bytes; the standard has 24 to 64" },
		{ "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2La", "is a key of 21 bytes" },
		{ "whsec_" ZERO60 "AAAAAAA=", "is a key of 65 bytes" },
		{ "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", "is no base64 behind" },
		{ "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS_", "is no base64 behind" },
		{ "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaL===", "is no base64 behind" },
		{ "whsec_MfKQ9r8GKYqrTwjUPD8ILPZI=2LaLaSw", "is no base64 behind" },
		{ "whsec_MfKQ9r8GKYqrTwjUPD8ILPZI\to2LaLaSw", "is no base64 behind" },
		{ SECRET " whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
		  "secret 2 of the first line: does not begin" },
		{ SECRET " " SECRET " " SECRET " " SECRET " " SECRET, "holds more than 4 secrets" },
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct webhook_keys *keys = NULL;
		struct err err = { "" };
		if (webhook_keys_read(cases[i][0], &err, &keys) || !strstr(err.text, cases[i][1]))
			fail_msg("%s: \"%s\"", cases[i][0], err.text);
		assert_null(keys);
		assert_null(strstr(err.text, "MfKQ"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_published_example_is_signed_so),
		cmocka_unit_test(each_secret_signs),
		cmocka_unit_test(every_byte_of_the_body_counts),
		cmocka_unit_test(what_is_no_secret_is_refused_and_not_shown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
