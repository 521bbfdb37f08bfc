/* From a recorded request of mail to its transfer. */
#ifndef LEDGER_MAIL_START_H
#define LEDGER_MAIL_START_H

#include "execution/claim.h"
#include "smtp.h"

struct mail_order { /* borrowed */
	const struct target *target;
	const struct claim_request *request;
	usec_t wall;  /* its date */
	usec_t until; /* boot clock: nothing is said of the mail later */
	size_t answer_max;
};

/* False: no message can be made of it. That it can was seen when it was recorded. */
MUST_USE bool mail_start(struct loop *loop, const struct mail_order *order, smtp_done_fn *done,
			 void *arg, struct smtp_transfer **transfer_r);

#endif
