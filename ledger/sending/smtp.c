/* SMTP: libcurl connects (TCP, TLS, EHLO, STARTTLS, AUTH), and the mail itself is said here.
 *
 * libcurl would wait for the reply to the end of a message, and for that to QUIT, inside its own
 * call, with everything else on the loop. So its part ends where the server is ready
 * (CONNECT_ONLY), and the connection, which it then leaves alone, is read and written as the loop
 * finds it ready. Each mail has a multi of its own: on a shared one a new transfer looks at idle
 * connections, and closes those on which something can be read. */
#include "smtp.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "http_multi.h"
#include "mem.h"
#include "smtp_reply.h"

#define READ_SIZE 4096
#define END       ".\r\n"

enum state {
	STATE_CONNECTING, /* libcurl's part */
	STATE_MAIL,       /* MAIL FROM was said */
	STATE_RCPT,       /* RCPT TO */
	STATE_DATA,       /* DATA */
	STATE_MESSAGE,    /* the message is being sent */
	STATE_END,        /* its end was handed over: the outcome is the server's to tell */
	STATE_OVER,       /* `answer` stands, and waits to be told */
};

struct smtp_transfer {
	struct loop *loop;
	struct http_multi *multi;
	CURL *easy;
	enum state state;
	struct loop_fd *watch; /* of the connection once it is ours; NULL: it is not */
	struct loop_timer *deadline;
	struct loop_timer *telling;
	struct buf out; /* what is being said, from `said` on */
	size_t said;
	struct smtp_reader reader;
	char *from, *to;
	struct buf message;
	size_t limit; /* of the server for a message; 0: none known */
	size_t answer_max;
	usec_t send_before, started, timeout;
	struct smtp_answer answer;
	char error[CURL_ERROR_SIZE];
	smtp_done_fn *done;
	void *arg;
};

/* --- the end --------------------------------------------------------------------------------- */

static void transfer_free(struct smtp_transfer *transfer)
{
	loop_fd_free(transfer->watch);
	http_multi_remove(transfer->multi, transfer->easy); /* closes the connection */
	curl_easy_cleanup(transfer->easy);
	http_multi_free(transfer->multi);
	loop_timer_free(transfer->deadline);
	loop_timer_free(transfer->telling);
	smtp_reader_done(&transfer->reader);
	buf_done(&transfer->out);
	buf_done(&transfer->message);
	free(transfer->from);
	free(transfer->to);
	free(transfer);
}

static void tell(void *arg)
{
	struct smtp_transfer *transfer = arg;
	struct smtp_answer *answer = &transfer->answer;
	const struct buf *text = &transfer->reader.text;
	answer->text = buf_text(text);
	answer->truncated = text->length > transfer->answer_max;
	answer->text_length = answer->truncated ? transfer->answer_max : text->length;
	answer->took = usec_boot() - transfer->started;
	transfer->done(transfer->arg, answer);
	transfer_free(transfer);
}

/* Told from a turn of its own: nothing may be freed inside a call of the multi's. */
static void end(struct smtp_transfer *transfer, const struct smtp_answer *answer)
{
	transfer->state = STATE_OVER;
	transfer->answer = *answer;
	if (transfer->watch)
		loop_fd_want(transfer->watch, false, false);
	loop_timer_cancel(transfer->deadline);
	loop_timer_set(transfer->telling, 0);
}

/* No reply decided. */
static void fail(struct smtp_transfer *transfer, const char *class, const char *error)
{
	const struct smtp_answer answer = {
		.end = transfer->state == STATE_CONNECTING ? SMTP_NOT_SENT
		       : transfer->state == STATE_END      ? SMTP_UNKNOWN
							   : SMTP_LATER,
		.class = class,
		.error = error,
	};
	end(transfer, &answer);
}

/* A server that hears no QUIT writes it into its log; whether it does makes no difference here. */
static void say_quit(struct smtp_transfer *transfer)
{
	static const char quit[] = "QUIT\r\n";
	size_t said;
	(void)curl_easy_send(transfer->easy, quit, strlen(quit), &said);
}

