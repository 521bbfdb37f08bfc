/* Fairness among the tenants of a target. Pure, and of the same size however many tenants there
 * are: of a target only the tenant whose turn it is next is remembered.
 *
 * Weighted round robin: the tenants come one after the other, in the order of their names, and each
 * that has due keys may have as many as its weight is before the next one's turn, or more when
 * there is room for more than that of all. Who was served waits until all others have been looked
 * at. */
#ifndef LEDGER_FAIRNESS_H
#define LEDGER_FAIRNESS_H

#include "conf.h"

/* --- whose turn it is --- */

/* Of one target. A zeroed one begins with the first tenant. */
struct turn {
	struct buf first; /* no tenant before this one is looked at */
	int64_t credit;   /* what `first` may still have in its turn; 0: its weight */
	usec_t floor;     /* of due_at, of tenant ""; wall. 0: none */
	usec_t full_at;   /* boot clock: when a walk began without it */
	bool all;         /* the next one does */
};

void turn_done(struct turn *turn);

/* What a claim has seen of the tenants from `first` on. Texts are borrowed, and NULL for none. */
struct claim_walk {
	const char *walked;   /* the last that was looked at */
	bool ended;           /* there is no tenant behind it */
	const char *served;   /* the last that got keys */
	int64_t got;          /* so many */
	int64_t weight;       /* with this weight, or credit */
	bool cut;             /* no more could be claimed, though there may be more */
	bool more;            /* a tenant got all that it was to have: it may have more */
	int64_t aside;        /* keys of paused effects that were put aside */
	const char *aside_of; /* a tenant of theirs */
	bool alone;           /* keys are due that run alone */
	usec_t floor;         /* of `first`: what is due since before that was claimed, or passed */
};

/* Moves on to whoever comes next. True: go on at once, for there is room left, and tenants with due
 * keys may not have been looked at. */
bool turn_next(struct turn *turn, const struct claim_walk *walk);

/* From which due time on the next walk looks at its first tenant. Every second one looks at all,
 * for a key may come back to where it was, and one that has waited for others comes late; or now,
 * once such keys are known of. */
usec_t turn_floor(struct turn *turn, usec_t now);
void turn_look_at_all(struct turn *turn);

/* --- the tenants that the configuration names --- */

struct tenants;

#define TENANT_OTHER SIZE_MAX /* weight 1, no cap */

struct tenants *tenants_new(const struct conf *conf); /* borrows it */
void tenants_free(struct tenants *tenants);
size_t tenants_count(const struct tenants *tenants);
size_t tenants_find(const struct tenants *tenants, const char *name); /* or TENANT_OTHER */
bool tenants_capped(const struct tenants *tenants);                   /* any of them */

/* Keys in flight, in this process; of TENANT_OTHER nothing is counted. */
void tenants_take(struct tenants *tenants, size_t tenant);
void tenants_put(struct tenants *tenants, size_t tenant);

struct tenant_share {
	const char *name;
	int64_t weight;
	int64_t room; /* keys at most; USEC_NEVER: any number */
};
struct tenant_share tenants_share(const struct tenants *tenants, size_t tenant);

#endif
