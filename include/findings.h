/* --check-config --connect: what the servers say, one finding a line. Blocking, within about ten
 * seconds, and nothing is changed anywhere. */
#ifndef COUNTERFOIL_FINDINGS_H
#define COUNTERFOIL_FINDINGS_H

#include "conf.h"
#include "err.h"
#include "main.h"
#include "pg_session.h"

enum findings_level {
	FINDING_OK,
	FINDING_WARNING,
	FINDING_ERROR,
	FINDING_UNREACHABLE, /* an error of the moment, perhaps */
};

struct findings {
	unsigned warnings;
	unsigned errors;
	unsigned unreachable;
};

/* Prints the finding, cleaned of what could forge a line. It names the remedy, and no secret. */
void findings_say(struct findings *findings, enum findings_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Errors before what was not reached: those do not mend themselves. */
enum exit_code findings_code(const struct findings *findings, bool strict);

/* What a program does with a table or sequence: "counterfoil.outbox", "SELECT, DELETE". */
struct findings_right {
	const char *relation;
	const char *rights;
};

/* Connects as the program does and says who has reached which server, whether it takes writes,
 * whether the schema fits and the database is ours, and which rights are missing (the list ends
 * with one without a name). False: nothing more can be asked. The session is the caller's. */
MUST_USE bool findings_postgres(struct findings *findings, const struct conf *conf,
				const char *program, const struct findings_right *rights,
				struct pg_session **session_r);

#endif
