/* One mail, one end: against a server that fails at every step, on the same loop. */
#include "sending/smtp.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "scripted_mail_server.h"
#include "sending/smtp_reply.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define PATIENCE      (60 * USEC_SEC)
#define MESSAGE       "Subject: s\r\n\r\nHello\r\n"

struct told {
	struct loop *loop;
	struct smtp_transfer *transfer;
	int calls;
	enum smtp_end end;
	int reply;
	char class[64], error[256];
	struct buf text;
	bool truncated;
};

static void on_done(void *arg, const struct smtp_answer *answer)
{
	struct told *told = arg;
	told->calls++;
	told->transfer = NULL;
	told->end = answer->end;
	told->reply = answer->reply;
	told->truncated = answer->truncated;
	snprintf(told->class, sizeof(told->class), "%s", answer->class);
	snprintf(told->error, sizeof(told->error), "%s", answer->error);
	buf_clear(&told->text);
	buf_add(&told->text, answer->text, answer->text_length);
	loop_stop(told->loop);
}

static void on_impatient(void *arg)
{
	loop_stop(arg);
}

static struct smtp_request plain_request(const char *url)
{
	return (struct smtp_request){ .url = url,
				      .user = "",
				      .password = "",
				      .from = "a@shop.example",
				      .to = "b@x.example",
				      .message = MESSAGE,
				      .length = strlen(MESSAGE),
				      .connect_timeout = 30 * USEC_SEC,
				      .timeout = 30 * USEC_SEC,
				      .answer_max = 1000,
				      .ca_file = "",
				      .cert_file = "",
				      .key_file = "" };
}

static void run(struct loop *loop, struct told *told, const struct smtp_request *request)
{
	struct loop_timer *patience = loop_timer_new(loop, on_impatient, loop);
	told->loop = loop;
	told->transfer = smtp_start(loop, request, on_done, told);
	assert_int_equal(told->calls, 0);
	loop_timer_set(patience, PATIENCE);
	loop_run(loop);
	loop_timer_free(patience);
	assert_int_equal(told->calls, 1);
}

/* The server may see the rest of the dialog a turn later. */
static void settle(struct loop *loop, usec_t length)
{
	struct loop_timer *timer = loop_timer_new(loop, on_impatient, loop);
	loop_timer_set(timer, length);
	loop_run(loop);
	loop_timer_free(timer);
}

/* --- a mail that arrives --- */

static void a_mail_is_sent(void **state)
{
	(void)state;
	struct loop *loop = loop_new();
	struct mail_server *server = mail_server_new(loop, &(struct script){ GOOD_SCRIPT });
	struct told told = { 0 };
	char url[64];
	snprintf(url, sizeof(url), "smtp://127.0.0.1:%d/we.example", server->port);
	const struct smtp_request request = plain_request(url);
	run(loop, &told, &request);
	assert_int_equal(told.end, SMTP_ACCEPTED);
	assert_int_equal(told.reply, 250);
	assert_string_equal(told.class, "");
	assert_string_equal(told.text.data, "250 2.0.0 queued as 1\r\n");
	settle(loop, 50 * USEC_MS);
	assert_string_equal(server->dialog.data,
			    "EHLO we.example\nMAIL FROM:<a@shop.example>\nRCPT TO:<b@x.example>\n"
			    "DATA\nQUIT\n");
	assert_string_equal(server->message.data, MESSAGE ".\r\n");
	assert_int_equal(server->ends, 1);
	buf_done(&told.text);
	mail_server_free(server);
	loop_free(loop);
}

