/* Results on their way into the database, and what becomes of a batch that the server refuses.
 * Pure.
 *
 * One bad row must not stop the others, and nothing that is to follow from a result may stop the
 * result: a refused batch puts off its events and dead letters, which a sweep writes later; then it
 * is halved until the bad row is alone, and that one gives up all but its outcome. A refusal that
 * is not about the data is none of the rows' fault: the batch is sent again as it is. */
#ifndef LEDGER_RESULT_BATCH_H
#define LEDGER_RESULT_BATCH_H

#include "rules/key.h"

/* What one attempt came to. */
struct result {
	struct result *next;
	struct key key;
	const char *target; /* of the configuration */
	enum outcome outcome;
	struct life_step step;
	int status;    /* 0: no answer */
	int curl_code; /* 0: none */
	char error_class[40];
	usec_t started; /* wall clock of the database */
	usec_t took;
	usec_t queued_at; /* boot clock */
	char *error;      /* NULL: none */
	char *provider_key;
	char *provider_id; /* NULL: none */
	struct buf head, body;
	bool truncated;
	bool stored; /* the provider has it stored for the key, and would only say it again */
	bool has_letter;
	struct key_letter letter;
	bool has_emit;
	uint8_t emit_id[16];
	char *emit_fault; /* why nothing can be emitted; NULL: it can */
};

struct result *result_new(void);
void result_free(struct result *result);

enum batch_form {
	BATCH_WHOLE,
	BATCH_WITHOUT_EVENTS, /* neither events nor dead letters: their keys are flagged */
	BATCH_BARE,           /* the outcome only */
};

struct result_batch {
	struct result_batch *next;
	enum batch_form form;
	bool doubtful; /* sent before, and the connection was lost: it may be recorded already */
	usec_t not_before; /* boot clock */
	size_t count;
	struct result **items; /* by id, then epoch */
};

/* Answers of a batch; a single result may have more. */
#define BATCH_BYTES_MAX ((size_t)8 * 1024 * 1024)

/* Takes up to `max` results off the front of the list, as far as they are not too large. */
struct result_batch *batch_take(struct result **list, size_t max);
void batch_free(struct result_batch *batch); /* with its results */
/* How many events and dead letters are to follow. */
size_t batch_events(const struct result_batch *batch);
/* Halves a batch of at least two; both begin again as they were. */
struct result_batch *batch_split(struct result_batch *batch);

/* The refusal is not about the data: the same statement may be taken later. */
bool refusal_passes(const char *sqlstate);

enum batch_next {
	BATCH_AGAIN, /* as it is, after a while */
	BATCH_SPLIT,
	BATCH_PUT_OFF, /* as BATCH_WITHOUT_EVENTS */
	BATCH_STRIP,   /* as BATCH_BARE */
	BATCH_GIVE_UP, /* not even the outcome can be recorded: the key is taken over at its end */
};

enum batch_next batch_refused(const struct result_batch *batch, const char *sqlstate);

#endif
