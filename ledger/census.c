/* The census: five statements a round, and a pause. */
#include "census.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "sql_census.h"
#include "strays.h"

#define COUNT_MAX   10000
#define TENANTS_MAX 1000
#define SAY_EVERY   (10 * USEC_MIN)

struct census {
	struct log *log;
	struct pg *pg;
	const struct conf *conf;
	const struct rules *rules;
	struct meter *meter;
	struct loop_timer *timer;
	struct log_limit limit;
	bool running;
	bool asking;
	usec_t asked_at;
	usec_t seen_at; /* when the due keys were counted last; boot clock */
	usec_t *oldest; /* of each target */
	struct census_outbox outbox;
	PGresult *strays; /* as they were seen last; NULL: nobody has looked yet */
	int strays_told;  /* at most, so far */
	struct log_limit strays_said;
};

static void complain(struct census *census, const struct pg_error *error)
{
	uint64_t held;
	if (error->kind == PG_REFUSED &&
	    log_limit_pass(&census->limit, usec_boot(), SAY_EVERY, &held))
		log_warn(census->log, "keys cannot be counted", LOG_TEXT("error", error->text));
}

/* --- the answers --- */

static void set_states(struct census *census, double value)
{
	for (size_t i = 0; i < EFFECT_STATE_COUNT; i++) {
		series_set(census->meter->keys[i], value);
		series_set(census->meter->oldest_age[i], value);
	}
}

static void on_states(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct census *census = arg;
	enum effect_state state;
	size_t length;
	if (error)
		complain(census, error);
	set_states(census, error ? (double)NAN : 0);
	for (int row = 0; !error && row < pg_rows(result); row++) {
		const char *name = pg_get_bytes(result, row, 0, &length);
		if (!effect_state_parse(name, length, &state))
			continue;
		series_set(census->meter->keys[state], (double)pg_get_int8(result, row, 1));
		series_set_usec(census->meter->oldest_age[state], pg_get_int8(result, row, 2));
	}
}

static void take_due(struct census *census, const char *target, usec_t oldest)
{
	const struct target *known = rules_target_called(census->rules, target);
	if (known && oldest > census->oldest[known->index])
		census->oldest[known->index] = oldest;
}

static void on_due(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct census *census = arg;
	const size_t count = rules_target_count(census->rules);
	if (error) {
		complain(census, error);
	} else {
		memset(census->oldest, 0, count * sizeof(*census->oldest));
		census->seen_at = usec_boot();
		for (int row = 0; row < pg_rows(result); row++)
			take_due(census, pg_get_text(result, row, 0), pg_get_int8(result, row, 1));
	}
	for (size_t i = 0; i < count; i++)
		series_set_usec(census->meter->oldest_due[i],
				error ? USEC_NEVER : census->oldest[i]);
}

static void on_operations(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct census *census = arg;
	if (error)
		complain(census, error);
	meter_operations_set(census->meter, error ? (double)NAN : 0);
	for (int row = 0; !error && row < pg_rows(result); row++)
		meter_operations(census->meter, pg_get_text(result, row, 0),
				 pg_get_text(result, row, 1), pg_get_int8(result, row, 2),
				 pg_get_int8(result, row, 3));
}

/* At once when there are more than before, and then now and again. */
static void say_strays(struct census *census)
{
	uint64_t held;
	char count[32];
	if (pg_rows(census->strays) > census->strays_told) {
		census->strays_told = pg_rows(census->strays);
		census->strays_said = (struct log_limit){ 0 };
	}
	if (!log_limit_pass(&census->strays_said, usec_boot(), SAY_EVERY, &held))
		return;
	for (int row = 0; row < pg_rows(census->strays); row++)
		log_warn(census->log, "keys of a target that is not configured",
			 LOG_TEXT("target", pg_get_text(census->strays, row, STRAY_TARGET)),
			 LOG_TEXT("keys", strays_count(census->strays, row, count, sizeof(count))),
			 LOG_TEXT("remedy", STRAYS_REMEDY));
}

static void on_strays(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct census *census = arg;
	if (error) {
		complain(census, error);
		return;
	}
	pg_drop(census->strays);
	census->strays = pg_keep(result);
	if (pg_rows(result) > 0)
		say_strays(census);
}

static void on_outbox(void *arg, const PGresult *result, const struct pg_error *error)
{
	struct census *census = arg;
	census->asking = false;
	if (error)
		complain(census, error);
	else
		census->outbox = (struct census_outbox){ .served = pg_get_bool(result, 0, 0),
							 .oldest = pg_get_int8(result, 0, 1) };
	if (census->running)
		loop_timer_set(census->timer, health_look_again(census->conf->http.ready_max_age,
								usec_boot() - census->asked_at));
}

/* --- the rounds --- */

static void on_timer(void *arg)
{
	struct census *census = arg;
	struct pg_params params PG_PARAMS_AUTO = { 0 };
	census->asking = true;
	census->asked_at = usec_boot();
	pg_add_int8(&params, COUNT_MAX);
	pg_send(census->pg, SQL_CENSUS, &params, on_states, census);
	pg_send(census->pg, SQL_CENSUS_OPERATIONS, &params, on_operations, census);
	pg_params_clear(&params);
	pg_add_int4(&params, TENANTS_MAX);
	pg_send(census->pg, SQL_CENSUS_DUE, &params, on_due, census);
	pg_params_clear(&params);
	strays_params(census->conf, &params);
	pg_send(census->pg, SQL_STRAYS, &params, on_strays, census);
	pg_send(census->pg, SQL_CENSUS_OUTBOX, NULL, on_outbox, census);
}

void census_start(struct census *census)
{
	census->running = true;
	if (!census->asking)
		loop_timer_set(census->timer, 0);
}

void census_stop(struct census *census)
{
	census->running = false;
	set_states(census, (double)NAN);
	meter_operations_set(census->meter, (double)NAN);
	loop_timer_cancel(census->timer);
}

struct health_wait census_oldest(const struct census *census, size_t target)
{
	return (struct health_wait){ .seen_at = census->seen_at, .age = census->oldest[target] };
}

struct census_outbox census_outbox(const struct census *census)
{
	return census->outbox;
}

const PGresult *census_strays(const struct census *census)
{
	return census->strays;
}

struct census *census_new(struct loop *loop, struct log *log, struct pg *pg,
			  const struct conf *conf, const struct rules *rules, struct meter *meter)
{
	struct census *census = mem_zero(sizeof(*census));
	census->log = log;
	census->pg = pg;
	census->conf = conf;
	census->rules = rules;
	census->meter = meter;
	census->timer = loop_timer_new(loop, on_timer, census);
	census->oldest = mem_zero((rules_target_count(rules) + 1) * sizeof(*census->oldest));
	return census;
}

void census_free(struct census *census)
{
	if (!census)
		return;
	loop_timer_free(census->timer);
	pg_drop(census->strays);
	free(census->oldest);
	free(census);
}