/* L29: far more than a socket's buffer. */
static void a_large_mail_is_sent(void **state)
{
	(void)state;
	struct loop *loop = loop_new();
	struct script script = { GOOD_SCRIPT };
	struct buf message BUF_AUTO = { 0 };
	struct told told = { 0 };
	char url[64];
	script.ehlo = "250 here\r\n";
	struct mail_server *server = mail_server_new(loop, &script);
	for (int i = 0; i < 200 * 1024; i++)
		buf_addf(&message, "line %06d\r\n", i);
	snprintf(url, sizeof(url), "smtp://127.0.0.1:%d", server->port);
	struct smtp_request request = plain_request(url);
	request.message = message.data;
	request.length = message.length;
	run(loop, &told, &request);
	assert_int_equal(told.end, SMTP_ACCEPTED);
	assert_int_equal(server->message.length, message.length + 3);
	assert_memory_equal(server->message.data, message.data, message.length);
	buf_done(&told.text);
	mail_server_free(server);
	loop_free(loop);
}

/* --- one that does not --- */

/* At that step the server says something else. */
#define AT(step) offsetof(struct script, step)
#define SHORT    (200 * USEC_MS)

struct failure {
	size_t step;
	const char *says;
	enum smtp_end end;
	int reply;
	const char *class;
	int ends;       /* messages that the server has whole */
	usec_t timeout; /* 0: long */
};

static const struct failure failures[] = {
	/* Not served at all: the target, and not this mail. */
	{ AT(greeting), "554 go away\r\n", SMTP_NOT_SENT, 0, "greeting", 0, 0 },
	{ AT(greeting), "421 busy\r\n", SMTP_NOT_SENT, 0, "greeting", 0, 0 },
	{ AT(greeting), "", SMTP_NOT_SENT, 0, "connect", 0, 0 },
	{ AT(greeting), NULL, SMTP_NOT_SENT, 0, "connect", 0, SHORT },
	{ AT(ehlo), "500 what\r\n", SMTP_NOT_SENT, 0, "greeting", 0, 0 },
	{ AT(ehlo), NULL, SMTP_NOT_SENT, 0, "connect", 0, SHORT },
	/* Before the end of the message nothing is delivered. */
	{ AT(mail), "451 4.3.0 later\r\n", SMTP_LATER, 451, "", 0, 0 },
	{ AT(mail), "550 5.1.0 no such sender\r\n", SMTP_REFUSED, 550, "", 0, 0 },
	{ AT(mail), "530 5.7.0 log in first\r\n", SMTP_CREDENTIALS, 530, "", 0, 0 },
	{ AT(mail), "", SMTP_LATER, 0, "reset", 0, 0 },
	{ AT(mail), "!", SMTP_LATER, 0, "reset", 0, 0 },
	{ AT(mail), NULL, SMTP_LATER, 0, "timeout", 0, SHORT },
	{ AT(mail), "once upon a time\r\n", SMTP_LATER, 0, "garbage", 0, 0 },
	{ AT(rcpt), "450 4.2.0 greylisted\r\n", SMTP_LATER, 450, "", 0, 0 },
	{ AT(rcpt), "550-5.1.1 no\r\n550 5.1.1 such user\r\n", SMTP_REFUSED, 550, "", 0, 0 },
	{ AT(rcpt), NULL, SMTP_LATER, 0, "timeout", 0, SHORT },
	{ AT(data), "451 4.3.0 later\r\n", SMTP_LATER, 451, "", 0, 0 },
	{ AT(data), "554 5.6.0 no\r\n", SMTP_REFUSED, 554, "", 0, 0 },
	{ AT(data), "250 ok\r\n", SMTP_LATER, 250, "", 0, 0 },
	{ AT(data), "", SMTP_LATER, 0, "reset", 0, 0 },
	{ AT(ehlo), "250 SIZE 20\r\n", SMTP_REFUSED, 0, "too large", 0, 0 },
	/* From its end on nothing but 250 says that it was not, or was. */
	{ AT(end), NULL, SMTP_UNKNOWN, 0, "timeout", 1, SHORT },
	{ AT(end), "", SMTP_UNKNOWN, 0, "reset", 1, 0 },
	{ AT(end), "!", SMTP_UNKNOWN, 0, "reset", 1, 0 },
	{ AT(end), "451 4.3.0 later\r\n", SMTP_UNKNOWN, 451, "", 1, 0 },
	{ AT(end), "554 5.7.1 spam\r\n", SMTP_UNKNOWN, 554, "", 1, 0 },
	{ AT(end), "250", SMTP_UNKNOWN, 0, "timeout", 1, SHORT },
	{ AT(end), "yes\r\n", SMTP_UNKNOWN, 0, "garbage", 1, 0 },
};

