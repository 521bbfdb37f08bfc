/* A key that comes later is refused unless it says what is so anyway, and no document shows it.
 * Every key of the tables that says `later` is tried; it takes no edit when one no longer does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "conf.h"
#include "conf/conf_keys.h"
#include "conf/conf_later.h"
#include "conf_fixture.h"

#define KAFKA "kafka = { properties = ( (\"bootstrap.servers\", \"b:1\") ); };\n"

/* Where a key stands: "targets = ( { breaker = { ", and what closes that. */
struct place {
	struct buf path;
	struct buf open;
	struct buf close;
};

typedef void later_fn(const struct place *place, const struct conf_key *key);

static void walk(const struct conf_table *table, bool later, const char *path, const char *open,
		 const char *close, later_fn *fn)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct conf_key *key = &table->keys[i];
		struct place place = { 0 };
		bool refused = later || key->later;
		buf_addf(&place.path, "%s.%s", path, key->name);
		if (key->type == CONF_GROUP) {
			buf_addf(&place.open, "%s%s = { ", open, key->name);
			buf_addf(&place.close, "}; %s", close);
			walk(key->group, refused, place.path.data, place.open.data,
			     place.close.data, fn);
		} else if (refused) {
			buf_add_text(&place.open, open);
			buf_add_text(&place.close, close);
			fn(&place, key);
		}
		buf_done(&place.path);
		buf_done(&place.open);
		buf_done(&place.close);
	}
}

static void each_later_key(later_fn *fn)
{
	for (size_t i = 0; i < conf_section_count; i++) {
		const struct conf_section *section = &conf_sections[i];
		char path[64], open[64];
		bool list = section->item_size;
		(void)snprintf(path, sizeof(path), "%s%s", section->name, list ? "[0]" : "");
		(void)snprintf(open, sizeof(open), "%s = %s{ ", section->name, list ? "( " : "");
		if (!section->later)
			walk(section->table, false, path, open, list ? "} );\n" : "};\n", fn);
	}
}

/* As it is written in a file, and not the default. */
static void other_value(const struct conf_key *key, struct buf *out)
{
	static const char *const others[] = {
		[CONF_BOOL] = "true",
		[CONF_TEXT] = "\"some text\"",
		[CONF_DURATION] = "\"3601s\"",
		[CONF_SIZE] = "\"4097B\"",
		[CONF_START] = "\"latest\"",
		[CONF_RATE] = "\"7/m\"",
		[CONF_PREDICATE] = "\"/a = b\"",
		[CONF_PAIRS] = "( (\"a\", \"b\") )",
		[CONF_TEXTS] = "\"former\"",
		[CONF_STATUSES] = "409",
		[CONF_POINTERS] = "\"/card\"",
	};
	if (key->type == CONF_INT)
		buf_addf(out, "%lld", (long long)key->high);
	else if (key->type == CONF_WORD)
		buf_addf(out, "\"%s\"", key->words[1].name);
	else
		buf_add_text(out, others[key->type]);
}

/* The faults of a file in which only this key is set; "" when there are none. */
static char *faults_of(const struct place *place, const char *name, const char *value)
{
	struct buf text = { 0 };
	struct buf faults = { 0 };
	struct conf *conf;
	buf_addf(&text, KAFKA "%s%s = %s; %s", place->open.data, name, value, place->close.data);
	fixture_write("c.conf", text.data);
	buf_done(&text);
	if (conf_load("c.conf", CONF_RELAY, &faults, &conf))
		conf_free(conf);
	buf_add(&faults, "", 1);
	return buf_take(&faults);
}

static void assert_refused(const struct place *place, const struct conf_key *key)
{
	struct buf value = { 0 };
	struct buf expected = { 0 };
	other_value(key, &value);
	char *faults = faults_of(place, key->name, value.data);
	buf_addf(&expected, "c.conf:2: %s: not built yet in this version\n", place->path.data);
	if (!strstr(faults, expected.data))
		fail_msg("%s = %s gave: %s", place->path.data, value.data, faults);
	free(faults);
	buf_done(&expected);
	buf_done(&value);
}

static void another_value_is_refused(void **state)
{
	(void)state;
	each_later_key(assert_refused);
}

