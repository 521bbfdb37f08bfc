/* The relay's states, and one function for each thing that can happen.
 *
 * The order that must hold: whoever finds the lease or a connection gone retires the flow first and
 * does everything else after. */
#include "relay.h"

#include <stdlib.h>
#include <string.h>

#include "flow.h"
#include "health.h"
#include "lease.h"
#include "mem.h"
#include "meter.h"
#include "pg.h"

#define DRAIN_RESERVE 10 /* a tenth of the drain timeout is kept for giving the lease back */
#define SAY_EVERY     USEC_MIN

enum relay_state {
	RELAY_OFFLINE,   /* no database that can be used */
	RELAY_STANDBY,   /* the database is there; the lease is another's, or was asked for */
	RELAY_OWNER,     /* rows flow */
	RELAY_DRAINING,  /* those in flight come home; on the way out */
	RELAY_RELEASING, /* the lease is given back */
	RELAY_STOPPED,
};

struct relay {
	enum relay_state state;
	struct log *log;
	const struct conf *conf;
	struct loop *loop;
	void (*stopped)(void *arg);
	void *stopped_arg;
	char *owner;
	bool was_ready; /* said once */
	struct meter *meter;
	struct lease *lease;
	struct flow *flow;
	struct health *health; /* NULL: nobody is told */
	struct loop_timer *drain_timer;
	struct log_limit offline_said;
};

static void set_state(struct relay *relay, enum relay_state state)
{
	relay->state = state;
}

static void say_ready(struct relay *relay)
{
	if (relay->was_ready)
		return;
	relay->was_ready = true;
	log_info(relay->log, "ready", LOG_TEXT("owner", relay->owner));
}

/* What was in flight, or is not known to be deleted, will be sent again. */
static struct flow_left retire_flow(struct relay *relay)
{
	struct flow_left left = flow_retire(relay->flow);
	series_add(relay->meter->possible_duplicates, left.in_flight + left.not_deleted);
	return left;
}

/* --- the end --- */

static void finish(struct relay *relay)
{
	if (relay->state == RELAY_STOPPED)
		return;
	set_state(relay, RELAY_STOPPED);
	loop_timer_cancel(relay->drain_timer);
	flow_say_totals(relay->flow);
	relay->stopped(relay->stopped_arg);
}

static void release(struct relay *relay)
{
	set_state(relay, RELAY_RELEASING);
	loop_timer_set(relay->drain_timer, relay->conf->general.drain_timeout / DRAIN_RESERVE);
	lease_release(relay->lease);
}

static void give_up_draining(struct relay *relay)
{
	struct flow_left left = retire_flow(relay);
	log_warn(relay->log, "drain timeout: what is not settled will be published again",
		 LOG_INT("in_flight", left.in_flight), LOG_INT("not_deleted", left.not_deleted));
	release(relay);
}

static void on_drain_timeout(void *arg)
{
	struct relay *relay = arg;
	switch (relay->state) {
	case RELAY_DRAINING:
		give_up_draining(relay);
		break;
	case RELAY_RELEASING:
		finish(relay);
		break;
	case RELAY_OFFLINE:
	case RELAY_STANDBY:
	case RELAY_OWNER:
	case RELAY_STOPPED:
		break;
	}
}

static void on_drained(void *arg)
{
	struct relay *relay = arg;
	if (relay->state == RELAY_DRAINING)
		release(relay);
}

void relay_stop(struct relay *relay)
{
	usec_t timeout = relay->conf->general.drain_timeout;
	switch (relay->state) {
	case RELAY_OWNER:
		log_info(relay->log, "stopping: nothing more is read");
		set_state(relay, RELAY_DRAINING);
		loop_timer_set(relay->drain_timer, timeout - timeout / DRAIN_RESERVE);
		flow_drain(relay->flow);
		break;
	case RELAY_OFFLINE:
	case RELAY_STANDBY:
		release(relay);
		break;
	case RELAY_DRAINING:
	case RELAY_RELEASING:
	case RELAY_STOPPED:
		break;
	}
}

/* --- the lease --- */

static void retire(struct relay *relay, const char *reason)
{
	struct flow_left left = retire_flow(relay);
	log_warn(relay->log, "lease lost", LOG_TEXT("reason", reason),
		 LOG_INT("token", lease_token(relay->lease)), LOG_INT("in_flight", left.in_flight),
		 LOG_INT("not_deleted", left.not_deleted));
}

