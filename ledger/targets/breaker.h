/* The circuit breaker of one target, as one process sees it. Pure.
 *
 * It opens when requests fail to reach the target, or too many of the last answers say that the
 * target is unwell: what waits then waits in peace, instead of using up its attempts on an outage.
 *
 *   CLOSED --failures in a row, or their share--> OPEN --its time is over, and the trial is ours-->
 *   TRIAL --the key is claimed--> TRYING --an answer--> CLOSED
 *     ^  \--no key came in time--> OPEN   |  \--failed--> OPEN, for its whole time again
 *     \----------nothing was sent---------/
 *
 * The state of all processes is target_state.breaker_until: NULL is CLOSED, a time OPEN; once it is
 * over, of all processes one gets the trial, by compare and set, and the others see a later time.
 * What is decided here counts here at once, and is then written there; what the others decided
 * comes back through breaker_see_open() and breaker_see_closed(). */
#ifndef LEDGER_BREAKER_H
#define LEDGER_BREAKER_H

#include "conf.h"
#include "outcome/outcome.h"
#include "usec.h"

#define BREAKER_WINDOW 100 /* answers of which a share is taken */
#define BREAKER_LEAST  20  /* fewer say nothing */

enum breaker_state {
	BREAKER_CLOSED, /* everything passes, and answers are counted */
	BREAKER_OPEN,   /* nothing passes; once `until` is over a trial may be asked for */
	BREAKER_TRIAL,  /* one key of ours may pass, until `until` */
	BREAKER_TRYING, /* it is on its way */
};

/* What an attempt says of the target's health. */
enum breaker_sign {
	BREAKER_NOTHING,     /* nothing was tried */
	BREAKER_WELL,        /* it answered, whatever became of the key */
	BREAKER_UNWELL,      /* 5xx, 408, or no answer to what had been sent */
	BREAKER_UNREACHABLE, /* nothing could be sent */
};
enum breaker_sign breaker_sign(const struct verdict *verdict);

struct breaker {
	struct conf_breaker conf;
	enum breaker_state state;
	usec_t until;     /* boot clock; of OPEN and TRIAL */
	usec_t since;     /* of CLOSED: what began before says nothing of the target now */
	int64_t failures; /* in a row that did not reach it */
	bool unwell[BREAKER_WINDOW]; /* the last answers, a ring */
	size_t count, next;
};

enum breaker_news {
	BREAKER_SAME,
	BREAKER_OPENED,   /* too many failures: to be written */
	BREAKER_REOPENED, /* the trial failed: to be written */
	BREAKER_HEALED,   /* the trial succeeded: to be written */
};

void breaker_init(struct breaker *breaker, const struct conf_breaker *conf);
/* Of an attempt that began at `started`; probe: it is the one that was let through. */
enum breaker_news breaker_judge(struct breaker *breaker, enum breaker_sign sign, bool probe,
				usec_t started, usec_t now);
/* What the database says, where that is not our own doing. */
void breaker_see_open(struct breaker *breaker, usec_t until);
void breaker_see_closed(struct breaker *breaker, usec_t now);

bool breaker_wants_trial(const struct breaker *breaker, usec_t now);
void breaker_grant(struct breaker *breaker, usec_t until); /* the trial is ours until then */
void breaker_try(struct breaker *breaker);                 /* a key is claimed for it */
void breaker_untry(struct breaker *breaker);               /* there was none */

bool breaker_closed(const struct breaker *breaker);
bool breaker_lets_one(const struct breaker *breaker, usec_t now);

#endif
