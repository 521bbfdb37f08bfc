/* A key as the statements of execution return it: what a decision on it needs. */
#ifndef LEDGER_KEY_H
#define LEDGER_KEY_H

#include "effect.h"
#include "outcome/life.h"
#include "pg.h"
#include "rules.h"

#define KEY_NAME_SIZE 100

struct key {
	int64_t id;
	char name[KEY_NAME_SIZE]; /* the idempotency key, for a log: cut when it is long */
	int32_t epoch;
	int64_t owner; /* instance that has claimed it; 0: none */
	int32_t replays;
	usec_t since; /* in its state: of a claimed key, the time of the claim */
	char *effect;
	char *topic; /* of its event */
	struct life life;
};

#define KEY_COLUMN_COUNT 20 /* of KEY_COLUMNS in sql_execution.h */

void key_read(const PGresult *result, int row, struct key *key_r);
void key_done(struct key *key);
void key_name_set(struct key *key, const char *name, size_t length);

/* Of a line about a key: the number that the database knows it by, and its name. */
#define LOG_KEY(key_) LOG_INT("id", (key_)->id), LOG_TEXT("key", (key_)->name)

/* What was configured for the key's effect; the configuration's own default when it has left the
 * configuration while its target stayed. margin: of its target, see claim_plan(). */
void key_policy(const struct key *key, const struct rules *rules,
		const struct conf_profile *profile, usec_t margin, struct life_policy *policy_r);

/* The dead-letter event of a key: where it goes, and the id that it has however often it is made.
 */
struct key_letter {
	uint8_t id[16];
	struct buf topic;
};
void key_letter(const struct key *key, const struct rules *rules, struct key_letter *letter_r);

/* The id of the event that a completed key emits, however often it is made. */
void key_emit_id(const struct key *key, uint8_t id_r[16]);

#endif
