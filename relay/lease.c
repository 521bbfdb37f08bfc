/* The lease's life. Only the newest statement's answer counts: `asked` numbers them. */
#include "lease.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crash.h"
#include "mem.h"
#include "sql.h"

#define AFTER_END  (20 * USEC_MS) /* a lease that should end is asked for a moment later */
#define AFTER_FAIL USEC_SEC
#define MARGIN     10 /* the last tenth of the lease is not used */
#define SAY_EVERY  USEC_MIN

enum lease_state {
	LEASE_IDLE,      /* not wanted */
	LEASE_WAITING,   /* wanted; for the connection, or until `timer` asks */
	LEASE_ASKING,    /* asked for; the answer is on its way */
	LEASE_HELD,      /* ours until `ends`; `timer` renews, `end` watches */
	LEASE_RELEASING, /* given back; the answer is on its way */
};

struct lease {
	enum lease_state state;
	struct log *log;
	struct lease_settings settings;
	struct lease_events events;
	struct pg *pg;
	struct loop_timer *timer;
	struct loop_timer *end;
	int64_t token;  /* ours, or the last that was ours */
	usec_t sent;    /* when the last statement was, boot clock */
	usec_t ends;    /* while held */
	uint64_t asked; /* number of the last statement */
	bool connected;
	bool answered; /* that statement was */
	bool said_standby;
	bool known; /* ours, or another's: the database has said so */
	char server[64];
	struct log_limit failures;
};

/* What a callback needs to know of its statement. */
struct question {
	struct lease *lease;
	uint64_t number;
};

static void set_state(struct lease *lease, enum lease_state state)
{
	lease->state = state;
	if (state != LEASE_HELD)
		loop_timer_cancel(lease->end);
}

/* --- asking --- */

static void ask(struct lease *lease, const char *sql, const struct pg_params *params,
		pg_done_fn *done)
{
	struct question *question = mem_zero(sizeof(*question));
	question->lease = lease;
	question->number = ++lease->asked;
	lease->answered = false;
	lease->sent = usec_boot();
	pg_send(lease->pg, sql, params, done, question);
}

/* The lease whose newest statement this was; NULL: the answer comes too late to matter. */
static struct lease *answered(void *arg)
{
	struct question *question = arg;
	struct lease *lease = question->lease;
	bool newest = question->number == lease->asked;
	free(question);
	if (!newest)
		return NULL;
	lease->answered = true;
	return lease;
}

static void say_failure(struct lease *lease, const struct pg_error *error)
{
	uint64_t held;
	if (error->kind == PG_REFUSED &&
	    log_limit_pass(&lease->failures, usec_boot(), SAY_EVERY, &held))
		log_warn(lease->log, "the lease cannot be read or written",
			 LOG_TEXT("text", error->text), LOG_TEXT("sqlstate", error->sqlstate),
			 LOG_INT("held_back", held));
}

static void note_server(struct lease *lease, const char *server)
{
	bool changed = lease->server[0] && strcmp(lease->server, server) != 0;
	(void)snprintf(lease->server, sizeof(lease->server), "%s", server);
	if (changed)
		lease->events.server_changed(lease->events.arg);
}

/* --- holding --- */

static void hold(struct lease *lease)
{
	usec_t length = lease->settings.length;
	usec_t now = usec_boot();
	lease->ends = lease->sent + length - length / MARGIN;
	lease->known = true;
	set_state(lease, LEASE_HELD);
	loop_timer_set(lease->timer, lease->sent + length / 3 - now);
	loop_timer_set(lease->end, lease->ends - now);
}

static void lose(struct lease *lease, const char *reason)
{
	lease->known = false;
	set_state(lease, LEASE_WAITING);
	loop_timer_set(lease->timer, 0);
	lease->events.lost(lease->events.arg, reason);
}

bool lease_check(struct lease *lease)
{
	if (lease->state != LEASE_HELD)
		return false;
	if (usec_boot() < lease->ends)
		return true;
	lose(lease, "it could not be renewed in time");
	return false;
}

static void on_end(void *arg)
{
	(void)lease_check(arg);
}

static void on_renewed(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct lease *lease = answered(arg);
	if (!lease || !lease_check(lease))
		return;
	if (error) {
		say_failure(lease, error);
		loop_timer_set(lease->timer, AFTER_FAIL);
	} else if (pg_rows(result) == 0) {
		lose(lease, "another owner has it");
	} else {
		crash_point("lease_renew.answered");
		hold(lease);
		note_server(lease, pg_get_text(result, 0, 3));
	}
}

static void add_settings(const struct lease *lease, struct pg_params *params)
{
	pg_add_text(params, lease->settings.name);
	pg_add_text(params, lease->settings.owner);
	pg_add_interval(params, lease->settings.length);
	pg_add_int8(params, lease->token);
}

void lease_renew(struct lease *lease)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	if (lease->state != LEASE_HELD || !lease->answered)
		return;
	add_settings(lease, &params);
	crash_point("lease_renew.send");
	ask(lease, sql_renew, &params, on_renewed);
	crash_point("lease_renew.sent");
}

/* --- taking --- */

static void took(struct lease *lease, const PGresult *result)
{
	int64_t last = lease->token;
	const char *owner = pg_get_text(result, 0, 1);
	bool mine = last > 0 && owner && strcmp(owner, lease->settings.owner) == 0;
	crash_point("lease_acquire.answered");
	lease->token = pg_get_int8(result, 0, 0);
	lease->said_standby = false;
	hold(lease);
	if (lease_check(lease)) /* the answer may have taken longer than the lease */
		lease->events.taken(lease->events.arg, owner && !mine ? owner : "");
}

