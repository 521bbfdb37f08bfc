/* Configurations to begin with, and what loading one comes to. */
#ifndef TESTS_CONF_LOADING_H
#define TESTS_CONF_LOADING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "conf.h"
#include "conf_fixture.h"

#define KAFKA  "kafka = { properties = ( (\"bootstrap.servers\", \"broker:9092\") ); };\n"
#define TARGET "{ name = \"pay\"; url = \"https://pay.example\"; profile = \"stripe-v1\"; }"
#define EFFECT                                                                                     \
	"{ name = \"charge\"; on = { topic = \"orders\"; }; target = \"pay\"; "                    \
	"key = \"${/id}\"; retention = \"forever\"; }"
#define LEDGER KAFKA "targets = ( " TARGET " );\neffects = ( " EFFECT " );\n"

static struct conf *load(const char *text, enum conf_program program)
{
	struct conf *conf = NULL;
	struct buf faults = { 0 };
	fixture_write("c.conf", text);
	if (!conf_load("c.conf", program, &faults, &conf))
		fail_msg("%s", buf_text(&faults));
	assert_string_equal(buf_text(&faults), "");
	buf_done(&faults);
	return conf;
}

static void assert_faults(const char *text, enum conf_program program, const char *expected)
{
	struct conf *conf = (struct conf *)-1;
	struct buf faults = { 0 };
	fixture_write("c.conf", text);
	bool ok = conf_load("c.conf", program, &faults, &conf);
	if (ok)
		conf_free(conf);
	else
		assert_ptr_equal(conf, (struct conf *)-1);
	assert_string_equal(buf_text(&faults), expected);
	assert_false(ok);
	buf_done(&faults);
}

#endif
