/* Decisions of the sweep. */
#include "swept.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"

/* The columns of SQL_STALE and SQL_EXPIRED behind those of the key. */
enum { COLUMN_TARGET = KEY_COLUMN_COUNT, COLUMN_NOW, COLUMN_FROM, SWEPT_COUNT };
_Static_assert(SWEPT_COUNT == SWEPT_COLUMN_COUNT, "swept.h counts the columns of a swept key");

/* The parameters of the two statements that write, in their order. */
#define COLUMNS(X)                                                                                 \
	X(ID, PG_INT8)                                                                             \
	X(EPOCH, PG_INT4)                                                                          \
	X(STATE, PG_TEXT)                                                                          \
	X(DUE_AT, PG_TIME)                                                                         \
	X(UNKNOWN, PG_INT4)                                                                        \
	X(ATTEMPTS, PG_INT4)                                                                       \
	X(UNSENT, PG_BOOL)                                                                         \
	X(ERROR_CLASS, PG_TEXT)                                                                    \
	X(EMIT_FAILED, PG_BOOL)                                                                    \
	X(LETTER_ID, PG_UUID)                                                                      \
	X(LETTER_TOPIC, PG_TEXT)                                                                   \
	X(LETTER_REASON, PG_TEXT)                                                                  \
	X(SENT, PG_BOOL)

enum {
#define X(name, type) COLUMN_##name,
	COLUMNS(X)
#undef X
		COLUMN_COUNT
};

static const enum pg_type column_types[] = {
#define X(name, type) [COLUMN_##name] = type,
	COLUMNS(X)
#undef X
};

/* A target that has left the configuration has no margin: its keys are not sent any more. */
static void policy_of(const struct swept *swept, const struct rules *rules,
		      const struct claim_plan *plans, struct life_policy *policy_r)
{
	const struct target *target = rules_target_called(rules, swept->target);
	key_policy(&swept->key, rules, target ? target->profile : NULL,
		   target ? plans[target->index].margin : 0, policy_r);
}

static void swept_done(struct swept *swept)
{
	key_done(&swept->key);
	free(swept->target);
	buf_done(&swept->letter.topic);
}

static void keep(struct swept_page *page, struct swept *swept, const struct rules *rules)
{
	swept->has_letter = swept->step.state == EFFECT_DEAD;
	if (swept->has_letter)
		key_letter(&swept->key, rules, &swept->letter);
	page->items = mem_grow(page->items, page->count + 1, sizeof(*page->items));
	page->items[page->count++] = *swept;
}

static void read_row(struct swept *swept, const PGresult *result, int row)
{
	size_t length;
	const char *from = pg_get_bytes(result, row, COLUMN_FROM, &length);
	swept->from = EFFECT_IN_FLIGHT;
	(void)effect_state_parse(from, length, &swept->from);
	key_read(result, row, &swept->key);
	swept->target = mem_text(pg_get_text(result, row, COLUMN_TARGET));
}

void swept_stale(struct swept_page *page, const PGresult *result, int row,
		 const struct rules *rules, const struct claim_plan *plans)
{
	struct swept swept = { .why = "lost" };
	struct life_policy policy;
	read_row(&swept, result, row);
	policy_of(&swept, rules, plans, &policy);
	life_takeover(&swept.key.life, &policy, pg_get_time(result, row, COLUMN_NOW), &swept.step);
	keep(page, &swept, rules);
}

bool swept_expired(struct swept_page *page, const PGresult *result, int row,
		   const struct rules *rules, const struct claim_plan *plans)
{
	struct swept swept = { 0 };
	struct life_policy policy;
	const usec_t now = pg_get_time(result, row, COLUMN_NOW);
	read_row(&swept, result, row);
	policy_of(&swept, rules, plans, &policy);
	life_expire(&swept.key.life, &policy, now, &swept.step);
	if (swept.step.state == EFFECT_RETRY_WAIT || swept.step.state == EFFECT_PENDING) {
		swept_done(&swept);
		return false;
	}
	swept.why = now >= swept.key.life.not_after ? "expired" : "window closed";
	keep(page, &swept, rules);
	return true;
}

static void add_swept(struct pg_array *columns, const struct swept *swept, bool with_letters)
{
	const struct life_step *step = &swept->step;
	const bool waits = step->state == EFFECT_PENDING || step->state == EFFECT_RETRY_WAIT;
	const bool letter = swept->has_letter && with_letters;
	pg_array_int8(&columns[COLUMN_ID], swept->key.id);
	pg_array_int4(&columns[COLUMN_EPOCH], swept->key.epoch);
	pg_array_text(&columns[COLUMN_STATE], effect_state_name(step->state));
	pg_array_usec(&columns[COLUMN_DUE_AT], waits ? step->due_at : USEC_NEVER);
	pg_array_int4(&columns[COLUMN_UNKNOWN], step->unknown_delta);
	pg_array_int4(&columns[COLUMN_ATTEMPTS], step->attempts_delta);
	pg_array_bool(&columns[COLUMN_UNSENT], step->unsent);
	pg_array_text(&columns[COLUMN_ERROR_CLASS], swept->why);
	pg_array_bool(&columns[COLUMN_EMIT_FAILED], swept->has_letter && !letter);
	pg_array_bytes(&columns[COLUMN_LETTER_ID], letter ? swept->letter.id : NULL,
		       sizeof(swept->letter.id));
	pg_array_text(&columns[COLUMN_LETTER_TOPIC], letter ? swept->letter.topic.data : NULL);
	pg_array_text(&columns[COLUMN_LETTER_REASON], swept->why);
	pg_array_bool(&columns[COLUMN_SENT], swept->key.life.sent);
}

bool swept_letters(const struct swept_page *page)
{
	for (size_t i = 0; i < page->count; i++) {
		if (page->items[i].has_letter)
			return true;
	}
	return false;
}

void swept_params(const struct swept_page *page, bool with_letters, struct pg_params *params)
{
	struct pg_array columns[COLUMN_COUNT];
	for (size_t i = 0; i < COLUMN_COUNT; i++)
		pg_array_init(&columns[i], column_types[i]);
	for (size_t i = 0; i < page->count; i++)
		add_swept(columns, &page->items[i], with_letters);
	for (size_t i = 0; i < COLUMN_COUNT; i++) {
		pg_add_array(params, &columns[i]);
		pg_array_done(&columns[i]);
	}
}

void swept_clear(struct swept_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		swept_done(&page->items[i]);
	free(page->items);
	*page = (struct swept_page){ 0 };
}