static void every_failure_has_its_end(void **state)
{
	(void)state;
	for (size_t i = 0; i < LENGTH(failures); i++) {
		const struct failure *f = &failures[i];
		struct loop *loop = loop_new();
		struct script script = { GOOD_SCRIPT };
		struct told told = { 0 };
		char url[64];
		memcpy((char *)&script + f->step, &f->says, sizeof(f->says));
		struct mail_server *server = mail_server_new(loop, &script);
		snprintf(url, sizeof(url), "smtp://127.0.0.1:%d", server->port);
		struct smtp_request request = plain_request(url);
		if (f->timeout)
			request.timeout = f->timeout;
		run(loop, &told, &request);
		if (told.end != f->end || told.reply != f->reply ||
		    strcmp(told.class, f->class) != 0 || server->ends != f->ends)
			fail_msg("%zu: end %d, reply %d, class %s (%s), %d whole", i, told.end,
				 told.reply, told.class, told.error, server->ends);
		buf_done(&told.text);
		mail_server_free(server);
		loop_free(loop);
	}
}

static void a_connection_lost_within_the_message_delivers_nothing(void **state)
{
	(void)state;
	static const struct {
		size_t hang_up_after;
		const char *interrupt;
		enum smtp_end end;
		int reply;
	} cases[] = {
		{ 100000, NULL, SMTP_LATER, 0 },
		{ 0, "552 5.3.4 too big\r\n", SMTP_REFUSED, 552 },
		{ 0, "421 4.3.2 shutting down\r\n", SMTP_LATER, 421 },
	};
	struct buf message BUF_AUTO = { 0 };
	for (int i = 0; i < 1000 * 1000; i++)
		buf_add_text(&message, "0123456789\r\n");
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct script script = { GOOD_SCRIPT };
		struct loop *loop = loop_new();
		struct told told = { 0 };
		char url[64];
		script.ehlo = "250 here\r\n";
		script.hang_up_after = cases[i].hang_up_after;
		script.interrupt = cases[i].interrupt;
		struct mail_server *server = mail_server_new(loop, &script);
		snprintf(url, sizeof(url), "smtp://127.0.0.1:%d", server->port);
		struct smtp_request request = plain_request(url);
		request.message = message.data;
		request.length = message.length;
		run(loop, &told, &request);
		assert_int_equal(told.end, cases[i].end);
		assert_int_equal(told.reply, cases[i].reply);
		assert_int_equal(server->ends, 0);
		buf_done(&told.text);
		mail_server_free(server);
		loop_free(loop);
	}
}

static void nothing_listens(void **state)
{
	(void)state;
	struct loop *loop = loop_new();
	struct mail_server *server = mail_server_new(loop, &(struct script){ GOOD_SCRIPT });
	struct told told = { 0 };
	char url[64];
	snprintf(url, sizeof(url), "smtp://127.0.0.1:%d", server->port);
	mail_server_free(server);
	struct smtp_request request = plain_request(url);
	run(loop, &told, &request);
	assert_int_equal(told.end, SMTP_NOT_SENT);
	assert_string_equal(told.class, "connect");
	buf_done(&told.text);
	loop_free(loop);
}

static void a_password_never_goes_in_the_clear(void **state)
{
	(void)state;
	struct loop *loop = loop_new();
	struct script script = { GOOD_SCRIPT };
	script.ehlo = "250-here\r\n250 AUTH PLAIN LOGIN\r\n";
	struct mail_server *server = mail_server_new(loop, &script);
	struct told told = { 0 };
	char url[64];
	snprintf(url, sizeof(url), "smtp://127.0.0.1:%d/h", server->port);
	struct smtp_request request = plain_request(url);
	request.user = "shop";
	request.password = "secret";
	run(loop, &told, &request);
	assert_int_equal(told.end, SMTP_CREDENTIALS);
	assert_string_equal(told.class, "starttls");
	assert_string_equal(server->dialog.data, "EHLO h\n");
	buf_done(&told.text);
	mail_server_free(server);
	loop_free(loop);
}

