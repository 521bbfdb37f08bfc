/* Gaps, in groups that were noticed between two listings and so share their holders. */
#include "gaps.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"

enum group_state {
	GROUP_NOTICED, /* may still grow; waits for a listing */
	GROUP_LISTING, /* the listing is on its way */
	GROUP_HELD,    /* by the transactions in `holders` */
	GROUP_CLEAR,   /* nobody is left; a poll after `poll` decides */
};

struct group {
	enum group_state state;
	size_t gaps; /* how many are left */
	uint64_t poll;
	uint64_t *holders;
	size_t holder_count;
};

struct gaps {
	size_t max;
	int64_t highest;
	size_t count;
	struct gap *gaps; /* ascending; the groups of the later ones are never earlier ones */
	struct group *groups;
	size_t group_count;
	size_t group_room;
};

/* --- groups --- */

static void set_state(struct group *group, enum group_state state)
{
	group->state = state;
}

static void group_done(struct group *group)
{
	free(group->holders);
	*group = (struct group){ 0 };
}

/* The last group while nobody listed yet, else a new one. */
static uint32_t open_group(struct gaps *gaps)
{
	if (gaps->group_count > 0 && gaps->groups[gaps->group_count - 1].state == GROUP_NOTICED)
		return (uint32_t)gaps->group_count - 1;
	if (gaps->group_count == gaps->group_room) {
		gaps->group_room = gaps->group_room ? gaps->group_room * 2 : 16;
		gaps->groups = mem_grow(gaps->groups, gaps->group_room, sizeof(*gaps->groups));
	}
	gaps->groups[gaps->group_count] = (struct group){ .state = GROUP_NOTICED };
	return (uint32_t)gaps->group_count++;
}

/* Takes out the groups without gaps, and renumbers. */
static void compact_groups(struct gaps *gaps)
{
	size_t kept = 0, next = 0;
	for (size_t i = 0; i < gaps->group_count; i++) {
		struct group group = gaps->groups[i];
		if (group.gaps == 0) {
			group_done(&group);
			continue;
		}
		for (size_t left = group.gaps; left > 0; left--)
			gaps->gaps[next++].group = (uint32_t)kept;
		gaps->groups[kept++] = group;
	}
	gaps->group_count = kept;
}

/* --- gaps --- */

static void insert(struct gaps *gaps, size_t at, const struct gap *gap)
{
	memmove(&gaps->gaps[at + 1], &gaps->gaps[at], (gaps->count - at) * sizeof(*gap));
	gaps->gaps[at] = *gap;
	gaps->count++;
	gaps->groups[gap->group].gaps++;
}

static void take_out(struct gaps *gaps, size_t at)
{
	gaps->groups[gaps->gaps[at].group].gaps--;
	gaps->count--;
	memmove(&gaps->gaps[at], &gaps->gaps[at + 1], (gaps->count - at) * sizeof(*gaps->gaps));
}

static void notice(struct gaps *gaps, int64_t first, int64_t last)
{
	struct gap gap = { .first = first, .last = last, .group = open_group(gaps) };
	if (gaps->count == gaps->max) {
		/* merged with the newest one, whose holders are then listed afresh */
		gap.first = gaps->gaps[gaps->count - 1].first;
		take_out(gaps, gaps->count - 1);
	}
	insert(gaps, gaps->count, &gap);
}

