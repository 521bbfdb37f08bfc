/* librdkafka's properties as users write them. */
#include "conf/conf_properties.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "conf/conf_file.h"
#include "mem.h"

#define FILE_MAX ((size_t)256 * 1024)

static const struct owned {
	const char *pattern;
	const char *why;
} owned_properties[] = {
	{ "acks", "it is always \"all\", or a published event could be lost" },
	{ "request.required.acks", "it is always \"all\", or a published event could be lost" },
	{ "enable.idempotence", "it is always on, or a retry could break the order" },
	{ "enable.gapless.guarantee", "the relay decides what a failed message means" },
	{ "transactional.id", "the relay's producer is idempotent, not transactional" },
	{ "message.timeout.ms", "a message that timed out would be a gap in the order" },
	{ "delivery.timeout.ms", "a message that timed out would be a gap in the order" },
	{ "retries", "a message given up would be a gap in the order" },
	{ "message.send.max.retries", "a message given up would be a gap in the order" },
	{ "partitioner", "the partition follows the ordering key, as with the Java client" },
	{ "sticky.partitioning.linger.ms",
	  "the partition follows the ordering key, as with the Java client" },
	{ "delivery.report.only.error", "a row is deleted when its delivery is reported" },
	{ "queue.buffering.max.messages", "write relay.window_rows" },
	{ "queue.buffering.max.kbytes", "write relay.window_bytes" },
	{ "group.id", "write ledger.group" },
	{ "enable.auto.*", "the position is kept in the database" },
	{ "auto.commit.*", "the position is kept in the database" },
	{ "auto.offset.reset", "the position is kept in the database; write ledger.start" },
	{ "isolation.level", "it is always \"read_committed\"" },
	{ "partition.assignment.strategy", "partitions are assigned eagerly" },
	{ "enable.partition.eof", "the ledger decides which events it takes" },
	{ "*_cb", "it is no setting, but a function" },
	{ "opaque", "it is no setting, but a function's argument" },
	{ "log.queue", "the log of the client goes into the program's own" },
};

static const char *const secret_properties[] = {
	"sasl.password",
	"ssl.key.password",
	"ssl.key.pem",
	"ssl.keystore.password",
	"sasl.oauthbearer.client.secret",
	"sasl.oauthbearer.config",
};

const char *properties_owned(const char *name)
{
	for (size_t i = 0; i < sizeof(owned_properties) / sizeof(owned_properties[0]); i++)
		if (fnmatch(owned_properties[i].pattern, name, 0) == 0)
			return owned_properties[i].why;
	return NULL;
}

bool properties_secret(const char *name)
{
	for (size_t i = 0; i < sizeof(secret_properties) / sizeof(secret_properties[0]); i++)
		if (strcmp(secret_properties[i], name) == 0)
			return true;
	return false;
}

/* --- the file -----------------------------------------------------------------------------------
 */

struct parser {
	const char *path;
	const char *at;
	const char *end;
	unsigned line;
	struct err *err;
};

static bool refuse(const struct parser *parser, const char *why)
{
	return err_set(parser->err, "%s:%u: %s", parser->path, parser->line, why);
}

static char peek(const struct parser *parser)
{
	if (parser->at == parser->end)
		return '\n';
	return *parser->at;
}

static bool blank(char c)
{
	return c == ' ' || c == '\t' || c == '\f';
}

static void skip_blanks(struct parser *parser)
{
	while (parser->at < parser->end && blank(*parser->at))
		parser->at++;
}

static bool at_line_end(const struct parser *parser)
{
	return peek(parser) == '\n' || peek(parser) == '\r';
}

static void next_line(struct parser *parser)
{
	if (peek(parser) == '\r')
		parser->at++;
	if (parser->at < parser->end && *parser->at == '\n')
		parser->at++;
	parser->line++;
}

static void add_utf8(struct buf *out, unsigned code)
{
	if (code < 0x80) {
		buf_add_char(out, (char)code);
	} else if (code < 0x800) {
		buf_add_char(out, (char)(0xc0 | (code >> 6)));
		buf_add_char(out, (char)(0x80 | (code & 0x3f)));
	} else {
		buf_add_char(out, (char)(0xe0 | (code >> 12)));
		buf_add_char(out, (char)(0x80 | ((code >> 6) & 0x3f)));
		buf_add_char(out, (char)(0x80 | (code & 0x3f)));
	}
}

