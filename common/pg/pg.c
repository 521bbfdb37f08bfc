/* One connection in pipeline mode on the loop.
 *
 * The order that must hold: the callback of a statement runs when its Sync was answered, because in
 * this protocol the server says "done" of a statement before it commits it. A connection ends in
 * two steps: give_up() may be said anywhere and only marks it; on the next turn of the loop drop()
 * closes it, runs the callbacks of all that waits, and then down(). So no callback ever runs inside
 * pg_send(), pg_reset() or another callback. */
#include "pg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "mem.h"
#include "pg/pg_named.h"
#include "pg/pg_private.h"

#define BACKOFF_MIN  (50 * USEC_MS)
#define BACKOFF_MAX  (2 * USEC_SEC)
#define SAY_AGAIN    (60 * USEC_SEC) /* the same failure to connect */
#define ANSWER_GRACE (5 * USEC_SEC)  /* beyond statement_timeout: the server itself is silent */

enum pg_state {
	STATE_BACKOFF,    /* no connection; `timer` begins the next attempt */
	STATE_CONNECTING, /* `timer` bounds the attempt */
	STATE_UP,         /* statements flow; `timer` watches the first of the queue */
	STATE_BROKEN,     /* given up for `why`; `kick` will drop it */
};

struct statement {
	struct statement *next;
	const char *sql;
	pg_done_fn *done;
	void *arg;
	bool sent;
	bool named;       /* by its name */
	PGresult *result; /* its answer, until its Sync */
};

struct pg {
	struct log *log;
	struct pg_settings settings;
	struct pg_events events;
	enum pg_state state;

	PGconn *conn;
	struct loop *loop;
	struct loop_fd *watch;
	struct loop_timer *timer;
	struct loop_timer *kick; /* on the next turn: what pg_send() and give_up() left to do */

	struct statement *first;
	struct statement **end;
	size_t queued;
	usec_t first_since; /* when the first of the queue became the first */

	struct pg_named named;
	unsigned rotation;
	bool option_refused; /* a pooler does not let us ask for statement_timeout and such */
	bool was_up;         /* up() was said of this connection */
	bool was_ever_up;    /* or of one before it */
	usec_t backoff;
	struct pg_error why; /* of the connection's end */
	char fatal[512];     /* the server's parting words while nothing was asked of it */
	char said[512];      /* the failure to connect reported last, and when */
	usec_t said_at;
};

static void set_state(struct pg *pg, enum pg_state state)
{
	pg->state = state;
}

/* --- the end of a connection --- */

static void unwatch(struct pg *pg)
{
	loop_fd_free(pg->watch);
	pg->watch = NULL;
}

static void give_up(struct pg *pg, const char *sqlstate, const char *text)
{
	if (pg->state == STATE_BACKOFF || pg->state == STATE_BROKEN)
		return;
	(void)snprintf(pg->why.sqlstate, sizeof(pg->why.sqlstate), "%s", sqlstate);
	pg_one_line(*text ? text : "the connection was lost", pg->why.text, sizeof(pg->why.text));
	set_state(pg, STATE_BROKEN);
	unwatch(pg);
	loop_timer_cancel(pg->timer);
	loop_timer_set(pg->kick, 0);
}

static void give_up_lost(struct pg *pg)
{
	give_up(pg, "", *pg->fatal ? pg->fatal : PQerrorMessage(pg->conn));
}

static void answer(struct pg *pg, struct statement *statement, const PGresult *result,
		   const struct pg_error *error)
{
	pg->queued--;
	statement->done(statement->arg, result, error);
	PQclear(statement->result);
	free(statement);
}

/* Fails what waits now; what a callback sends meanwhile has its turn later. */
static void fail_waiting(struct pg *pg)
{
	struct statement *statement = pg->first;
	pg->first = NULL;
	pg->end = &pg->first;
	while (statement) {
		struct statement *next = statement->next;
		struct pg_error error = pg->why;
		error.kind = statement->sent ? PG_LOST : PG_UNSENT;
		answer(pg, statement, NULL, &error);
		statement = next;
	}
}