/* --- taking it back, and coming too late --- */

struct cancelling {
	struct told *told;
	struct mail_server *server;
	struct loop_timer *timer;
	bool at_end; /* of the message, else at RCPT */
};

static void on_look(void *arg)
{
	struct cancelling *c = arg;
	const bool there = c->at_end ? c->server->ends > 0
				     : strstr(buf_text(&c->server->dialog), "RCPT") != NULL;
	if (there)
		smtp_cancel(c->told->transfer);
	else
		loop_timer_set(c->timer, USEC_MS);
}

static void taken_back_it_is_unknown_only_behind_its_end(void **state)
{
	(void)state;
	for (int at_end = 0; at_end < 2; at_end++) {
		struct loop *loop = loop_new();
		struct script script = { GOOD_SCRIPT };
		script.rcpt = at_end ? script.rcpt : NULL;
		script.end = NULL;
		struct mail_server *server = mail_server_new(loop, &script);
		struct told told = { 0 };
		struct cancelling c = { &told, server, NULL, at_end };
		char url[64];
		c.timer = loop_timer_new(loop, on_look, &c);
		loop_timer_set(c.timer, 0);
		snprintf(url, sizeof(url), "smtp://127.0.0.1:%d", server->port);
		const struct smtp_request request = plain_request(url);
		run(loop, &told, &request);
		assert_int_equal(told.end, at_end ? SMTP_UNKNOWN : SMTP_ABORTED);
		assert_string_equal(told.class, "aborted");
		loop_timer_free(c.timer);
		buf_done(&told.text);
		mail_server_free(server);
		loop_free(loop);
	}
}

static void nothing_is_said_after_the_lease(void **state)
{
	(void)state;
	struct loop *loop = loop_new();
	struct mail_server *server = mail_server_new(loop, &(struct script){ GOOD_SCRIPT });
	struct told told = { 0 };
	char url[64];
	snprintf(url, sizeof(url), "smtp://127.0.0.1:%d/h", server->port);
	struct smtp_request request = plain_request(url);
	request.send_before = usec_boot();
	run(loop, &told, &request);
	assert_int_equal(told.end, SMTP_ABORTED);
	assert_string_equal(server->dialog.data, "EHLO h\n");
	buf_done(&told.text);
	mail_server_free(server);
	loop_free(loop);
}

/* --- L28: a silent server --- */

struct ticking {
	struct loop_timer *timer;
	usec_t last, longest;
	int ticks;
};

static void on_tick(void *arg)
{
	struct ticking *ticking = arg;
	const usec_t now = usec_boot();
	if (ticking->last && now - ticking->last > ticking->longest)
		ticking->longest = now - ticking->last;
	ticking->last = now;
	ticking->ticks++;
	loop_timer_set(ticking->timer, 5 * USEC_MS);
}

/* At whatever step the server falls silent, the loop turns on. */
static void a_silent_server_delays_nobody(void **state)
{
	(void)state;
	struct script scripts[6];
	for (size_t i = 0; i < LENGTH(scripts); i++)
		scripts[i] = (struct script){ GOOD_SCRIPT };
	scripts[0].greeting = NULL;
	scripts[1].ehlo = NULL;
	scripts[2].mail = NULL;
	scripts[3].rcpt = NULL;
	scripts[4].data = NULL;
	scripts[5].end = NULL;
	for (size_t i = 0; i < LENGTH(scripts); i++) {
		struct loop *loop = loop_new();
		struct mail_server *server = mail_server_new(loop, &scripts[i]);
		struct ticking ticking = { .timer = loop_timer_new(loop, on_tick, &ticking) };
		struct told told = { 0 };
		char url[64];
		loop_timer_set(ticking.timer, 0);
		snprintf(url, sizeof(url), "smtp://127.0.0.1:%d", server->port);
		struct smtp_request request = plain_request(url);
		request.timeout = USEC_SEC;
		run(loop, &told, &request);
		if (ticking.longest > 300 * USEC_MS || ticking.ticks < 20)
			fail_msg("%zu: %d turns, the longest %d ms", i, ticking.ticks,
				 (int)(ticking.longest / USEC_MS));
		loop_timer_free(ticking.timer);
		buf_done(&told.text);
		mail_server_free(server);
		loop_free(loop);
	}
}