static bool unicode_escape(struct parser *parser, struct buf *out)
{
	char digits[5] = { 0 };
	for (int i = 0; i < 4; i++)
		if (parser->end - parser->at > i)
			digits[i] = parser->at[i];
	if (strspn(digits, "0123456789abcdefABCDEF") != 4)
		return refuse(parser, "\\u is followed by four hexadecimal digits");
	unsigned code = (unsigned)strtoul(digits, NULL, 16);
	if (code == 0 || (code >= 0xd800 && code <= 0xdfff))
		return refuse(parser, "this \\u character cannot stand here; write it as UTF-8");
	parser->at += 4;
	add_utf8(out, code);
	return true;
}

/* Behind a backslash. */
static bool escape(struct parser *parser, struct buf *out)
{
	static const char letters[] = "tnrf";
	static const char meant[] = "\t\n\r\f";
	if (parser->at == parser->end)
		return true;
	if (at_line_end(parser)) {
		next_line(parser);
		skip_blanks(parser);
		return true;
	}
	char c = *parser->at++;
	if (c == 'u')
		return unicode_escape(parser, out);
	if (c == '\0')
		return refuse(parser, "the file holds a NUL byte");
	const char *letter = strchr(letters, c);
	if (letter)
		c = meant[letter - letters];
	buf_add_char(out, c);
	return true;
}

/* Up to the end of the line, or to what ends a name. */
static bool take(struct parser *parser, bool name, struct buf *out)
{
	while (!at_line_end(parser)) {
		char c = peek(parser);
		if (c == '\0')
			return refuse(parser, "the file holds a NUL byte");
		if (name && (blank(c) || c == '=' || c == ':'))
			return true;
		parser->at++;
		if (c != '\\')
			buf_add_char(out, c);
		else if (!escape(parser, out))
			return false;
	}
	return true;
}

static bool take_entry(struct parser *parser, struct properties *properties)
{
	BUF_AUTO struct buf name = { 0 };
	BUF_AUTO struct buf value = { 0 };
	unsigned line = parser->line;
	if (!take(parser, true, &name))
		return false;
	skip_blanks(parser);
	if (peek(parser) == '=' || peek(parser) == ':')
		parser->at++;
	skip_blanks(parser);
	if (name.length == 0)
		return refuse(parser, "a name is missing before the \"=\"");
	if (!take(parser, false, &value))
		return false;
	properties->items =
		mem_grow(properties->items, properties->count + 1, sizeof(*properties->items));
	buf_add(&value, "", 0);
	properties->items[properties->count++] = (struct property){ .name = buf_take(&name),
								    .value = buf_take(&value),
								    .line = line };
	return true;
}

static bool parse(struct parser *parser, struct properties *properties)
{
	while (parser->at < parser->end) {
		skip_blanks(parser);
		if (peek(parser) == '#' || peek(parser) == '!') {
			while (!at_line_end(parser))
				parser->at++;
		} else if (!at_line_end(parser) && !take_entry(parser, properties)) {
			return false;
		}
		next_line(parser);
	}
	return true;
}

bool properties_read(const char *path, struct err *err, struct properties *properties_r)
{
	BUF_AUTO struct buf text = { 0 };
	struct properties properties = { 0 };
	if (!conf_file_read(path, FILE_MAX, err, &text))
		return err_prefix(err, "%s", path);
	struct parser parser = { .path = path, .at = buf_text(&text), .line = 1, .err = err };
	parser.end = parser.at + text.length;
	bool ok = parse(&parser, &properties);
	if (!ok) {
		properties_done(&properties);
		return false;
	}
	*properties_r = properties;
	return true;
}

void properties_done(struct properties *properties)
{
	for (size_t i = 0; i < properties->count; i++) {
		free(properties->items[i].value);
		free(properties->items[i].name);
	}
	free(properties->items);
	*properties = (struct properties){ 0 };
}