static void close_connection(struct pg *pg)
{
	unwatch(pg);
	PQfinish(pg->conn);
	pg->conn = NULL;
	pg_named_forget(&pg->named);
	pg->fatal[0] = '\0';
}

/* Half of the time to wait is certain, half is chance: clients must not return all at once. */
static usec_t next_backoff(struct pg *pg)
{
	uint32_t chance = 0;
	if (getrandom(&chance, sizeof(chance), GRND_NONBLOCK) < 0)
		chance = (uint32_t)usec_boot();
	usec_t delay = pg->backoff / 2 + (usec_t)chance % (pg->backoff / 2 + 1);
	pg->backoff = pg->backoff * 2 > BACKOFF_MAX ? BACKOFF_MAX : pg->backoff * 2;
	return delay;
}

/* A failure to connect is worth saying when it is another one, or after a while. */
static bool worth_saying(struct pg *pg)
{
	usec_t now = usec_boot();
	if (!pg->was_up && strcmp(pg->said, pg->why.text) == 0 && now < pg->said_at + SAY_AGAIN)
		return false;
	(void)snprintf(pg->said, sizeof(pg->said), "%s", pg->why.text);
	pg->said_at = now;
	return true;
}

static void drop(struct pg *pg)
{
	close_connection(pg);
	set_state(pg, STATE_BACKOFF);
	loop_timer_set(pg->timer, next_backoff(pg));
	fail_waiting(pg);
	bool say = worth_saying(pg);
	pg->was_up = false;
	if (say)
		pg->events.down(pg->events.arg, pg->why.text);
}

/* --- answers --- */

static bool is_rollback_for_commit(struct statement *statement)
{
	return strcmp(statement->sql, "COMMIT") == 0 &&
	       strcmp(PQcmdStatus(statement->result), "COMMIT") != 0;
}

/* What a name stood for is gone or has changed: from now on without names, on another connection.
 */
static void lose_names(struct pg *pg, struct pg_error *error)
{
	log_info(pg->log, "statements are sent without names from now on",
		 LOG_TEXT("sqlstate", error->sqlstate), LOG_TEXT("text", error->text));
	pg->named.off = true;
	give_up(pg, error->sqlstate, error->text);
}

/* The first statement's Sync has been answered. */
static void complete(struct pg *pg)
{
	struct statement *statement = pg->first;
	struct pg_error error = { .kind = PG_REFUSED };
	bool good = PQresultStatus(statement->result) != PGRES_FATAL_ERROR;
	if (!good) {
		pg_error_from(statement->result, &error);
		pg_error_remedy(statement->sql, pg->conn, &error);
	} else if (is_rollback_for_commit(statement)) {
		good = false;
		error = (struct pg_error){ PG_REFUSED, "25P02",
					   "the transaction had failed and was rolled back" };
	}
	if (!good && statement->named && pg_named_lost(error.sqlstate))
		lose_names(pg, &error);
	pg->first = statement->next;
	if (!pg->first)
		pg->end = &pg->first;
	pg->first_since = usec_boot();
	pg->backoff = BACKOFF_MIN;
	answer(pg, statement, good ? statement->result : NULL, good ? NULL : &error);
	if (!good && pg_error_of_server(error.sqlstate))
		give_up(pg, error.sqlstate, error.text);
}

/* An error replaces the answer before it: the commit at Sync has failed. */
static void hold_answer(struct pg *pg, PGresult *result)
{
	struct pg_error error;
	PQclear(pg->first->result);
	pg->first->result = result;
	if (PQresultStatus(result) != PGRES_FATAL_ERROR)
		return;
	pg_error_from(result, &error);
	if (error.kind == PG_LOST)
		give_up(pg, error.sqlstate, error.text);
}

