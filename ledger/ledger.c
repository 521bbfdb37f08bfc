/* The ledger's service: intake, executor and lease tied together.
 *
 *   STARTING --the database is ours--> RUNNING --TERM, INT--> DRAINING --both have stopped-->
 * RELEASING
 * --> the end
 *
 * Order at the end: nothing is consumed or claimed any more; what is under way finishes; only then
 * the lease is given back, because without it nothing may be sent. A second signal is the end at
 * once, in any state: dying is safe. */
#include "ledger.h"

#include <signal.h>
#include <stdlib.h>

#include "census.h"
#include "database.h"
#include "descriptors.h"
#include "execution/executor.h"
#include "expiry/expiry.h"
#include "health.h"
#include "installation.h"
#include "instance.h"
#include "intake/intake.h"
#include "loop.h"
#include "main.h"
#include "mem.h"
#include "meter.h"
#include "operations/bulk.h"
#include "operations/intake_orders.h"
#include "pg.h"
#include "strays.h"

/* Beyond the drain timeout, for results that wait for the database. */
#define DRAIN_GRACE (3 * USEC_SEC)
#define CHECK_AGAIN (2 * USEC_SEC)
#define SAY_EVERY   USEC_MIN

enum ledger_state {
	LEDGER_STARTING, /* the database is not known to be ours; nothing is consumed or claimed */
	LEDGER_RUNNING,
	LEDGER_DRAINING,  /* intake and executor are stopping */
	LEDGER_RELEASING, /* the lease is given back */
};

struct ledger {
	struct log *log;
	const struct conf *conf;
	struct rules *rules;
	enum ledger_state state;
	int exit_code;

	struct loop *loop;
	struct loop_signal *term;
	struct loop_signal *interrupt;
	struct loop_signal *hangup;
	struct loop_timer *drained; /* patience with what does not stop */

	struct meter *meter;
	struct health *health; /* NULL: nobody is told */
	struct pg *pg;         /* asks after schema and installation once connected, for the census,
				  expiry and bulk orders */
	struct installation_question question;
	struct err misfit; /* why the database cannot be used; "": it can, or nobody knows */
	struct census *census;
	struct expiry *expiry;
	struct bulk *bulk;
	struct intake_orders *intake_orders;
	struct loop_timer *check;
	struct log_limit misfit_said;
	struct instance *instance;
	struct executor *executor;
	struct intake *intake;
	bool executor_stopped;
	bool intake_stopped;
	bool intake_ready;
	bool said_ready;
};

static void set_state(struct ledger *ledger, enum ledger_state state)
{
	ledger->state = state;
}

/* --- the end --- */

static void on_released(void *arg)
{
	struct ledger *ledger = arg;

	loop_stop(ledger->loop);
}

static void release(struct ledger *ledger)
{
	set_state(ledger, LEDGER_RELEASING);
	loop_timer_cancel(ledger->drained);
	instance_release(ledger->instance, on_released, ledger);
}

static void on_part_stopped(struct ledger *ledger)
{
	if (ledger->state == LEDGER_DRAINING && ledger->executor_stopped && ledger->intake_stopped)
		release(ledger);
}

static void on_executor_stopped(void *arg)
{
	struct ledger *ledger = arg;

	ledger->executor_stopped = true;
	on_part_stopped(ledger);
}

static void on_intake_stopped(void *arg)
{
	struct ledger *ledger = arg;

	ledger->intake_stopped = true;
	on_part_stopped(ledger);
}

static void on_not_drained(void *arg)
{
	struct ledger *ledger = arg;

	log_warn(ledger->log, "not drained in time");
	release(ledger);
}

static void drain(struct ledger *ledger)
{
	usec_t timeout = ledger->conf->general.drain_timeout;

	set_state(ledger, LEDGER_DRAINING);
	expiry_stop(ledger->expiry);
	bulk_stop(ledger->bulk);
	intake_orders_stop(ledger->intake_orders);
	loop_timer_set(ledger->drained, timeout + DRAIN_GRACE);
	intake_stop(ledger->intake, on_intake_stopped, ledger);
	executor_stop(ledger->executor, usec_boot() + timeout, on_executor_stopped, ledger);
}

