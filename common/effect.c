/* Names of states and modes, both ways. */
#include "effect.h"

#include <string.h>

static const char *const state_names[] = {
#define X(symbol, name, meaning) [EFFECT_##symbol] = (name),
	EFFECT_STATES(X)
#undef X
};

static const char *const mode_names[] = {
#define X(symbol, name, meaning) [EFFECT_##symbol] = (name),
	EFFECT_MODES(X)
#undef X
};

/* The index of the name in the list, or -1. */
static int find(const char *const *names, int count, const char *name, size_t length)
{
	for (int i = 0; i < count; i++)
		if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0)
			return i;
	return -1;
}

const char *effect_state_name(enum effect_state state)
{
	return state_names[state];
}

bool effect_state_parse(const char *name, size_t length, enum effect_state *state_r)
{
	int index = find(state_names, EFFECT_STATE_COUNT, name, length);
	if (index < 0)
		return false;
	*state_r = (enum effect_state)index;
	return true;
}

const char *effect_mode_name(enum effect_mode mode)
{
	return mode_names[mode];
}

bool effect_mode_parse(const char *name, size_t length, enum effect_mode *mode_r)
{
	int index = find(mode_names, EFFECT_MODE_COUNT, name, length);
	if (index < 0)
		return false;
	*mode_r = (enum effect_mode)index;
	return true;
}