static void take_result(struct pg *pg, PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);
	if (status == PGRES_PIPELINE_SYNC && pg->first->result) {
		PQclear(result);
		complete(pg);
	} else if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK ||
		   status == PGRES_EMPTY_QUERY || status == PGRES_FATAL_ERROR) {
		hold_answer(pg, result);
	} else {
		PQclear(result);
		give_up(pg, "", "the server answered out of turn");
	}
}

/* Takes all that has arrived. libpq says NULL at the end of a statement, and without end once it
 * knows of no more. PQisBusy() also when nothing is asked: it reads notices. */
static void take_results(struct pg *pg)
{
	int ends = 0;
	while (pg->state == STATE_UP && !PQisBusy(pg->conn) && pg->first) {
		PGresult *result = PQgetResult(pg->conn);
		if (result)
			take_result(pg, result);
		else if (ends)
			return;
		ends = result ? 0 : 1;
	}
}

static void flush_and_take(struct pg *pg)
{
	int left = PQflush(pg->conn);
	take_results(pg);
	if (pg->state != STATE_UP)
		return;
	if (left < 0 || PQstatus(pg->conn) == CONNECTION_BAD)
		give_up_lost(pg);
	else
		loop_fd_want(pg->watch, true, left > 0);
}

static void on_ready(void *arg, bool readable, bool writable)
{
	struct pg *pg = arg;
	(void)writable;
	/* on failure too: an answer may have come before the end */
	bool alive = !readable || PQconsumeInput(pg->conn);
	flush_and_take(pg);
	if (!alive)
		give_up_lost(pg);
}

/* --- connecting --- */

static void on_notice(void *arg, const PGresult *notice)
{
	struct pg *pg = arg;
	struct pg_error words;
	pg_error_from(notice, &words);
	const char *severity = PQresultErrorField(notice, PG_DIAG_SEVERITY);
	if (words.kind == PG_LOST && severity)
		(void)snprintf(pg->fatal, sizeof(pg->fatal), "%s", words.text);
	log_debug(pg->log, "postgres notice", LOG_TEXT("severity", severity),
		  LOG_TEXT("sqlstate", words.sqlstate), LOG_TEXT("text", words.text));
}

static void connected(struct pg *pg)
{
	if (PQsetnonblocking(pg->conn, 1) != 0 || !PQenterPipelineMode(pg->conn)) {
		give_up_lost(pg);
		return;
	}
	pg->watch = loop_fd_new(pg->loop, PQsocket(pg->conn), on_ready, pg);
	loop_fd_want(pg->watch, true, false);
	loop_timer_cancel(pg->timer);
	set_state(pg, STATE_UP);
	fail_waiting(pg); /* what came too early for this connection and was not told so yet */
	if (pg->state != STATE_UP)
		return;
	if (pg->was_ever_up)
		series_add(pg->settings.reconnects, 1);
	pg->was_up = pg->was_ever_up = true;
	pg->said[0] = '\0';
	pg->events.up(pg->events.arg);
}

static void refused(struct pg *pg)
{
	if (!pg->option_refused && pg_option_refused(pg->conn)) {
		pg->option_refused = true;
		close_connection(pg);
		set_state(pg, STATE_BACKOFF);
		loop_timer_set(pg->timer, 0);
	} else {
		give_up_lost(pg);
	}
}

static void on_connecting(void *arg, bool readable, bool writable);

/* The socket of the next step may be another one under the same number: watch it afresh. */
static void watch_connecting(struct pg *pg, PostgresPollingStatusType step)
{
	pg->watch = loop_fd_new(pg->loop, PQsocket(pg->conn), on_connecting, pg);
	loop_fd_want(pg->watch, step == PGRES_POLLING_READING, step == PGRES_POLLING_WRITING);
}

