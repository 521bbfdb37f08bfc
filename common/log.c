/* One line an event, written with a single write(2): lines of several threads never mix. */
#include "log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buf.h"
#include "json.h"
#include "mem.h"

struct log {
	char *program;
	enum log_level level;
	enum log_format format;
};

static const char *const level_names[] = {
	[LOG_ERROR] = "error", [LOG_WARN] = "warn", [LOG_INFO] = "info", [LOG_DEBUG] = "debug"
};

struct log *log_new(const char *program, enum log_level level, enum log_format format)
{
	struct log *log = mem_zero(sizeof(*log));
	log->program = mem_text(program);
	log->level = level;
	log->format = format;
	return log;
}

void log_free(struct log *log)
{
	if (!log)
		return;
	free(log->program);
	free(log);
}

void log_level_set(struct log *log, enum log_level level)
{
	log->level = level;
}

bool log_enabled(const struct log *log, enum log_level level)
{
	return level <= log->level;
}

static bool plain(const char *text)
{
	if (!*text)
		return false;
	for (const unsigned char *c = (const unsigned char *)text; *c; c++)
		if (*c <= ' ' || *c == '"' || *c == '=' || *c == '\\' || *c >= 0x7f)
			return false;
	return true;
}

static void add_logfmt(struct buf *line, const char *name, const char *text)
{
	buf_addf(line, "%s%s=", line->length ? " " : "", name);
	if (plain(text)) {
		buf_add_text(line, text);
		return;
	}
	buf_add_char(line, '"');
	json_escape(line, text, strlen(text));
	buf_add_char(line, '"');
}

static void add_json(struct buf *line, const char *name, const char *text)
{
	buf_addf(line, "%s\"%s\":\"", line->length > 1 ? "," : "", name);
	json_escape(line, text, strlen(text));
	buf_add_char(line, '"');
}

static void add_field(const struct log *log, struct buf *line, const struct log_field *field)
{
	if (field->text && log->format == LOG_JSON)
		add_json(line, field->name, field->text);
	else if (field->text)
		add_logfmt(line, field->name, field->text);
	else if (log->format == LOG_JSON)
		buf_addf(line, ",\"%s\":%" PRId64, field->name, field->number);
	else
		buf_addf(line, " %s=%" PRId64, field->name, field->number);
}

/* Under journald a line may begin with its priority. */
static void add_priority(struct buf *line, enum log_level level)
{
	static const char *const priorities[] = {
		[LOG_ERROR] = "<3>", [LOG_WARN] = "<4>", [LOG_INFO] = "<6>", [LOG_DEBUG] = "<7>"
	};
	if (getenv("JOURNAL_STREAM"))
		buf_add_text(line, priorities[level]);
}

void log_write(struct log *log, enum log_level level, const char *message,
	       const struct log_field *fields)
{
	if (!log_enabled(log, level))
		return;
	BUF_AUTO struct buf body = { 0 };
	char now[32];
	if (log->format == LOG_JSON)
		buf_add_char(&body, '{');
	const struct log_field first[] = {
		LOG_TEXT("ts", usec_rfc3339(usec_wall(), now, sizeof(now))),
		LOG_TEXT("level", level_names[level]), LOG_TEXT("program", log->program),
		LOG_TEXT("msg", message)
	};
	for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
		add_field(log, &body, &first[i]);
	for (const struct log_field *field = fields; field->name; field++) {
		if (*field->name)
			add_field(log, &body, field);
	}
	if (log->format == LOG_JSON)
		buf_add_char(&body, '}');
	buf_add_char(&body, '\n');

	BUF_AUTO struct buf line = { 0 };
	add_priority(&line, level);
	buf_add(&line, body.data, body.length);
	/* a log that cannot be written must not stop the work */
	if (write(STDERR_FILENO, line.data, line.length) < 0)
		return;
}

bool log_limit_pass(struct log_limit *limit, usec_t now, usec_t every, uint64_t *held_r)
{
	if (now < limit->next) {
		limit->held++;
		return false;
	}
	*held_r = limit->held;
	limit->held = 0;
	limit->next = now + every;
	return true;
}