static void fall_back(struct relay *relay, enum relay_state next, const char *reason)
{
	switch (relay->state) {
	case RELAY_OWNER:
		retire(relay, reason);
		set_state(relay, next);
		break;
	case RELAY_DRAINING:
		retire(relay, reason);
		release(relay);
		break;
	case RELAY_STANDBY:
		set_state(relay, next);
		break;
	case RELAY_OFFLINE:
	case RELAY_RELEASING:
	case RELAY_STOPPED:
		break;
	}
}

static void on_lost(void *arg, const char *reason)
{
	fall_back(arg, RELAY_STANDBY, reason);
}

/* It may have left a window in flight, and another one acknowledged and not deleted. */
static void note_unclean(struct relay *relay, const char *before)
{
	uint64_t at_most = 2 * (uint64_t)relay->conf->relay.window_rows;
	series_add(relay->meter->possible_duplicates, at_most);
	log_warn(relay->log, "the owner before did not stop cleanly: possible duplicates",
		 LOG_TEXT("before", before), LOG_INT("at_most", at_most));
}

static void on_taken(void *arg, const char *before)
{
	struct relay *relay = arg;
	if (relay->state != RELAY_STANDBY)
		return;
	set_state(relay, RELAY_OWNER);
	log_info(relay->log, "lease taken", LOG_INT("token", lease_token(relay->lease)),
		 LOG_TEXT("owner", relay->owner));
	if (*before)
		note_unclean(relay, before);
	say_ready(relay);
	flow_start(relay->flow, lease_token(relay->lease), *before != '\0');
}

static void on_standby(void *arg, const char *owner)
{
	struct relay *relay = arg;
	log_info(relay->log, "standby", LOG_TEXT("owner", owner));
	say_ready(relay);
}

static void on_unreachable(void *arg, const char *reason)
{
	struct relay *relay = arg;
	if (relay->state == RELAY_STANDBY) /* else the outbox's connection has told it */
		log_warn(relay->log, "no connection for the lease", LOG_TEXT("text", reason));
}

static void on_server_changed(void *arg)
{
	struct relay *relay = arg;
	flow_forget(relay->flow);
}

static void on_released(void *arg)
{
	struct relay *relay = arg;
	switch (relay->state) {
	case RELAY_RELEASING:
		finish(relay);
		break;
	case RELAY_STANDBY: /* the database came back meanwhile */
		lease_want(relay->lease);
		break;
	case RELAY_OFFLINE:
	case RELAY_OWNER:
	case RELAY_DRAINING:
	case RELAY_STOPPED:
		break;
	}
}

static bool own(void *arg)
{
	struct relay *relay = arg;
	return lease_check(relay->lease);
}

static void on_doubt(void *arg)
{
	struct relay *relay = arg;
	lease_renew(relay->lease);
}

/* --- the database --- */

static void on_ready(void *arg)
{
	struct relay *relay = arg;
	if (relay->state != RELAY_OFFLINE)
		return;
	relay->offline_said = (struct log_limit){ 0 };
	set_state(relay, RELAY_STANDBY);
	lease_want(relay->lease);
}

static const char *remedy_of(const char *reason)
{
	if (strstr(reason, "read-only") || strstr(reason, "recovery"))
		return "name the primary in postgres.conninfo, or all hosts";
	if (strstr(reason, "does not exist"))
		return "create it, then run `counterfoil migrate`; or correct postgres.conninfo";
	return "it is tried again; see postgres.conninfo and the server's log";
}

static void on_down(void *arg, const char *reason, bool was_ready)
{
	struct relay *relay = arg;
	uint64_t held;
	fall_back(relay, RELAY_OFFLINE, reason);
	if (relay->state != RELAY_OFFLINE)
		return;
	if (was_ready) /* another relay may still reach it */
		lease_release(relay->lease);
	if (was_ready || log_limit_pass(&relay->offline_said, usec_boot(), SAY_EVERY, &held))
		log_warn(relay->log, "no database: rows wait", LOG_TEXT("text", reason),
			 LOG_TEXT("remedy", remedy_of(reason)));
}

/* --- health --- */

static const char *role_of(const struct relay *relay)
{
	switch (relay->state) {
	case RELAY_OWNER:
		return "owner";
	case RELAY_STANDBY:
		return "standby";
	case RELAY_OFFLINE:
	case RELAY_DRAINING:
	case RELAY_RELEASING:
	case RELAY_STOPPED:
		break;
	}
	return "none";
}

static const char *on_role(void *arg)
{
	const struct relay *relay = arg;
	bool leaving = relay->state == RELAY_DRAINING || relay->state == RELAY_RELEASING;
	if (relay->state == RELAY_OWNER && flow_suspects(relay->flow))
		return "suspects";
	return leaving ? "draining" : role_of(relay);
}

