/* Claims. */
#include "claim.h"

#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "mem.h"
#include "sql_claim.h"

#define SERIALIZATION_RACE "23505" /* unique_violation, of effect_state_serial */
#define WALK_MAX           1000    /* tenants of one claim */
#define ASIDE_PAGE         1000

/* The columns of CLAIM_COLUMNS behind those of the key. */
enum {
	COLUMN_PROVIDER_KEY = KEY_COLUMN_COUNT,
	COLUMN_METHOD,
	COLUMN_URL,
	COLUMN_HEADERS,
	COLUMN_BODY,
	COLUMN_KEY_HEADER,
	COLUMN_SHADOW,
	COLUMN_EMITS,
	COLUMN_EMIT_FAULT,
	COLUMN_TENANT,
	COLUMN_COUNT,
};
/* Behind them, of a claim: the state of the key until now, and what the claim has seen. */
enum {
	COLUMN_WAS = COLUMN_COUNT,
	COLUMN_ASIDE,
	COLUMN_ASIDE_OF,
	COLUMN_CUT, /* from here on not of keys that run alone */
	COLUMN_MORE,
	COLUMN_ENDED,
	COLUMN_WALKED,
	COLUMN_SERVED,
	COLUMN_GOT,
	COLUMN_WEIGHT,
	COLUMN_ALONE,
	COLUMN_FLOOR,
};
_Static_assert(COLUMN_COUNT == CLAIM_COLUMN_COUNT, "claim.h counts the columns of a claim");

struct sent {
	struct claim claim;
	const struct claim_events *events;
};

static usec_t margin_of(const struct conf *conf, const struct target *target, usec_t window)
{
	const usec_t connect = target->conf->connect_timeout, timeout = target->conf->timeout;
	const struct conf_retry none = { .strategy = CONF_RETRY_NONE };
	usec_t margin = life_margin(&none, connect, timeout, window);
	for (size_t i = 0; i < conf->effect_count; i++) {
		const struct conf_effect *effect = &conf->effects[i];
		if (strcmp(effect->target, target->conf->name) != 0)
			continue;
		const usec_t own = life_margin(&effect->retry, connect, timeout, window);
		margin = own > margin ? own : margin;
	}
	return margin;
}

/* A row in effect_state does not name its effect, so all of a target share the widest margin; the
 * claim, the decisions on a result and the sweep must agree on it, else a key could fall between
 * them. A claim may be sent as late as `spare` after it was asked for, so the margin covers that
 * too. The deadline is longer than connecting and sending may take together, whatever is
 * configured. */
void claim_plan(const struct conf *conf, const struct target *target, struct claim_plan *plan_r)
{
	const usec_t window = target->profile->window; /* 0: no resend is ever safe */
	const usec_t spare = conf->ledger.lease;
	*plan_r = (struct claim_plan){
		.window = window,
		.margin = margin_of(conf, target, window) + spare,
		.spare = spare,
		.length = target->conf->connect_timeout + target->conf->timeout + spare,
	};
}

void claim_read(const PGresult *result, int row, struct key *key_r, struct claim_request *request_r)
{
	const bool has_body = !pg_null(result, row, COLUMN_BODY);
	key_read(result, row, key_r);
	*request_r = (struct claim_request){
		.provider_key = pg_get_text(result, row, COLUMN_PROVIDER_KEY),
		.method = pg_get_text(result, row, COLUMN_METHOD),
		.url = pg_get_text(result, row, COLUMN_URL),
		.headers = pg_get_text(result, row, COLUMN_HEADERS),
		.key_header = pg_get_text(result, row, COLUMN_KEY_HEADER),
		.shadow = pg_get_bool(result, row, COLUMN_SHADOW),
		.emits = pg_get_bool(result, row, COLUMN_EMITS),
		.emit_fault = pg_get_text(result, row, COLUMN_EMIT_FAULT),
		.tenant = pg_get_text(result, row, COLUMN_TENANT),
	};
	if (has_body)
		request_r->body = pg_get_bytes(result, row, COLUMN_BODY, &request_r->body_length);
}

static enum claim_end end_of(const struct pg_error *error)
{
	switch (error->kind) {
	case PG_REFUSED:
		return strcmp(error->sqlstate, SERIALIZATION_RACE) != 0 ? CLAIM_FAILED : CLAIM_RACE;
	case PG_LOST:
		return CLAIM_DOUBTFUL;
	case PG_UNSENT:
		break;
	}
	return CLAIM_FAILED;
}

static enum effect_state read_was(const PGresult *result, int row)
{
	enum effect_state was = EFFECT_PENDING;
	const char *name = pg_get_text(result, row, COLUMN_WAS);
	(void)effect_state_parse(name, strlen(name), &was);
	return was;
}

