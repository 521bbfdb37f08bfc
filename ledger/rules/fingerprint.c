/* Fingerprints by XXH3-128, digests by SHA-256. */
#include "fingerprint.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

void length_bytes(size_t length, uint8_t bytes[8])
{
	uint64_t rest = length;

	for (int i = 8; i-- > 0; rest >>= 8)
		bytes[i] = (uint8_t)rest;
}

void fingerprint_of(const struct fingerprint_part *parts, size_t count,
		    uint8_t fingerprint[EFFECT_FINGERPRINT_SIZE])
{
	XXH3_state_t *state = XXH3_createState();
	XXH128_canonical_t canonical;
	uint8_t length[8];

	if (!state || XXH3_128bits_reset(state) != XXH_OK)
		abort(); /* out of memory, as in mem_grow() */
	for (size_t i = 0; i < count; i++) {
		length_bytes(parts[i].length, length);
		(void)XXH3_128bits_update(state, length, sizeof(length));
		if (parts[i].length)
			(void)XXH3_128bits_update(state, parts[i].data, parts[i].length);
	}
	XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
	(void)XXH3_freeState(state);
	_Static_assert(sizeof(canonical.digest) == EFFECT_FINGERPRINT_SIZE, "XXH3-128");
	memcpy(fingerprint, canonical.digest, EFFECT_FINGERPRINT_SIZE);
}

void sha256_hex(const void *data, size_t length, char hex[SHA256_HEX_SIZE])
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned size;

	if (EVP_Digest(length ? data : "", length, digest, &size, EVP_sha256(), NULL) != 1)
		abort(); /* no memory, or no SHA-256: no key can be made, and a wrong one must not
			    be */
	for (unsigned i = 0; i < size && 2 * i + 2 < SHA256_HEX_SIZE; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}
