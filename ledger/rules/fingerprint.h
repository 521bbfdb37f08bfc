/* What is compared to tell a repeated request from another one, and the digests for keys. */
#ifndef LEDGER_FINGERPRINT_H
#define LEDGER_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>

#include "effect.h"

struct fingerprint_part {
	const void *data;
	size_t length;
};

/* XXH3-128 over the parts, each with its length before it, so that no byte can move from one part
 * to the next unseen. Canonical (big-endian) bytes: the same on every machine. */
void fingerprint_of(const struct fingerprint_part *parts, size_t count,
		    uint8_t fingerprint[EFFECT_FINGERPRINT_SIZE]);

#define SHA256_HEX_SIZE 65

/* SHA-256 in lower-case hexadecimal. */
void sha256_hex(const void *data, size_t length, char hex[SHA256_HEX_SIZE]);

/* A length as eight bytes, the highest first: the prefix that both digests use. */
void length_bytes(size_t length, uint8_t bytes[8]);

#endif
