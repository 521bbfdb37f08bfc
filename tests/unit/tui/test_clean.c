/* Text from outside: made visible, then measured, then cut. */
#include "words/clean.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct row {
	const char *text;
	size_t length; /* 0: up to the NUL */
	const char *shown;
	int width;
};

static void shows(const struct row *row)
{
	BUF_AUTO struct buf out = { 0 };
	size_t length = row->length ? row->length : strlen(row->text);
	clean_add(&out, row->text, length);
	assert_string_equal(buf_text(&out), row->shown);
	assert_int_equal(clean_width(row->text, length), row->width);
}

static void in_unicode(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "order-42", 0, "order-42", 8 },
		{ "a\tb\nc\rd", 0, "a\\tb\\nc\\rd", 10 },
		{ "a\0b", 3, "a\\u0000b", 8 },
		{ "\033[31m", 0, "\\u001b[31m", 10 },
		{ "\177", 0, "\\u007f", 6 },
		{ "\302\233", 0, "\\u009b", 6 },              /* C1: CSI in one character */
		{ "\342\200\256abc", 0, "\\u202eabc", 9 },    /* right to left from here */
		{ "\342\200\213", 0, "\\u200b", 6 },          /* of no width */
		{ "\342\200\215", 0, "\\u200d", 6 },          /* joins emoji */
		{ "\357\270\217", 0, "\\ufe0f", 6 },          /* makes its neighbour wide */
		{ "\302\255", 0, "\\u00ad", 6 },              /* a hyphen, perhaps */
		{ "e\314\201", 0, "e\\u0301", 7 },            /* an accent upon its neighbour */
		{ "\363\240\201\201", 0, "\\U000e0041", 10 }, /* a tag, invisible */
		{ "\360\237\217\273", 0, "\\U0001f3fb", 10 }, /* a skin tone joins as well */
		{ "\377", 0, "\\xff", 4 },
		{ "\300\257", 0, "\\xc0\\xaf", 8 },           /* overlong */
		{ "\355\240\200", 0, "\\xed\\xa0\\x80", 12 }, /* half of a pair */
		{ "\344\270", 0, "\\xe4\\xb8", 8 },           /* cut in the middle */
		{ "\344\270\226\350\223\256\360\237\230\200", 0,
		  "\344\270\226\350\223\256\360\237\230\200", 6 }, /* three wide ones */
		{ "\303\274", 0, "\303\274", 1 },
		{ "C:\\n", 0, "C:\\n", 4 },
	};
	setlocale(LC_CTYPE, "C.UTF-8");
	assert_true(clean_unicode());
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		shows(&rows[i]);
}

static void in_a_c_locale(void **state)
{
	(void)state;
	static const struct row rows[] = {
		{ "order-42", 0, "order-42", 8 },
		{ "\303\274", 0, "\\u00fc", 6 },
		{ "\360\237\230\200", 0, "\\U0001f600", 10 },
		{ "\033", 0, "\\u001b", 6 },
	};
	setlocale(LC_CTYPE, "C");
	assert_false(clean_unicode());
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		shows(&rows[i]);
}

static void cut(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int width;
		enum clean_cut cut;
		const char *shown;
		int used;
	} rows[] = {
		{ "order-42", 8, CLEAN_CUT_END, "order-42", 8 },
		{ "order-42", 7, CLEAN_CUT_END, "order-…", 7 },
		{ "order-42", 1, CLEAN_CUT_END, "…", 1 },
		{ "order-42", 0, CLEAN_CUT_END, "", 0 },
		{ "order-42", -3, CLEAN_CUT_END, "", 0 },
		{ "order-42", 7, CLEAN_CUT_MIDDLE, "ord…-42", 7 },
		{ "order-42", 6, CLEAN_CUT_MIDDLE, "ord…42", 6 },
		{ "order-42", 2, CLEAN_CUT_MIDDLE, "o…", 2 },
		/* an escape is shown whole or not at all */
		{ "ab\033cd", 6, CLEAN_CUT_END, "ab…", 3 },
		{ "ab\033cd", 9, CLEAN_CUT_END, "ab\\u001b…", 9 },
		/* a wide character does not stick out */
		{ "a世世", 4, CLEAN_CUT_END, "a世…", 4 },
		{ "a世世", 3, CLEAN_CUT_END, "a…", 2 },
		{ "世世世世", 6, CLEAN_CUT_MIDDLE, "世…世", 5 },
	};
	setlocale(LC_CTYPE, "C.UTF-8");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		BUF_AUTO struct buf out = { 0 };
		int used = clean_fit(&out, rows[i].text, strlen(rows[i].text), rows[i].width,
				     rows[i].cut);
		assert_string_equal(buf_text(&out), rows[i].shown);
		assert_int_equal(used, rows[i].used);
		assert_true(used <= (rows[i].width > 0 ? rows[i].width : 0));
	}
}

/* Whatever the bytes: never wider than asked for, and nothing but what may be printed. */
static void never_wider_than_the_room(void **state)
{
	(void)state;
	uint32_t random = 42;
	setlocale(LC_CTYPE, "C.UTF-8");
	for (int round = 0; round < 20000; round++) {
		BUF_AUTO struct buf out = { 0 };
		char bytes[24];
		for (size_t i = 0; i < sizeof(bytes); i++) {
			random = random * 1664525 + 1013904223;
			bytes[i] = (char)(random >> 24);
		}
		int width = (int)(random >> 8) % 40;
		enum clean_cut how = round & 1 ? CLEAN_CUT_MIDDLE : CLEAN_CUT_END;
		int used = clean_fit(&out, bytes, sizeof(bytes), width, how);
		assert_true(used <= width);
		for (size_t i = 0; i < out.length; i++)
			assert_true((unsigned char)out.data[i] >= 0x20 && out.data[i] != 0x7f);
		/* clean text is clean: nothing in it is escaped a second time */
		assert_int_equal(clean_width(buf_text(&out), out.length), used);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_unicode),
		cmocka_unit_test(in_a_c_locale),
		cmocka_unit_test(cut),
		cmocka_unit_test(never_wider_than_the_room),
	};
	return cmocka_run_group_tests_name("clean", tests, NULL, NULL);
}
