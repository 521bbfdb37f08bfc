/* Logging: one line an event on stderr, logfmt or JSON; values are escaped here, so that nothing
 * from outside can forge a line. Never a payload above debug, never a secret. A thing is logged
 * once, where it is handled; common/ itself does not log, except through a callback of a library.
 */
#ifndef COUNTERFOIL_LOG_H
#define COUNTERFOIL_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "usec.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_LOGFMT, LOG_JSON };

struct log; /* opaque; one a program, passed to whoever reports */

struct log_field {
	const char *name; /* a literal; "" is skipped, NULL ends the list */
	const char *text; /* NULL: `number` is the value */
	int64_t number;
};

struct log *log_new(const char *program, enum log_level level, enum log_format format);
void log_free(struct log *log);
void log_level_set(struct log *log, enum log_level level);
bool log_enabled(const struct log *log, enum log_level level);
void log_write(struct log *log, enum log_level level, const char *message,
	       const struct log_field *fields);

static inline const char *log_text(const char *text)
{
	return text ? text : "";
}

/* log_info(log, "lease taken", LOG_TEXT("owner", owner), LOG_INT("token", token)) */
#define LOG_TEXT(name_, text_)                                                                     \
	{                                                                                          \
		.name = (name_), .text = log_text(text_)                                           \
	}
#define LOG_INT(name_, number_)                                                                    \
	{                                                                                          \
		.name = (name_), .number = (int64_t)(number_)                                      \
	}
/* The first, empty one is there for the comma behind it, which goes when no field follows. */
#define LOG_FIELDS(...)                                                                            \
	(const struct log_field[])                                                                 \
	{                                                                                          \
		{ .name = "" }, ##__VA_ARGS__,                                                     \
		{                                                                                  \
			.name = NULL                                                               \
		}                                                                                  \
	}
#define log_error(log, message, ...) log_write((log), LOG_ERROR, (message), LOG_FIELDS(__VA_ARGS__))
#define log_warn(log, message, ...)  log_write((log), LOG_WARN, (message), LOG_FIELDS(__VA_ARGS__))
#define log_info(log, message, ...)  log_write((log), LOG_INFO, (message), LOG_FIELDS(__VA_ARGS__))
#define log_debug(log, message, ...) log_write((log), LOG_DEBUG, (message), LOG_FIELDS(__VA_ARGS__))

/* For what may repeat without end: true when the line should be written now; `held` is then the
 * number of lines kept back since the last one. A zeroed struct starts open. */
struct log_limit {
	usec_t next;
	uint64_t held;
};
bool log_limit_pass(struct log_limit *limit, usec_t now, usec_t every, uint64_t *held_r);

#endif