static void on_connecting(void *arg, bool readable, bool writable)
{
	struct pg *pg = arg;
	(void)readable;
	(void)writable;
	unwatch(pg);
	PostgresPollingStatusType step = PQconnectPoll(pg->conn);
	if (step == PGRES_POLLING_OK)
		connected(pg);
	else if (step == PGRES_POLLING_FAILED)
		refused(pg);
	else
		watch_connecting(pg, step);
}

static void begin_connecting(struct pg *pg)
{
	const struct pg_attempt attempt = { .rotation = pg->rotation,
					    .ask_options = !pg->option_refused };
	struct pg_conninfo conninfo = { 0 };
	struct err err;
	set_state(pg, STATE_CONNECTING);
	if (!pg_conninfo_make(&pg->settings, &attempt, &err, &conninfo)) {
		give_up(pg, "", err.text);
		return;
	}
	pg->conn = PQconnectStartParams(conninfo.names, (const char *const *)conninfo.values, 0);
	pg_conninfo_done(&conninfo);
	if (!pg->conn)
		abort();
	if (PQstatus(pg->conn) == CONNECTION_BAD) {
		give_up_lost(pg);
		return;
	}
	PQsetNoticeReceiver(pg->conn, on_notice, pg);
	loop_timer_set(pg->timer, pg->settings.connect_timeout);
	watch_connecting(pg, PGRES_POLLING_WRITING);
}

/* --- time --- */

static void give_up_late(struct pg *pg, const char *what, usec_t limit)
{
	char duration[32], text[512];
	(void)snprintf(text, sizeof(text), "%s from %s within %s", what, PQhost(pg->conn),
		       usec_format(limit, duration, sizeof(duration)));
	give_up(pg, "", text);
}

static usec_t answer_limit(const struct pg *pg)
{
	return pg->settings.statement_timeout + ANSWER_GRACE;
}

static void watch_first(struct pg *pg)
{
	if (!pg->first || pg->settings.statement_timeout <= 0)
		return;
	usec_t left = pg->first_since + answer_limit(pg) - usec_boot();
	if (left > 0)
		loop_timer_set(pg->timer, left);
	else
		give_up_late(pg, "no answer", answer_limit(pg));
}

static void on_timer(void *arg)
{
	struct pg *pg = arg;
	switch (pg->state) {
	case STATE_BACKOFF:
		begin_connecting(pg);
		break;
	case STATE_CONNECTING:
		pg->rotation++;
		give_up_late(pg, "no connection", pg->settings.connect_timeout);
		break;
	case STATE_UP:
		watch_first(pg);
		break;
	case STATE_BROKEN:
		break;
	}
}

static void on_kick(void *arg)
{
	struct pg *pg = arg;
	switch (pg->state) {
	case STATE_BACKOFF:
	case STATE_CONNECTING:
		fail_waiting(pg);
		break;
	case STATE_UP:
		flush_and_take(pg);
		break;
	case STATE_BROKEN:
		drop(pg);
		break;
	}
}

/* --- sending --- */

static struct statement *enqueue(struct pg *pg, const char *sql, pg_done_fn *done, void *arg)
{
	struct statement *statement = mem_zero(sizeof(*statement));
	statement->sql = sql;
	statement->done = done;
	statement->arg = arg;
	if (!pg->first)
		pg->first_since = usec_boot();
	*pg->end = statement;
	pg->end = &statement->next;
	pg->queued++;
	return statement;
}

static bool sync(struct pg *pg, bool sent)
{
	if (sent && PQpipelineSync(pg->conn)) {
		if (!loop_timer_pending(pg->timer))
			watch_first(pg);
		return true;
	}
	give_up_lost(pg);
	return false;
}

/* A pooler tells the client a process number of its own. */
static void on_backend(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct pg *pg = arg;
	if (!error)
		pg->named.direct = pg_get_int4(result, 0, 0) == PQbackendPID(pg->conn);
}

static void on_prepared(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct pg_named_item *item = arg;
	(void)result;
	item->ready = !error;
}

