/* The lease of this process.
 *
 *   none --a row was made, in time--> held --renewal refused, late, or none before the end--> none
 *   any --release--> ending --the row ended, or no answer--> done
 *
 * What must hold: a lease counts from the moment its statement was sent, by the boot clock, and is
 * given up GUARD before that. So an answer that comes later than that is not believed, whatever it
 * says, and the process notices by itself that it was stopped or suspended. A lost lease is never
 * taken up again: the next one is a new row with a new id. */
#include "instance.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buf.h"
#include "crash.h"
#include "database.h"
#include "execution/sql_execution.h"
#include "mem.h"
#include "version.h"

#define RELEASE_WAIT (2 * USEC_SEC)

enum lease_state {
	LEASE_NONE,   /* a row is asked for whenever the database answers */
	LEASE_HELD,   /* `end` fires before it runs out */
	LEASE_ENDING, /* released: nothing is asked for any more */
};

struct instance {
	struct loop *loop;
	struct log *log;
	struct meter *meter;
	struct instance_events events;
	struct pg *pg;
	struct loop_timer *next; /* the next statement, or the end of patience with this one */
	struct loop_timer *end;  /* of the lease */
	struct buf name;
	usec_t lease;

	enum lease_state state;
	int64_t id;
	usec_t until;
	bool asking;     /* a statement has no answer yet */
	usec_t asked_at; /* when it was sent */

	loop_fn *released;
	void *released_arg;
};

static void set_state(struct instance *instance, enum lease_state state)
{
	instance->state = state;
}

static usec_t guard(const struct instance *instance)
{
	return instance->lease / 10;
}

/* --- the statements --- */

static void hold(struct instance *instance, int64_t id)
{
	instance->id = id;
	instance->until = instance->asked_at + instance->lease;
	set_state(instance, LEASE_HELD);
	loop_timer_set(instance->end, instance->until - guard(instance) - usec_boot());
	loop_timer_set(instance->next, instance->lease / 3);
	instance->events.held(instance->events.arg, id);
}

static void lose(struct instance *instance, const char *why)
{
	log_warn(instance->log, "lease lost", LOG_INT("instance", instance->id),
		 LOG_TEXT("reason", why));
	series_add(instance->meter->lease_lost, 1);
	instance->id = 0;
	instance->until = 0;
	set_state(instance, LEASE_NONE);
	loop_timer_cancel(instance->end);
	if (!instance->asking)
		loop_timer_set(instance->next, 0);
	instance->events.lost(instance->events.arg);
}

static bool too_late(const struct instance *instance)
{
	return usec_boot() >= instance->asked_at + instance->lease - guard(instance);
}

static void refused(struct instance *instance, const struct pg_error *error)
{
	if (error->kind == PG_REFUSED)
		log_warn(instance->log, "lease refused", LOG_TEXT("error", error->text));
	loop_timer_set(instance->next, guard(instance));
}

static void on_made(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct instance *instance = arg;
	instance->asking = false;
	if (instance->state == LEASE_ENDING)
		return;
	if (error)
		return refused(instance, error);
	if (pg_rows(result) != 1 || too_late(instance)) {
		loop_timer_set(instance->next, guard(instance));
		return;
	}
	const int64_t id = pg_get_int8(result, 0, 0);
	crash_point("instance_new.answered");
	log_info(instance->log, "lease taken", LOG_INT("instance", id),
		 LOG_TEXT("name", instance->name.data));
	hold(instance, id);
}

static void on_renewed(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct instance *instance = arg;
	instance->asking = false;
	if (instance->state == LEASE_ENDING)
		return;
	if (instance->state == LEASE_NONE) /* lost while it was asked */
		return loop_timer_set(instance->next, 0);
	if (error)
		return refused(instance, error);
	if (pg_rows(result) != 1)
		return lose(instance, "it had run out in the database, or that is a copy");
	if (too_late(instance))
		return lose(instance, "the renewal came too late");
	crash_point("instance_renew.answered");
	hold(instance, instance->id);
}

