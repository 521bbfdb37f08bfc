/* URLs, connection strings, headers, topics. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "conf/conf_net.h"

struct pair {
	const char *text;
	const char *why; /* NULL: good */
};

typedef bool check_fn(const char *text, struct err *err);

static void check_all(check_fn *check, const struct pair *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct err err = { "" };
		bool ok = check(cases[i].text, &err);
		assert_string_equal(err.text, cases[i].why ? cases[i].why : "");
		assert_int_equal(ok, cases[i].why == NULL);
	}
}

static void addresses_to_listen_on(void **state)
{
	(void)state;
	static const char form[] = "is not HOST:PORT, with a port from 0 to 65535 (0: any)";
	static const char bracket[] = "an address in brackets is not closed with ]";
	static const struct pair cases[] = {
		{ "127.0.0.1:9464", NULL },
		{ "localhost:0", NULL },
		{ "0.0.0.0:65535", NULL },
		{ "[::1]:9464", NULL },
		{ "[fe80::1%eth0]:1", NULL },
		{ "9464", form },
		{ "localhost", form },
		{ "localhost:", form },
		{ "localhost:http", form },
		{ "localhost:65536", form },
		{ "localhost:999999", form },
		{ "localhost:-1", form },
		{ "[::1]", form },
		{ ":9464", "has no host; write 127.0.0.1 for this machine only, 0.0.0.0 or [::] "
			   "for all that reach it" },
		{ "::1:9464", "an IPv6 address stands in brackets, as in [::1]:9464" },
		{ "[::1:9464", bracket },
		{ "[]x:1", bracket },
		{ "a b:1", "the host is not a name or an address (a name with other letters is "
			   "written in its xn-- form)" },
	};
	check_all(conf_listen_check, cases, sizeof(cases) / sizeof(cases[0]));
}

static void urls(void **state)
{
	(void)state;
	static const char mail[] = "behind a mail server only \"/\" and a name may follow: our "
				   "own, by which we greet it";
	static const char port[] = "the port is not a number from 1 to 65535";
	static const char host[] =
		"the host is not a name or an address (a name with other letters "
		"is written in its xn-- form)";
	static const struct pair cases[] = {
		{ "http://h", NULL },
		{ "HTTPS://api.example.com:8443/v1/", NULL },
		{ "https://h/a%20b/~x/@y", NULL },
		{ "http://127.0.0.1:1", NULL },
		{ "http://[::1]", NULL },
		{ "http://[fe80::1%25eth0]:65535/x", NULL },
		{ "http://h/..a/b..", NULL },
		{ "", "has no scheme; write http://HOST or https://HOST" },
		{ "api.example.com", "has no scheme; write http://HOST or https://HOST" },
		{ "://h", "has no scheme; write http://HOST or https://HOST" },
		{ "ftp://h", "the scheme must be http, https, smtp or smtps" },
		{ "httpx://h", "the scheme must be http, https, smtp or smtps" },
		{ "smtps://h", NULL },
		{ "SMTP://h:587", NULL },
		{ "smtp://h/", NULL },
		{ "smtp://h/our.name", NULL },
		{ "smtp://h/our.name/x", mail },
		{ "smtps://h/a_b", mail },
		{ "smtpx://h", "the scheme must be http, https, smtp or smtps" },
		{ "smtp://u@h", "holds a user name; write auth and secret_file instead" },
		{ "http://", "has no host" },
		{ "http:///x", "has no host" },
		{ "http://:80", "has no host" },
		{ "http://h:", port },
		{ "http://h:0", port },
		{ "http://h:65536", port },
		{ "http://h:99999999999", port },
		{ "http://h:80a", port },
		{ "http://h:80:90", port },
		{ "http://[::1", "an address in brackets is not closed with ]" },
		{ "http://[::1]x", "behind an address in brackets only a port may follow" },
		{ "http://h,i", host },
		{ "http://u@h", "holds a user name; write auth and secret_file instead" },
		{ "http://u:p@h:80/x", "holds a user name; write auth and secret_file instead" },
		{ "http://h?a=b", "holds a query; it belongs in request.query of the effects" },
		{ "http://h/x?", "holds a query; it belongs in request.query of the effects" },
		{ "http://h/x#y", "holds a fragment (#), which is never sent" },
		{ "http://h/./x", "holds a segment \".\" or \"..\"" },
		{ "http://h/x/..", "holds a segment \".\" or \"..\"" },
		{ "http://h/ x", "character 10 cannot stand in a URL; write it percent-encoded" },
		{ "http://h\r\nX: y",
		  "character 9 cannot stand in a URL; write it percent-encoded" },
		{ "http://h/${a}", "character 11 cannot stand in a URL; write it percent-encoded" },
		{ "http://m\xc3\xbcll",
		  "character 9 cannot stand in a URL; write it percent-encoded" },
	};
	check_all(conf_url_check, cases, sizeof(cases) / sizeof(cases[0]));
}

