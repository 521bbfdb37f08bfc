/* The parts of a key's detail as text: its request, an answer, an error, headers, what was done to
 * it. */
#ifndef COUNTERFOIL_KEY_TEXT_H
#define COUNTERFOIL_KEY_TEXT_H

#include "buf.h"
#include "conf.h"
#include "pg.h"

/* X(symbol, title) in the order of Tab */
#define SECTIONS(X)                                                                                \
	X(REQUEST, "request")                                                                      \
	X(RESPONSE, "response")                                                                    \
	X(ERROR, "error")                                                                          \
	X(HEADERS, "headers")                                                                      \
	X(AUDIT, "audit")

enum section {
#define X(symbol, title) SECTION_##symbol,
	SECTIONS(X)
#undef X
		SECTION_COUNT
};

const char *section_title(enum section section);

/* What is known of the key; NULL is not known yet. */
struct key_text {
	const PGresult *key, *attempts, *audit;
	const PGresult *response; /* of the attempt */
	int attempt;              /* row of attempts; -1: none */
	bool raw;                 /* bodies as they came */
	enum conf_zone zone;
};

void key_text_section(const struct key_text *text, enum section section, struct buf *out);
/* "1.4 KiB json" of the body that the section shows; nothing of another section. */
void key_text_size(const struct key_text *text, enum section section, struct buf *out);
/* An attempt's outcome in a line. */
void key_text_outcome(const PGresult *attempts, int row, struct buf *out);

#endif
