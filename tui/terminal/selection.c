/* The bar of a list. */
#include "terminal/selection.h"

#include <stdbool.h>

static bool find(const struct selection_ids *list, int64_t id, size_t *index_r)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->ids[i] == id) {
			*index_r = i;
			return true;
		}
	return false;
}

static bool find_neighbour(const struct selection_ids *before, size_t from,
			   const struct selection_ids *now, size_t *index_r)
{
	for (size_t i = from; i < before->count; i++)
		if (find(now, before->ids[i], index_r))
			return true;
	for (size_t i = from; i > 0; i--)
		if (find(now, before->ids[i - 1], index_r))
			return true;
	return false;
}

void selection_follow(struct selection *selection, const struct selection_ids *before,
		      const struct selection_ids *now)
{
	size_t line = selection->index - selection->top;
	size_t index = selection->index;
	if (!find_neighbour(before, selection->index, now, &index) && index >= now->count)
		index = now->count ? now->count - 1 : 0;
	selection->index = index;
	selection->top = index > line ? index - line : 0;
}

void selection_move(struct selection *selection, long by, size_t count)
{
	size_t last = count ? count - 1 : 0;
	size_t steps = (size_t)(by < 0 ? -by : by);
	if (by < 0)
		selection->index = steps > selection->index ? 0 : selection->index - steps;
	else
		selection->index =
			steps > last - selection->index ? last : selection->index + steps;
}

void selection_show(struct selection *selection, size_t height, size_t count)
{
	size_t last_top = count > height ? count - height : 0;
	if (selection->top > selection->index)
		selection->top = selection->index;
	if (height && selection->index >= selection->top + height)
		selection->top = selection->index - height + 1;
	if (selection->top > last_top)
		selection->top = last_top;
}
