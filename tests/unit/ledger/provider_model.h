/* A key, a network and a provider, at random: what the machine's steps are worth in the world. The
 * provider keeps a record of the key for exactly its window, from the first request that it saw;
 * requests come late, never, or after an answer has come from somebody in between. */
#ifndef TEST_PROVIDER_MODEL_H
#define TEST_PROVIDER_MODEL_H

#include <stdint.h>
#include <string.h>

#include "outcome/life.h"

enum model_kind {
	MODEL_IDEMPOTENT,
	MODEL_ONCE,
	MODEL_RESENT, /* at_most_once, but a second time is fine */
	MODEL_NATURAL,
	MODEL_KIND_COUNT
};

static const char *const model_kinds[] = { "idempotent", "at most once", "resent", "natural" };

struct model_totals {
	struct model_ends {
		long completed, dead, uncertain, twice;
	} ends[MODEL_KIND_COUNT];
	long sends;
	long unmarked;  /* lost between the claim and the marker */
	long windows;   /* begun anew */
	long forgotten; /* records of the provider's */
	long settled;   /* dead, though earlier sends had no answer */
	long again;     /* replayed by a person, with the same key */
	long anew;      /* the same, with a new one */
	long accepted;  /* with a new one, though it may have happened */
};

#define MODEL_LATE_MAX 64
#define MODEL_KEYS_MAX 3

/* What the provider knows of one of the keys that were sent. */
struct model_record {
	bool known;
	usec_t seen_at, busy_until;
	bool done_for_key; /* applied under this record */
	int stored;        /* a status; 0: none */
};

struct model {
	uint64_t seed;
	enum model_kind kind;
	const char *method;
	struct life life;
	struct life_policy policy;
	struct conf_profile profile;
	usec_t window, timeout, state_since;
	enum effect_state state;
	usec_t due_at;
	struct model_totals *totals;

	/* the provider */
	bool marks_replays, keeps_records;
	int calm; /* percent of attempts that meet the provider and hear its answer */
	int loud; /* percent of executions that are turned away instead */
	struct model_record records[MODEL_KEYS_MAX];
	struct model_record *record; /* of the request that is looked at */
	int applied;                 /* in the world */
	struct {
		usec_t at;
		int key_no;
	} late[MODEL_LATE_MAX]; /* requests that are still on their way */
	int late_count;

	/* the person */
	int key_no;    /* of the provider key */
	bool accepted; /* that it may happen twice */
};

