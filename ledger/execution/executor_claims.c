/* The executor's claims: when a lane asks, and what it does with what it gets. */
#include "executor_private.h"

#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "mem.h"
#include "sql_claim.h"

#define IDLE_EVERY  (80 * USEC_MS) /* and up to half of it more */
#define RACES_MAX   3              /* claims again at once */
#define TOKEN_WAIT  (10 * USEC_MS) /* at least: several at once, where the rate is high */
#define CLAIM_AGAIN USEC_SEC       /* after a refusal */
#define SAY_EVERY   (10 * USEC_SEC)
#define SAY_RARELY  (10 * USEC_MIN)
#define BYTES_MAX   (8 * CLAIM_BYTES_MAX) /* bodies of all that is claimed and has not ended */

/* --- may it be claimed, may it be sent --- */

static int64_t room(const struct executor *executor)
{
	return executor->conf->ledger.in_flight - executor->asked -
	       (int64_t)attempts_count(executor->attempts) -
	       (int64_t)results_count(executor->results);
}

/* Bodies are held until their attempts end. A target with nothing under way has room for one more
 * claim, so that no other target's large ones hold it up. */
static int64_t room_of_bytes(const struct executor *executor, const struct gate *gate)
{
	const int64_t most = BYTES_MAX + (gate->busy == 0 ? CLAIM_BYTES_MAX : 0);
	const int64_t left = most - executor->bytes - attempts_bytes(executor->attempts);
	return left < CLAIM_BYTES_MAX ? left : CLAIM_BYTES_MAX;
}

/* Enough of the lease is left to hand a request over. */
static bool lease_covers(const struct executor *executor, usec_t now)
{
	return executor->instance != 0 && executor->until - now > executor->conf->ledger.lease / 3;
}

/* The request must end before its claim's deadline does, else another process may take the key over
 * while it runs. */
static bool claim_covers(const struct executor *executor, const struct claim *claim, usec_t now)
{
	return executor->instance == claim->owner &&
	       now - claim->asked_at < executor->plans[claim->target->index].spare;
}

/* The first byte leaves while both hold, by the boot clock; see the margin in claim_plan(). */
static usec_t send_before(const struct executor *executor, const struct claim *claim)
{
	const usec_t claimed = claim->asked_at + executor->plans[claim->target->index].spare;
	return claimed < executor->until ? claimed : executor->until;
}

static bool gate_still_lets(const struct executor *executor, const struct claim *claim, usec_t now)
{
	const struct gate *gate = targets_gate(executor->targets, claim->target->index);
	return gate_lets(gate, claim->probe, now);
}

/* --- claims --- */

/* A lane with more to claim goes on when its rate brings a token. */
static void wait_for_token(struct executor *executor, const struct lane *lane)
{
	const struct gate *gate = targets_gate(executor->targets, lane->target->index);
	const usec_t now = usec_boot();
	usec_t wait = rate_wait(&gate->rate, now);
	if (wait == 0 || !(lane->full || lane->kicked))
		return;
	wait = wait > TOKEN_WAIT ? wait : TOKEN_WAIT;
	if (loop_timer_pending(executor->token) && executor->token_at <= now + wait)
		return;
	executor->token_at = now + wait;
	loop_timer_set(executor->token, wait);
}

static struct tenants *tenants_of(const struct executor *executor, const struct target *target)
{
	return executor->tenants[target->index];
}

/* What one claim gets of a tenant with a cap, the next one must know of. */
static bool capped(const struct executor *executor, const struct lane *lane)
{
	if (!tenants_capped(tenants_of(executor, lane->target)))
		return false;
	for (size_t i = 0; i < executor->lane_count; i++)
		if (executor->lanes[i].asking && executor->lanes[i].target == lane->target)
			return true;
	return false;
}

static bool may_claim(const struct executor *executor, const struct lane *lane, usec_t now)
{
	return executor->state == EXECUTOR_RUNNING && !lane->asking && now >= lane->not_before &&
	       !executor->doubt.owner && pg_up(executor->pg) && lease_covers(executor, now) &&
	       !capped(executor, lane);
}

