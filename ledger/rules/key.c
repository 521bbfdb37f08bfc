/* Reads a key from a row, and looks up what the configuration says of it. */
#include "key.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "intake/dead_letter.h"
#include "mem.h"
#include "utf8.h"

/* The columns of KEY_COLUMNS. */
enum {
	COLUMN_ID,
	COLUMN_EPOCH,
	COLUMN_OWNER,
	COLUMN_REPLAYS,
	COLUMN_SENT,
	COLUMN_SINCE,
	COLUMN_EFFECT,
	COLUMN_TOPIC,
	COLUMN_NAME,
	COLUMN_MODE,
	COLUMN_RESEND,
	COLUMN_TRIES,
	COLUMN_ATTEMPTS,
	COLUMN_THROTTLED,
	COLUMN_STALLED,
	COLUMN_UNKNOWN_SENDS,
	COLUMN_UNKNOWN_BEFORE,
	COLUMN_WINDOW_UNTIL,
	COLUMN_NOT_AFTER,
	COLUMN_FIRST_SENT_AT,
	COLUMN_COUNT,
};
_Static_assert(COLUMN_COUNT == KEY_COLUMN_COUNT, "key.h counts the columns of a key");

static const struct conf_retry default_retry = {
	.strategy = CONF_RETRY_EXPONENTIAL,
	.first = 2 * USEC_SEC,
	.max = 10 * USEC_MIN,
	.attempts = 12,
};

/* A mode that this version does not know is treated as the most careful one. */
static enum effect_mode read_mode(const PGresult *result, int row)
{
	enum effect_mode mode = EFFECT_AT_MOST_ONCE;
	size_t length;
	const char *name = pg_get_bytes(result, row, COLUMN_MODE, &length);
	return effect_mode_parse(name, length, &mode) ? mode : EFFECT_AT_MOST_ONCE;
}

static void read_life(const PGresult *result, int row, struct life *life_r)
{
	*life_r = (struct life){
		.mode = read_mode(result, row),
		.resend = pg_get_bool(result, row, COLUMN_RESEND),
		.sent = pg_get_bool(result, row, COLUMN_SENT),
		.tries = pg_get_int4(result, row, COLUMN_TRIES),
		.attempts = pg_get_int4(result, row, COLUMN_ATTEMPTS),
		.throttled = pg_get_int4(result, row, COLUMN_THROTTLED),
		.stalled = pg_get_int4(result, row, COLUMN_STALLED),
		.unknown_sends = pg_get_int4(result, row, COLUMN_UNKNOWN_SENDS),
		.unknown_before = pg_get_int4(result, row, COLUMN_UNKNOWN_BEFORE),
		.window_until = pg_get_time(result, row, COLUMN_WINDOW_UNTIL),
		.not_after = pg_get_time(result, row, COLUMN_NOT_AFTER),
		.first_sent_at = pg_get_time(result, row, COLUMN_FIRST_SENT_AT),
	};
}

void key_name_set(struct key *key, const char *name, size_t length)
{
	const bool whole = length < sizeof(key->name);
	const size_t room = sizeof(key->name) - sizeof("...");
	const size_t kept = whole ? length : utf8_span(name, room);
	(void)snprintf(key->name, sizeof(key->name), "%.*s%s", (int)kept, name, whole ? "" : "...");
}

void key_read(const PGresult *result, int row, struct key *key_r)
{
	size_t length;
	const char *name = pg_get_bytes(result, row, COLUMN_NAME, &length);
	*key_r = (struct key){
		.id = pg_get_int8(result, row, COLUMN_ID),
		.epoch = pg_get_int4(result, row, COLUMN_EPOCH),
		.owner = pg_null(result, row, COLUMN_OWNER)
				 ? 0
				 : pg_get_int8(result, row, COLUMN_OWNER),
		.replays = pg_get_int4(result, row, COLUMN_REPLAYS),
		.since = pg_get_time(result, row, COLUMN_SINCE),
		.effect = mem_text(pg_get_text(result, row, COLUMN_EFFECT)),
		.topic = mem_text(pg_get_text(result, row, COLUMN_TOPIC)),
	};
	key_name_set(key_r, name, length);
	read_life(result, row, &key_r->life);
}

void key_done(struct key *key)
{
	free(key->effect);
	free(key->topic);
	*key = (struct key){ 0 };
}

void key_policy(const struct key *key, const struct rules *rules,
		const struct conf_profile *profile, usec_t margin, struct life_policy *policy_r)
{
	const struct rule *rule = rules_find(rules, key->effect, strlen(key->effect));
	*policy_r = (struct life_policy){
		.retry = rule ? rule->conf->retry : default_retry,
		.margin = margin,
		.stores_errors = profile && profile->stores == CONF_STORES_ALL,
	};
}

static void id_of(const struct key *key, const char *what, uint8_t id_r[UUID_SIZE])
{
	char name[64];
	snprintf(name, sizeof(name), "%" PRId64 "/%" PRId32 "/%s", key->id, key->replays, what);
	uuid5(name, id_r);
}

void key_emit_id(const struct key *key, uint8_t id_r[UUID_SIZE])
{
	id_of(key, "emit", id_r);
}

void key_letter(const struct key *key, const struct rules *rules, struct key_letter *letter_r)
{
	const struct rule *rule = rules_find(rules, key->effect, strlen(key->effect));
	id_of(key, "dead", letter_r->id);
	buf_clear(&letter_r->topic);
	dead_letter_topic(rule ? rule->conf : NULL, key->topic, &letter_r->topic);
}