/* A standby is ready when it could take over: how long the rows wait is its owner's matter. */
static void on_check(void *arg, struct health_report *report)
{
	const struct relay *relay = arg;
	bool database = flow_database(relay->flow);
	bool schema = flow_schema(relay->flow);
	bool lease = lease_known(relay->lease);
	bool draining = relay->state == RELAY_DRAINING || relay->state == RELAY_RELEASING ||
			relay->state == RELAY_STOPPED;
	const struct health_wait oldest = flow_oldest(relay->flow);
	health_say(report, "database", database, database ? "connected" : "not connected");
	const char *misfit = flow_misfit(relay->flow);
	health_say(report, "schema", schema, "%s",
		   schema    ? "fits"
		   : *misfit ? misfit
			     : "not known to fit");
	health_say(report, "lease", lease, "%s",
		   lease ? role_of(relay) : "nobody is known to hold it");
	health_say(report, "running", !draining, draining ? "stopping" : "yes");
	if (relay->state != RELAY_STANDBY)
		health_say_progress(report, &oldest, "row", relay->conf->http.ready_max_age,
				    usec_boot());
}

static void on_measure(void *arg)
{
	const struct relay *relay = arg;
	series_set(relay->meter->owner, relay->state == RELAY_OWNER ? 1 : 0);
	flow_measure(relay->flow);
}

bool relay_listen(struct relay *relay, struct err *err)
{
	const char *address = relay->conf->http.relay;
	const struct health_events events = {
		.check = on_check,
		.measure = on_measure,
		.arg = relay,
	};
	if (!*address)
		return true;
	if (!health_new(relay->loop, address, relay->meter->metrics, &events, err, &relay->health))
		return err_prefix(err, "http.relay");
	log_info(relay->log, "http listening", LOG_TEXT("address", health_address(relay->health)));
	return true;
}

/* --- making --- */

static void make_lease(struct relay *relay, struct loop *loop, const struct pg_settings *pg)
{
	const struct lease_settings settings = {
		.name = flow_lease(relay->flow),
		.owner = relay->owner,
		.length = relay->conf->relay.lease,
	};
	const struct lease_events events = {
		.taken = on_taken,
		.standby = on_standby,
		.lost = on_lost,
		.unreachable = on_unreachable,
		.server_changed = on_server_changed,
		.released = on_released,
		.arg = relay,
	};
	relay->lease = lease_new(loop, relay->log, pg, &settings, &events);
}

static bool make_flow(struct relay *relay, struct loop *loop, const struct pg_settings *pg,
		      struct err *err)
{
	const struct flow_events events = {
		.ready = on_ready,
		.down = on_down,
		.own = own,
		.doubt = on_doubt,
		.role = on_role,
		.drained = on_drained,
		.arg = relay,
	};
	return flow_new(loop, relay->log, relay->conf, pg, relay->owner, relay->meter, &events, err,
			&relay->flow);
}

bool relay_new(struct loop *loop, struct log *log, const struct conf *conf,
	       void (*stopped)(void *arg), void *arg, struct err *err, struct relay **relay_r)
{
	struct relay *relay = mem_zero(sizeof(*relay));
	relay->meter = meter_new();
	const struct pg_settings pg = {
		.conninfo = conf->postgres.conninfo,
		.password_file = conf->postgres.password_file,
		.program = "counterfoil-relay",
		.connect_timeout = conf->postgres.connect_timeout,
		.statement_timeout = conf->postgres.statement_timeout,
		.named = true,
		.reconnects = relay->meter->db_reconnects,
	};
	relay->log = log;
	relay->conf = conf;
	relay->loop = loop;
	relay->stopped = stopped;
	relay->stopped_arg = arg;
	relay->owner = lease_owner(conf->general.instance);
	relay->drain_timer = loop_timer_new(loop, on_drain_timeout, relay);
	if (!make_flow(relay, loop, &pg, err)) {
		relay_free(relay);
		return false;
	}
	make_lease(relay, loop, &pg);
	*relay_r = relay;
	return true;
}

void relay_free(struct relay *relay)
{
	if (!relay)
		return;
	set_state(relay, RELAY_STOPPED); /* what still calls back finds nothing to do */
	health_free(relay->health);
	flow_free(relay->flow);
	lease_free(relay->lease);
	loop_timer_free(relay->drain_timer);
	meter_free(relay->meter);
	free(relay->owner);
	free(relay);
}