static void ask(struct executor *executor, struct lane *lane, int64_t rows, usec_t now)
{
	const size_t index = lane->target->index;
	struct gate *gate = targets_gate(executor->targets, index);
	const struct claim claim = {
		.target = lane->target,
		.name = lane->name,
		.lane = (size_t)(lane - executor->lanes),
		.owner = executor->instance,
		.rows = rows,
		.bytes = room_of_bytes(executor, gate),
		.asked_at = now,
		.probe = gate_lets_one(gate),
		.alone = executor->alone.state != ALONE_OFF,
	};
	lane->asking = true;
	lane->kicked = false;
	executor->asked += rows;
	executor->bytes += claim.bytes;
	gate_take(gate, rows, now);
	claim_send(executor->pg, &executor->plans[index], &claim, &lane->turn,
		   tenants_of(executor, lane->target), &executor->claim_events);
}

/* A key is due that runs alone, and its target's gate would let it pass now: what is in flight ends
 * first. Had the lane claimed something else meanwhile, the rate or a probe could be used up by it
 * again and again. */
static bool wait_for_alone(struct executor *executor, struct lane *lane, usec_t now)
{
	if (!lane->saves)
		return false;
	lane->saves = false;
	if (alone_rests(&executor->alone, now))
		return false;
	alone_wanted(&executor->alone, (size_t)(lane - executor->lanes), now);
	loop_timer_set(executor->turn, 0);
	return true;
}

static void claim_lane(struct executor *executor, struct lane *lane)
{
	const usec_t now = usec_boot();
	struct gate *gate = targets_gate(executor->targets, lane->target->index);
	if (executor->alone.state != ALONE_OFF || !may_claim(executor, lane, now))
		return;
	int64_t rows = gate_room(gate, lane->target->conf->concurrency, now);
	rows = rows < room(executor) ? rows : room(executor);
	if (rows <= 0)
		return wait_for_token(executor, lane);
	if (room_of_bytes(executor, gate) <= 0)
		executor->crowded = lane->kicked = true;
	else if (!wait_for_alone(executor, lane, now))
		ask(executor, lane, rows, now);
}

/* Nothing else is in flight, and nothing of it is still to be sent. */
static void claim_alone(struct executor *executor)
{
	const usec_t now = usec_boot();
	struct alone *alone = &executor->alone;
	if (executor->asked > 0 || attempts_count(executor->attempts) > 0 ||
	    !alone_next(alone, now))
		return;
	struct lane *lane = &executor->lanes[alone->lane];
	struct gate *gate = targets_gate(executor->targets, lane->target->index);
	if (may_claim(executor, lane, now) && room(executor) > 0 &&
	    gate_room(gate, lane->target->conf->concurrency, now) > 0)
		ask(executor, lane, 1, now);
	else
		alone_nothing(alone, now);
}

/* Those of one target share its slots: each is the first to ask in its turn. */
static void claim_lanes(struct executor *executor, bool all)
{
	executor->crowded = false;
	claim_alone(executor);
	for (size_t i = 0; i < executor->lane_count; i++) {
		struct lane *lane = &executor->lanes[(executor->next + i) % executor->lane_count];
		if (all || lane->full || lane->kicked)
			claim_lane(executor, lane);
	}
	executor->next++;
}

static void on_turn(void *arg)
{
	claim_lanes(arg, false);
}

static void on_idle(void *arg)
{
	struct executor *executor = arg;
	loop_timer_set(executor->idle, IDLE_EVERY + (usec_t)arc4random_uniform(IDLE_EVERY / 2));
	claim_lanes(executor, true);
}

void executor_kick(struct executor *executor)
{
	for (size_t i = 0; i < executor->lane_count; i++)
		executor->lanes[i].kicked = true;
	loop_timer_set(executor->turn, 0);
}

static void warn_of_stranger(struct executor *executor, const struct key *key)
{
	uint64_t held;
	if (!rules_find(executor->rules, key->effect, strlen(key->effect)) &&
	    log_limit_pass(&executor->strangers, usec_boot(), SAY_RARELY, &held))
		log_warn(executor->log,
			 "effect has left the configuration: sent with the default retry policy",
			 LOG_TEXT("effect", key->effect), LOG_KEY(key));
}

