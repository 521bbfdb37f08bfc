/* The name of a key as a log shows it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rules/key.h"
#include "utf8.h"

static void a_long_name_is_cut_between_characters(void **state)
{
	static const struct {
		size_t before; /* a character of two bytes stands behind so many of one */
		size_t length; /* of the name */
		size_t kept;   /* SIZE_MAX: all of it */
	} cases[] = {
		{ 0, 2, SIZE_MAX }, { 97, 99, SIZE_MAX }, { 98, 100, 96 },
		{ 95, 512, 95 },    { 94, 512, 96 },      { 93, 512, 96 },
	};
	char name[513];
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct key key = { 0 };
		memset(name, 'k', sizeof(name));
		memcpy(name + cases[i].before, "\xc3\xa4", 2);
		name[cases[i].length] = '\0';
		key_name_set(&key, name, cases[i].length);
		assert_true(utf8_valid(key.name, strlen(key.name)));
		if (cases[i].kept == SIZE_MAX) {
			assert_string_equal(key.name, name);
			continue;
		}
		assert_int_equal(strlen(key.name), cases[i].kept + 3);
		assert_memory_equal(key.name, name, cases[i].kept);
		assert_string_equal(key.name + cases[i].kept, "...");
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_long_name_is_cut_between_characters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