/* The first gap that does not end before the id. */
static size_t position(const struct gaps *gaps, int64_t id)
{
	size_t low = 0, high = gaps->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (gaps->gaps[middle].last < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool remove_id(struct gaps *gaps, int64_t id)
{
	size_t at = position(gaps, id);
	if (at == gaps->count || gaps->gaps[at].first > id)
		return false;
	struct gap *gap = &gaps->gaps[at];
	struct gap behind = *gap;
	if (gap->first == gap->last) {
		take_out(gaps, at);
	} else if (gap->first == id) {
		gap->first++;
	} else if (gap->last == id) {
		gap->last--;
	} else if (gaps->count < gaps->max) {
		gap->last = id - 1;
		behind.first = id + 1;
		insert(gaps, at + 1, &behind);
	} else {
		return false; /* the gap stays whole, and the row is met again */
	}
	return true;
}

bool gaps_saw(struct gaps *gaps, int64_t id)
{
	if (id <= gaps->highest)
		return remove_id(gaps, id);
	if (gaps->highest + 1 < id)
		notice(gaps, gaps->highest + 1, id - 1);
	gaps->highest = id;
	return true;
}

const struct gap *gaps_all(const struct gaps *gaps, size_t *count_r)
{
	*count_r = gaps->count;
	return gaps->gaps;
}

int64_t gaps_highest(const struct gaps *gaps)
{
	return gaps->highest;
}

/* --- listings --- */

static void change_all(struct gaps *gaps, enum group_state from, enum group_state to)
{
	for (size_t i = 0; i < gaps->group_count; i++)
		if (gaps->groups[i].state == from)
			set_state(&gaps->groups[i], to);
}

void gaps_list(struct gaps *gaps)
{
	change_all(gaps, GROUP_NOTICED, GROUP_LISTING);
}

void gaps_unlisted(struct gaps *gaps)
{
	change_all(gaps, GROUP_LISTING, GROUP_NOTICED);
}

static bool among(uint64_t holder, const uint64_t *holders, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (holders[i] == holder)
			return true;
	return false;
}

static void first_holders(struct group *group, const uint64_t *holders, size_t count)
{
	group->holder_count = count;
	if (count == 0)
		return;
	group->holders = mem_grow(NULL, count, sizeof(*holders));
	memcpy(group->holders, holders, count * sizeof(*holders));
}

/* Who came later cannot hold an id that was drawn before: only those already there count. */
static void keep_holders(struct group *group, const uint64_t *holders, size_t count)
{
	size_t kept = 0;
	for (size_t i = 0; i < group->holder_count; i++)
		if (among(group->holders[i], holders, count))
			group->holders[kept++] = group->holders[i];
	group->holder_count = kept;
}

void gaps_listed(struct gaps *gaps, const uint64_t *holders, size_t count, uint64_t poll)
{
	for (size_t i = 0; i < gaps->group_count; i++) {
		struct group *group = &gaps->groups[i];
		if (group->state == GROUP_LISTING)
			first_holders(group, holders, count);
		else if (group->state == GROUP_HELD)
			keep_holders(group, holders, count);
		else
			continue;
		set_state(group, group->holder_count > 0 ? GROUP_HELD : GROUP_CLEAR);
		group->poll = poll;
	}
}

void gaps_polled(struct gaps *gaps, uint64_t poll, int64_t upto)
{
	size_t kept = 0;
	for (size_t i = 0; i < gaps->count; i++) {
		struct gap gap = gaps->gaps[i];
		struct group *group = &gaps->groups[gap.group];
		bool told = group->state == GROUP_CLEAR && poll > group->poll && gap.first <= upto;
		if (told && gap.last <= upto) {
			group->gaps--;
			continue;
		}
		if (told)
			gap.first = upto + 1;
		gaps->gaps[kept++] = gap;
	}
	gaps->count = kept;
	compact_groups(gaps);
}

void gaps_forget(struct gaps *gaps)
{
	for (size_t i = 0; i < gaps->group_count; i++)
		group_done(&gaps->groups[i]);
	gaps->group_count = 0;
	gaps->count = 0;
	gaps->highest = 0;
}

struct gaps *gaps_new(size_t max)
{
	struct gaps *gaps = mem_zero(sizeof(*gaps));
	gaps->max = max;
	gaps->gaps = mem_grow(NULL, max, sizeof(*gaps->gaps));
	return gaps;
}

void gaps_free(struct gaps *gaps)
{
	if (!gaps)
		return;
	gaps_forget(gaps);
	free(gaps->groups);
	free(gaps->gaps);
	free(gaps);
}
