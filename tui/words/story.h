/* Why a key is where it is, in a sentence or two. Pure. */
#ifndef COUNTERFOIL_STORY_H
#define COUNTERFOIL_STORY_H

#include "buf.h"
#include "conf.h"
#include "pg.h"

struct story {
	const char *state;
	const char *mode;
	const char *target;
	const char *effect, *tenant;
	const char *owner;       /* short name; NULL: nobody */
	const char *outcome;     /* NULL: none yet */
	const char *error_class; /* "" : none */
	const char *provider_id; /* NULL: none */
	const char *hold_reason; /* NULL: none */
	const char *resolution;  /* what a person decided; NULL: nobody has */
	const char *note;        /* the last one; NULL: none */
	const char *replay_of;   /* the completed key that it repeats by force; NULL: none */
	const char *forced;      /* the keys that repeat it; NULL: none */
	const char *older;       /* the one it waits behind; NULL: none is known */
	int64_t key_number;      /* N of its provider key base~rN; 0: the first */
	int64_t tries;
	int64_t unknown; /* sends without an answer that says applied or not */
	usec_t now;      /* all times are the database's */
	usec_t due;
	usec_t window_until; /* USEC_NEVER: endless, or never sent */
	usec_t paused_until;
	usec_t not_after;
	bool rendered; /* there is a request */
	bool stale;
	bool held;
	bool all_paused, effect_paused, tenant_paused; /* until a person resumes it */
	bool behind;                /* waits for an older key of its serial key */
	bool ledgers;               /* at least one is alive */
	bool emit_due, emit_failed; /* the event or dead letter that follows from its end */
};

/* From a row of SQL_KEY; its texts are borrowed. `owner` is a buffer of 64 bytes. */
void story_read(const PGresult *key, char *owner, struct story *story_r);
void story_tell(const struct story *story, enum conf_zone zone, struct buf *out);

/* "ledger-1" of "ledger-1/1f3a90bc/4711". */
const char *story_owner(const char *name, char *buffer, size_t size);

#endif