/* Beside the statement's own use, so that nothing waits for it. */
static void prepare(struct pg *pg, struct pg_named_item *item)
{
	struct statement *statement;
	if (!pg->named.asked) {
		pg->named.asked = true;
		statement = enqueue(pg, "SELECT pg_backend_pid()", on_backend, pg);
		statement->sent = true;
		(void)sync(pg, PQsendQueryParams(pg->conn, statement->sql, 0, NULL, NULL, NULL,
						 NULL, 1));
	} else if (pg->named.direct) {
		item->asked = true;
		statement = enqueue(pg, item->sql, on_prepared, item);
		statement->sent = true;
		(void)sync(pg, PQsendPrepare(pg->conn, item->name, item->sql, item->count,
					     item->types));
	}
}

static bool send_by_name(struct pg *pg, const struct pg_named_item *item,
			 const struct pg_arguments *arguments)
{
	return PQsendQueryPrepared(pg->conn, item->name, arguments->count, arguments->values,
				   arguments->lengths, arguments->formats, 1);
}

static bool send_text(struct pg *pg, const char *sql, const struct pg_arguments *arguments)
{
	return PQsendQueryParams(pg->conn, sql, arguments->count, arguments->types,
				 arguments->values, arguments->lengths, arguments->formats, 1);
}

/* The statement counts as sent from the first byte that libpq may have taken. */
static void send_now(struct pg *pg, struct statement *statement, const struct pg_params *params)
{
	struct pg_arguments arguments = { 0 };
	if (PQstatus(pg->conn) != CONNECTION_OK) {
		give_up_lost(pg);
		return;
	}
	statement->sent = true;
	pg_arguments(params, &arguments);
	struct pg_named_item *item = pg_named_use(&pg->named, statement->sql, &arguments);
	statement->named = pg_named_fits(item, &arguments);
	bool sent = statement->named ? send_by_name(pg, item, &arguments)
				     : send_text(pg, statement->sql, &arguments);
	if (sync(pg, sent) && pg_named_due(item))
		prepare(pg, item);
}

void pg_send(struct pg *pg, const char *sql, const struct pg_params *params, pg_done_fn *done,
	     void *arg)
{
	struct statement *statement = enqueue(pg, sql, done, arg);
	if (pg->state == STATE_UP)
		send_now(pg, statement, params);
	/* also after success: libpq reads while it writes, and the socket no longer tells of it */
	if (!loop_timer_pending(pg->kick))
		loop_timer_set(pg->kick, 0);
}

bool pg_up(const struct pg *pg)
{
	return pg->state == STATE_UP;
}

const char *pg_host(const struct pg *pg)
{
	return pg_up(pg) ? PQhost(pg->conn) : "";
}

size_t pg_queued(const struct pg *pg)
{
	return pg->queued;
}

void pg_reset(struct pg *pg, const char *reason)
{
	give_up(pg, "", reason);
}

struct pg *pg_new(struct loop *loop, struct log *log, const struct pg_settings *settings,
		  const struct pg_events *events)
{
	struct pg *pg = mem_zero(sizeof(*pg));
	pg->loop = loop;
	pg->log = log;
	pg->settings = *settings;
	pg->events = *events;
	pg->end = &pg->first;
	pg->named.off = !settings->named;
	pg->backoff = BACKOFF_MIN;
	(void)snprintf(pg->why.text, sizeof(pg->why.text), "not connected yet");
	pg->timer = loop_timer_new(loop, on_timer, pg);
	pg->kick = loop_timer_new(loop, on_kick, pg);
	set_state(pg, STATE_BACKOFF);
	loop_timer_set(pg->timer, 0);
	return pg;
}

void pg_free(struct pg *pg)
{
	if (!pg)
		return;
	give_up(pg, "", "closed");
	close_connection(pg);
	set_state(pg, STATE_BACKOFF);
	while (pg->first)
		fail_waiting(pg);
	loop_timer_free(pg->timer);
	loop_timer_free(pg->kick);
	free(pg);
}
