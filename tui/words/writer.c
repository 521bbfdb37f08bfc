/* JSON out. */
#include "words/writer.h"

#include <inttypes.h>
#include <string.h>

#include "json.h"
#include "utf8.h"

static void add_name(struct writer *writer, const char *name, const char *suffix)
{
	if (writer->more)
		buf_add_char(writer->out, ',');
	writer->more = true;
	if (name)
		buf_addf(writer->out, "\"%s%s\":", name, suffix);
}

static void add_string(struct writer *writer, const char *text, size_t length)
{
	buf_add_char(writer->out, '"');
	json_escape(writer->out, text, length);
	buf_add_char(writer->out, '"');
}

void writer_open(struct writer *writer, const char *name, char bracket)
{
	add_name(writer, name, "");
	buf_add_char(writer->out, bracket);
	writer->more = false;
}

void writer_close(struct writer *writer, char bracket)
{
	buf_add_char(writer->out, bracket);
	writer->more = true;
}

void writer_text(struct writer *writer, const char *name, const char *text)
{
	add_name(writer, name, "");
	if (text)
		add_string(writer, text, strlen(text));
	else
		buf_add_text(writer->out, "null");
}

static void add_base64(struct writer *writer, const unsigned char *bytes, size_t length)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	buf_add_char(writer->out, '"');
	for (size_t at = 0; at < length; at += 3) {
		size_t left = length - at;
		uint32_t word = (uint32_t)bytes[at] << 16;
		word |= left > 1 ? (uint32_t)bytes[at + 1] << 8 : 0;
		word |= left > 2 ? (uint32_t)bytes[at + 2] : 0;
		const char group[4] = { digits[word >> 18], digits[word >> 12 & 63],
					left > 1 ? digits[word >> 6 & 63] : '=',
					left > 2 ? digits[word & 63] : '=' };
		buf_add(writer->out, group, sizeof(group));
	}
	buf_add_char(writer->out, '"');
}

void writer_bytes(struct writer *writer, const char *name, const char *bytes, size_t length)
{
	bool text = utf8_valid(bytes ? bytes : "", length);
	if (!bytes) {
		writer_text(writer, name, NULL);
	} else if (text) {
		add_name(writer, name, "");
		add_string(writer, bytes, length);
	} else {
		add_name(writer, name, "_base64");
		add_base64(writer, (const unsigned char *)bytes, length);
	}
}

void writer_int(struct writer *writer, const char *name, int64_t number)
{
	add_name(writer, name, "");
	buf_addf(writer->out, "%" PRId64, number);
}

void writer_age(struct writer *writer, const char *name, usec_t age)
{
	writer_int(writer, name, age > 0 ? age / USEC_SEC : 0);
}

void writer_bool(struct writer *writer, const char *name, bool value)
{
	add_name(writer, name, "");
	buf_add_text(writer->out, value ? "true" : "false");
}

void writer_time(struct writer *writer, const char *name, usec_t wall)
{
	char text[32];
	writer_text(writer, name,
		    wall == USEC_NEVER ? NULL : usec_rfc3339(wall, text, sizeof(text)));
}