static void ask(struct instance *instance)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	if (instance->asking || instance->state == LEASE_ENDING || !pg_up(instance->pg))
		return;
	instance->asking = true;
	instance->asked_at = usec_boot();
	loop_timer_set(instance->next, instance->lease / 3);
	if (instance->state == LEASE_HELD) {
		pg_add_int8(&params, instance->id);
		pg_add_interval(&params, instance->lease);
		crash_point("instance_renew.send");
		pg_send(instance->pg, SQL_INSTANCE_RENEW, &params, on_renewed, instance);
		crash_point("instance_renew.sent");
	} else {
		pg_add_text(&params, instance->name.data);
		pg_add_text(&params, COUNTERFOIL_VERSION);
		pg_add_interval(&params, instance->lease);
		crash_point("instance_new.send");
		pg_send(instance->pg, SQL_INSTANCE_NEW, &params, on_made, instance);
		crash_point("instance_new.sent");
	}
}

/* --- what happens --- */

/* A connection that gives no answer for so long is not waited for: another one may. */
static void on_next(void *arg)
{
	struct instance *instance = arg;
	if (instance->asking)
		pg_reset(instance->pg, "the lease was not answered in time");
	else
		ask(instance);
}

static void on_up(void *arg)
{
	ask(arg);
}

static void on_down(void *arg, const char *reason)
{
	struct instance *instance = arg;
	log_warn(instance->log, "database away", LOG_TEXT("part", "lease"),
		 LOG_TEXT("reason", reason));
}

/* Timers do not run while the machine is suspended, nor as exactly as the boot clock. */
static void on_end(void *arg)
{
	struct instance *instance = arg;
	if (instance->state == LEASE_ENDING) {
		instance->released(instance->released_arg);
		return;
	}
	const usec_t left = instance->until - guard(instance) - usec_boot();
	if (left > 0)
		loop_timer_set(instance->end, left);
	else
		lose(instance, "it could not be renewed in time");
}

static void on_released(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct instance *instance = arg;
	(void)result;
	(void)error; /* then it runs out by itself */
	crash_point("instance_release.answered");
	loop_timer_set(instance->end, 0);
}

void instance_release(struct instance *instance, loop_fn *done, void *arg)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	const bool held = instance->state == LEASE_HELD && pg_up(instance->pg);
	const int64_t id = instance->id;
	set_state(instance, LEASE_ENDING);
	instance->released = done;
	instance->released_arg = arg;
	instance->id = 0;
	instance->until = 0;
	loop_timer_cancel(instance->next);
	loop_timer_set(instance->end, held ? RELEASE_WAIT : 0);
	if (!held)
		return;
	pg_add_int8(&params, id);
	crash_point("instance_release.send");
	pg_send(instance->pg, SQL_INSTANCE_RELEASE, &params, on_released, instance);
	crash_point("instance_release.sent");
}

/* --- beginning and end --- */

/* The first characters of the boot id: a process id means something only together with it. */
static void add_boot(struct buf *name)
{
	char boot[9] = "";
	const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	const ssize_t length = fd < 0 ? -1 : read(fd, boot, sizeof(boot) - 1);
	if (fd >= 0)
		close(fd);
	boot[length > 0 ? length : 0] = '\0';
	buf_add_text(name, boot);
}

/* A database that does not answer is noticed within the lease. */
static struct pg *connect_pg(struct instance *instance, const struct conf *conf)
{
	struct pg_settings settings = database_settings(conf, instance->meter);
	const usec_t patience = instance->lease / 3;
	if (settings.statement_timeout > patience)
		settings.statement_timeout = patience;
	const struct pg_events events = { .up = on_up, .down = on_down, .arg = instance };
	return pg_new(instance->loop, instance->log, &settings, &events);
}

struct instance *instance_new(struct loop *loop, struct log *log, const struct conf *conf,
			      struct meter *meter, const struct instance_events *events)
{
	struct instance *instance = mem_zero(sizeof(*instance));
	instance->loop = loop;
	instance->log = log;
	instance->meter = meter;
	instance->events = *events;
	instance->lease = conf->ledger.lease;
	buf_addf(&instance->name, "%s/", conf->general.instance);
	add_boot(&instance->name);
	buf_addf(&instance->name, "/%ld", (long)getpid());
	instance->next = loop_timer_new(loop, on_next, instance);
	instance->end = loop_timer_new(loop, on_end, instance);
	instance->pg = connect_pg(instance, conf);
	return instance;
}

void instance_free(struct instance *instance)
{
	if (!instance)
		return;
	set_state(instance, LEASE_ENDING);
	pg_free(instance->pg);
	loop_timer_free(instance->next);
	loop_timer_free(instance->end);
	buf_done(&instance->name);
	free(instance);
}

int64_t instance_id(const struct instance *instance)
{
	return instance->id;
}

usec_t instance_until(const struct instance *instance)
{
	return instance->until;
}
