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

/* Appends what stands before the key in its header, which is kept with the request:
 * "Idempotency-Key: ", with a quote behind it where the key is a quoted string; nothing where none
 * is sent. */
void key_header(const struct conf_profile *profile, struct buf *out);

/* Appends "Idempotency-Key: ..." (no line end), by what was kept. False: no key is sent. */
bool key_line(const char *header, const char *key, struct buf *line);

/* Appends "Authorization: ..." (no line end). False: the target has none. A secret: wipe the
 * buffer, never log it. */
bool target_authorization(const struct target *target, struct buf *line);

#endif
