/* Mail as text: one address and no more, ids that stay apart, messages that every server takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rules/mail.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define WALL          (1614265330 * USEC_SEC)
#define TEN(text)     text text text text text text text text text text

static void one_address_is_one(void **state)
{
	(void)state;
	static const char *const good[][2] = {
		{ "a@b", "a@b" },
		{ " a.b+c@x-1.example ", "a.b+c@x-1.example" },
		{ "Shop <orders@shop.example>", "orders@shop.example" },
		{ "<o@s.example>", "o@s.example" },
		{ "\"Doe, J\" <j@d.example>", "j@d.example" },
		{ "J \"X\" Doe <j@d.example>", "j@d.example" },
		{ "a@b, x>y <j@d.example>", "j@d.example" },
		{ "J\xc3\xbcrgen <j@d.example>", "j@d.example" },
		{ "x=y!#@d.example", "x=y!#@d.example" },
	};
	static const char *const bad[] = {
		"",
		" ",
		"a",
		"@",
		"a@",
		"@b",
		"a b@c",
		"a@b c",
		"a@b, c@d",
		"a@b;c@d",
		"a@b\r\nBcc: c@d",
		"a@b\n",
		"A <a@b>, B <c@d>",
		"A <a@b> x",
		"A <a@b",
		"A <<a@b>>",
		"A <a@b\r\n>",
		"A\r\nBcc: c@d <a@b>",
		"A\x01 <a@b>",
		"A <>",
		"<",
		">",
		".a@b",
		"a.@b",
		"a..b@c",
		"a@b..c",
		"a@-b",
		"a@b.",
		"\"a b\"@c",
		"a@[127.0.0.1]",
		"\xc3\xbc@b",
		"a@\xc3\xbc.example",
		"a\xff <a@b> \xff",
		"\xff <a@b>",
		"a@b@c, d",
		"a@b> NOTIFY=x",
		TEN("1234567") "@b",
		"a@" TEN(TEN("123456789.")) "b",
	};
	for (size_t i = 0; i < LENGTH(good); i++) {
		struct buf address BUF_AUTO = { 0 };
		struct err err = { "" };
		if (!mail_address(good[i][0], &err, &address))
			fail_msg("%s: %s", good[i][0], err.text);
		assert_string_equal(address.data, good[i][1]);
	}
	for (size_t i = 0; i < LENGTH(bad); i++) {
		struct buf address BUF_AUTO = { 0 };
		struct err err = { "" };
		if (mail_address(bad[i], &err, &address))
			fail_msg("%s", bad[i]);
		assert_non_null(strstr(err.text, "is not one address"));
	}
}

static void ids_are_stable_and_apart(void **state)
{
	(void)state;
	static const char *const cases[][2] = {
		{ "order:7:mail", "<order=3A7=3Amail@b.example>" },
		{ "order=3A7:mail", "<order=3D3A7=3Amail@b.example>" },
		{ "a.b~r1", "<a=2Eb~r1@b.example>" },
		{ "a>\"@", "<a=3E=22=40@b.example>" },
		/* printf '%s' ::::... | sha256sum */
		{ TEN(TEN(":")) ":",
		  "<cf-ab091f4db1380d9d443e33b0d93b937ca695e86fa653a8b31a6edef126748a98@b."
		  "example>" },
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct buf id BUF_AUTO = { 0 };
		mail_message_id(cases[i][0], "a@b.example", &id);
		assert_string_equal(id.data, cases[i][1]);
	}
}

#define HEADERS "From: Shop <o@s.example>\nTo: c@x.example\nSubject: Your order 7\n"
#define HEAD                                                                                       \
	"Date: Thu, 25 Feb 2021 15:02:10 +0000\r\nFrom: \"Shop\"\r\n <o@s.example>\r\n"            \
	"To: c@x.example\r\nSubject: Your order 7\r\nMessage-ID: <k@s.example>\r\n"                \
	"MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"                         \
	"Content-Transfer-Encoding: quoted-printable\r\n\r\n"

