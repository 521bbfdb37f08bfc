/* Checks of one profile of the user's. */
#include "conf/conf_item.h"
#include "conf/conf_net.h"

/* Ranges as in "a-z"; a "-" at either end is itself. */
static bool set_holds(const char *set, char c)
{
	for (const char *at = set; *at; at++) {
		if (at[1] == '-' && at[2]) {
			if (c >= at[0] && c <= at[2])
				return true;
			at += 2;
		} else if (*at == c) {
			return true;
		}
	}
	return false;
}

static void check_characters(const struct conf_item *item, const char *set)
{
	for (const char *at = set; *at; at++) {
		if (*at <= ' ' || *at >= 0x7f) {
			ITEM_FAULT(item, "characters", "holds something else than visible ASCII");
			return;
		}
	}
	/* a key that does not suit is replaced by a hash, which then has to */
	for (const char *at = "cf-0123456789abcdef"; *set && *at; at++) {
		if (!set_holds(set, *at)) {
			ITEM_FAULT(
				item, "characters",
				"must hold \"cf-0-9a-f\": a key with others is replaced by a hash "
				"written with these");
			return;
		}
	}
}

void conf_check_profile(struct conf_item *item, const struct conf_profile *profile)
{
	struct err err;
	conf_item_check_name(item, "name", profile->name);
	if (*profile->header && !conf_header_name_check(profile->header, &err))
		ITEM_FAULT(item, "header", "%s", err.text);
	check_characters(item, profile->characters);
	if (profile->window > 0 && !*profile->header)
		ITEM_FAULT(item, "window", "the provider cannot know a key that no header carries");
}
