/* What a provider's profile makes of a key. */
#include "profile.h"

#include <string.h>

#include "fingerprint.h"

#define HASHED_PREFIX "cf-"
#define HASHED_DIGITS 40

/* The set is written as in "a-zA-Z0-9_-": a '-' at either end is itself. */
static bool in_set(const char *set, char c)
{
	for (const char *at = set; *at; at++) {
		if (at[1] == '-' && at[2]) {
			if (c >= at[0] && c <= at[2])
				return true;
			at += 2;
		} else if (*at == c) {
			return true;
		}
	}
	return false;
}

static bool takes(const struct conf_profile *profile, const char *key, size_t length)
{
	if ((int64_t)length > profile->max_length - PROVIDER_KEY_SPARE)
		return false;
	for (size_t i = 0; i < length; i++) {
		if (key[i] <= ' ' || key[i] >= 0x7f)
			return false;
		if (*profile->characters && !in_set(profile->characters, key[i]))
			return false;
	}
	return true;
}

/* A key that looks like one of ours is hashed as well: nobody else can choose such a key. */
static bool looks_hashed(const char *key, size_t length)
{
	return length == strlen(HASHED_PREFIX) + HASHED_DIGITS &&
	       !strncmp(key, HASHED_PREFIX, strlen(HASHED_PREFIX));
}

void hashed_key(struct buf *key)
{
	char hex[SHA256_HEX_SIZE];

	sha256_hex(key->data, key->length, hex);
	buf_clear(key);
	buf_addf(key, HASHED_PREFIX "%.*s", HASHED_DIGITS, hex);
}

void provider_key(const struct conf_profile *profile, const struct buf *tenant,
		  const struct buf *key, struct buf *out)
{
	buf_clear(out);
	if (tenant->length) {
		buf_add(out, tenant->data, tenant->length);
		buf_add_text(out, "~:"); /* no key holds a '~': none without a tenant looks so */
	}
	buf_add(out, buf_text(key), key->length);
	if (!takes(profile, out->data, out->length) || looks_hashed(out->data, out->length))
		hashed_key(out);
}

void key_header(const struct conf_profile *profile, struct buf *out)
{
	if (!*profile->header)
		return;
	buf_addf(out, "%s: ", profile->header);
	switch (profile->quoting) {
	case CONF_QUOTING_RAW:
		break;
	case CONF_QUOTING_STRING: /* RFC 8941: a string in quotes */
		buf_add_char(out, '"');
		break;
	}
}

bool key_line(const char *header, const char *key, struct buf *line)
{
	size_t length = strlen(header);

	if (!length)
		return false;
	buf_add(line, header, length);
	if (header[length - 1] != '"') {
		buf_add_text(line, key);
		return true;
	}
	for (const char *p = key; *p; p++)
		buf_addf(line, *p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
	buf_add_char(line, '"');
	return true;
}

bool target_authorization(const struct target *target, struct buf *line)
{
	if (!target->authorization)
		return false;
	buf_addf(line, "Authorization: %s", target->authorization);
	return true;
}