static void stop(struct ledger *ledger)
{
	switch (ledger->state) {
	case LEDGER_STARTING:
		loop_stop(ledger->loop);
		break;
	case LEDGER_RUNNING:
		drain(ledger);
		break;
	case LEDGER_DRAINING:
	case LEDGER_RELEASING:
		log_warn(ledger->log, "stopped at once");
		ledger->exit_code = EXIT_ERROR;
		loop_stop(ledger->loop);
		break;
	}
}

static void on_signal(void *arg)
{
	struct ledger *ledger = arg;

	log_info(ledger->log, "stopping");
	stop(ledger);
}

/* Whoever sends it wants another configuration, and not the end. */
static void on_hangup(void *arg)
{
	struct ledger *ledger = arg;

	log_warn(ledger->log, MAIN_READ_ONCE);
}

static void fail(struct ledger *ledger, int exit_code, const char *message, const char *error)
{
	log_error(ledger->log, message, LOG_TEXT("error", error));
	ledger->exit_code = exit_code;
	if (ledger->state == LEDGER_STARTING || ledger->state == LEDGER_RUNNING)
		stop(ledger);
}

/* --- the parts --- */

static void say_ready(struct ledger *ledger)
{
	if (ledger->said_ready || !ledger->intake_ready || instance_id(ledger->instance) == 0)
		return;
	ledger->said_ready = true;
	log_info(ledger->log, "ready", LOG_INT("instance", instance_id(ledger->instance)));
}

static void on_held(void *arg, int64_t id)
{
	struct ledger *ledger = arg;

	executor_lease_set(ledger->executor, id, instance_until(ledger->instance));
	intake_instance_set(ledger->intake, id);
	bulk_owner(ledger->bulk, id);
	intake_orders_owner(ledger->intake_orders, id);
	say_ready(ledger);
}

static void on_lost(void *arg)
{
	struct ledger *ledger = arg;

	executor_lease_set(ledger->executor, 0, 0);
	bulk_owner(ledger->bulk, 0);
	intake_orders_owner(ledger->intake_orders, 0);
}

static void on_backlog(void *arg, bool high)
{
	struct ledger *ledger = arg;

	log_info(ledger->log, high ? "intake paused: many keys are due" : "intake resumed");
	intake_pause(ledger->intake, high);
}

static void on_intake_ready(void *arg)
{
	struct ledger *ledger = arg;

	ledger->intake_ready = true;
	say_ready(ledger);
}

static void on_recorded(void *arg, int64_t effects)
{
	struct ledger *ledger = arg;

	(void)effects;
	executor_kick(ledger->executor);
}

static void start(struct ledger *ledger)
{
	const struct intake_events intake = { .ready = on_intake_ready,
					      .recorded = on_recorded,
					      .arg = ledger };
	const struct executor_events executor = { .backlog = on_backlog, .arg = ledger };
	const struct instance_events instance = { .held = on_held, .lost = on_lost, .arg = ledger };
	struct err err;

	if (!intake_new(ledger->loop, ledger->log, ledger->conf, ledger->rules, ledger->meter,
			&intake, &err, &ledger->intake)) {
		fail(ledger, EXIT_CONFIG, "cannot consume", err.text);
		return;
	}
	ledger->executor = executor_new(ledger->loop, ledger->log, ledger->conf, ledger->rules,
					ledger->meter, &executor);
	ledger->instance =
		instance_new(ledger->loop, ledger->log, ledger->conf, ledger->meter, &instance);
	set_state(ledger, LEDGER_RUNNING);
}

/* --- whether the database serves --- */

static void ask_again(struct ledger *ledger, const char *message, const char *error)
{
	uint64_t held;

	if (log_limit_pass(&ledger->misfit_said, usec_boot(), SAY_EVERY, &held))
		log_error(ledger->log, message, LOG_TEXT("error", error));
	loop_timer_set(ledger->check, CHECK_AGAIN);
}

/* What runs already must not go on, and may have to finish: it ends. */
static void refuse(struct ledger *ledger, const char *waits, const char *ends, const char *error)
{
	err_set(&ledger->misfit, "%s", error);
	if (ledger->state == LEDGER_STARTING)
		ask_again(ledger, waits, error);
	else
		fail(ledger, EXIT_UNAVAILABLE, ends, error);
}

static void serve(struct ledger *ledger)
{
	ledger->misfit.text[0] = '\0';
	ledger->misfit_said = (struct log_limit){ 0 };
	if (ledger->state == LEDGER_STARTING)
		start(ledger);
	census_start(ledger->census);
	if (ledger->state == LEDGER_RUNNING)
		expiry_start(ledger->expiry);
}

