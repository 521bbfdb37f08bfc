/* One message to one recipient over SMTP, on the loop. Until the end of the message is handed over
 * nothing is delivered, whatever happens; from then on only 250 says what became of it. */
#ifndef LEDGER_SMTP_H
#define LEDGER_SMTP_H

#include <stdbool.h>
#include <stddef.h>

#include "loop.h"
#include "outcome/outcome.h"

struct smtp_transfer;

struct smtp_request {    /* borrowed until smtp_start() returns */
	const char *url; /* smtp://HOST or smtps://HOST, a port, the name that we say in EHLO */
	/* "": none. With one, or with ca_file, smtp:// goes on to TLS or not at all; without, it
	 * does where the server offers it, but for the loopback. */
	const char *user, *password;
	const char *from, *to; /* addresses alone */
	const char *message;   /* lines with CR LF, none of which begins with a dot */
	size_t length;
	usec_t connect_timeout;
	usec_t timeout; /* total; by the standard a server may take 10 minutes for its last word */
	usec_t send_before; /* boot clock: nothing is said of the mail later, 0: whenever */
	size_t answer_max;  /* bytes of the server's last reply that are kept */
	const char *ca_file, *cert_file, *key_file; /* "" : the system's, none, none */
};

/* Error classes when no reply decided: "dns", "connect", "tls", "certificate", "starttls", "login",
 * "greeting", "url", "timeout", "reset", "garbage", "too large", "aborted". */

struct smtp_answer { /* borrowed for the callback */
	enum smtp_end end;
	int reply; /* the code that decided; 0: none did */
	int curl_code;
	const char *class; /* an error class; "" where a reply decided */
	const char *error; /* one line; "" when there is none */
	const char *text;  /* the server's last reply */
	size_t text_length;
	bool truncated;
	usec_t took;
};

typedef void smtp_done_fn(void *arg, const struct smtp_answer *answer);

/* Always calls done exactly once, from the loop, never inside this call. */
struct smtp_transfer *smtp_start(struct loop *loop, const struct smtp_request *request,
				 smtp_done_fn *done, void *arg);

/* Takes it back: done runs from inside this call, with SMTP_ABORTED or SMTP_UNKNOWN. */
void smtp_cancel(struct smtp_transfer *transfer);

#endif