static void stand_by(struct lease *lease, const PGresult *result)
{
	usec_t third = lease->settings.length / 3;
	usec_t left = pg_get_int8(result, 0, 2) + AFTER_END;
	lease->known = true;
	set_state(lease, LEASE_WAITING);
	loop_timer_set(lease->timer, left > 0 && left < third ? left : third);
	if (lease->said_standby)
		return;
	lease->said_standby = true;
	lease->events.standby(lease->events.arg, pg_get_text(result, 0, 1));
}

static void on_asked(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct lease *lease = answered(arg);
	if (!lease || lease->state != LEASE_ASKING)
		return;
	if (error) {
		say_failure(lease, error);
		lease->known = false;
		set_state(lease, LEASE_WAITING);
		loop_timer_set(lease->timer, AFTER_FAIL);
		return;
	}
	note_server(lease, pg_get_text(result, 0, 3));
	if (pg_null(result, 0, 0))
		stand_by(lease, result);
	else
		took(lease, result);
}

static void ask_for_it(struct lease *lease)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	if (!pg_up(lease->pg))
		return; /* on_up() will */
	add_settings(lease, &params);
	set_state(lease, LEASE_ASKING);
	crash_point("lease_acquire.send");
	ask(lease, sql_acquire, &params, on_asked);
	crash_point("lease_acquire.sent");
}

static void on_timer(void *arg)
{
	struct lease *lease = arg;
	switch (lease->state) {
	case LEASE_WAITING:
		ask_for_it(lease);
		break;
	case LEASE_HELD:
		if (lease_check(lease))
			lease_renew(lease);
		break;
	case LEASE_IDLE:
	case LEASE_ASKING:
	case LEASE_RELEASING:
		break;
	}
}

/* --- the connection --- */

static void on_up(void *arg)
{
	struct lease *lease = arg;
	lease->connected = true;
	if (lease->state == LEASE_WAITING)
		ask_for_it(lease);
}

static void on_down(void *arg, const char *reason)
{
	struct lease *lease = arg;
	bool could_not_connect = !lease->connected;
	lease->connected = false;
	lease->known = false;
	switch (lease->state) {
	case LEASE_HELD:
		lose(lease, reason);
		break;
	case LEASE_ASKING:
	case LEASE_WAITING:
		set_state(lease, LEASE_WAITING);
		if (could_not_connect)
			lease->events.unreachable(lease->events.arg, reason);
		break;
	case LEASE_IDLE:
	case LEASE_RELEASING:
		break;
	}
}

/* --- wanted or not --- */

void lease_want(struct lease *lease)
{
	if (lease->state != LEASE_IDLE)
		return;
	set_state(lease, LEASE_WAITING);
	ask_for_it(lease);
}

static void on_released(void *arg, const PGresult *result, const struct pg_error *error)
{
	(void)result;
	struct lease *lease = answered(arg);
	if (!lease || lease->state != LEASE_RELEASING)
		return;
	crash_point("lease_release.answered");
	if (error && lease->token > 0) /* else there was nothing to give back */
		say_failure(lease, error);
	set_state(lease, LEASE_IDLE);
	lease->events.released(lease->events.arg);
}

/* Also while the question for it is on its way: the answer to this comes behind it. */
void lease_release(struct lease *lease)
{
	PG_PARAMS_AUTO struct pg_params params = { 0 };
	if (lease->state == LEASE_RELEASING)
		return;
	loop_timer_cancel(lease->timer);
	set_state(lease, LEASE_RELEASING);
	pg_add_text(&params, lease->settings.name);
	pg_add_text(&params, lease->settings.owner);
	pg_add_int8(&params, lease->token);
	crash_point("lease_release.send");
	ask(lease, sql_release, &params, on_released);
	crash_point("lease_release.sent");
}

int64_t lease_token(const struct lease *lease)
{
	return lease->token;
}

bool lease_known(const struct lease *lease)
{
	return lease->known;
}

struct lease *lease_new(struct loop *loop, struct log *log, const struct pg_settings *pg,
			const struct lease_settings *settings, const struct lease_events *events)
{
	struct lease *lease = mem_zero(sizeof(*lease));
	const struct pg_events pg_events = { .up = on_up, .down = on_down, .arg = lease };
	lease->log = log;
	lease->settings = *settings;
	lease->events = *events;
	lease->timer = loop_timer_new(loop, on_timer, lease);
	lease->end = loop_timer_new(loop, on_end, lease);
	lease->pg = pg_new(loop, log, pg, &pg_events);
	return lease;
}

void lease_free(struct lease *lease)
{
	if (!lease)
		return;
	lease->asked++; /* no answer counts any more */
	pg_free(lease->pg);
	loop_timer_free(lease->timer);
	loop_timer_free(lease->end);
	free(lease);
}

/* The boot id is the same for all that runs until the machine is started again. */
char *lease_owner(const char *instance)
{
	char boot[9] = "unknown";
	char owner[512];
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	if (file) {
		if (fread(boot, 1, sizeof(boot) - 1, file) != sizeof(boot) - 1)
			(void)snprintf(boot, sizeof(boot), "unknown");
		(void)fclose(file);
	}
	(void)snprintf(owner, sizeof(owner), "%s/%s/%ld", instance, boot, (long)getpid());
	return mem_text(owner);
}