static bool is_about_login(int code)
{
	return code == 530 || code == 534 || code == 535 || code == 538;
}

static enum smtp_end end_of_reply(enum state state, int code)
{
	if (state == STATE_END)
		return code >= 200 && code <= 299 ? SMTP_ACCEPTED : SMTP_UNKNOWN;
	if (is_about_login(code))
		return SMTP_CREDENTIALS;
	return code >= 500 ? SMTP_REFUSED : SMTP_LATER;
}

static void decide(struct smtp_transfer *transfer, int code)
{
	const struct smtp_answer answer = {
		.end = end_of_reply(transfer->state, code), .reply = code, .class = "", .error = ""
	};
	if (transfer->state != STATE_MESSAGE) /* in the middle of it QUIT would be text */
		say_quit(transfer);
	end(transfer, &answer);
}

/* --- saying ---------------------------------------------------------------------------------- */

static void set_state(struct smtp_transfer *transfer, enum state state)
{
	transfer->state = state;
	transfer->said = 0;
	buf_clear(&transfer->out);
	loop_fd_want(transfer->watch, true, true);
}

static void say_mail(struct smtp_transfer *transfer)
{
	set_state(transfer, STATE_MAIL);
	buf_addf(&transfer->out, "MAIL FROM:<%s>\r\n", transfer->from);
}

static void say_rcpt(struct smtp_transfer *transfer)
{
	set_state(transfer, STATE_RCPT);
	buf_addf(&transfer->out, "RCPT TO:<%s>\r\n", transfer->to);
}

static void say_data(struct smtp_transfer *transfer)
{
	set_state(transfer, STATE_DATA);
	buf_add_text(&transfer->out, "DATA\r\n");
}

static void say_message(struct smtp_transfer *transfer)
{
	set_state(transfer, STATE_MESSAGE);
	buf_add(&transfer->out, transfer->message.data, transfer->message.length);
}

/* A process that was stopped for long must not do now what others have given up meanwhile. */
static void say_end(struct smtp_transfer *transfer)
{
	if (usec_boot() >= transfer->started + transfer->timeout)
		return fail(transfer, "timeout", "no time was left to end the message");
	crash_point("mail.end");
	set_state(transfer, STATE_END);
	buf_add_text(&transfer->out, END);
}

static void on_said(struct smtp_transfer *transfer)
{
	loop_fd_want(transfer->watch, true, false);
	if (transfer->state == STATE_END)
		crash_point("mail.ended");
	if (transfer->state == STATE_MESSAGE)
		say_end(transfer);
}

static void go_on_saying(struct smtp_transfer *transfer)
{
	const struct buf *out = &transfer->out;
	while (transfer->state != STATE_OVER && transfer->said < out->length) {
		size_t said = 0;
		const CURLcode code = curl_easy_send(transfer->easy, out->data + transfer->said,
						     out->length - transfer->said, &said);
		if (code == CURLE_AGAIN)
			return;
		if (code != CURLE_OK)
			return fail(transfer, "reset", "the connection was lost");
		transfer->said += said;
		if (transfer->said == out->length)
			on_said(transfer);
	}
}

/* --- hearing --------------------------------------------------------------------------------- */

static void on_reply(struct smtp_transfer *transfer, int code)
{
	const bool good = code >= 200 && code <= 299;
	switch (transfer->state) {
	case STATE_MAIL:
		return good ? say_rcpt(transfer) : decide(transfer, code);
	case STATE_RCPT:
		return good ? say_data(transfer) : decide(transfer, code);
	case STATE_DATA:
		return code == 354 ? say_message(transfer) : decide(transfer, code);
	case STATE_MESSAGE: /* it did not wait for the end, and there will be none */
	case STATE_END:
		return decide(transfer, code);
	case STATE_CONNECTING:
	case STATE_OVER:
		return;
	}
}

static void take_replies(struct smtp_transfer *transfer)
{
	int code;
	while (transfer->state != STATE_OVER) {
		switch (smtp_reader_take(&transfer->reader, &code)) {
		case SMTP_READ_REPLY:
			on_reply(transfer, code);
			break;
		case SMTP_READ_GARBAGE:
			return fail(transfer, "garbage", "the server's reply is none of SMTP");
		case SMTP_READ_MORE:
			return;
		}
	}
}