static void on_checked(void *arg, enum installation_answer answer, const char *reason)
{
	struct ledger *ledger = arg;

	switch (answer) {
	case INSTALLATION_OURS:
		serve(ledger);
		break;
	case INSTALLATION_MISFIT:
		refuse(ledger, "the schema does not fit", "the schema fits no more", reason);
		break;
	case INSTALLATION_FOREIGN:
		refuse(ledger, "the database is not this environment's: nothing is performed",
		       "the database is not this environment's any more", reason);
		break;
	case INSTALLATION_UNKNOWN: /* no reason to end what runs */
		ask_again(ledger, "the database does not say whether its schema fits", reason);
		break;
	}
}

static void check(void *arg)
{
	struct ledger *ledger = arg;

	installation_ask(&ledger->question, ledger->pg);
}

static void on_down(void *arg, const char *reason)
{
	struct ledger *ledger = arg;

	loop_timer_cancel(ledger->check);
	census_stop(ledger->census);
	expiry_stop(ledger->expiry);
	log_warn(ledger->log, "database away", LOG_TEXT("part", "schema"),
		 LOG_TEXT("reason", reason));
}

/* --- health --- */

/* How long a key waits that could be sent: what is held or paused is nobody's delay. */
static void check_progress(const struct ledger *ledger, struct health_report *report)
{
	struct health_wait oldest = { 0 };

	for (size_t i = 0; i < rules_target_count(ledger->rules); i++) {
		struct health_wait wait = census_oldest(ledger->census, i);

		oldest.seen_at = wait.seen_at;
		if (wait.age > oldest.age && ledger->executor &&
		    executor_target_open(ledger->executor, i))
			oldest.age = wait.age;
	}
	health_say_progress(report, &oldest, "due key", ledger->conf->http.ready_max_age,
			    usec_boot());
}

/* Dead letters wait in this database's outbox for a relay, which may be that of another one. */
static void check_outbox(const struct ledger *ledger, struct health_report *report)
{
	struct census_outbox outbox = census_outbox(ledger->census);
	bool good = outbox.served || outbox.oldest <= ledger->conf->http.ready_max_age;

	health_say(report, "outbox", good, "%s%s", outbox.served ? "a relay serves it" : "no relay",
		   good ? "" : ", and rows wait");
}

/* Nothing is lost while a topic waits, but nothing of it happens either. */
static void check_poison(const struct ledger *ledger, struct health_report *report)
{
	const char *topic = "";
	size_t full = ledger->intake ? intake_full(ledger->intake, &topic) : 0;

	if (full == 0)
		health_say(report, "poison", true, "no topic has too much of it");
	else
		health_say(report, "poison", false,
			   "topic %s is not read: %lld messages of it are poison; see counterfoil "
			   "poison list, then replay or discard them",
			   topic, (long long)ledger->conf->ledger.poison_limit);
}

/* What is recorded under a name that nobody bears waits for ever. */
static void check_targets(const struct ledger *ledger, struct health_report *report)
{
	const PGresult *strays = census_strays(ledger->census);
	char count[32];

	if (!strays || pg_rows(strays) == 0)
		health_say(report, "targets", true, "no key is of a target that is not configured");
	else
		health_say(report, "targets", false,
			   "%s keys of target %s, which is not configured: put the name back into "
			   "targets[].alias, or cancel them; see counterfoil targets",
			   strays_count(strays, 0, count, sizeof(count)),
			   pg_get_text(strays, 0, STRAY_TARGET));
}

static void on_check(void *arg, struct health_report *report)
{
	const struct ledger *ledger = arg;
	bool database = pg_up(ledger->pg);
	bool schema = ledger->state != LEDGER_STARTING;
	bool lease = ledger->instance && instance_id(ledger->instance) != 0;
	bool assignment = ledger->intake && intake_joined(ledger->intake);
	bool stopping = ledger->state == LEDGER_DRAINING || ledger->state == LEDGER_RELEASING;

	health_say(report, "database", database, database ? "connected" : "not connected");
	health_say(report, "schema", schema, "%s",
		   schema                 ? "fits"
		   : *ledger->misfit.text ? ledger->misfit.text
					  : "not known to fit");
	health_say(report, "lease", lease, lease ? "held" : "not held");
	health_say(report, "assignment", assignment,
		   assignment ? "member of the group" : "the group has assigned nothing");
	size_t unbegun = ledger->intake ? intake_unbegun(ledger->intake) : 0;
	health_say(report, "positions", unbegun == 0,
		   unbegun ? "%zu partitions have none yet: see ledger.start" : "known", unbegun);
	health_say(report, "running", !stopping, stopping ? "stopping" : "yes");
	check_poison(ledger, report);
	check_targets(ledger, report);
	check_progress(ledger, report);
	check_outbox(ledger, report);
}

