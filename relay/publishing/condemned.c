/* Rows that will never be sent, and those behind them. */
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "publisher_private.h"

static void say_dead(struct publisher *publisher, const struct sentence *sentence)
{
	char event_id[ENCODE_UUID_TEXT];
	uint64_t held;
	publisher->totals.dead++;
	if (log_limit_pass(&publisher->dead_said, usec_boot(), USEC_SEC, &held))
		log_error(publisher->log, "row is dead: moved to outbox_dead",
			  LOG_INT("id", sentence->claim.id),
			  LOG_TEXT("event_id", encode_uuid(sentence->claim.event_id, event_id)),
			  LOG_TEXT("topic", sentence->topic), LOG_INT("bytes", sentence->size),
			  LOG_TEXT("reason", sentence->reason),
			  LOG_TEXT("remedy", sentence->remedy), LOG_INT("held_back", held));
}

static void say_parked(struct publisher *publisher, int64_t id)
{
	uint64_t held;
	publisher->totals.parked++;
	if (log_limit_pass(&publisher->parked_said, usec_boot(), PUBLISHER_SAY_EVERY, &held))
		log_info(publisher->log, "row parked behind a dead one of its key",
			 LOG_INT("id", id), LOG_INT("held_back", held));
}

static void say_full(struct publisher *publisher)
{
	uint64_t held;
	if (keys_count(publisher->keys) < KEYS_MAX)
		return; /* they are being moved, and there will be room in a moment */
	if (log_limit_pass(&publisher->full_said, usec_boot(), PUBLISHER_SAY_EVERY, &held))
		log_error(publisher->log,
			  "too many ordering keys have a dead row: nothing is read until they "
			  "are fewer",
			  LOG_INT("keys", keys_count(publisher->keys)),
			  LOG_TEXT("remedy", "requeue or discard dead rows"));
}

bool publisher_blocks_key(const struct publisher *publisher, uint64_t order)
{
	return order && publisher->conf->on_dead == CONF_DEAD_BLOCK_KEY;
}

static bool has_room(const struct publisher *publisher, uint64_t order)
{
	return !burial_full(publisher->burial) &&
	       (!publisher_blocks_key(publisher, order) || keys_count(publisher->keys) < KEYS_MAX ||
		keys_has(publisher->keys, order));
}

/* False: there is no room for another one; the row stays where it is. */
bool publisher_sentence(struct publisher *publisher, const struct sentence *sentence, bool parked)
{
	struct burial_row row = {
		.size = sentence->size,
		.parked = parked,
		.no_event_id = sentence->no_event_id,
	};
	uint64_t order = sentence->claim.order;
	if (!has_room(publisher, order)) {
		say_full(publisher);
		return false;
	}
	if (parked)
		say_parked(publisher, sentence->claim.id);
	else
		say_dead(publisher, sentence);
	if (publisher_blocks_key(publisher, order))
		(void)keys_add(publisher->keys, order, sentence->claim.id);
	row.row = window_condemn(publisher->window, &sentence->claim);
	burial_add(publisher->burial, &row, sentence->reason);
	return true;
}

/* A row that is in flight no longer; it must have been dropped from the window. */
void publisher_condemn_reported(struct publisher *publisher, const struct window_row *row,
				const char *reason, const char *remedy)
{
	uint8_t event_id[WINDOW_UUID];
	memcpy(event_id, row->event_id, sizeof(event_id));
	const struct sentence sentence = {
		.claim = { .id = row->id,
			   .event_id = event_id,
			   .order = row->order,
			   .topic = row->topic },
		.size = row->bytes - PUBLISHER_ROW_COST,
		.topic = row->topic->name,
		.reason = reason,
		.remedy = remedy,
	};
	/* without room it is met again, and fails again */
	if (!publisher_sentence(publisher, &sentence, false))
		topics_failed(publisher->topics, row->topic, row->id, false, reason, usec_boot());
}
