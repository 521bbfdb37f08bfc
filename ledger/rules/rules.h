/* The configured effects, compiled: which events lead to which request on which target.
 * A pure core: no library of the network or the database, no clock. */
#ifndef LEDGER_RULES_H
#define LEDGER_RULES_H

#include "buf.h"
#include "conf.h"
#include "event.h"

struct rules;
struct rule_code; /* private: compiled templates */
struct webhook_keys;

struct target {
	const struct conf_target *conf;
	const struct conf_profile *profile;
	char *base;                   /* the URL without a trailing slash */
	char *authorization;          /* rendered with its secret, or NULL; never logged */
	struct webhook_keys *signing; /* NULL: not signed, or nothing is sent */
	size_t index;                 /* 0 .. rules_target_count() - 1 */
};

/* The names under which keys of a target are recorded: its former ones as they are listed, then its
 * own; NULL behind the last. New keys are recorded under the first, so that a rename moves nothing:
 * what was recorded before and after it is in one order, and no key is there twice. */
const char *target_name(const struct target *target, size_t index);
bool target_is_called(const struct target *target, const char *name);

struct rule {
	const struct conf_effect *conf;
	const struct target *target;
	const struct rule_code *code;
	bool shadow; /* its events are recorded, and nothing is sent */
};

/* Compiles and checks everything that the configuration leaves to the ledger: templates, key lint
 * (deterministic, made of something from the event, not of offsets or the clock), targets and
 * profiles named, modes served, window longer than its margin. All faults at once, one a line, each
 * with its place. Warnings go to `warnings`, one a line. conf must outlive the rules. */
MUST_USE bool rules_new(const struct conf *conf, struct buf *faults, struct buf *warnings,
			struct rules **rules_r);
/* The same, for what is only shown: no secret is read, and RULES_REDACTED stands in its place. */
#define RULES_REDACTED "[redacted]"
MUST_USE bool rules_new_redacted(const struct conf *conf, struct buf *faults, struct buf *warnings,
				 struct rules **rules_r);
void rules_free(struct rules *rules);

/* As it is recorded: of mail RULES_MAIL, not the configured one. */
#define RULES_MAIL "MAIL"
const char *rule_method(const struct rule *rule);
bool target_is_mail(const struct target *target);

size_t rules_target_count(const struct rules *rules);
const struct target *rules_target(const struct rules *rules, size_t index);
/* By any of its names; NULL: none, its target has left the configuration. */
const struct target *rules_target_called(const struct rules *rules, const char *name);
/* NULL when the effect has left the configuration. */
const struct rule *rules_find(const struct rules *rules, const char *effect, size_t length);
/* The distinct topics to subscribe to. */
size_t rules_topic_count(const struct rules *rules);
const char *rules_topic(const struct rules *rules, size_t index);

/* Larger than these nothing is recorded as a request: the key is born dead, with the reason. */
#define RULES_URL_MAX    8192
#define RULES_HEADER_MAX 8192 /* a line */
#define RULES_BODY_MAX   (16 * 1024 * 1024)

/* What one rule makes of one event. A zeroed draft is empty; reuse it from event to event. */
struct draft {
	const struct rule *rule;
	struct buf key;          /* idempotency key */
	struct buf tenant;       /* "" : none */
	struct buf provider_key; /* as it goes on the wire, before quoting */
	struct buf url;
	struct buf serial_key; /* "": sent in no order */
	/* Content-Type, the target's headers and the effect's, rendered: "Name: value\n" each. An
	 * empty one is left out. The key and the secret are not here: the sender adds them. Of
	 * mail: From, To and Subject. */
	struct buf headers;
	struct buf body;    /* empty when body_is_value */
	struct buf emit;    /* the event that follows, as emit_make() keeps it; "": none */
	bool body_is_value; /* the event's value is sent byte for byte */
	bool dead;          /* key and tenant stand, but the request could not be rendered */
	char why[512];      /* when dead: the reason, with the name of the place */
	uint8_t fingerprint[EFFECT_FINGERPRINT_SIZE];
	usec_t not_after;  /* wall; USEC_NEVER: none */
	usec_t delay;      /* due so long after it was recorded */
	usec_t not_before; /* nor due before that time; wall; USEC_NEVER: none */
};
void draft_done(struct draft *draft);

/* Receives each draft of an event; borrowed for the call. */
typedef void rules_draft_fn(void *arg, const struct draft *draft);

enum rules_verdict {
	RULES_MATCHED,   /* every matching rule gave a draft */
	RULES_UNMATCHED, /* no rule matches this topic and type */
	RULES_POISON, /* at least one matching rule could not make its key: the text says why; the
		       * other rules still gave theirs */
};

/* Renders the event by every matching rule, in the order of the configuration. A tombstone matches
 * only effects that say tombstone = true; its pointers find nothing. The value is read as JSON
 * once, and only if a matching rule needs it. */
enum rules_verdict rules_apply(struct rules *rules, const struct event *event, usec_t now,
			       struct err *why, rules_draft_fn *fn, void *arg);

#endif