static void connection_strings(void **state)
{
	(void)state;
	static const char password[] = "holds a password; write postgres.password_file, a service "
				       "file or PGPASSFILE instead";
	static const char key[] =
		"holds a sslpassword; write postgres.password_file, a service file "
		"or PGPASSFILE instead";
	static const struct pair cases[] = {
		{ "", NULL },
		{ "dbname=shop host=/run user=relay", NULL },
		{ "service=shop passfile=/x", NULL },
		{ "application_name='password=x'", NULL },
		{ "application_name=a\\ password=x", NULL },
		{ "application_name='it\\'s password=x'", NULL },
		{ "dbname=password", NULL },
		{ "what is this", NULL }, /* libpq's to refuse */
		{ "password=x", password },
		{ " password = 'x y'", password },
		{ "dbname=a\tpassword=", password },
		{ "dbname='a' password=x", password },
		{ "dbname=a\\\\ password=x", password },
		{ "dbname= password=x", NULL }, /* libpq reads a database of that name */
		{ "sslkey=k sslpassword=x", key },
		{ "postgresql://", NULL },
		{ "postgres://user@h1:5432,h2/db?sslmode=require", NULL },
		{ "postgresql://h/d?options=password", NULL },
		{ "postgresql:///d?host=/a:b@c", NULL },
		{ "postgresql://u:x@h/d", password },
		{ "postgres://u:@h", password },
		{ "postgresql://h/d?password=x", password },
		{ "postgresql://h/d?a=b&pass%77ord=x", password },
		{ "postgresql://?sslpassword=x", key },
	};
	check_all(conf_conninfo_check, cases, sizeof(cases) / sizeof(cases[0]));
}

static void topics(void **state)
{
	(void)state;
	static const char why[] = "is not the name of a topic: letters, digits, \".\", \"_\" and "
				  "\"-\", at most 249";
	char longest[251];
	memset(longest, 'a', sizeof(longest));
	longest[249] = '\0';
	assert_true(conf_topic_check(longest, NULL));
	longest[249] = 'a';
	longest[250] = '\0';
	assert_false(conf_topic_check(longest, NULL));
	static const struct pair cases[] = {
		{ "orders", NULL }, { "a.B-c_9", NULL }, { "...", NULL },
		{ "", why },        { ".", why },        { "..", why },
		{ "a b", why },     { "a/b", why },      { "\xc3\xa4", why },
	};
	check_all(conf_topic_check, cases, sizeof(cases) / sizeof(cases[0]));
}

static void headers(void **state)
{
	(void)state;
	assert_true(conf_header_check("X-Order", "${/id} \xc3\xa4", NULL));
	assert_true(conf_header_check("!#$%&'*+-.^_`|~09az", "", NULL));
	static const char *const names[] = { "", "a b", "a:", "a\r", "\xc3\xa4", "(x)" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_false(conf_header_name_check(names[i], NULL));
	static const char *const reserved[] = { "Authorization",  "content-type",
						"Content-Length", "TRANSFER-ENCODING",
						"connection",     "Keep-Alive",
						"Upgrade",        "te",
						"Trailer",        "Expect" };
	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
		assert_false(conf_header_name_check(reserved[i], NULL));
	static const char *const values[] = { "a\r\nb", "a\n", "\x01", "a\x7f", "\t" };
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		assert_false(conf_header_value_check(values[i], NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_to_listen_on),
		cmocka_unit_test(urls),
		cmocka_unit_test(connection_strings),
		cmocka_unit_test(topics),
		cmocka_unit_test(headers),
	};
	return cmocka_run_group_tests_name("conf_net", tests, NULL, NULL);
}
