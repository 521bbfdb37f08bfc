/* Messages as RFC 5322 and MIME have them: everything but ASCII is encoded, so that no server has
 * to offer more than SMTP's oldest form. */
#include "mail.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "fingerprint.h"
#include "utf8.h"

#define LOCAL_MAX   64
#define ID_MAX      300 /* of what stands for the key */
#define PLAIN_MAX   200 /* bytes of a value that may stand on one line as it is */
#define WORD_BYTES  45  /* of an encoded word: 60 characters, and 12 around them */
#define LINE_MAX_QP 75  /* a soft line break comes behind it */

void mail_done(struct mail *mail)
{
	buf_done(&mail->from);
	buf_done(&mail->to);
	buf_done(&mail->message);
}

/* --- addresses --- */

struct text {
	const char *at;
	size_t length;
};

static void trim(struct text *text)
{
	while (text->length && strchr(" \t", text->at[0])) {
		text->at++;
		text->length--;
	}
	while (text->length && strchr(" \t", text->at[text->length - 1]))
		text->length--;
}

/* Pieces with single dots between them. */
static bool is_dotted(struct text text, const char *others)
{
	bool dot = true;
	for (size_t i = 0; i < text.length; i++) {
		const char c = text.at[i];
		if (c == '.' ? dot : !isalnum((unsigned char)c) && !strchr(others, c))
			return false;
		dot = c == '.';
	}
	return !dot;
}

static bool is_address(struct text text)
{
	const char *at = memrchr(text.at, '@', text.length);
	if (!at || text.length > MAIL_ADDRESS_MAX || memchr(text.at, '\0', text.length))
		return false;
	const struct text local = { text.at, (size_t)(at - text.at) };
	const struct text domain = { at + 1, text.length - local.length - 1 };
	return local.length <= LOCAL_MAX && is_dotted(local, "!#$%&'*+-/=?^_`{|}~") &&
	       domain.at[0] != '-' && is_dotted(domain, "-");
}

/* A name in quotes is taken out of them; it is quoted again, or encoded, when it is sent. */
static void unquote(struct text name, struct buf *out)
{
	const bool quoted =
		name.length >= 2 && name.at[0] == '"' && name.at[name.length - 1] == '"';
	const size_t end = name.length - (quoted ? 1 : 0);
	for (size_t i = quoted ? 1 : 0; i < end; i++) {
		if (quoted && name.at[i] == '\\' && i + 1 < end)
			i++;
		buf_add_char(out, name.at[i]);
	}
}

static bool split(const char *text, struct buf *name, struct buf *address)
{
	struct text all = { text, strlen(text) }, part;
	trim(&all);
	const char *open = memchr(all.at, '<', all.length);
	part = all;
	if (open) {
		struct text before = { all.at, (size_t)(open - all.at) };
		if (all.at[all.length - 1] != '>')
			return false;
		part = (struct text){ open + 1, all.length - before.length - 2 };
		trim(&before);
		if (!utf8_printable(before.at, before.length))
			return false;
		unquote(before, name);
	}
	if (!is_address(part))
		return false;
	buf_add(address, part.at, part.length);
	return true;
}

static bool split_or_say(const char *text, struct err *err, struct buf *name, struct buf *address)
{
	return split(text, name, address) ||
	       err_set(err, "is not one address, as \"a@b.example\" or \"Name <a@b.example>\" "
			    "(a domain with other letters is written in its xn-- form)");
}

bool mail_address(const char *text, struct err *err, struct buf *address)
{
	struct buf name BUF_AUTO = { 0 };
	return split_or_say(text, err, &name, address);
}

/* --- headers --- */

static bool is_plain(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return length <= PLAIN_MAX && !strstr(text, "=?");
}

/* As encoded words of RFC 2047, one a line, none of which cuts a character. */
static void add_words(struct buf *out, const char *text, size_t length)
{
	unsigned char word[WORD_BYTES / 3 * 4 + 1];
	for (size_t at = 0; at < length;) {
		size_t size = length - at < WORD_BYTES ? length - at : WORD_BYTES;
		while (at + size < length && ((unsigned char)text[at + size] & 0xc0) == 0x80)
			size--;
		EVP_EncodeBlock(word, (const unsigned char *)text + at, (int)size);
		buf_addf(out, "%s=?UTF-8?B?%s?=", at ? "\r\n " : "", (const char *)word);
		at += size;
	}
}

static void add_name(struct buf *out, const struct buf *name)
{
	if (!is_plain(buf_text(name), name->length)) {
		add_words(out, name->data, name->length);
		return;
	}
	buf_add_char(out, '"');
	for (size_t i = 0; i < name->length; i++) {
		if (strchr("\"\\", name->data[i]))
			buf_add_char(out, '\\');
		buf_add_char(out, name->data[i]);
	}
	buf_add_char(out, '"');
}

static bool add_mailbox(struct buf *out, const char *header, const char *value, struct err *err,
			struct buf *address)
{
	struct buf name BUF_AUTO = { 0 };
	if (!split_or_say(value, err, &name, address))
		return err_prefix(err, "%s", header);
	buf_addf(out, "%s: ", header);
	if (name.length) {
		add_name(out, &name);
		buf_addf(out, "\r\n <%s>\r\n", address->data);
	} else {
		buf_addf(out, "%s\r\n", address->data);
	}
	return true;
}

