/* A page of keys that the sweep has decided on. Pure, but for reading and writing rows. */
#ifndef LEDGER_SWEPT_H
#define LEDGER_SWEPT_H

#include "claim.h"

struct swept {
	struct key key;
	enum effect_state from;
	char *target;
	const char *why; /* error_class, from a closed list */
	struct life_step step;
	bool has_letter;
	struct key_letter letter;
};

struct swept_page {
	struct swept *items;
	size_t count;
};

#define SWEPT_COLUMN_COUNT (KEY_COLUMN_COUNT + 3) /* of SQL_STALE, and the first of SQL_EXPIRED */

/* Reads a row of SQL_STALE or SQL_EXPIRED and decides on it. swept_expired() returns false when
 * there is nothing to do: its time is not over after all. */
void swept_stale(struct swept_page *page, const PGresult *result, int row,
		 const struct rules *rules, const struct claim_plan *plans);
bool swept_expired(struct swept_page *page, const PGresult *result, int row,
		   const struct rules *rules, const struct claim_plan *plans);

/* The parameters of SQL_TAKE_OVER and SQL_EXPIRE. */
bool swept_letters(const struct swept_page *page); /* is there a dead letter? */
void swept_params(const struct swept_page *page, bool with_letters, struct pg_params *params);
void swept_clear(struct swept_page *page);

#endif
