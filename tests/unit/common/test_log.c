/* Log lines: nothing from outside can forge one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "log.h"

static int saved_stderr;
static FILE *capture;

static void capture_begin(void)
{
	fflush(stderr);
	saved_stderr = dup(STDERR_FILENO);
	capture = tmpfile();
	assert_non_null(capture);
	dup2(fileno(capture), STDERR_FILENO);
}

static const char *capture_end(void)
{
	static char text[4096];
	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	rewind(capture);
	size_t length = fread(text, 1, sizeof(text) - 1, capture);
	text[length] = '\0';
	fclose(capture);
	return text;
}

static void logfmt_escapes(void **state)
{
	(void)state;
	struct log *log = log_new("relay", LOG_INFO, LOG_LOGFMT);
	capture_begin();
	log_info(log, "lease taken", LOG_TEXT("owner", "a\nlevel=error msg=\"forged\" \x1b[31m"),
		 LOG_INT("token", -5), LOG_TEXT("empty", ""), LOG_TEXT("none", NULL));
	const char *text = capture_end();
	assert_non_null(strstr(text, "level=info program=relay msg=\"lease taken\" owner=\""));
	assert_non_null(strstr(text, " token=-5 empty=\"\" none=\"\"\n"));
	assert_non_null(strstr(text, "a\\nlevel=error msg=\\\"forged\\\" \\u001b[31m"));
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	assert_null(strchr(text, 0x1b));
	log_free(log);
}

static void json_is_one_object(void **state)
{
	(void)state;
	struct log *log = log_new("ledger", LOG_DEBUG, LOG_JSON);
	capture_begin();
	log_debug(log, "claimed", LOG_INT("rows", 3), LOG_TEXT("key", "a\"b\\c"));
	const char *text = capture_end();
	assert_memory_equal(text, "{\"ts\":\"", 7);
	assert_non_null(strstr(text,
			       "\"level\":\"debug\",\"program\":\"ledger\",\"msg\":\"claimed\","
			       "\"rows\":3,\"key\":\"a\\\"b\\\\c\"}\n"));
	log_free(log);
}

static void levels_are_kept(void **state)
{
	(void)state;
	struct log *log = log_new("ledger", LOG_WARN, LOG_LOGFMT);
	capture_begin();
	log_info(log, "not this");
	log_error(log, "this");
	log_level_set(log, LOG_INFO);
	log_info(log, "and this");
	const char *text = capture_end();
	assert_null(strstr(text, "not this"));
	assert_non_null(strstr(text, "msg=this\n"));
	assert_non_null(strstr(text, "msg=\"and this\"\n"));
	assert_true(log_enabled(log, LOG_WARN));
	assert_false(log_enabled(log, LOG_DEBUG));
	log_free(log);
}

static void repeats_are_counted(void **state)
{
	(void)state;
	struct log_limit limit = { 0 };
	uint64_t held = 99;
	assert_true(log_limit_pass(&limit, 10, 60, &held));
	assert_int_equal(held, 0);
	for (usec_t now = 11; now < 70; now++)
		assert_false(log_limit_pass(&limit, now, 60, &held));
	assert_true(log_limit_pass(&limit, 70, 60, &held));
	assert_int_equal(held, 59);
}

int main(void)
{
	unsetenv("JOURNAL_STREAM");
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(logfmt_escapes),
		cmocka_unit_test(json_is_one_object),
		cmocka_unit_test(levels_are_kept),
		cmocka_unit_test(repeats_are_counted),
	};
	return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