static uint64_t model_random(struct model *model)
{
	model->seed += 0x9e3779b97f4a7c15u;
	uint64_t x = model->seed;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static int model_below(struct model *model, int bound)
{
	return (int)(model_random(model) % (uint64_t)bound);
}

static usec_t model_time(struct model *model, usec_t bound)
{
	return (usec_t)(model_random(model) % (uint64_t)(bound + 1));
}

static bool model_chance(struct model *model, int percent)
{
	return model_below(model, 100) < percent;
}

/* --- the provider --- */

static void provider_apply(struct model *model)
{
	model->applied++;
	model->record->done_for_key = true;
}

static int provider_store(struct model *model, int status)
{
	const bool success = status < 300;
	if (model->profile.stores == CONF_STORES_ALL ||
	    (model->profile.stores == CONF_STORES_2XX && success))
		model->record->stored = status;
	return status;
}

/* Carries the request out, or not. */
static int provider_execute(struct model *model, usec_t at)
{
	const int die = model_chance(model, model->loud) ? 99 : model_below(model, 100);
	if (die < 30) {
		provider_apply(model);
		model->record->busy_until = at + model_time(model, 2 * model->timeout);
		return provider_store(model, 200);
	}
	if (die < 45) {
		provider_apply(model);
		return provider_store(model,
				      die < 40 ? 500 : 503 - (model->profile.safe_503 ? 3 : 0));
	}
	if (die < 55)
		return provider_store(model, 402);
	if (die < 60)
		return provider_store(model, 400);
	if (die < 70)
		return provider_store(model, 500);
	/* turned away: nothing is stored, and the record stays or goes */
	if (!model->keeps_records)
		model->record->known = false;
	static const int turned_away[] = { 429, 421, 425, 503 };
	const int status = turned_away[model_below(model, 4)];
	return status == 503 && !model->profile.safe_503 ? 429 : status;
}

/* A provider that knows no keys: what is asked for again is done again, or is there already. */
static int provider_receive_keyless(struct model *model, usec_t at)
{
	model->record->stored = 0;
	if (model->kind == MODEL_NATURAL && model->applied && model_chance(model, 50))
		return !strcmp(model->method, "DELETE") ? 404 : 304;
	return provider_execute(model, at);
}

static int provider_receive(struct model *model, usec_t at, bool *replayed_r)
{
	*replayed_r = false;
	if (model->kind != MODEL_IDEMPOTENT)
		return provider_receive_keyless(model, at);
	if (model->record->known && at >= model->record->seen_at + model->window) {
		model->record->known = false;
		model->totals->forgotten++;
	}
	if (!model->record->known) {
		model->record->known = true;
		model->record->seen_at = at;
		model->record->busy_until = at;
		model->record->done_for_key = false;
		model->record->stored = 0;
	}
	if (at < model->record->busy_until)
		return 409;
	*replayed_r = model->record->stored && model->marks_replays;
	if (model->record->stored)
		return model->record->stored;
	if (model->record->done_for_key)
		return model->profile.stores == CONF_STORES_NONE ? 410 : 200;
	return provider_execute(model, at);
}

/* Requests that were given up on and arrive after all. */
static void provider_receive_late(struct model *model, usec_t until)
{
	struct model_record *const present = model->record;
	for (;;) {
		int next = -1;
		for (int i = 0; i < model->late_count; i++) {
			if (model->late[i].at <= until &&
			    (next < 0 || model->late[i].at < model->late[next].at))
				next = i;
		}
		if (next < 0)
			break;
		bool replayed;
		const usec_t at = model->late[next].at;
		model->record = &model->records[model->late[next].key_no];
		model->late[next] = model->late[--model->late_count];
		provider_receive(model, at, &replayed);
	}
	model->record = present;
}

/* --- an attempt --- */

static struct verdict model_answer(const struct model *model, int status, bool replayed)
{
	const struct answer answer = { .end = TRANSFER_DONE,
				       .status = status,
				       .replayed = replayed };
	struct verdict verdict;
	outcome_of(&answer, &model->profile, model->method, model->life.mode, "", 0, &verdict);
	return verdict;
}

static struct verdict model_silence(const struct model *model, enum transfer_end end)
{
	const struct answer answer = { .end = end };
	struct verdict verdict;
	outcome_of(&answer, &model->profile, model->method, model->life.mode, "timeout", 0,
		   &verdict);
	return verdict;
}

/* Somebody between us and the provider answers, and has passed the request on or not. Only what
 * says nothing of the request may be said of one that was. */
static struct verdict model_gateway(struct model *model, usec_t at)
{
	static const int vague[] = { 502, 504, 500, 408, 520, 303 };
	/* the first is believed of what was to be deleted, so nobody else may say it then */
	static const int clear[] = { 404, 403, 401, 413, 429, 405, 301, 421 };
	const int first = !strcmp(model->method, "DELETE") ? 1 : 0;
	bool replayed;
	if (model_chance(model, 50))
		return model_answer(model, clear[first + model_below(model, 8 - first)], false);
	if (model_chance(model, 50))
		provider_receive(model, at + model_time(model, model->timeout), &replayed);
	return model_answer(model, vague[model_below(model, 6)], false);
}

/* Arrives in time; the answer comes back in time or not. */
static struct verdict model_meet(struct model *model, usec_t sent, usec_t *now_r)
{
	bool replayed;
	const usec_t arrival = sent + model_time(model, model->timeout);
	const int status = provider_receive(model, arrival, &replayed);
	const usec_t answered = status != 409 && model->record->busy_until > arrival
					? model->record->busy_until
					: arrival;
	if (answered > sent + model->timeout ||
	    (!model_chance(model, model->calm) && model_chance(model, 25))) {
		*now_r = sent + model->timeout;
		return model_silence(model, TRANSFER_CUT);
	}
	*now_r = answered;
	return model_answer(model, status, replayed);
}

static void model_be_late(struct model *model, usec_t sent)
{
	if (model->late_count == MODEL_LATE_MAX)
		return;
	model->late[model->late_count].at =
		sent + model_time(model, model->timeout + model->window / 20);
	model->late[model->late_count++].key_no = model->key_no;
}

/* The verdict, or false: the process died, and somebody takes over. */
static bool model_attempt(struct model *model, usec_t sent, usec_t *now_r,
			  struct verdict *verdict_r)
{
	const int die = model_chance(model, model->calm) ? 50 : model_below(model, 100);
	*now_r = sent + model_time(model, model->timeout);
	provider_receive_late(model, sent);
	if (die < 8) {
		*verdict_r = model_silence(model, die < 5   ? TRANSFER_NOT_SENT
						  : die < 6 ? TRANSFER_CERTIFICATE
							    : TRANSFER_ABORTED);
		return true;
	}
	model->totals->sends++;
	if (die < 20)
		*verdict_r = model_gateway(model, sent);
	else if (die < 80)
		*verdict_r = model_meet(model, sent, now_r);
	else {
		*now_r = sent + model->timeout;
		*verdict_r = model_silence(model, TRANSFER_CUT);
		if (die < 92)
			model_be_late(model, sent);
	}
	return model_chance(model, model->calm) || !model_chance(model, 10);
}

/* --- the ledger around the machine --- */

static void model_claim(struct model *model, usec_t now)
{
	struct life *life = &model->life;
	const bool renewed = life->unknown_sends == 0 && life->window_until != USEC_NEVER &&
			     now >= model->state_since + model->window + model->policy.margin;
	if (renewed)
		model->totals->windows++;
	if (renewed || life->first_sent_at == USEC_NEVER) {
		life->first_sent_at = now;
		life->window_until =
			life->mode == EFFECT_IDEMPOTENT ? now + model->window : USEC_NEVER;
	}
	life->sent = model->kind == MODEL_IDEMPOTENT || model->kind == MODEL_NATURAL;
	life->tries++;
	life->unknown_sends += life->sent ? 1 : 0;
	model->state_since = now;
}

/* The marker of at_most_once, a step of its own: the process may die before it and after it, or may
 * not send in time. True: that is how it ended. */
static bool model_stumble(struct model *model, usec_t now, struct life_step *step)
{
	struct life *life = &model->life;
	const int die = life->sent ? 99 : model_below(model, 100);
	if (die < 5) {
		model->totals->unmarked++;
		life_takeover(life, &model->policy, now, step);
		return true;
	}
	life->unknown_sends += life->sent ? 0 : 1;
	life->sent = true;
	if (die < 8) {
		life_takeover(life, &model->policy, now, step);
		return true;
	}
	if (die < 12) {
		const struct verdict verdict = model_silence(model, TRANSFER_ABORTED);
		life_result(life, &model->policy, &verdict, now, 0, step);
		return true;
	}
	return false;
}

static const char *model_take(struct model *model, const struct life_step *step, usec_t claimed,
			      usec_t now)
{
	struct life *life = &model->life;
	life->unknown_sends += step->unknown_delta;
	life->attempts += step->attempts_delta;
	life->throttled += step->throttled_delta;
	life->stalled += step->stalled_delta;
	life->sent = false;
	if (step->unsent && life->first_sent_at == claimed)
		life->first_sent_at = life->window_until = USEC_NEVER;
	model->state = step->state;
	model->due_at = step->due_at;
	model->state_since = now;
	if (life->unknown_sends < 0)
		return "fewer than no sends";
	if (step->state == EFFECT_DEAD && step->unknown_delta < -1)
		model->totals->settled++;
	return NULL;
}

/* The sweeper, before a claim that comes late. True: it has taken the key. */
static bool model_sweep(struct model *model, usec_t now)
{
	const struct life *life = &model->life;
	const bool closing = life->unknown_sends > 0 && life->window_until != USEC_NEVER &&
			     now > life->window_until - model->policy.margin;
	if (now < life->not_after && !closing)
		return false;
	struct life_step step;
	life_expire(life, &model->policy, now, &step);
	model_take(model, &step, USEC_NEVER, now);
	return true;
}

/* From due to recorded. */
static const char *model_turn(struct model *model)
{
	const usec_t lag = model_chance(model, 3) ? 2 * model->window : USEC_SEC;
	const usec_t claimed = model->due_at + model_time(model, lag);
	usec_t now;
	struct verdict verdict;
	struct life_step step;
	if (model_sweep(model, claimed))
		return NULL;
	model_claim(model, claimed);
	if (model_stumble(model, claimed + 3 * model->timeout, &step))
		return model_take(model, &step, claimed, claimed + 3 * model->timeout);
	if (model_attempt(model, claimed + model_time(model, USEC_SEC), &now, &verdict)) {
		life_result(&model->life, &model->policy, &verdict, now, model_random(model),
			    &step);
	} else {
		now = claimed + 3 * model->timeout;
		life_takeover(&model->life, &model->policy, now, &step);
	}
	return model_take(model, &step, claimed, now);
}

/* --- the person: as the database's functions have it --- */

static void model_new_key(struct model *model)
{
	struct life *life = &model->life;
	model->accepted |= model->state == EFFECT_UNCERTAIN;
	model->totals->accepted += model->state == EFFECT_UNCERTAIN;
	model->totals->anew++;
	model->record = &model->records[++model->key_no];
	life->unknown_before += life->unknown_sends;
	life->unknown_sends = 0;
	life->first_sent_at = life->window_until = USEC_NEVER;
}

/* False: it is refused. */
static bool model_same_key(struct model *model, usec_t now)
{
	struct life *life = &model->life;
	const bool once = life->mode == EFFECT_AT_MOST_ONCE && !life->resend;
	if (model->state == EFFECT_UNCERTAIN &&
	    (once || life->window_until <= now ||
	     (life->unknown_before > 0 && life->unknown_sends == 0)))
		return false;
	if (life->unknown_sends == 0 && life->window_until != USEC_NEVER &&
	    model->state_since + 2 * (life->window_until - life->first_sent_at) <= now)
		life->first_sent_at = life->window_until = USEC_NEVER;
	model->totals->again++;
	return true;
}

/* False: nobody has ordered anything, and the key is left as it is. */
static bool model_order(struct model *model)
{
	const bool ended = model->state == EFFECT_DEAD || model->state == EFFECT_UNCERTAIN;
	const bool fresh = model->kind != MODEL_NATURAL && model->key_no + 1 < MODEL_KEYS_MAX;
	const usec_t now =
		model->state_since +
		model_time(model, model_chance(model, 50) ? model->window : 4 * model->window);
	if (!ended || !model_chance(model, 30))
		return false;
	if (fresh && model_chance(model, 50))
		model_new_key(model);
	else if (!model_same_key(model, now))
		return false;
	model->life.attempts = model->life.throttled = model->life.stalled = 0;
	model->state = EFFECT_PENDING;
	model->due_at = model->state_since = now;
	return true;
}

static void model_begin(struct model *model)
{
	static const usec_t windows[] = { 10 * USEC_MIN, USEC_HOUR, USEC_DAY };
	static const enum effect_mode modes[] = { EFFECT_IDEMPOTENT, EFFECT_AT_MOST_ONCE,
						  EFFECT_AT_MOST_ONCE, EFFECT_NATURAL };
	static const char *const methods[] = { "POST", "PUT", "DELETE" };
	static char status_409[] = "409";
	static char *in_progress[] = { status_409 };
	const usec_t now = 1000 * USEC_DAY;
	const int kind = model_below(model, 6) - 2; /* half of them idempotent */
	model->kind = kind < 0 ? MODEL_IDEMPOTENT : (enum model_kind)kind;
	model->method = methods[model->kind == MODEL_NATURAL ? 1 + model_below(model, 2) : 0];
	model->window = windows[model_below(model, 3)];
	model->timeout = USEC_SEC + model_time(model, model->window / 50);
	model->marks_replays = model_chance(model, 50);
	model->keeps_records = model_chance(model, 50);
	model->calm = model_below(model, 100);
	model->loud = model_chance(model, 30) ? 90 : model_below(model, 60);
	model->profile = (struct conf_profile){
		.window = model->window,
		.stores = (enum conf_stores)model_below(model, 3),
		.in_progress = { in_progress, 1 },
		.safe_503 = model_chance(model, 50),
	};
	model->policy.retry = (struct conf_retry){
		.strategy = (enum conf_retry_strategy)model_below(model, 3),
		.first = USEC_SEC + model_time(model, model->window / 20),
		.max = USEC_SEC + model->window / 20,
		.attempts = 1 + model_below(model, model_chance(model, 50) ? 12 : 100),
	};
	model->policy.margin =
		life_margin(&model->policy.retry, USEC_SEC, model->timeout, model->window);
	model->policy.stores_errors = model->profile.stores == CONF_STORES_ALL;
	model->life = (struct life){
		.mode = modes[model->kind],
		.resend = model->kind == MODEL_RESENT,
		.window_until = USEC_NEVER,
		.first_sent_at = USEC_NEVER,
		.not_after = model_chance(model, 70) ? USEC_NEVER
						     : now + model_time(model, 2 * model->window),
	};
	model->state = EFFECT_PENDING;
	model->due_at = model->state_since = now;
	model->record = model->records;
}

static const char *model_judge(struct model *model)
{
	struct model_ends *ends = &model->totals->ends[model->kind];
	provider_receive_late(model, USEC_NEVER);
	if (model->applied > 1) {
		ends->twice += !model->accepted;
		if ((model->kind == MODEL_IDEMPOTENT || model->kind == MODEL_ONCE) &&
		    !model->accepted)
			return "applied twice";
	}
	switch (model->state) {
	case EFFECT_COMPLETED:
		ends->completed++;
		return model->applied ? NULL : "completed, and never applied";
	case EFFECT_DEAD:
		ends->dead++;
		return model->applied ? "dead, and applied" : NULL;
	case EFFECT_UNCERTAIN:
		ends->uncertain++;
		return NULL;
	case EFFECT_PENDING:
	case EFFECT_RETRY_WAIT:
	case EFFECT_IN_FLIGHT:
	case EFFECT_CANCELLED:
	case EFFECT_PRUNED:
	case EFFECT_STATE_COUNT:
		break;
	}
	return NULL; /* throttled for ever: still waiting */
}

/* One key from its first claim to its end; what went wrong, or NULL. */
static const char *model_run(uint64_t seed, struct model_totals *totals)
{
	struct model model = { .seed = seed, .totals = totals };
	model_begin(&model);
	for (int turn = 0; turn < 200; turn++) {
		if (model.state != EFFECT_PENDING && model.state != EFFECT_RETRY_WAIT &&
		    !model_order(&model))
			break;
		const char *fault = model_turn(&model);
		if (fault)
			return fault;
	}
	return model_judge(&model);
}

#endif
