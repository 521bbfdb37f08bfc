/* What intake says of itself in the log, and how often. */
#include "intake_report.h"

#define FAILURES_EVERY   (10 * USEC_SEC)
#define POSITIONS_EVERY  (10 * USEC_SEC)
#define DUPLICATES_EVERY USEC_MIN

void report_init(struct intake_report *report, struct log *log, usec_t now)
{
	*report = (struct intake_report){ .log = log, .duplicates_at = now + DUPLICATES_EVERY };
}

void report_failure(struct intake_report *report, usec_t now, enum failure failure,
		    const char *error)
{
	static const char *const messages[] = {
#define X(symbol, message) message,
		FAILURES(X)
#undef X
	};
	uint64_t more;

	if (log_limit_pass(&report->failures[failure], now, FAILURES_EVERY, &more))
		log_warn(report->log, messages[failure], LOG_TEXT("error", error),
			 LOG_INT("more", more));
}

void report_counts(struct intake_report *report, size_t messages,
		   const struct record_counts *counts)
{
	report->duplicates += counts->duplicates;
	log_debug(report->log, "recorded", LOG_INT("messages", messages),
		  LOG_INT("effects", counts->effects), LOG_INT("duplicates", counts->duplicates),
		  LOG_INT("unmatched", counts->unmatched));
	if (counts->dead + counts->conflicts + counts->poison > 0)
		log_warn(report->log, "recorded with trouble", LOG_INT("dead", counts->dead),
			 LOG_INT("conflicts", counts->conflicts),
			 LOG_INT("poison", counts->poison));
}

void report_duplicates(struct intake_report *report, usec_t now)
{
	if (now < report->duplicates_at)
		return;
	if (report->duplicates > 0)
		log_info(report->log, "duplicates suppressed",
			 LOG_INT("count", report->duplicates));
	report->duplicates = 0;
	report->duplicates_at = now + DUPLICATES_EVERY;
}

void report_position(struct intake_report *report, usec_t now, const struct position *position,
		     enum position_step step, int64_t expected, int64_t offset)
{
	static const char *const meanings[] = {
		[POSITION_NEXT] = "",
		[POSITION_BELOW] = "the topic was made anew, or has lost its end",
		[POSITION_GONE] = "messages were deleted before they were read",
	};
	uint64_t more;

	if (!log_limit_pass(&report->positions, now, POSITIONS_EVERY, &more))
		return;
	log_warn(report->log, "position out of range", LOG_TEXT("topic", position->topic),
		 LOG_INT("partition", position->partition), LOG_INT("position", expected),
		 LOG_INT("offset", offset), LOG_TEXT("meaning", meanings[step]),
		 LOG_INT("more", more));
}