static void hear(struct smtp_transfer *transfer)
{
	char data[READ_SIZE];
	while (transfer->state != STATE_OVER) {
		size_t length = 0;
		const CURLcode code = curl_easy_recv(transfer->easy, data, sizeof(data), &length);
		if (code == CURLE_AGAIN)
			return;
		if (code != CURLE_OK || !length)
			return fail(transfer, "reset", "the server closed the connection");
		buf_add(&transfer->reader.in, data, length);
		take_replies(transfer);
	}
}

static void on_ready(void *arg, bool readable, bool writable)
{
	struct smtp_transfer *transfer = arg;
	(void)readable; /* TLS may have read ahead, or have to write in order to read */
	(void)writable;
	hear(transfer);
	if (transfer->state != STATE_OVER)
		go_on_saying(transfer);
}

/* --- connecting ------------------------------------------------------------------------------ */

static void fail_connecting(struct smtp_transfer *transfer, CURLcode code)
{
	static const struct {
		CURLcode code;
		const char *class;
		enum smtp_end end;
	} classes[] = {
		{ CURLE_COULDNT_RESOLVE_HOST, "dns", SMTP_NOT_SENT },
		{ CURLE_SSL_CONNECT_ERROR, "tls", SMTP_NOT_SENT },
		{ CURLE_USE_SSL_FAILED, "starttls", SMTP_CREDENTIALS },
		{ CURLE_LOGIN_DENIED, "login", SMTP_CREDENTIALS },
		{ CURLE_WEIRD_SERVER_REPLY, "greeting", SMTP_NOT_SENT },
		{ CURLE_REMOTE_ACCESS_DENIED, "greeting", SMTP_NOT_SENT },
		{ CURLE_URL_MALFORMAT, "url", SMTP_NOT_SENT },
	};
	struct smtp_answer answer = {
		.end = SMTP_NOT_SENT,
		.curl_code = (int)code,
		.class = "connect",
		.error = transfer->error[0] ? transfer->error : curl_easy_strerror(code),
	};
	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		if (classes[i].code == code) {
			answer.class = classes[i].class;
			answer.end = classes[i].end;
		}
	}
	if (http_certificate_refused(code)) {
		answer.class = "certificate";
		answer.end = SMTP_CREDENTIALS;
	}
	end(transfer, &answer);
}

static bool is_too_large(const struct smtp_transfer *transfer)
{
	return transfer->limit && transfer->message.length > transfer->limit;
}

static void on_connected(CURL *easy, CURLcode code)
{
	void *arg = NULL;
	curl_socket_t fd = CURL_SOCKET_BAD;
	curl_easy_getinfo(easy, CURLINFO_PRIVATE, &arg);
	struct smtp_transfer *transfer = arg;
	if (transfer->state == STATE_OVER)
		return;
	curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &fd);
	if (code == CURLE_OK && fd == CURL_SOCKET_BAD)
		code = CURLE_COULDNT_CONNECT;
	if (code != CURLE_OK)
		return fail_connecting(transfer, code);
	if (transfer->send_before && usec_boot() >= transfer->send_before)
		return end(transfer, &(struct smtp_answer){ .end = SMTP_ABORTED,
							    .class = "aborted",
							    .error = "too late to send" });
	if (is_too_large(transfer))
		return end(transfer,
			   &(struct smtp_answer){ .end = SMTP_REFUSED,
						  .class = "too large",
						  .error = "the server takes no message of "
							   "that size" });
	transfer->watch = loop_fd_new(transfer->loop, fd, on_ready, transfer);
	say_mail(transfer);
}

/* The lines that libcurl reads: the last of EHLO count, behind STARTTLS there are others. */
static size_t on_line(char *data, size_t size, size_t count, void *arg)
{
	struct smtp_transfer *transfer = arg;
	const size_t length = size * count;
	(void)smtp_size_limit(data, length, &transfer->limit);
	return length;
}