static void on_key(void *arg, const struct claim *claim, enum effect_state was, struct key *key,
		   const struct claim_request *request)
{
	struct executor *executor = arg;
	const usec_t now = usec_boot();
	struct claim own = *claim;
	struct tenants *tenants = tenants_of(executor, claim->target);
	own.tenant = tenants_find(tenants, request->tenant);
	tenants_take(tenants, own.tenant);
	meter_moved(executor->meter, was, EFFECT_IN_FLIGHT, 1);
	crash_point("claim.answered");
	warn_of_stranger(executor, key);
	if (executor->state == EXECUTOR_RUNNING && lease_covers(executor, now) &&
	    claim_covers(executor, claim, now) && gate_still_lets(executor, claim, now))
		attempts_start(executor->attempts, &own, key, request,
			       send_before(executor, claim));
	else
		attempts_put_back(executor->attempts, &own, key, request);
}

static void claim_failed(struct executor *executor, struct lane *lane, const char *why)
{
	uint64_t held;
	lane->not_before = usec_boot() + CLAIM_AGAIN;
	if (pg_up(executor->pg) &&
	    log_limit_pass(&executor->refusals, usec_boot(), SAY_EVERY, &held))
		log_error(executor->log, "claim refused",
			  LOG_TEXT("target", lane->target->conf->name), LOG_TEXT("error", why),
			  LOG_INT("held_back", held));
}

static void claim_doubtful(struct executor *executor, const struct claim *claim)
{
	if (!executor->doubt.owner)
		executor->doubt.asked_at = claim->asked_at;
	executor->doubt.owner = claim->owner;
}

/* --- keys of paused effects --- */

static void on_put_aside(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct lane *lane = arg;
	if (!error)
		crash_point("put_aside.answered");
	if (!error && pg_get_int8(result, 0, 0) > 0) {
		claim_put_aside(lane->executor->pg, lane->name, buf_text(&lane->aside),
				on_put_aside, lane);
		return;
	}
	lane->asking = false;
	if (error)
		claim_failed(lane->executor, lane, error->text);
	lane->kicked = true;
	loop_timer_set(lane->executor->turn, 0);
}

/* A claim has met them: the lane waits until no more of them are first in line. */
static void put_aside(struct lane *lane, const char *tenant)
{
	buf_clear(&lane->aside);
	buf_add_text(&lane->aside, tenant);
	lane->asking = true;
	claim_put_aside(lane->executor->pg, lane->name, tenant, on_put_aside, lane);
}

/* --- the end of a claim --- */

static void claim_done(struct executor *executor, struct lane *lane, const struct claim *claim,
		       int64_t got, const struct claim_walk *walk)
{
	const usec_t now = usec_boot();
	if (claim->alone && got == 0)
		alone_nothing(&executor->alone, now);
	if (!claim->alone) {
		lane->full = walk->cut;
		lane->kicked |= turn_next(&lane->turn, walk);
	}
	lane->saves = walk->alone && !alone_rests(&executor->alone, now);
	lane->kicked |= lane->saves;
	if (walk->aside > 0)
		put_aside(lane, walk->aside_of);
}

static void on_claim_end(void *arg, const struct claim *claim, enum claim_end end, int64_t got,
			 const struct claim_walk *walk, const char *why)
{
	struct executor *executor = arg;
	struct lane *lane = &executor->lanes[claim->lane];
	struct gate *gate = targets_gate(executor->targets, claim->target->index);
	lane->asking = false;
	executor->asked -= claim->rows;
	executor->bytes -= claim->bytes;
	gate_claimed(gate, claim->rows, got, claim->probe, usec_boot());
	if (end != CLAIM_DONE)
		alone_nothing(&executor->alone, usec_boot());
	lane->races = end == CLAIM_RACE ? lane->races + 1 : 0;
	switch (end) {
	case CLAIM_DONE:
		claim_done(executor, lane, claim, got, walk);
		break;
	case CLAIM_RACE:
		lane->kicked |= lane->races <= RACES_MAX;
		break;
	case CLAIM_FAILED:
		claim_failed(executor, lane, why);
		break;
	case CLAIM_DOUBTFUL:
		claim_doubtful(executor, claim);
		break;
	}
	if (lane->kicked || executor->crowded || executor->alone.state != ALONE_OFF)
		loop_timer_set(executor->turn, 0);
	wait_for_token(executor, lane);
	executor_check_stopped(executor);
}

/* --- claims whose answer was lost --- */

