/* Mail as text: addresses, the Message-ID that stands for a key, and the message as it goes on the
 * wire. Pure: the time comes from the caller.
 *
 * A recorded request of mail has the headers From, To and Subject, "Name: value\n" each, as UTF-8
 * and not encoded; its body is the text. */
#ifndef LEDGER_MAIL_H
#define LEDGER_MAIL_H

#include <stddef.h>

#include "buf.h"
#include "err.h"
#include "usec.h"

#define MAIL_ADDRESS_MAX 254 /* RFC 5321 */

struct mail {            /* a zeroed one is empty */
	struct buf from; /* the addresses alone, for the envelope */
	struct buf to;
	struct buf message; /* header and text, each line with CR LF; no line begins with a dot */
};
void mail_done(struct mail *mail);

/* One recipient is one key: exactly one address, "a@b.example" or "Name <a@b.example>". The error
 * does not show it. */
MUST_USE bool mail_address(const char *text, struct err *err, struct buf *address);

/* Appends "<KEY@DOMAIN>", the domain that of the sender's address; the same key gives the same. */
void mail_message_id(const char *key, const char *sender, struct buf *out);

/* The sender's address in a recorded request; nothing is appended when there is none. */
void mail_sender(const char *headers, struct buf *address);

/* The message of a recorded request. The error says which header is missing or is no address. */
MUST_USE bool mail_compose(const char *headers, const char *body, size_t length, const char *key,
			   usec_t wall, struct err *err, struct mail *mail);

#endif