static struct claim_walk read_walk(const PGresult *result, bool alone)
{
	struct claim_walk walk = { .aside = pg_get_int8(result, 0, COLUMN_ASIDE),
				   .aside_of = pg_get_text(result, 0, COLUMN_ASIDE_OF) };
	if (alone)
		return walk;
	walk.cut = pg_get_bool(result, 0, COLUMN_CUT);
	walk.more = pg_get_bool(result, 0, COLUMN_MORE);
	walk.ended = pg_get_bool(result, 0, COLUMN_ENDED);
	walk.walked = pg_get_text(result, 0, COLUMN_WALKED);
	walk.served = pg_get_text(result, 0, COLUMN_SERVED);
	walk.got = pg_get_int8(result, 0, COLUMN_GOT);
	walk.weight = pg_get_int8(result, 0, COLUMN_WEIGHT);
	walk.alone = pg_get_bool(result, 0, COLUMN_ALONE);
	walk.floor = pg_get_time(result, 0, COLUMN_FLOOR);
	return walk;
}

/* One row at least: without a key it is the walk's. */
static void take_rows(const struct sent *sent, const PGresult *result)
{
	const struct claim_events *events = sent->events;
	const struct claim_walk walk = read_walk(result, sent->claim.alone);
	int64_t got = 0;
	for (int row = 0; row < pg_rows(result) && !pg_null(result, row, 0); row++, got++) {
		struct key key;
		struct claim_request request;
		claim_read(result, row, &key, &request);
		events->key(events->arg, &sent->claim, read_was(result, row), &key, &request);
	}
	events->end(events->arg, &sent->claim, CLAIM_DONE, got, &walk, "");
}

static void on_done(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct sent *sent = arg;
	const struct claim_events *events = sent->events;
	const struct claim_walk none = { 0 };
	if (error)
		events->end(events->arg, &sent->claim, end_of(error), 0, &none, error->text);
	else
		take_rows(sent, result);
	free(sent);
}

/* The tenants that are not like any other: full, of another weight, with a cap. */
struct odd_tenants {
	struct pg_array full, names, weights, rooms;
};

static void add_tenant(struct odd_tenants *odd, const struct tenant_share *share)
{
	if (share->room == 0) {
		pg_array_text(&odd->full, share->name);
		return;
	}
	if (share->weight == 1 && share->room == USEC_NEVER)
		return;
	pg_array_text(&odd->names, share->name);
	pg_array_int8(&odd->weights, share->weight);
	if (share->room == USEC_NEVER)
		pg_array_null(&odd->rooms);
	else
		pg_array_int8(&odd->rooms, share->room);
}

/* Whose turn has begun already has only what is left of it. */
static void add_tenants(struct pg_params *params, const struct turn *turn,
			const struct tenants *tenants)
{
	struct odd_tenants odd;
	pg_array_init(&odd.full, PG_TEXT);
	pg_array_init(&odd.names, PG_TEXT);
	pg_array_init(&odd.weights, PG_INT8);
	pg_array_init(&odd.rooms, PG_INT8);
	for (size_t i = 0; i < tenants_count(tenants); i++) {
		struct tenant_share share = tenants_share(tenants, i);
		if (turn->credit > 0 && strcmp(share.name, buf_text(&turn->first)) == 0)
			share.weight = turn->credit;
		add_tenant(&odd, &share);
	}
	pg_add_array(params, &odd.full);
	pg_add_array(params, &odd.names);
	pg_add_array(params, &odd.weights);
	pg_add_array(params, &odd.rooms);
	pg_array_done(&odd.full);
	pg_array_done(&odd.names);
	pg_array_done(&odd.weights);
	pg_array_done(&odd.rooms);
}

void claim_send(struct pg *pg, const struct claim_plan *plan, const struct claim *claim,
		struct turn *turn, const struct tenants *tenants, const struct claim_events *events)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	struct sent *sent = mem_zero(sizeof(*sent));
	*sent = (struct sent){ .claim = *claim, .events = events };
	pg_add_text(&params, claim->name);
	pg_add_int8(&params, claim->owner);
	pg_add_int8(&params, claim->bytes);
	pg_add_int8(&params, claim->rows);
	pg_add_interval(&params, plan->length);
	pg_add_interval(&params, plan->window);
	pg_add_interval(&params, plan->margin);
	if (!claim->alone) {
		pg_add_text(&params, buf_text(&turn->first));
		pg_add_int8(&params, WALK_MAX);
		add_tenants(&params, turn, tenants);
		pg_add_time(&params, turn_floor(turn, claim->asked_at));
	}
	crash_point("claim.send");
	pg_send(pg, claim->alone ? SQL_CLAIM_ALONE : SQL_CLAIM, &params, on_done, sent);
	crash_point("claim.sent");
}

void claim_put_aside(struct pg *pg, const char *target, const char *tenant, pg_done_fn *done,
		     void *arg)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	pg_add_text(&params, target);
	pg_add_text(&params, tenant);
	pg_add_int8(&params, ASIDE_PAGE);
	crash_point("put_aside.send");
	pg_send(pg, SQL_PUT_ASIDE, &params, done, arg);
	crash_point("put_aside.sent");
}
