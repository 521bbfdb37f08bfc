/* A queue, and the batch that is under way. */
#include "burial.h"

#include <stdlib.h>

#include "mem.h"

struct burial {
	struct window *window;
	size_t count;
	struct burial_row *first;
	struct burial_row **end;
	size_t taken; /* of the first ones, under way */
};

size_t burial_count(const struct burial *burial)
{
	return burial->count;
}

bool burial_full(const struct burial *burial)
{
	return burial->count >= BURIAL_MAX;
}

void burial_add(struct burial *burial, const struct burial_row *row, const char *reason)
{
	struct burial_row *ours = mem_zero(sizeof(*ours));
	*ours = *row;
	ours->reason = mem_text(reason);
	ours->next = NULL;
	*burial->end = ours;
	burial->end = &ours->next;
	burial->count++;
}

size_t burial_take(struct burial *burial, struct burial_row **rows)
{
	if (burial->taken > 0)
		return 0;
	for (struct burial_row *row = burial->first; row && burial->taken < BURIAL_ROWS;
	     row = row->next)
		rows[burial->taken++] = row;
	return burial->taken;
}

static void free_row(struct burial *burial, struct burial_row *row)
{
	window_bury(burial->window, row->row);
	burial->count--;
	free(row->reason);
	free(row);
}

static int by_id(const void *a, const void *b)
{
	const int64_t *left = a, *right = b;
	return (*left > *right) - (*left < *right);
}

static bool is_among(const struct burial_row *row, const int64_t *ids, size_t count)
{
	return count > 0 && bsearch(&row->row->id, ids, count, sizeof(*ids), by_id);
}

/* Those that were not moved go to the end of the queue, a few times. */
size_t burial_moved(struct burial *burial, const int64_t *ids, size_t count, bool *vanished_r)
{
	size_t left = 0;
	for (; burial->taken > 0 && burial->first; burial->taken--) {
		struct burial_row *row = burial->first;
		burial->first = row->next;
		if (!burial->first)
			burial->end = &burial->first;
		bool moved = is_among(row, ids, count);
		if (moved || ++row->tries == BURIAL_TRIES) {
			*vanished_r = *vanished_r || (!moved && !row->parked);
			free_row(burial, row);
			continue;
		}
		left++;
		row->next = NULL;
		*burial->end = row;
		burial->end = &row->next;
	}
	return left;
}

void burial_kept(struct burial *burial)
{
	burial->taken = 0;
}

void burial_forget(struct burial *burial)
{
	while (burial->first) {
		struct burial_row *row = burial->first;
		burial->first = row->next;
		free_row(burial, row);
	}
	burial->end = &burial->first;
	burial->taken = 0;
}

struct burial *burial_new(struct window *window)
{
	struct burial *burial = mem_zero(sizeof(*burial));
	burial->window = window;
	burial->end = &burial->first;
	return burial;
}

void burial_free(struct burial *burial)
{
	if (!burial)
		return;
	burial_forget(burial);
	free(burial);
}
