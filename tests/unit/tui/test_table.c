/* Columns of texts as commands print them. */
#include "words/table.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const char *const names[] = { "ID", "A LONG TITLE", "NOTHING", "LAST" };

static void prints(const struct table *table, bool titles, const char *expected)
{
	BUF_AUTO struct buf out = { 0 };
	table_print(table, names, titles, &out);
	assert_string_equal(buf_text(&out), expected);
}

static void nothing(void **state)
{
	(void)state;
	const struct table table = { .columns = 4 };
	prints(&table, true, "");
}

/* As wide as what is in it; a column without anything is left out, and blanks at the end too. */
static void columns(void **state)
{
	(void)state;
	TABLE_AUTO struct table table = { .columns = 4 };
	table_add_count(&table, -1);
	table_add(&table, "x");
	table_add(&table, NULL);
	table_add(&table, "end");
	table_add_count(&table, 12345);
	table_add(&table, "of more letters");
	table_add(&table, "");
	table_add(&table, NULL);
	prints(&table, true,
	       "ID     A LONG TITLE     LAST\n"
	       "-1     x                end\n"
	       "12345  of more letters\n");
	prints(&table, false,
	       "-1     x                end\n"
	       "12345  of more letters\n");
}

/* What is told of a text from outside is measured as it is shown. */
static void hostile(void **state)
{
	(void)state;
	setlocale(LC_CTYPE, "C.UTF-8");
	TABLE_AUTO struct table table = { .columns = 4 };
	table_add(&table, "\033[2J\n");
	table_add(&table, "\xe4\xb8\x96");
	table_add(&table, "");
	table_add(&table, "a");
	table_add(&table, "1");
	table_add(&table, "2");
	table_add(&table, "");
	table_add(&table, "b");
	prints(&table, false,
	       "\\u001b[2J\\n  \xe4\xb8\x96            a\n"
	       "1            2             b\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing),
		cmocka_unit_test(columns),
		cmocka_unit_test(hostile),
	};
	return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