static void add_subject(struct buf *out, const char *value)
{
	const size_t length = strlen(value);
	buf_add_text(out, "Subject: ");
	if (is_plain(value, length))
		buf_add_text(out, value);
	else
		add_words(out, value, length);
	buf_add_text(out, "\r\n");
}

static void add_date(struct buf *out, usec_t wall)
{
	static const char days[][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
	static const char months[][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
					  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
	const time_t seconds = (time_t)(wall / USEC_SEC);
	struct tm tm = { 0 };
	(void)gmtime_r(&seconds, &tm);
	buf_addf(out, "Date: %s, %d %s %d %02d:%02d:%02d +0000\r\n", days[tm.tm_wday], tm.tm_mday,
		 months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

/* What stands in the local part as it is; everything else is "=" and two digits, so that no two
 * keys become one; where that becomes too long for a line, a digest. */
void mail_message_id(const char *key, const char *sender, struct buf *out)
{
	const char *at = strrchr(sender, '@');
	char hex[SHA256_HEX_SIZE];
	struct buf local BUF_AUTO = { 0 };
	for (const char *c = key; *c; c++) {
		if (isalnum((unsigned char)*c) || strchr("-_~", *c))
			buf_add_char(&local, *c);
		else
			buf_addf(&local, "=%02X", (unsigned)(unsigned char)*c);
	}
	if (local.length > ID_MAX) {
		sha256_hex(key, strlen(key), hex);
		buf_clear(&local);
		buf_addf(&local, "cf-%s", hex);
	}
	buf_addf(out, "<%s@%s>", buf_text(&local), at ? at + 1 : "localhost");
}

/* --- the text, quoted-printable --- */

struct quoting {
	struct buf *out;
	size_t column;
};

static void add_quoted(struct quoting *quoting, unsigned char c, bool as_is)
{
	const size_t width = as_is ? 1 : 3;
	if (quoting->column + width > LINE_MAX_QP) {
		buf_add_text(quoting->out, "=\r\n");
		quoting->column = 0;
		as_is = as_is && c != '.';
	}
	if (as_is)
		buf_add_char(quoting->out, (char)c);
	else
		buf_addf(quoting->out, "=%02X", (unsigned)c);
	quoting->column += as_is ? 1 : 3;
}

/* LF or CR LF ends a line; a blank before it and a dot at its beginning are encoded, for servers
 * take the one away and the protocol means something by the other. */
static void add_text(struct buf *out, const char *body, size_t length)
{
	struct quoting quoting = { .out = out };
	for (size_t i = 0; i < length; i++) {
		const unsigned char c = (unsigned char)body[i];
		const bool crlf = c == '\r' && i + 1 < length && body[i + 1] == '\n';
		const bool last = i + 1 == length || strchr("\r\n", body[i + 1]);
		if (crlf)
			continue;
		if (c == '\n') {
			buf_add_text(out, "\r\n");
			quoting.column = 0;
			continue;
		}
		const bool blank = c == ' ' || c == '\t';
		const bool dot = c == '.' && quoting.column == 0;
		add_quoted(&quoting, c,
			   (blank && !last) || (c > ' ' && c < 0x7f && c != '=' && !dot));
	}
	if (quoting.column)
		buf_add_text(out, "\r\n");
}

/* --- all of it --- */

/* The value of a recorded header; NULL: it is not there. */
static char *find(const char *headers, const char *name, struct buf *value)
{
	const size_t length = strlen(name);
	buf_clear(value);
	for (const char *end, *at = headers; (end = strchr(at, '\n')); at = end + 1) {
		if (strncasecmp(at, name, length) != 0 || strncmp(at + length, ": ", 2) != 0)
			continue;
		buf_add(value, at + length + 2, (size_t)(end - at) - length - 2);
		return value->data;
	}
	return NULL;
}

void mail_sender(const char *headers, struct buf *address)
{
	struct buf name BUF_AUTO = { 0 }, value BUF_AUTO = { 0 };
	if (find(headers, "From", &value))
		(void)split(value.data, &name, address);
}

static bool add_header(const char *headers, struct err *err, struct mail *mail)
{
	struct buf value BUF_AUTO = { 0 };
	struct buf *out = &mail->message;
	if (!find(headers, "From", &value))
		return err_set(err, "From is missing");
	if (!add_mailbox(out, "From", value.data, err, &mail->from))
		return false;
	if (!find(headers, "To", &value))
		return err_set(err, "To is missing");
	if (!add_mailbox(out, "To", value.data, err, &mail->to))
		return false;
	if (!find(headers, "Subject", &value))
		return err_set(err, "Subject is missing");
	if (!utf8_printable(value.data, value.length))
		return err_set(err, "Subject: holds control characters, or is not UTF-8");
	add_subject(out, value.data);
	return true;
}

bool mail_compose(const char *headers, const char *body, size_t length, const char *key,
		  usec_t wall, struct err *err, struct mail *mail)
{
	struct buf *out = &mail->message;
	if (!utf8_valid(body, length))
		return err_set(err, "the text is not UTF-8");
	add_date(out, wall);
	if (!add_header(headers, err, mail))
		return false;
	buf_add_text(out, "Message-ID: ");
	mail_message_id(key, mail->from.data, out);
	buf_add_text(out, "\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
			  "Content-Transfer-Encoding: quoted-printable\r\n\r\n");
	add_text(out, body, length);
	return true;
}
