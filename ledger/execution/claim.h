/* Claims: due keys of one target become ours, in the statement that is their send marker as well.
 */
#ifndef LEDGER_CLAIM_H
#define LEDGER_CLAIM_H

#include "fairness.h"
#include "rules/key.h"

/* The times of one target's claims, from the configuration. */
struct claim_plan {
	usec_t window; /* of the provider's memory; USEC_NEVER: endless or none */
	usec_t margin; /* no key is sent later than its window less this, whatever its effect */
	usec_t spare;  /* of the deadline: for what lies around the request */
	usec_t length; /* of the deadline: longer than the longest request */
};
void claim_plan(const struct conf *conf, const struct target *target, struct claim_plan *plan_r);

#define CLAIM_BYTES_MAX ((int64_t)8 * 1024 * 1024) /* of bodies, of one claim */

/* One statement on its way. */
struct claim {
	const struct target *target;
	const char *name; /* of the target, as its keys are recorded */
	size_t lane;      /* the caller's */
	size_t tenant;    /* the same, of one key */
	int64_t owner;
	int64_t rows;    /* asked for */
	int64_t bytes;   /* of bodies; one key is claimed however large it is */
	usec_t asked_at; /* boot clock at its sending: the claims are not older */
	bool probe;      /* for a held target */
	bool alone;      /* of the keys that run alone */
};

struct claim_request {            /* borrowed */
	const char *provider_key; /* as it goes on the wire */
	const char *method;       /* NULL: the request was never rendered */
	const char *url;
	const char *headers; /* "Name: value\n" lines */
	const char *body;    /* NULL: none */
	size_t body_length;
	const char *key_header; /* what stands before the key; NULL: as the profile says */
	bool shadow;            /* nothing is sent */
	bool emits;
	const char *emit_fault; /* why nothing can be emitted; NULL: it can */
	const char *tenant;
};

enum claim_end {
	CLAIM_DONE,
	CLAIM_RACE,     /* a serial key was claimed at the same time: nothing was claimed */
	CLAIM_FAILED,   /* nothing was claimed */
	CLAIM_DOUBTFUL, /* the answer was lost: keys may be claimed that nobody works on */
};

struct claim_events {
	/* For each key; the key is the receiver's to key_done(). was: its state until now. */
	void (*key)(void *arg, const struct claim *claim, enum effect_state was, struct key *key,
		    const struct claim_request *request);
	/* walk: what was seen, unless there was an error; of the keys that run alone, only what was
	 * put aside. why: the error, for a log; "" when there was none. */
	void (*end)(void *arg, const struct claim *claim, enum claim_end end, int64_t got,
		    const struct claim_walk *walk, const char *why);
	void *arg;
};

/* events must outlive the statement; end() is called exactly once, after the keys. turn and tenants
 * are read now. */
void claim_send(struct pg *pg, const struct claim_plan *plan, const struct claim *claim,
		struct turn *turn, const struct tenants *tenants,
		const struct claim_events *events);

/* Puts aside what of paused effects is first in line for this target and tenant; gives its number.
 */
void claim_put_aside(struct pg *pg, const char *target, const char *tenant, pg_done_fn *done,
		     void *arg);

/* Reads the key and the request of a row of SQL_CLAIM or SQL_CLAIM_LOST. */
void claim_read(const PGresult *result, int row, struct key *key_r,
		struct claim_request *request_r);
#define CLAIM_COLUMN_COUNT (KEY_COLUMN_COUNT + 10)

#endif
