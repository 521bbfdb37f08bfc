/* Why a key is where it is. */
#include "words/story.h"

#include <stdio.h>
#include <string.h>

#include "data/sql_console.h"
#include "words/format.h"

enum { OWNER_SIZE = 64 };

const char *story_owner(const char *name, char *buffer, size_t size)
{
	(void)snprintf(buffer, size, "%.*s", name ? (int)strcspn(name, "/") : 0, name ? name : "");
	return buffer;
}

void story_read(const PGresult *key, char *owner, struct story *story_r)
{
	*story_r = (struct story){
		.state = pg_get_text(key, 0, KEY_STATE),
		.mode = pg_get_text(key, 0, KEY_MODE),
		.target = pg_get_text(key, 0, KEY_TARGET),
		.effect = pg_get_text(key, 0, KEY_EFFECT),
		.tenant = pg_get_text(key, 0, KEY_TENANT),
		.owner = pg_null(key, 0, KEY_OWNER)
				 ? NULL
				 : story_owner(pg_get_text(key, 0, KEY_OWNER), owner, OWNER_SIZE),
		.outcome = pg_get_text(key, 0, KEY_OUTCOME),
		.error_class = pg_get_text(key, 0, KEY_ERROR),
		.provider_id = pg_get_text(key, 0, KEY_PROVIDER_ID),
		.hold_reason = pg_get_text(key, 0, KEY_HOLD_REASON),
		.resolution = pg_get_text(key, 0, KEY_RESOLUTION),
		.note = pg_get_text(key, 0, KEY_NOTE),
		.replay_of = pg_get_text(key, 0, KEY_REPLAY_OF),
		.forced = pg_get_text(key, 0, KEY_FORCED),
		.older = pg_get_text(key, 0, KEY_BEHIND),
		.key_number = pg_get_int8(key, 0, KEY_NUMBER),
		.tries = pg_get_int8(key, 0, KEY_TRIES),
		.unknown = pg_get_int8(key, 0, KEY_UNKNOWN),
		.now = pg_get_time(key, 0, KEY_NOW),
		.due = pg_get_time(key, 0, KEY_DUE),
		.window_until = pg_get_time(key, 0, KEY_WINDOW),
		.paused_until = pg_get_time(key, 0, KEY_PAUSED),
		.not_after = pg_get_time(key, 0, KEY_NOT_AFTER),
		.rendered = !pg_null(key, 0, KEY_METHOD),
		.stale = pg_get_bool(key, 0, KEY_STALE),
		.held = pg_get_bool(key, 0, KEY_HELD),
		.all_paused = pg_get_bool(key, 0, KEY_ALL_PAUSED),
		.effect_paused = pg_get_bool(key, 0, KEY_EFFECT_PAUSED),
		.tenant_paused = pg_get_bool(key, 0, KEY_TENANT_PAUSED),
		.behind = pg_get_bool(key, 0, KEY_WAITS),
		.ledgers = pg_get_bool(key, 0, KEY_LEDGERS),
		.emit_due = pg_get_bool(key, 0, KEY_EMIT_DUE),
		.emit_failed = pg_get_bool(key, 0, KEY_EMIT_FAILED),
	};
}

static void add_times(struct buf *out, int64_t count)
{
	if (count == 1)
		buf_add_text(out, "once");
	else
		buf_addf(out, "%lld times", (long long)count);
}

static void add_last(const struct story *story, struct buf *out)
{
	if (*story->error_class)
		buf_addf(out, " Last: %s.", story->error_class);
}

static bool stopped(const struct story *story)
{
	return story->all_paused || story->effect_paused || story->tenant_paused || story->behind;
}

/* What no passing of time ends. Each pause is told: to resume one of two is not enough. */
static void add_stops(const struct story *story, struct buf *out)
{
	if (story->all_paused)
		buf_add_text(out, " Everything is paused: nothing is sent until `counterfoil "
				  "resume --all`.");
	if (story->effect_paused)
		buf_addf(out,
			 " Its effect is paused: nothing of it is sent until `counterfoil resume "
			 "--effect %s`.",
			 story->effect);
	if (story->tenant_paused)
		buf_addf(out,
			 " Its tenant is paused: nothing of it is sent until `counterfoil resume "
			 "--tenant %s`.",
			 *story->tenant ? story->tenant : "''");
	if (story->behind)
		buf_addf(out, " It waits behind %s%san older key of the same serial key.",
			 story->older ? story->older : "", story->older ? ", " : "");
}

/* What keeps a waiting key from being sent although it is due. */
static void add_blocker(const struct story *story, enum conf_zone zone, struct buf *out)
{
	char time[FORMAT_SIZE];
	bool paused = story->paused_until != USEC_NEVER && story->paused_until > story->now;
	if (!story->ledgers)
		buf_add_text(out, " No ledger is running.");
	else if (story->held)
		buf_addf(out, " Target %s is held: %s.", story->target,
			 story->hold_reason ? story->hold_reason : "by hand");
	else if (paused)
		buf_addf(out, " Target %s asked for a pause until %s.", story->target,
			 format_time(story->paused_until, zone, time));
}

/* "now" only of a key that nothing stops. */
static void add_due(const struct story *story, const char *due, struct buf *out)
{
	char age[FORMAT_SIZE];
	if (story->due > story->now)
		buf_addf(out, "%s in %s.", due, format_age(story->due - story->now, age));
	else if (stopped(story))
		buf_add_text(out, ".");
	else
		buf_addf(out, "%s now.", due);
}