static void assert_default_is_taken(const struct place *place, const struct conf_key *key)
{
	bool bare = key->type == CONF_BOOL || key->type == CONF_INT;
	struct buf value = { 0 };
	if (!key->fallback)
		return;
	buf_addf(&value, bare ? "%s" : "\"%s\"", key->fallback);
	char *faults = faults_of(place, key->name, value.data);
	assert_string_equal(faults, "");
	free(faults);
	buf_done(&value);
}

static void the_default_may_be_said(void **state)
{
	(void)state;
	each_later_key(assert_default_is_taken);
}

static char *printed;

static void assert_not_printed(const struct place *place, const struct conf_key *key)
{
	struct buf line = { 0 };
	(void)place;
	buf_addf(&line, " %s = ", key->name);
	/* a name that another table has too shows nothing */
	if (strcmp(key->name, "topic") != 0 && strcmp(key->name, "type") != 0 &&
	    strcmp(key->name, "ordering_key") != 0 && strcmp(key->name, "payload") != 0)
		assert_null(strstr(printed, line.data));
	buf_done(&line);
}

static void it_is_not_printed(void **state)
{
	(void)state;
	struct buf faults = { 0 }, text = { 0 };
	struct conf *conf = NULL;
	fixture_write("c.conf", KAFKA
		      "targets = ( { name = \"t\"; url = \"http://h\"; profile = \"plain\"; } "
		      ");\neffects = ( { name = \"e\"; target = \"t\"; mode = "
		      "\"at_most_once\"; } );\n");
	if (!conf_load("c.conf", CONF_RELAY, &faults, &conf))
		fail_msg("%s", buf_text(&faults));
	conf_print(conf, &text);
	printed = text.data;
	each_later_key(assert_not_printed);
	for (size_t i = 0; i < conf_section_count; i++)
		if (conf_sections[i].later)
			assert_null(strstr(printed, conf_sections[i].name));
	conf_free(conf);
	buf_done(&text);
}

static void a_list_must_be_empty(void **state)
{
	(void)state;
	for (size_t i = 0; i < conf_section_count; i++) {
		const char *name = conf_sections[i].name;
		struct place place = { 0 };
		struct buf expected = { 0 };
		if (!conf_sections[i].later)
			continue;
		buf_add_text(&place.open, "");
		buf_add_text(&place.close, "\n");
		char *faults = faults_of(&place, name, "( )");
		assert_string_equal(faults, "");
		free(faults);
		faults = faults_of(&place, name, "( { } )");
		buf_addf(&expected, "c.conf:2: %s: not built yet in this version\n", name);
		assert_string_equal(faults, expected.data);
		free(faults);
		buf_done(&expected);
		buf_done(&place.open);
		buf_done(&place.close);
	}
}

static void the_environment_is_refused_too(void **state)
{
	(void)state;
	struct place place = { 0 };
	if (!conf_later_key("ledger.shadow"))
		return;
	buf_add_text(&place.open, "log = { ");
	buf_add_text(&place.close, "};\n");
	assert_int_equal(setenv("COUNTERFOIL_LEDGER_SHADOW", "true", 1), 0);
	char *faults = faults_of(&place, "level", "\"info\"");
	assert_string_equal(faults, "COUNTERFOIL_LEDGER_SHADOW: ledger.shadow: not built yet in "
				    "this version\n");
	assert_int_equal(unsetenv("COUNTERFOIL_LEDGER_SHADOW"), 0);
	free(faults);
	buf_done(&place.open);
	buf_done(&place.close);
}

static void which_keys_come_later(void **state)
{
	(void)state;
	assert_false(conf_later_key("ledger.batch"));
	assert_false(conf_later_key("ledger.no_such_key"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_value_is_refused),
		cmocka_unit_test(the_default_may_be_said),
		cmocka_unit_test(it_is_not_printed),
		cmocka_unit_test(a_list_must_be_empty),
		cmocka_unit_test(the_environment_is_refused_too),
		cmocka_unit_test(which_keys_come_later),
	};
	return cmocka_run_group_tests_name("conf_later", tests, fixture_enter, fixture_leave);
}
