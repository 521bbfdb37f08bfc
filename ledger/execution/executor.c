/* The conductor of execution: it decides when to claim and whether what was claimed may be sent.
 *
 *   running --stop--> draining --deadline--> recording --all written, or no longer waited for-->
 * stopped
 *                        \--nothing left------------------------------------------------------/
 *
 * What must hold: a request is sent only under the lease that claimed its key, while that lease and
 * the claim's deadline still cover it, by the boot clock. When a claim's answer is lost with the
 * connection, the keys that it may have taken are looked up and put back before anything else is
 * claimed: this process knows that it has sent nothing of them. */
#include "executor_private.h"

#include <stdlib.h>

#include "database.h"
#include "mem.h"

#define RECORD_GRACE (2 * USEC_SEC) /* for the last results, beyond the deadline of a stop */

static void set_state(struct executor *executor, enum executor_state state)
{
	executor->state = state;
}

/* --- the database --- */

static void on_up(void *arg)
{
	struct executor *executor = arg;
	executor_look_up_doubtful(executor);
	targets_read(executor->targets);
	executor_kick(executor);
}

static void on_down(void *arg, const char *reason)
{
	struct executor *executor = arg;
	log_warn(executor->log, "database away", LOG_TEXT("part", "claims"),
		 LOG_TEXT("reason", reason));
}

/* --- slots that get free --- */

static void on_attempt_ended(void *arg, const struct target *target, size_t tenant)
{
	executor_slot_free(arg, target, tenant);
}

static void on_results_written(void *arg, bool freed)
{
	struct executor *executor = arg;
	if (freed)
		executor_kick_for_old(executor);
	else
		loop_timer_set(executor->turn, 0);
	executor_check_stopped(executor);
}

static void on_found(void *arg)
{
	executor_kick_for_old(arg);
}

static void on_backlog(void *arg, bool high)
{
	struct executor *executor = arg;
	executor->events.backlog(executor->events.arg, high);
}

void executor_lease_set(struct executor *executor, int64_t instance, usec_t until_boot)
{
	const bool changed = executor->instance != instance;
	executor->instance = instance;
	executor->until = until_boot;
	if (!changed)
		return;
	if (instance != 0 && executor->state == EXECUTOR_RUNNING)
		targets_join(executor->targets);
	else
		targets_leave(executor->targets);
	attempts_take_back(executor->attempts);
	executor_kick(executor);
}

/* --- the end --- */

static void stop_now(struct executor *executor)
{
	set_state(executor, EXECUTOR_STOPPED);
	loop_timer_set(executor->end, 0);
}

/* Called wherever something may have been the last. */
void executor_check_stopped(struct executor *executor)
{
	const bool draining =
		executor->state == EXECUTOR_DRAINING || executor->state == EXECUTOR_RECORDING;
	if (draining && executor->asked == 0 && !executor->doubt.asking &&
	    attempts_count(executor->attempts) == 0 && results_count(executor->results) == 0)
		stop_now(executor);
}

static void on_end(void *arg)
{
	struct executor *executor = arg;
	switch (executor->state) {
	case EXECUTOR_RUNNING:
		break;
	case EXECUTOR_DRAINING:
		set_state(executor, EXECUTOR_RECORDING);
		loop_timer_set(executor->end, RECORD_GRACE);
		attempts_take_back(executor->attempts);
		executor_check_stopped(executor);
		break;
	case EXECUTOR_RECORDING:
		log_warn(executor->log, "results not recorded: their keys will be taken over",
			 LOG_INT("results", results_count(executor->results)));
		stop_now(executor);
		break;
	case EXECUTOR_STOPPED:
		executor->stopped(executor->stopped_arg);
		break;
	}
}

void executor_stop(struct executor *executor, usec_t deadline_boot, loop_fn *done, void *arg)
{
	set_state(executor, EXECUTOR_DRAINING);
	executor->stopped = done;
	executor->stopped_arg = arg;
	targets_leave(executor->targets);
	loop_timer_cancel(executor->idle);
	loop_timer_set(executor->end, deadline_boot - usec_boot());
	results_hurry(executor->results);
	executor_check_stopped(executor);
}

void executor_free(struct executor *executor)
{
	if (!executor)
		return;
	set_state(executor, EXECUTOR_STOPPED);
	sweep_free(executor->sweep);
	attempts_free(executor->attempts);
	pg_free(executor->pg);
	markers_free(executor->markers);
	results_free(executor->results);
	targets_free(executor->targets);
	loop_timer_free(executor->end);
	executor_claims_done(executor);
	free(executor);
}

bool executor_target_open(const struct executor *executor, size_t target)
{
	return gate_open(targets_gate(executor->targets, target), usec_boot());
}

void executor_measure(const struct executor *executor)
{
	const struct meter *meter = executor->meter;
	for (size_t i = 0; i < rules_target_count(executor->rules); i++) {
		const struct gate *gate = targets_gate(executor->targets, i);
		series_set(meter->held[i], gate->held ? 1 : 0);
		series_set(meter->paused[i], usec_boot() < gate->paused_until ? 1 : 0);
		series_set(meter->breaker[i], breaker_closed(&gate->breaker) ? 0 : 1);
	}
}

static void make_parts(struct executor *executor)
{
	const struct pg_settings settings = database_busy_settings(executor->conf, executor->meter);
	const struct pg_events pg = { .up = on_up, .down = on_down, .arg = executor };
	const struct results_events results = { .written = on_results_written, .arg = executor };
	const struct attempts_events attempts = { .ended = on_attempt_ended, .arg = executor };
	const struct sweep_events sweep = { .found = on_found,
					    .backlog = on_backlog,
					    .arg = executor };
	executor->pg = pg_new(executor->loop, executor->log, &settings, &pg);
	executor->targets = targets_new(executor->loop, executor->log, executor->pg, executor->conf,
					executor->rules);
	executor->markers =
		markers_new(executor->loop, executor->log, executor->conf, executor->meter);
	executor->results = results_new(executor->loop, executor->log, executor->conf,
					executor->meter, &results);
	executor->attempts = attempts_new(executor->loop, executor->conf, executor->rules,
					  executor->plans, executor->targets, executor->markers,
					  executor->results, executor->meter, &attempts);
	executor->sweep = sweep_new(executor->loop, executor->log, executor->conf, executor->rules,
				    executor->plans, executor->meter, &sweep);
}

struct executor *executor_new(struct loop *loop, struct log *log, const struct conf *conf,
			      const struct rules *rules, struct meter *meter,
			      const struct executor_events *events)
{
	struct executor *executor = mem_zero(sizeof(*executor));
	executor->loop = loop;
	executor->log = log;
	executor->conf = conf;
	executor->rules = rules;
	executor->meter = meter;
	executor->events = *events;
	executor->end = loop_timer_new(loop, on_end, executor);
	executor_claims_init(executor);
	make_parts(executor);
	loop_timer_set(executor->idle, 0);
	return executor;
}
