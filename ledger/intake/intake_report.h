/* What intake says of itself in the log, and how often. */
#ifndef LEDGER_INTAKE_REPORT_H
#define LEDGER_INTAKE_REPORT_H

#include "log.h"
#include "positions.h"
#include "record.h"

/* X(symbol, message) */
#define FAILURES(X)                                                                                \
	X(MOVED, "position moved elsewhere")                                                       \
	X(REFUSED, "batch refused, to be written in halves")                                       \
	X(GIVEN_UP, "batch given up, to be read again")                                            \
	X(NOT_READ, "partitions cannot be read")

enum failure {
#define X(symbol, message) FAILURE_##symbol,
	FAILURES(X)
#undef X
		FAILURE_COUNT
};

struct intake_report {
	struct log *log;
	int64_t duplicates; /* since they were last logged */
	usec_t duplicates_at;
	struct log_limit failures[FAILURE_COUNT];
	struct log_limit positions;
};

void report_init(struct intake_report *report, struct log *log, usec_t now);
void report_failure(struct intake_report *report, usec_t now, enum failure failure,
		    const char *error);
void report_counts(struct intake_report *report, size_t messages,
		   const struct record_counts *counts);
/* A line a minute, if there were any. */
void report_duplicates(struct intake_report *report, usec_t now);
void report_position(struct intake_report *report, usec_t now, const struct position *position,
		     enum position_step step, int64_t expected, int64_t offset);

#endif
