/* Dead letters: the row of the outbox that says an effect of an event has died. Pure; intake and
 * the executor write the row, in the transaction that records the death.
 *
 * A letter's row: event_id by uuid5(), topic by dead_letter_topic(), type by dead_letter_type(),
 * the event's subject as ordering_key, its key as message_key, its value as payload, and headers.
 */
#ifndef LEDGER_DEAD_LETTER_H
#define LEDGER_DEAD_LETTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "conf.h"

#define UUID_SIZE 16

/* UUIDv5 of a name in the product's namespace (wire.h). */
void uuid5(const char *name, uint8_t uuid_r[UUID_SIZE]);

/* Everything borrowed. */
struct death {
	const char *effect;
	const char *reason; /* one word from a closed list: an outcome's name, "conflict" */
	int64_t attempts;
	const char *topic; /* of the event that died */
	int32_t partition;
	int64_t offset;
	const char *event_id;
	const char *kept; /* its headers as headers_keep() wrote them; NULL: none */
	size_t kept_length;
	size_t key_length;
	size_t value_length;
};

/* Adds the letter's headers, a JSON object in text. False: with its value the letter would pass
 * what a broker takes by default; the row's payload is then NULL, and a header says how large it
 * was. What the event brought of headers is left out too where they alone are too large, and so is
 * its key. */
bool dead_letter_keeps_key(const struct death *death);
bool dead_letter_headers(const struct death *death, struct buf *json);

/* effect NULL: it has left the configuration. */
void dead_letter_topic(const struct conf_effect *effect, const char *topic, struct buf *out);
const char *dead_letter_type(const char *event_type);

/* The id of a letter written at intake, where the effect's row has no id yet, or never gets one. A
 * topic that is made anew uses its offsets again, for other events. */
void dead_letter_intake_id(const char *topic, int32_t partition, int64_t offset, const char *effect,
			   const char *event_id, uint8_t uuid_r[UUID_SIZE]);

#endif
