/* Signatures of Standard Webhooks (https://www.standardwebhooks.com): HMAC-SHA256 over
 * "id.timestamp.body". */
#include "webhook.h"

#include <inttypes.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

#define PREFIX         "whsec_"
#define KEY_MIN        24 /* by the standard */
#define KEY_MAX        64
#define DIGEST_SIZE    32
#define BASE64_SIZE(n) (((n) + 2) / 3 * 4)

struct webhook_key {
	unsigned char bytes[KEY_MAX + 2]; /* decoding writes whole groups of three */
	size_t length;
};

struct webhook_keys {
	EVP_MAC *hmac;
	struct webhook_key keys[WEBHOOK_KEYS_MAX];
	size_t count;
};

/* --- reading secrets --- */

static bool is_base64(const char *text, size_t length)
{
	static const char alphabet[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t at = 0;
	while (at < length && text[at] && strchr(alphabet, text[at]))
		at++;
	const size_t padding = length - at;
	return length % 4 == 0 && padding <= 2 && strspn(text + at, "=") >= padding;
}

static bool read_key(const char *text, size_t length, struct err *err, struct webhook_key *key)
{
	const size_t prefix = strlen(PREFIX);
	if (length < prefix || memcmp(text, PREFIX, prefix) != 0)
		return err_set(err, "does not begin with \"" PREFIX "\"");
	text += prefix;
	length -= prefix;
	if (!is_base64(text, length))
		return err_set(err, "is no base64 behind \"" PREFIX "\"");
	size_t padding = 0;
	while (padding < length && text[length - 1 - padding] == '=')
		padding++;
	const size_t size = length / 4 * 3 - padding;
	if (size < KEY_MIN || size > KEY_MAX)
		return err_set(err, "is a key of %zu bytes; the standard has %d to %d", size,
			       KEY_MIN, KEY_MAX);
	if (EVP_DecodeBlock(key->bytes, (const unsigned char *)text, (int)length) < 0)
		abort(); /* its characters were looked at */
	key->length = size;
	return true;
}

static bool read_keys(struct webhook_keys *keys, const char *secrets, struct err *err)
{
	for (const char *at = secrets + strspn(secrets, " "); *at; at += strspn(at, " ")) {
		const size_t length = strcspn(at, " ");
		if (keys->count == WEBHOOK_KEYS_MAX)
			return err_set(err, "holds more than %d secrets", WEBHOOK_KEYS_MAX);
		if (!read_key(at, length, err, &keys->keys[keys->count]))
			return err_prefix(err, "secret %zu of the first line", keys->count + 1);
		keys->count++;
		at += length;
	}
	return keys->count || err_set(err, "holds no secret");
}

bool webhook_keys_read(const char *secrets, struct err *err, struct webhook_keys **keys_r)
{
	struct webhook_keys *keys = mem_zero(sizeof(*keys));
	keys->hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	if (!keys->hmac)
		abort();
	if (!read_keys(keys, secrets, err)) {
		webhook_keys_free(keys);
		return false;
	}
	*keys_r = keys;
	return true;
}

void webhook_keys_free(struct webhook_keys *keys)
{
	if (!keys)
		return;
	EVP_MAC_free(keys->hmac);
	explicit_bzero(keys, sizeof(*keys));
	free(keys);
}

/* --- signing --- */

struct message {
	const struct buf *head; /* "id.timestamp." */
	const void *body;
	size_t length;
};

/* A failure is a lack of memory, and a message without its signature must not leave. */
static void sign(EVP_MAC *hmac, const struct webhook_key *key, const struct message *message,
		 unsigned char digest[DIGEST_SIZE])
{
	char sha256[] = "SHA256";
	const OSSL_PARAM params[] = { OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST,
								       sha256, 0),
				      OSSL_PARAM_construct_end() };
	EVP_MAC_CTX *context = EVP_MAC_CTX_new(hmac);
	size_t size;
	if (!context || !EVP_MAC_init(context, key->bytes, key->length, params) ||
	    !EVP_MAC_update(context, (const unsigned char *)message->head->data,
			    message->head->length) ||
	    !EVP_MAC_update(context, message->body, message->length) ||
	    !EVP_MAC_final(context, digest, &size, DIGEST_SIZE) || size != DIGEST_SIZE)
		abort();
	EVP_MAC_CTX_free(context);
}

void webhook_sign(const struct webhook_keys *keys, const char *id, usec_t wall, const void *body,
		  size_t length, struct buf *lines)
{
	struct buf head BUF_AUTO = { 0 };
	const struct message message = { &head, length ? body : "", length };
	unsigned char digest[DIGEST_SIZE], text[BASE64_SIZE(DIGEST_SIZE) + 1];
	buf_addf(&head, "%s.%" PRId64 ".", id, wall / USEC_SEC);
	buf_addf(lines, WEBHOOK_TIMESTAMP ": %" PRId64 "\n" WEBHOOK_SIGNATURE ":", wall / USEC_SEC);
	for (size_t i = 0; i < keys->count; i++) {
		sign(keys->hmac, &keys->keys[i], &message, digest);
		EVP_EncodeBlock(text, digest, DIGEST_SIZE);
		buf_addf(lines, " v1,%s", (const char *)text);
	}
	buf_add_char(lines, '\n');
}
