/* The options of an order about many keys. */
#ifndef COUNTERFOIL_BULK_OPTIONS_H
#define COUNTERFOIL_BULK_OPTIONS_H

#include "buf.h"
#include "commands/call.h"

#define BULK_STATES_MAX 8

struct bulk_options {
	/* of the selection; NULL: not given */
	const char *states[BULK_STATES_MAX]; /* as the database calls them */
	size_t state_count;
	const char *error, *target, *tenant, *effect, *topic, *key_prefix;
	usec_t older_than; /* 0: any */

	bool happened, did_not_happen; /* of a resolve */

	double rate;        /* keys a second; 0: none */
	int64_t stop_after; /* 0: never */
	bool canary;
	bool wait;
};

/* Is an order of this command about many keys? */
bool bulk_asked(int argc, char **argv);
/* The common ones go to the call. False: it ends with *code_r, and what there is to say was said.
 */
MUST_USE bool bulk_options_read(struct call *call, int argc, char **argv,
				struct bulk_options *options_r, enum exit_code *code_r);
/* As counterfoil.bulk_draft takes them. */
void bulk_options_params(const struct bulk_options *options, struct buf *out);

#endif