/* --- replies --- */

static void replies_are_read_in_pieces(void **state)
{
	(void)state;
	static const char whole[] = "250-one\r\n250-two\r\n250 three\r\n354\r\n";
	for (size_t cut = 0; cut < sizeof(whole); cut++) {
		struct smtp_reader reader = { 0 };
		int codes[2] = { 0 };
		size_t count = 0;
		buf_add(&reader.in, whole, cut);
		while (smtp_reader_take(&reader, &codes[count]) == SMTP_READ_REPLY)
			count++;
		buf_add(&reader.in, whole + cut, sizeof(whole) - 1 - cut);
		while (count < 2 && smtp_reader_take(&reader, &codes[count]) == SMTP_READ_REPLY)
			count++;
		assert_int_equal(count, 2);
		assert_int_equal(codes[0], 250);
		assert_int_equal(codes[1], 354);
		assert_string_equal(reader.text.data, "354\r\n");
		assert_int_equal(reader.in.length, 0);
		smtp_reader_done(&reader);
	}
}

static void what_is_no_reply_is_garbage(void **state)
{
	(void)state;
	static const char *const cases[] = {
		"hello\r\n", "25\r\n", "2500\r\n",  "150 x\r\n", "650 x\r\n",
		"\r\n",      "\n",     "25a x\r\n", "250x\r\n",  "250-a\r\n251 b\r\n",
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct smtp_reader reader = { 0 };
		int code;
		buf_add_text(&reader.in, cases[i]);
		if (smtp_reader_take(&reader, &code) != SMTP_READ_GARBAGE)
			fail_msg("%s", cases[i]);
		smtp_reader_done(&reader);
	}
	struct smtp_reader reader = { 0 };
	int code;
	while (reader.in.length <= SMTP_REPLY_MAX)
		buf_add_text(&reader.in, "250-more\r\n");
	assert_int_equal(smtp_reader_take(&reader, &code), SMTP_READ_GARBAGE);
	smtp_reader_done(&reader);
}

static void sizes_are_read(void **state)
{
	(void)state;
	static const struct {
		const char *line;
		size_t limit;
	} cases[] = {
		{ "250-SIZE 1000\r\n", 1000 }, { "250 size 7", 7 },
		{ "250-SIZE 0\r\n", 0 },       { "250-SIZE\r\n", 0 },
		{ "250 SIZE \r\n", 0 },        { "250-8BITMIME\r\n", 0 },
		{ "220 SIZE 10\r\n", 0 },      { "250-SIZE 99999999999999999999\r\n", 0 },
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		size_t limit = 0;
		bool has = smtp_size_limit(cases[i].line, strlen(cases[i].line), &limit);
		if (has != (cases[i].limit > 0) || limit != cases[i].limit)
			fail_msg("%s: %zu", cases[i].line, limit);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mail_is_sent),
		cmocka_unit_test(a_large_mail_is_sent),
		cmocka_unit_test(every_failure_has_its_end),
		cmocka_unit_test(a_connection_lost_within_the_message_delivers_nothing),
		cmocka_unit_test(nothing_listens),
		cmocka_unit_test(a_password_never_goes_in_the_clear),
		cmocka_unit_test(taken_back_it_is_unknown_only_behind_its_end),
		cmocka_unit_test(nothing_is_said_after_the_lease),
		cmocka_unit_test(a_silent_server_delays_nobody),
		cmocka_unit_test(replies_are_read_in_pieces),
		cmocka_unit_test(what_is_no_reply_is_garbage),
		cmocka_unit_test(sizes_are_read),
	};
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
