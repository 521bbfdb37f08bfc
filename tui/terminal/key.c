/* From keys to requests. */
#include "terminal/key.h"

#include <stddef.h>

enum { KEYS_EACH = 4 };

static const struct binding {
	struct request_words words;
	uint32_t keys[KEYS_EACH];
} bindings[] = {
#define X(symbol, group_, keys_, words_, k1, k2, k3, k4)                                           \
	[REQUEST_##                                                                                \
		symbol] = { .words = { .group = GROUP_##group_, .keys = keys_, .words = words_ },  \
			    .keys = { k1, k2, k3, k4 } },
	REQUESTS(X)
#undef X
};

enum request request_of(const struct key *key)
{
	if (key->pasted)
		return REQUEST_NONE;
	for (size_t i = 0; i < REQUEST_COUNT; i++)
		for (size_t k = 0; k < KEYS_EACH; k++)
			if (bindings[i].keys[k] && bindings[i].keys[k] == key->code &&
			    (key->code >= KEY_MIN) == key->special)
				return (enum request)i;
	return REQUEST_NONE;
}

long request_step(enum request request, size_t height)
{
	const long page = height ? (long)height : 1, far = 1L << 30;
	switch (request) {
	case REQUEST_DOWN:
		return 1;
	case REQUEST_UP:
		return -1;
	case REQUEST_PAGE_DOWN:
		return page;
	case REQUEST_PAGE_UP:
		return -page;
	case REQUEST_HALF_DOWN:
		return (page + 1) / 2;
	case REQUEST_HALF_UP:
		return -(page + 1) / 2;
	case REQUEST_FIRST:
		return -far;
	case REQUEST_LAST:
		return far;
	default:
		return 0;
	}
}

const struct request_words *request_words(enum request request)
{
	return &bindings[request].words;
}

const char *request_group_title(enum request_group group)
{
	static const char *const titles[] = {
		[GROUP_MOVE] = "MOVE",
		[GROUP_FIND] = "GO AND FIND",
		[GROUP_VIEW] = "VIEW",
		[GROUP_ACT] = "ACT",
	};
	return titles[group];
}
