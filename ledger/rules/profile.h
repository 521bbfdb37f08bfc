/* What a provider's profile makes of a key, and the request lines that are added when it is sent.
 */
#ifndef LEDGER_PROFILE_H
#define LEDGER_PROFILE_H

#include "buf.h"
#include "rules.h"

#define PROVIDER_KEY_SPARE 8 /* kept free for the "~rN" of a replay with a new key */

/* The key as the provider sees it, before quoting: the key, or "tenant~:key", or what stands for it
 * ("cf-" and 40 digits of its SHA-256) where the profile does not take it as it is. */
void provider_key(const struct conf_profile *profile, const struct buf *tenant,
		  const struct buf *key, struct buf *out);

/* What stands for a key that is too long, in its place. */
void hashed_key(struct buf *key);

/* Appends "Idempotency-Key: ..." as the profile wants it (no line end). False: the profile sends no
 * key. */
bool profile_header(const struct target *target, const char *key, struct buf *line);

/* Appends "Authorization: ..." (no line end). False: the target has none. A secret: wipe the
 * buffer, never log it. */
bool target_authorization(const struct target *target, struct buf *line);

#endif