static void put_back_row(struct executor *executor, const PGresult *result, int row)
{
	struct claim claim = { .owner = executor->doubt.owner,
			       .rows = 1,
			       .asked_at = executor->doubt.asked_at };
	struct claim_request request;
	struct key key;
	claim.target =
		rules_target_called(executor->rules, pg_get_text(result, row, CLAIM_COLUMN_COUNT));
	if (!claim.target)
		return;
	claim_read(result, row, &key, &request);
	gate_found(targets_gate(executor->targets, claim.target->index), usec_boot());
	claim.tenant = tenants_find(tenants_of(executor, claim.target), request.tenant);
	tenants_take(tenants_of(executor, claim.target), claim.tenant);
	attempts_put_back(executor->attempts, &claim, &key, &request);
}

static void on_doubtful(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct executor *executor = arg;
	executor->doubt.asking = false;
	if (error && error->kind != PG_REFUSED)
		return; /* asked again once the connection is up */
	if (error)
		log_error(executor->log, "lost claims cannot be looked up",
			  LOG_TEXT("error", error->text));
	for (int row = 0; !error && row < pg_rows(result); row++)
		put_back_row(executor, result, row);
	if (!error && pg_rows(result) > 0)
		log_info(executor->log, "claims without an answer put back",
			 LOG_INT("keys", pg_rows(result)));
	executor->doubt.owner = 0;
	executor_kick(executor);
}

void executor_look_up_doubtful(struct executor *executor)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	struct pg_array ids PG_ARRAY_AUTO = { 0 };
	if (!executor->doubt.owner || executor->doubt.asking)
		return;
	executor->doubt.asking = true;
	pg_array_init(&ids, PG_INT8);
	attempts_ids(executor->attempts, &ids);
	results_ids(executor->results, &ids);
	pg_add_int8(&params, executor->doubt.owner);
	pg_add_array(&params, &ids);
	pg_send(executor->pg, SQL_CLAIM_LOST, &params, on_doubtful, executor);
}

/* --- the lanes --- */

void executor_slot_free(struct executor *executor, const struct target *target, size_t tenant)
{
	bool more = executor->crowded || executor->alone.state != ALONE_OFF;
	gate_put(targets_gate(executor->targets, target->index));
	tenants_put(tenants_of(executor, target), tenant);
	for (size_t i = 0; i < executor->lane_count && !more; i++)
		more = executor->lanes[i].target == target && executor->lanes[i].full;
	if (more)
		loop_timer_set(executor->turn, 0);
}

void executor_kick_for_old(struct executor *executor)
{
	for (size_t i = 0; i < executor->lane_count; i++)
		turn_look_at_all(&executor->lanes[i].turn);
	executor_kick(executor);
}

static void make_lanes(struct executor *executor)
{
	const size_t targets = rules_target_count(executor->rules);
	const char *name;
	executor->plans = mem_zero((targets + 1) * sizeof(struct claim_plan));
	executor->tenants = mem_zero((targets + 1) * sizeof(*executor->tenants));
	for (size_t i = 0; i < targets; i++) {
		const struct target *target = rules_target(executor->rules, i);
		claim_plan(executor->conf, target, &executor->plans[i]);
		executor->tenants[i] = tenants_new(executor->conf);
		for (size_t k = 0; (name = target_name(target, k)); k++) {
			executor->lanes = mem_grow(executor->lanes, executor->lane_count + 1,
						   sizeof(struct lane));
			executor->lanes[executor->lane_count++] = (struct lane){
				.executor = executor, .target = target, .name = name
			};
		}
	}
}

void executor_claims_init(struct executor *executor)
{
	executor->idle = loop_timer_new(executor->loop, on_idle, executor);
	executor->turn = loop_timer_new(executor->loop, on_turn, executor);
	executor->token = loop_timer_new(executor->loop, on_turn, executor);
	executor->claim_events =
		(struct claim_events){ .key = on_key, .end = on_claim_end, .arg = executor };
	make_lanes(executor);
}

void executor_claims_done(struct executor *executor)
{
	loop_timer_free(executor->idle);
	loop_timer_free(executor->turn);
	loop_timer_free(executor->token);
	for (size_t i = 0; i < executor->lane_count; i++) {
		turn_done(&executor->lanes[i].turn);
		buf_done(&executor->lanes[i].aside);
	}
	free(executor->lanes);
	for (size_t i = 0; i < rules_target_count(executor->rules); i++)
		tenants_free(executor->tenants[i]);
	free(executor->tenants);
	free(executor->plans);
}
