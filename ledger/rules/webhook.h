/* Signatures of Standard Webhooks, its symmetric scheme "v1". Pure: the time comes from the caller.
 */
#ifndef LEDGER_WEBHOOK_H
#define LEDGER_WEBHOOK_H

#include <stddef.h>

#include "buf.h"
#include "err.h"
#include "usec.h"

#define WEBHOOK_TIMESTAMP "webhook-timestamp"
#define WEBHOOK_SIGNATURE "webhook-signature"
#define WEBHOOK_KEYS_MAX  4

struct webhook_keys; /* secret */

/* "whsec_" and the key in base64; several with spaces between them while a secret is changed: each
 * signs, and a receiver is content with one of them. The reason of a refusal holds no secret. */
MUST_USE bool webhook_keys_read(const char *secrets, struct err *err, struct webhook_keys **keys_r);
void webhook_keys_free(struct webhook_keys *keys); /* wipes them; NULL is fine */

/* Appends the lines that sign a message, "Name: value\n" each. wall: the time of the sending. */
void webhook_sign(const struct webhook_keys *keys, const char *id, usec_t wall, const void *body,
		  size_t length, struct buf *lines);

#endif
