/* Checks of what goes to the network, each with its remedy. */
#include "conf/conf_net.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "buf.h"
#include "conf.h"

#define TOPIC_MAX 249
#define HOST_MAX  253

static bool is_one_of(char c, const char *set)
{
	return c && strchr(set, c);
}

static bool all_alnum_or(const char *text, size_t length, const char *others)
{
	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char)text[i]) && !is_one_of(text[i], others))
			return false;
	return true;
}

/* --- URL ---------------------------------------------------------------------------------------
 */

static bool has_scheme(const char *url, size_t length, const char *scheme)
{
	return length == strlen(scheme) && strncasecmp(url, scheme, length) == 0;
}

bool conf_url_is_mail(const char *url)
{
	const char *colon = strstr(url, "://");
	size_t length = colon ? (size_t)(colon - url) : 0;
	return has_scheme(url, length, "smtp") || has_scheme(url, length, "smtps");
}

/* What stands behind http:// or https://, smtp:// or smtps://, or NULL. */
static const char *after_scheme(const char *url, struct err *err)
{
	const char *colon = strstr(url, "://");
	size_t length = colon ? (size_t)(colon - url) : 0;
	if (length == 0)
		err_set(err, "has no scheme; write http://HOST or https://HOST");
	else if (has_scheme(url, length, "http") || has_scheme(url, length, "https") ||
		 conf_url_is_mail(url))
		return colon + 3;
	else
		err_set(err, "the scheme must be http, https, smtp or smtps");
	return NULL;
}

static bool check_port(const char *port, size_t length, struct err *err)
{
	int number = 0;
	for (size_t i = 0; i < length; i++) {
		if (!isdigit((unsigned char)port[i]) || number > 65535)
			return err_set(err, "the port is not a number from 1 to 65535");
		number = number * 10 + (port[i] - '0');
	}
	if (number < 1 || number > 65535)
		return err_set(err, "the port is not a number from 1 to 65535");
	return true;
}

static bool check_host(const char *authority, size_t length, struct err *err)
{
	size_t host = length;
	bool bracket = length > 0 && authority[0] == '[';
	const char *end = memchr(authority, bracket ? ']' : ':', length);
	if (bracket && !end)
		return err_set(err, "an address in brackets is not closed with ]");
	if (end)
		host = (size_t)(end - authority) + (bracket ? 1 : 0);
	if (host == 0)
		return err_set(err, "has no host");
	if (host > HOST_MAX || !all_alnum_or(authority, host, bracket ? "[]:.%-" : ".-_"))
		return err_set(err,
			       "the host is not a name or an address (a name with other letters "
			       "is written in its xn-- form)");
	if (host == length)
		return true;
	if (authority[host] != ':')
		return err_set(err, "behind an address in brackets only a port may follow");
	return check_port(authority + host + 1, length - host - 1, err);
}

bool conf_listen_check(const char *address, struct err *err)
{
	const char *colon = strrchr(address, ':');
	const char *port = colon ? colon + 1 : "";
	size_t digits = strspn(port, "0123456789");
	if (digits == 0 || digits > 5 || port[digits] || strtol(port, NULL, 10) > 65535)
		return err_set(err, "is not HOST:PORT, with a port from 0 to 65535 (0: any)");
	if (colon == address)
		return err_set(err, "has no host; write 127.0.0.1 for this machine only, 0.0.0.0 "
				    "or [::] for all that reach it");
	size_t host = (size_t)(colon - address);
	if (*address != '[' && memchr(address, ':', host))
		return err_set(err, "an IPv6 address stands in brackets, as in [::1]:9464");
	if (*address == '[' && colon[-1] != ']')
		return err_set(err, "an address in brackets is not closed with ]");
	return check_host(address, host, err);
}

static bool has_dot_segment(const char *path)
{
	while (path && *path == '/') {
		const char *segment = path + 1;
		size_t length = strcspn(segment, "/");
		if ((length == 1 || length == 2) && strncmp(segment, "..", length) == 0)
			return true;
		path = segment + length;
	}
	return false;
}

static bool check_mail_path(const char *path, struct err *err)
{
	if (!*path || all_alnum_or(path + 1, strlen(path + 1), ".-"))
		return true;
	return err_set(err, "behind a mail server only \"/\" and a name may follow: our own, by "
			    "which we greet it");
}

bool conf_url_check(const char *url, struct err *err)
{
	for (const char *c = url; *c; c++)
		if (*c <= ' ' || *c >= 0x7f || is_one_of(*c, "\"<>\\^`{|}"))
			return err_set(err,
				       "character %zu cannot stand in a URL; write it "
				       "percent-encoded",
				       (size_t)(c - url) + 1);
	const char *authority = after_scheme(url, err);
	if (!authority)
		return false;
	size_t length = strcspn(authority, "/?#");
	if (memchr(authority, '@', length))
		return err_set(err, "holds a user name; write auth and secret_file instead");
	if (!check_host(authority, length, err))
		return false;
	const char *path = authority + length;
	if (strchr(path, '#'))
		return err_set(err, "holds a fragment (#), which is never sent");
	if (strchr(path, '?'))
		return err_set(err, "holds a query; it belongs in request.query of the effects");
	if (has_dot_segment(path))
		return err_set(err, "holds a segment \".\" or \"..\"");
	return !conf_url_is_mail(url) || check_mail_path(path, err);
}