static void texts_are_quoted(void **state)
{
	(void)state;
	static const struct {
		const char *body, *text;
	} cases[] = {
		{ "", "" },
		{ "Hello", "Hello\r\n" },
		{ "a\nb\r\nc\n\n", "a\r\nb\r\nc\r\n\r\n" },
		{ "a\rb", "a=0Db\r\n" },
		{ ".\n..\na.b", "=2E\r\n=2E.\r\na.b\r\n" },
		{ "\r\n.\r\nQUIT", "\r\n=2E\r\nQUIT\r\n" },
		{ "a \nb\t\nc ", "a=20\r\nb=09\r\nc=20\r\n" },
		{ "1=2", "1=3D2\r\n" },
		{ "\xc3\xa9\xe2\x82\xac", "=C3=A9=E2=82=AC\r\n" },
		{ TEN("1234567") "12345", TEN("1234567") "12345\r\n" },
		{ TEN("1234567") "123456", TEN("1234567") "12345=\r\n6\r\n" },
		{ TEN("1234567") "1234=", TEN("1234567") "1234=\r\n=3D\r\n" },
		{ TEN("1234567") "12345.x", TEN("1234567") "12345=\r\n=2Ex\r\n" },
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct mail mail = { 0 };
		struct buf expected BUF_AUTO = { 0 };
		struct err err = { "" };
		if (!mail_compose(HEADERS, cases[i].body, strlen(cases[i].body), "k", WALL, &err,
				  &mail))
			fail_msg("%s", err.text);
		buf_addf(&expected, "%s%s", HEAD, cases[i].text);
		assert_string_equal(mail.message.data, expected.data);
		assert_string_equal(mail.from.data, "o@s.example");
		assert_string_equal(mail.to.data, "c@x.example");
		mail_done(&mail);
	}
}

static void headers_are_encoded(void **state)
{
	(void)state;
	static const char *const cases[][2] = {
		{ "From: a@b\nTo: \"D \\\"x\\\" \\\\, J\" <c@d>\nSubject: s\n",
		  "\r\nFrom: a@b\r\nTo: \"D \\\"x\\\" \\\\, J\"\r\n <c@d>\r\nSubject: s\r\n" },
		{ "From: J\xc3\xbcrgen <a@b>\nTo: c@d\nSubject: Gr\xc3\xbc\xc3\x9f"
		  "e\n",
		  "\r\nFrom: =?UTF-8?B?SsO8cmdlbg==?=\r\n <a@b>\r\nTo: c@d\r\n"
		  "Subject: =?UTF-8?B?R3LDvMOfZQ==?=\r\n" },
		{ "From: a@b\nTo: c@d\nSubject: =?x?= y\n",
		  "\r\nSubject: =?UTF-8?B?PT94Pz0geQ==?=\r\n" },
		{ "From: a@b\nTo: c@d\nSubject: \n", "\r\nSubject: \r\nMessage-ID: " },
		/* 44 bytes and a character of three: it is not cut. */
		{ "From: a@b\nTo: c@d\nSubject: " TEN("1234") "1234\xe2\x82\xac\n",
		  "\r\nSubject: "
		  "=?UTF-8?B?MTIzNDEyMzQxMjM0MTIzNDEyMzQxMjM0MTIzNDEyMzQxMjM0MTIzNDEyMzQ=?=\r\n "
		  "=?UTF-8?B?4oKs?=\r\n" },
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct mail mail = { 0 };
		struct err err = { "" };
		if (!mail_compose(cases[i][0], "x", 1, "k", WALL, &err, &mail))
			fail_msg("%s: %s", cases[i][0], err.text);
		if (!strstr(mail.message.data, cases[i][1]))
			fail_msg("%s", mail.message.data);
		mail_done(&mail);
	}
}

static void what_is_no_mail_is_refused(void **state)
{
	(void)state;
	static const char *const cases[][3] = {
		{ "To: a@b\nSubject: s\n", "x", "From is missing" },
		{ "From: a@b\nSubject: s\n", "x", "To is missing" },
		{ "From: a@b\nTo: c@d\n", "x", "Subject is missing" },
		{ "From: a@b, e@f\nTo: c@d\nSubject: s\n", "x", "From: is not one address" },
		{ "From: a@b\nTo: c@d, e@f\nSubject: s\n", "x", "To: is not one address" },
		{ "From: a@b\nTo: c@d\nSubject: a\rb\n", "x", "Subject: holds control" },
		{ "From: a@b\nTo: c@d\nSubject: \xff\n", "x", "Subject: holds control" },
		{ HEADERS, "\xff", "the text is not UTF-8" },
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct mail mail = { 0 };
		struct err err = { "" };
		if (mail_compose(cases[i][0], cases[i][1], strlen(cases[i][1]), "k", WALL, &err,
				 &mail) ||
		    !strstr(err.text, cases[i][2]))
			fail_msg("%s: %s", cases[i][0], err.text);
		mail_done(&mail);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_address_is_one),
		cmocka_unit_test(ids_are_stable_and_apart),
		cmocka_unit_test(texts_are_quoted),
		cmocka_unit_test(headers_are_encoded),
		cmocka_unit_test(what_is_no_mail_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
