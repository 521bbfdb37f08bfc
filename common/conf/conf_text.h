/* The text of a configuration file, with its includes, as libconfig gets to see it. */
#ifndef COMMON_CONF_TEXT_H
#define COMMON_CONF_TEXT_H

#include "buf.h"
#include "err.h"

/* From line `first` of the text on, the lines are those of `file` from `line` on. */
struct conf_span {
	unsigned first;
	unsigned line;
	char *file;
};

struct conf_text {
	struct buf text;
	unsigned lines;
	struct conf_span *spans;
	size_t span_count;
};

/* On failure the error names file and line; the text is then still the caller's to clear. */
MUST_USE bool conf_text_read(struct conf_text *text, const char *path, struct err *err);
void conf_text_done(struct conf_text *text);

/* The last line of the text with anything on it. */
unsigned conf_text_last_line(const struct conf_text *text);

/* Where a line of the text (from 1) stands. */
const char *conf_text_place(const struct conf_text *text, unsigned line, unsigned *line_r);

#endif