/* --- connection string --------------------------------------------------------------------------
 */

static bool refuse_secret(const char *keyword, size_t length, struct err *err)
{
	static const char *const secrets[] = { "password", "sslpassword" };
	for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++)
		if (strlen(secrets[i]) == length && memcmp(keyword, secrets[i], length) == 0)
			return err_set(
				err,
				"holds a %s; write postgres.password_file, a service file or "
				"PGPASSFILE instead",
				secrets[i]);
	return true;
}

static const char *skip_blanks(const char *at)
{
	while (isspace((unsigned char)*at))
		at++;
	return at;
}

/* The end of a value: 'quoted', or up to a blank; a backslash takes the next character along. */
static const char *skip_value(const char *at)
{
	bool quoted = *at == '\'';
	if (quoted)
		at++;
	while (*at && (quoted ? *at != '\'' : !isspace((unsigned char)*at)))
		at += at[0] == '\\' && at[1] ? 2 : 1;
	return quoted && *at ? at + 1 : at;
}

static bool check_words(const char *at, struct err *err)
{
	for (at = skip_blanks(at); *at; at = skip_blanks(at)) {
		size_t length = 0;
		while (at[length] && at[length] != '=' && !isspace((unsigned char)at[length]))
			length++;
		const char *equals = skip_blanks(at + length);
		if (*equals != '=')
			return true; /* libpq will say so */
		if (!refuse_secret(at, length, err))
			return false;
		at = skip_value(skip_blanks(equals + 1));
	}
	return true;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void percent_decode(const char *text, size_t length, struct buf *out)
{
	for (size_t i = 0; i < length; i++) {
		bool escape = text[i] == '%' && i + 2 < length && hex_digit(text[i + 1]) >= 0 &&
			      hex_digit(text[i + 2]) >= 0;
		if (!escape) {
			buf_add_char(out, text[i]);
			continue;
		}
		buf_add_char(out, (char)(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2])));
		i += 2;
	}
}

static bool check_uri(const char *rest, struct err *err)
{
	size_t user = strcspn(rest, "@/");
	if (rest[user] == '@' && memchr(rest, ':', user))
		return refuse_secret("password", strlen("password"), err);
	const char *query = strchr(rest, '?');
	while (query && *query) {
		BUF_AUTO struct buf keyword = { 0 };
		const char *name = query + 1;
		percent_decode(name, strcspn(name, "=&"), &keyword);
		if (!refuse_secret(buf_text(&keyword), keyword.length, err))
			return false;
		query = strchr(name, '&');
	}
	return true;
}

bool conf_conninfo_check(const char *conninfo, struct err *err)
{
	static const char *const schemes[] = { "postgresql://", "postgres://" };
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (strncmp(conninfo, schemes[i], strlen(schemes[i])) == 0)
			return check_uri(conninfo + strlen(schemes[i]), err);
	return check_words(conninfo, err);
}

/* --- headers and topics -------------------------------------------------------------------------
 */

static const struct reserved {
	const char *name;
	const char *why;
} reserved_headers[] = {
	{ "Authorization", "write auth and secret_file of the target" },
	{ "Content-Type", "write request.content_type" },
	{ "Content-Length", "it is made from the body" },
	{ "Transfer-Encoding", "it is made from the body" },
	{ "Connection", "connections are kept by the program" },
	{ "Keep-Alive", "connections are kept by the program" },
	{ "Upgrade", "requests are HTTP/1.1" },
	{ "TE", "requests are HTTP/1.1" },
	{ "Trailer", "requests are HTTP/1.1" },
	{ "Expect", "with it a request can be sent twice" },
};

bool conf_header_name_check(const char *name, struct err *err)
{
	size_t length = strlen(name);
	if (length == 0 || !all_alnum_or(name, length, "!#$%&'*+-.^_`|~"))
		return err_set(err, "is not the name of a header: letters, digits and "
				    "!#$%%&'*+-.^_`|~ only");
	for (size_t i = 0; i < sizeof(reserved_headers) / sizeof(reserved_headers[0]); i++)
		if (strcasecmp(name, reserved_headers[i].name) == 0)
			return err_set(err, "the header %s cannot be set here: %s", name,
				       reserved_headers[i].why);
	return true;
}

bool conf_header_is_secret(const char *name)
{
	static const char *const words[] = { "auth",    "token",    "secret", "api-key",   "apikey",
					     "api_key", "password", "cookie", "credential" };
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcasestr(name, words[i]))
			return true;
	return false;
}

bool conf_header_value_check(const char *value, struct err *err)
{
	for (const char *c = value; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return err_set(err, "the value holds a control character");
	return true;
}

bool conf_header_check(const char *name, const char *value, struct err *err)
{
	return conf_header_name_check(name, err) && conf_header_value_check(value, err);
}

bool conf_topic_check(const char *topic, struct err *err)
{
	size_t length = strlen(topic);
	if (length == 0 || length > TOPIC_MAX || !all_alnum_or(topic, length, "._-") ||
	    strcmp(topic, ".") == 0 || strcmp(topic, "..") == 0)
		return err_set(err, "is not the name of a topic: letters, digits, \".\", \"_\" and "
				    "\"-\", at most 249");
	return true;
}
