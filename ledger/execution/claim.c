/* Claims. */
#include "claim.h"

#include <stdlib.h>
#include <string.h>

#include "crash.h"
#include "mem.h"
#include "sql_execution.h"

#define SERIALIZATION_RACE "23505" /* unique_violation, of effect_state_serial */

/* The columns of CLAIM_COLUMNS behind those of the key. */
enum {
	COLUMN_PROVIDER_KEY = KEY_COLUMN_COUNT,
	COLUMN_METHOD,
	COLUMN_URL,
	COLUMN_HEADERS,
	COLUMN_BODY,
	COLUMN_COUNT,
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

/* The column behind the others. */
static enum effect_state read_was(const PGresult *result, int row)
{
	enum effect_state was = EFFECT_PENDING;
	const char *name = pg_get_text(result, row, COLUMN_COUNT);
	(void)effect_state_parse(name, strlen(name), &was);
	return was;
}

static void on_done(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct sent *sent = arg;
	const struct claim_events *events = sent->events;
	if (error) {
		events->end(events->arg, &sent->claim, end_of(error), 0, error->text);
	} else {
		for (int row = 0; row < pg_rows(result); row++) {
			struct key key;
			struct claim_request request;
			claim_read(result, row, &key, &request);
			events->key(events->arg, &sent->claim, read_was(result, row), &key,
				    &request);
		}
		events->end(events->arg, &sent->claim, CLAIM_DONE, pg_rows(result), "");
	}
	free(sent);
}

void claim_send(struct pg *pg, const struct claim_plan *plan, const struct claim *claim,
		const struct claim_events *events)
{
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	struct sent *sent = mem_zero(sizeof(*sent));
	*sent = (struct sent){ .claim = *claim, .events = events };
	pg_add_text(&params, claim->target->conf->name);
	pg_add_int8(&params, claim->owner);
	pg_add_int8(&params, claim->rows); /* of one tenant */
	pg_add_int8(&params, claim->rows);
	pg_add_interval(&params, plan->length);
	pg_add_time(&params, 0); /* the floor of due_at: none */
	pg_add_interval(&params, plan->window);
	pg_add_interval(&params, plan->margin);
	crash_point("claim.send");
	pg_send(pg, SQL_CLAIM, &params, on_done, sent);
	crash_point("claim.sent");
}
