/* What one turn of intake holds: messages, and what the rules made of them. Recorded whole, or
 * slice by slice when the database refuses something in it. Pure. */
#ifndef LEDGER_BATCH_H
#define LEDGER_BATCH_H

#include "buf.h"
#include "conf.h"
#include "rules/event.h"
#include "rules/rules.h"

/* Beyond this a batch is full; a single message may be larger. */
#define BATCH_BYTES_MAX ((size_t)16 * 1024 * 1024)

/* X(symbol, name in the database, what it means) */
#define POISON_REASONS(X)                                                                          \
	X(NONE, "", "not poison")                                                                  \
	X(EVENT, "event", "its id, type or subject cannot be used")                                \
	X(KEY, "key", "an effect's key could not be made from it")                                 \
	X(UNMATCHED, "unmatched", "no effect matches it, and ledger.unmatched is poison")          \
	X(DATABASE, "database", "the database refused what came of it")

enum poison_reason {
#define X(symbol, name, meaning) POISON_##symbol,
	POISON_REASONS(X)
#undef X
};

const char *poison_reason_name(enum poison_reason reason);

struct slice { /* of batch->text, NUL-terminated */
	size_t at;
	size_t length;
};

struct batch_message {
	struct event event; /* of a message that is no event only source and hash are set */
	void *handle;       /* the consumer's, given back when the batch is cleared */
	size_t position;    /* the caller's: which of its partitions it came from */
	size_t first_row;
	size_t row_count;
	enum poison_reason poison;
	struct slice error;    /* why it is poison */
	const char *unmatched; /* let pass without an effect, and counted under this type */
};

struct batch_row {
	size_t message;
	const struct rule *rule;
	struct slice key, tenant, provider_key, serial_key, url, headers, body, emit, why;
	bool body_is_value;
	bool dead;
	bool folded; /* an earlier row of the slice has the same key */
	uint8_t fingerprint[EFFECT_FINGERPRINT_SIZE];
	usec_t not_after;
	usec_t delay;
	usec_t not_before;
};

typedef void batch_free_fn(void *handle);

/* More types of unmatched events than this are counted together: who sends them chooses the names.
 */
#define BATCH_TYPES_MAX  1000
#define BATCH_TYPE_OTHER "(other)"

struct batch {
	struct batch_message *messages;
	size_t count;
	size_t capacity;
	struct batch_row *rows; /* in the order of the messages, so of their offsets */
	size_t row_count;
	size_t row_capacity;
	size_t bytes;
	struct buf text;
	enum conf_unmatched unmatched;
	char **types; /* of unmatched events so far, sorted; kept from batch to batch */
	size_t type_count;
	batch_free_fn *free_handle; /* NULL: there is nothing to give back */
};

void batch_init(struct batch *batch, enum conf_unmatched unmatched, batch_free_fn *free_handle);
void batch_clear(struct batch *batch);
void batch_done(struct batch *batch);

/* Takes the message over, with its handle: decodes it and renders it by every rule. */
struct batch_message *batch_read(struct batch *batch, struct rules *rules,
				 const struct event_source *source, void *handle, usec_t now);
bool batch_is_full(const struct batch *batch, size_t messages_max);

/* The two halves of batch_read(), for one whose rules are elsewhere. */
struct batch_message *batch_add(struct batch *batch, const struct event_source *source,
				void *handle);
void batch_add_draft(struct batch *batch, const struct draft *draft); /* of the last message */

/* Marks, among the rows of messages [from, to), all but the first of each (key, target, tenant).
 * One statement must not meet the same key twice: it would make its state twice. */
void batch_fold(struct batch *batch, size_t from, size_t to);

/* The message becomes poison and its rows are dropped. */
void batch_spoil(struct batch *batch, size_t message, enum poison_reason reason, const char *error);

const char *batch_text(const struct batch *batch, struct slice slice);

/* Does the row send the event's own value, whether the rules said so or it came out the same? */
bool batch_row_body_is_value(const struct batch *batch, const struct batch_row *row);

#endif
