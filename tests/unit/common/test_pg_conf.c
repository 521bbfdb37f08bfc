/* What of a connection can be seen to be wrong without a server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "conf_fixture.h"
#include "pg_conf.h"

#define KAFKA "kafka = { properties = ( (\"bootstrap.servers\", \"b:1\") ); };\n"

static void assert_check(const char *text, enum conf_program program, const char *expected)
{
	struct conf *conf;
	struct buf faults = { 0 };
	fixture_write("c.conf", text);
	if (!conf_load("c.conf", program, &faults, &conf))
		fail_msg("%s", buf_text(&faults));
	pg_conf_check(conf, program, &faults);
	assert_string_equal(buf_text(&faults), expected);
	buf_done(&faults);
	conf_free(conf);
}

static void faults_have_their_place(void **state)
{
	(void)state;
	fixture_write("password", "hush\n");
	fixture_write("empty", "\n");
	assert_check(KAFKA, CONF_RELAY, "");
	assert_check(KAFKA "postgres = { conninfo = \"host=a dbname=b\"; password_file = "
			   "\"password\"; };\n",
		     CONF_RELAY, "");
	assert_check(KAFKA "postgres = { conninfo = \"hots=a\"; password_file = \"empty\"; };\n",
		     CONF_RELAY,
		     "c.conf:2: postgres.conninfo: conninfo: invalid connection option \"hots\"\n"
		     "c.conf:2: postgres.password_file: empty: the first line is empty; it must be "
		     "the secret\n");
}

static void each_program_has_its_own(void **state)
{
	(void)state;
	static const char text[] = KAFKA "postgres = { conninfo = \"hots=a\"; };\n"
					 "relay = { conninfo = \"x\"; };\n"
					 "console = { conninfo = \"dbname=a\"; };\n";
	assert_check(text, CONF_RELAY,
		     "c.conf:3: relay.conninfo: conninfo: missing \"=\" after \"x\" in connection "
		     "info string\n");
	assert_check(text, CONF_CONSOLE, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(faults_have_their_place),
		cmocka_unit_test(each_program_has_its_own),
	};
	return cmocka_run_group_tests(tests, fixture_enter, fixture_leave);
}
