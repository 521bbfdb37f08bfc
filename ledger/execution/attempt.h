/* Attempts: from a claimed key to its result. */
#ifndef LEDGER_ATTEMPT_H
#define LEDGER_ATTEMPT_H

#include "claim.h"
#include "marker.h"
#include "meter.h"
#include "result.h"
#include "sending/http.h"
#include "targets/targets.h"

struct attempts;

struct attempts_events {
	/* Its slot is free, and that of its tenant: see struct claim. */
	void (*ended)(void *arg, const struct target *target, size_t tenant);
	void *arg;
};

/* Borrows all of them. plans: one a target, by its index. */
struct attempts *attempts_new(struct loop *loop, const struct conf *conf, const struct rules *rules,
			      const struct claim_plan *plans, struct targets *targets,
			      struct markers *markers, struct results *results, struct meter *meter,
			      const struct attempts_events *events);
void attempts_free(struct attempts *attempts); /* takes back what runs */

/* Sends the request, once its marker is set; or nothing: no byte leaves after `until` of the boot
 * clock, where the lease ends. Takes the key. */
void attempts_start(struct attempts *attempts, const struct claim *claim, struct key *key,
		    const struct claim_request *request, usec_t until);
/* Nothing is sent: the key goes back. Takes the key. */
void attempts_put_back(struct attempts *attempts, const struct claim *claim, struct key *key,
		       const struct claim_request *request);
void attempts_take_back(struct attempts *attempts); /* every transfer, at once */

size_t attempts_count(const struct attempts *attempts);
int64_t attempts_bytes(const struct attempts *attempts); /* of their bodies */
void attempts_ids(const struct attempts *attempts, struct pg_array *ids);

#endif