static void on_measure(void *arg)
{
	const struct ledger *ledger = arg;

	if (ledger->executor)
		executor_measure(ledger->executor);
	if (ledger->intake)
		intake_measure(ledger->intake);
}

static bool listen_for_health(struct ledger *ledger)
{
	const char *address = ledger->conf->http.ledger;
	const struct health_events events = { .check = on_check,
					      .measure = on_measure,
					      .arg = ledger };
	struct err err;

	if (!*address)
		return true;
	if (!health_new(ledger->loop, address, ledger->meter->metrics, &events, &err,
			&ledger->health)) {
		err_prefix(&err, "http.ledger");
		log_error(ledger->log, "cannot start", LOG_TEXT("error", err.text),
			  LOG_TEXT("remedy", "give each process a port of its own: http.ledger, or "
					     "COUNTERFOIL_HTTP_LEDGER=127.0.0.1:0 for a free one"));
		return false;
	}
	log_info(ledger->log, "http listening",
		 LOG_TEXT("address", health_address(ledger->health)));
	return true;
}

/* --- publics --- */

struct ledger *ledger_new(struct log *log, const struct conf *conf, struct rules *rules)
{
	struct ledger *ledger = mem_zero(sizeof(*ledger));
	const struct pg_events events = { .up = check, .down = on_down, .arg = ledger };
	const struct intake_orders_events recorded = { .recorded = on_recorded, .arg = ledger };

	descriptors_raise(conf, log);
	ledger->meter = meter_new(conf, rules);
	const struct pg_settings settings = database_settings(conf, ledger->meter);
	ledger->log = log;
	ledger->conf = conf;
	ledger->rules = rules;
	ledger->loop = loop_new();
	ledger->term = loop_signal_new(ledger->loop, SIGTERM, on_signal, ledger);
	ledger->interrupt = loop_signal_new(ledger->loop, SIGINT, on_signal, ledger);
	ledger->hangup = loop_signal_new(ledger->loop, SIGHUP, on_hangup, ledger);
	ledger->drained = loop_timer_new(ledger->loop, on_not_drained, ledger);
	ledger->check = loop_timer_new(ledger->loop, check, ledger);
	ledger->question = (struct installation_question){ .environment = conf->general.environment,
							   .answered = on_checked,
							   .arg = ledger };
	ledger->pg = pg_new(ledger->loop, log, &settings, &events);
	ledger->census = census_new(ledger->loop, log, ledger->pg, conf, rules, ledger->meter);
	ledger->expiry = expiry_new(ledger->loop, log, ledger->pg, conf, rules);
	ledger->bulk = bulk_new(ledger->loop, log, ledger->pg, conf, ledger->meter);
	ledger->intake_orders = intake_orders_new(ledger->loop, log, ledger->pg, conf, rules,
						  ledger->meter, &recorded);
	return ledger;
}

int ledger_run(struct ledger *ledger)
{
	if (!listen_for_health(ledger))
		return EXIT_UNAVAILABLE;
	loop_run(ledger->loop);
	return ledger->exit_code;
}

void ledger_free(struct ledger *ledger)
{
	if (!ledger)
		return;
	health_free(ledger->health);
	intake_free(ledger->intake);
	executor_free(ledger->executor);
	instance_free(ledger->instance);
	pg_free(ledger->pg);
	census_free(ledger->census);
	expiry_free(ledger->expiry);
	bulk_free(ledger->bulk);
	intake_orders_free(ledger->intake_orders);
	loop_timer_free(ledger->check);
	loop_timer_free(ledger->drained);
	loop_signal_free(ledger->interrupt);
	loop_signal_free(ledger->hangup);
	loop_signal_free(ledger->term);
	loop_free(ledger->loop);
	meter_free(ledger->meter);
	free(ledger);
}