static void on_deadline(void *arg)
{
	struct smtp_transfer *transfer = arg;
	fail(transfer, transfer->state == STATE_CONNECTING ? "connect" : "timeout",
	     "the server took too long");
}

static void on_told(void *arg)
{
	tell(arg);
}

/* --- the start ------------------------------------------------------------------------------- */

static bool is_loopback(const char *url)
{
	static const char *const hosts[] = { "localhost", "127.", "[::1]" };
	const char *host = strstr(url, "://") + 3;
	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
		if (!strncasecmp(host, hosts[i], strlen(hosts[i])))
			return true;
	return false;
}

static long tls_policy(const struct smtp_request *request)
{
	if (request->user[0] || request->ca_file[0])
		return CURLUSESSL_ALL;
	return is_loopback(request->url) ? CURLUSESSL_NONE : CURLUSESSL_TRY;
}

static void check(CURLcode *first, CURLcode code)
{
	if (*first == CURLE_OK)
		*first = code;
}

static CURLcode set_up(struct smtp_transfer *transfer, const struct smtp_request *request)
{
	CURL *easy = transfer->easy;
	CURLcode code = CURLE_OK;
	check(&code, curl_easy_setopt(easy, CURLOPT_URL, request->url));
	check(&code, curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "smtp,smtps"));
	check(&code, curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L));
	check(&code, curl_easy_setopt(easy, CURLOPT_USE_SSL, tls_policy(request)));
	check(&code, curl_easy_setopt(easy, CURLOPT_PROXY, ""));
	check(&code, curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L));
	check(&code, curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L));
	check(&code, curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
				      http_milliseconds(request->connect_timeout)));
	check(&code,
	      curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, http_milliseconds(request->timeout)));
	if (request->user[0]) {
		check(&code, curl_easy_setopt(easy, CURLOPT_USERNAME, request->user));
		check(&code, curl_easy_setopt(easy, CURLOPT_PASSWORD, request->password));
	}
	if (request->ca_file[0])
		check(&code, curl_easy_setopt(easy, CURLOPT_CAINFO, request->ca_file));
	if (request->cert_file[0])
		check(&code, curl_easy_setopt(easy, CURLOPT_SSLCERT, request->cert_file));
	if (request->key_file[0])
		check(&code, curl_easy_setopt(easy, CURLOPT_SSLKEY, request->key_file));
	return code;
}

static void set_callbacks(struct smtp_transfer *transfer)
{
	CURL *easy = transfer->easy;
	curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->error);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_line);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
}

struct smtp_transfer *smtp_start(struct loop *loop, const struct smtp_request *request,
				 smtp_done_fn *done, void *arg)
{
	struct smtp_transfer *transfer = mem_zero(sizeof(*transfer));
	transfer->loop = loop;
	transfer->from = mem_text(request->from);
	transfer->to = mem_text(request->to);
	buf_add(&transfer->message, request->message, request->length);
	transfer->answer_max = request->answer_max;
	transfer->send_before = request->send_before;
	transfer->timeout = request->timeout;
	transfer->started = usec_boot();
	transfer->done = done;
	transfer->arg = arg;
	transfer->deadline = loop_timer_new(loop, on_deadline, transfer);
	transfer->telling = loop_timer_new(loop, on_told, transfer);
	transfer->multi = http_multi_new(loop, on_connected);
	transfer->easy = curl_easy_init();
	if (!transfer->easy)
		abort();
	set_callbacks(transfer);
	loop_timer_set(transfer->deadline, request->timeout);
	const CURLcode code = set_up(transfer, request);
	if (code == CURLE_OK)
		http_multi_add(transfer->multi, transfer->easy);
	else
		fail_connecting(transfer, code);
	return transfer;
}

void smtp_cancel(struct smtp_transfer *transfer)
{
	if (transfer->state != STATE_OVER)
		end(transfer,
		    &(struct smtp_answer){ .end = transfer->state == STATE_END ? SMTP_UNKNOWN
									       : SMTP_ABORTED,
					   .class = "aborted",
					   .error = "taken back" });
	tell(transfer);
}