static void tell_pending(const struct story *story, enum conf_zone zone, struct buf *out)
{
	buf_add_text(out, story->tries ? "Waits to be sent again" : "Recorded, and not sent yet");
	add_due(story, "; due", out);
	add_stops(story, out);
	add_blocker(story, zone, out);
}

static void tell_retrying(const struct story *story, enum conf_zone zone, struct buf *out)
{
	buf_add_text(out, "Will be sent again with the same key");
	add_due(story, ",", out);
	add_last(story, out);
	add_stops(story, out);
	add_blocker(story, zone, out);
}

static void tell_in_flight(const struct story *story, struct buf *out)
{
	if (!story->stale)
		buf_addf(out, "An attempt by %s is running.",
			 story->owner ? story->owner : "a ledger");
	else
		buf_addf(out, "%s has not answered for it in time. %s",
			 story->owner ? story->owner : "A ledger that is gone",
			 story->ledgers ? "Another ledger takes it over."
					: "No ledger is running that could take it over.");
}

static void tell_uncertain(const struct story *story, enum conf_zone zone, struct buf *out)
{
	char time[FORMAT_SIZE], left[FORMAT_SIZE];
	usec_t until = story->window_until;
	buf_add_text(out, "Tried ");
	add_times(out, story->tries);
	buf_addf(out, ", %lld without a clear answer: it may have happened. ",
		 (long long)story->unknown);
	if (strcmp(story->mode, "at_most_once") == 0)
		buf_add_text(out, "It is at_most_once, and never sent again by itself.");
	else if (until != USEC_NEVER && until > story->now)
		buf_addf(out, "The provider knows the key until %s (%s left).",
			 format_time(until, zone, time), format_age(until - story->now, left));
	else
		buf_add_text(out, "The provider may have forgotten the key: sent again it could "
				  "happen twice.");
}

static void tell_dead(const struct story *story, struct buf *out)
{
	if (story->resolution && strcmp(story->resolution, "given up") == 0)
		buf_add_text(out, "A person gave it up. Certainly not applied.");
	else if (story->resolution)
		buf_add_text(out, "A person found out that it did not happen.");
	else if (!story->rendered)
		buf_add_text(out, "The request could not be made from the event: nothing was ever "
				  "sent.");
	else if (!story->outcome && !*story->error_class)
		buf_add_text(out, "Its time was over before it was sent.");
	else if (strcmp(story->outcome ? story->outcome : "", "refused") == 0)
		buf_addf(out, "The provider said no: %s. Certainly not applied.",
			 story->error_class);
	else {
		buf_add_text(out, "Given up after it was tried ");
		add_times(out, story->tries);
		buf_add_text(out, ". Certainly not applied.");
		add_last(story, out);
	}
}

static void tell_completed(const struct story *story, struct buf *out)
{
	if (strcmp(story->outcome ? story->outcome : "", "shadow") == 0) {
		buf_add_text(out, "Recorded and rendered, and on purpose not sent: its effect was "
				  "in shadow when the event came.");
		return;
	}
	buf_add_text(out, story->resolution ? "A person found out that it happened"
					    : "The provider said yes");
	if (story->provider_id && *story->provider_id)
		buf_addf(out, ", its id is %s", story->provider_id);
	buf_add_text(out, ". Tried ");
	add_times(out, story->tries);
	buf_add_text(out, ".");
}

/* What should have followed from its end. */
static void add_owed(const struct story *story, struct buf *out)
{
	if (story->emit_due)
		buf_add_text(out, " The event that follows from it is still to be written.");
	else if (story->emit_failed)
		buf_add_text(out, " The event that should follow from it was not written: the "
				  "ledger's log says why.");
}

/* What persons did and said, whatever the state. */
static void add_orders(const struct story *story, struct buf *out)
{
	if (story->replay_of)
		buf_addf(out, " It repeats %s, by order of a person.", story->replay_of);
	else if (story->key_number)
		buf_addf(out, " By order of a person its key at the provider is a new one, ~r%lld.",
			 (long long)story->key_number);
	if (story->forced)
		buf_addf(out, " It was done again, by order of a person: %s.", story->forced);
	if (story->note)
		buf_addf(out, " Note: %s", story->note);
}

static void tell_state(const struct story *story, enum effect_state state, enum conf_zone zone,
		       struct buf *out)
{
	switch (state) {
	case EFFECT_PENDING:
		tell_pending(story, zone, out);
		break;
	case EFFECT_IN_FLIGHT:
		tell_in_flight(story, out);
		break;
	case EFFECT_RETRY_WAIT:
		tell_retrying(story, zone, out);
		break;
	case EFFECT_COMPLETED:
		tell_completed(story, out);
		break;
	case EFFECT_UNCERTAIN:
		tell_uncertain(story, zone, out);
		break;
	case EFFECT_DEAD:
		tell_dead(story, out);
		break;
	case EFFECT_CANCELLED:
		buf_add_text(out, "Withdrawn by a person. Certainly not applied.");
		break;
	case EFFECT_PRUNED:
	case EFFECT_STATE_COUNT:
		buf_add_text(out,
			     "Finished long ago: only its key is kept, so that a repetition is "
			     "known as one.");
		break;
	}
}

void story_tell(const struct story *story, enum conf_zone zone, struct buf *out)
{
	enum effect_state state;
	if (!effect_state_parse(story->state, strlen(story->state), &state))
		return;
	tell_state(story, state, zone, out);
	add_owed(story, out);
	add_orders(story, out);
}
