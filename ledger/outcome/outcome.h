/* What one attempt came to: an answer, or the lack of one, mapped to one word. Pure: no library, no
 * clock. The table is in ledger.md's words in ARCHITECTURE.md; outcome.c is that table. */
#ifndef LEDGER_OUTCOME_H
#define LEDGER_OUTCOME_H

#include <stdbool.h>
#include <stddef.h>

#include "conf.h"
#include "usec.h"

/* X(symbol, name in attempt.outcome, what is known of the world) */
#define OUTCOMES(X)                                                                                \
	X(APPLIED, "applied", "a complete answer says that it happened")                           \
	X(NOT_SENT, "not_sent", "no byte left: DNS, refused, connect timeout, TLS hang")           \
	X(ABORTED, "aborted", "taken back by ourselves before a byte left")                        \
	X(NO_ANSWER, "no_answer", "bytes may have left and no answer says what became of them")    \
	X(SERVER_ERROR, "server_error",                                                            \
	  "an answer that says neither applied nor not: 500, 408, 503")                            \
	X(THROTTLED, "throttled", "429: not applied, the target asks for a pause")                 \
	X(TRY_LATER, "try_later",                                                                  \
	  "not applied, try again: 421, 425, 503 where the profile says safe")                     \
	X(IN_PROGRESS, "in_progress", "the provider is still working on this key")                 \
	X(REFUSED, "refused", "a final no to this request")                                        \
	X(MISMATCH, "mismatch", "the provider knows this key with other content")                  \
	X(CREDENTIALS, "credentials",                                                              \
	  "401, or the certificate was refused: the target, not the key")                          \
	X(FORBIDDEN, "forbidden", "403: the key, until it has met enough different keys")          \
	X(LOST, "lost", "the process that sent it is gone, with the answer if there was one")      \
	X(UNRENDERED, "unrendered", "the request could not be made from the event")                \
	X(UNREADABLE, "unreadable",                                                                \
	  "2xx, and its body does not say what the effect's success asks for")                     \
	X(SHADOW, "shadow", "recorded and rendered, and on purpose not sent")

enum outcome {
#define X(symbol, name, meaning) OUTCOME_##symbol,
	OUTCOMES(X)
#undef X
		OUTCOME_COUNT
};

const char *outcome_name(enum outcome outcome);

/* How the transfer ended, in our words and not the library's. */
enum transfer_end {
	TRANSFER_DONE,        /* a complete header block came; the body may be cut */
	TRANSFER_NOT_SENT,    /* failed before a byte of the request left */
	TRANSFER_CERTIFICATE, /* the peer's certificate was refused; nothing was sent */
	TRANSFER_ABORTED,     /* taken back by us before a byte left */
	TRANSFER_CUT,         /* failed after bytes may have left, or the answer is no HTTP */
};

/* How a mail ended. */
enum smtp_end {
	SMTP_ACCEPTED,    /* 250 behind the message's end */
	SMTP_REFUSED,     /* a final no to this mail, before its end */
	SMTP_LATER,       /* not now, or the connection was lost, before its end */
	SMTP_NOT_SENT,    /* the server was not reached, or does not serve us now */
	SMTP_CREDENTIALS, /* certificate, TLS or login: the target and not the mail */
	SMTP_ABORTED,     /* taken back by us before its end */
	SMTP_UNKNOWN,     /* its end was handed over, and no 250 came */
};

/* What the effect's own question, its `success`, found in the body of an answer. */
enum body_says {
	BODY_UNASKED, /* every 2xx means yes */
	BODY_YES,
	BODY_NO,
	BODY_UNREADABLE, /* cut, larger than is read, no JSON, or nothing at the pointer */
};

struct answer {
	enum transfer_end end;
	int status;    /* 0 unless end is TRANSFER_DONE */
	bool replayed; /* the provider says that this is a stored answer (Idempotent-Replayed: true)
			*/
	enum body_says says;
	const char *retry_after; /* raw header value or NULL */
	const char *date;        /* raw header value or NULL */
};

struct verdict {
	enum outcome outcome;
	int status; /* of an HTTP answer; 0: there was none */
	/* An answer for the *key* by the profile: it settles every send made with that key, not
	 * only this one. */
	bool settles_key;
	bool unsent;          /* this attempt left nothing */
	bool replayed;        /* the answer is the one the provider has stored for the key */
	usec_t retry_after;   /* 0: none was asked for */
	char error_class[40]; /* "" when applied; else from a closed list: "http 503", "timeout" ...
			       */
};

/* error_class of a transfer without an answer is `transport` (a closed list kept by the executor:
 * "connect", "dns", "tls", "timeout", "reset", "cut headers", ...). */
void outcome_of(const struct answer *answer, const struct conf_profile *profile, const char *method,
		enum effect_mode mode, const char *transport, usec_t now_wall,
		struct verdict *verdict_r);

/* reply: the code that decided; 0: `class` says what did. */
void outcome_of_mail(enum smtp_end end, int reply, const char *class, struct verdict *verdict_r);

#endif
