/* Checks of one effect. */
#include <string.h>

#include "conf/conf_item.h"
#include "conf/conf_later.h"
#include "conf/conf_net.h"
#include "conf/conf_quoted.h"

#define DEAD_SUFFIX ".dlq"

/* --- its target --------------------------------------------------------------------------------
 */

static const struct conf_target *find_target(const struct conf *conf, const char *name)
{
	for (size_t i = 0; i < conf->target_count; i++)
		if (strcmp(conf->targets[i].name, name) == 0)
			return &conf->targets[i];
	return NULL;
}

/* The target that once had this name. */
static const struct conf_target *find_former(const struct conf *conf, const char *name)
{
	for (size_t i = 0; i < conf->target_count; i++)
		for (size_t k = 0; k < conf->targets[i].alias.count; k++)
			if (strcmp(conf->targets[i].alias.items[k], name) == 0)
				return &conf->targets[i];
	return NULL;
}

static void check_target_name(const struct conf_item *item, const char *name)
{
	const struct conf_target *former = find_former(item->conf, name);
	BUF_AUTO struct buf shown = { 0 };
	if (!*name || find_target(item->conf, name))
		return;
	if (former)
		ITEM_FAULT(item, "target", "\"%s\" is a former name; write \"%s\"", name,
			   former->name);
	else
		ITEM_FAULT(item, "target", "%s is not the name of one of targets",
			   conf_quoted(&shown, name));
}

/* --- topics ------------------------------------------------------------------------------------
 */

static void check_topics(const struct conf_item *item, const struct conf_effect *effect)
{
	struct err err;
	if (*effect->topic && !conf_topic_check(effect->topic, &err))
		ITEM_FAULT(item, "on.topic", "%s", err.text);
	if (!*effect->dead_letter_topic) {
		BUF_AUTO struct buf dead = { 0 };
		buf_addf(&dead, "%s" DEAD_SUFFIX, effect->topic);
		if (*effect->topic && conf_topic_check(effect->topic, NULL) &&
		    !conf_topic_check(dead.data, NULL))
			ITEM_FAULT(item, "dead_letter_topic",
				   "is required: with \"" DEAD_SUFFIX
				   "\" behind it the topic's name is too long");
	} else if (!conf_topic_check(effect->dead_letter_topic, &err)) {
		ITEM_FAULT(item, "dead_letter_topic", "%s", err.text);
	} else if (strcmp(effect->dead_letter_topic, effect->topic) == 0) {
		ITEM_FAULT(item, "dead_letter_topic",
			   "is the topic of the events themselves; other readers would get them "
			   "twice");
	}
}

static void check_emit(const struct conf_item *item, const struct conf_emit *emit)
{
	struct err err;
	if (!*emit->topic && !*emit->type && !*emit->ordering_key && !*emit->payload)
		return;
	if (!*emit->topic)
		ITEM_FAULT(item, "emit.topic", "is required where something is emitted");
	else if (!conf_topic_check(emit->topic, &err))
		ITEM_FAULT(item, "emit.topic", "%s", err.text);
	if (!*emit->type)
		ITEM_FAULT(item, "emit.type", "is required where something is emitted");
	else if (!conf_header_value_check(emit->type, &err))
		ITEM_FAULT(item, "emit.type", "%s", err.text);
	if (!*emit->payload)
		ITEM_FAULT(item, "emit.payload", "is required where something is emitted");
}

/* --- the mode ----------------------------------------------------------------------------------
 */

static void check_idempotent(const struct conf_item *item, const struct conf_target *target,
			     const struct conf_profile *profile)
{
	if (target && profile && profile->window == 0)
		ITEM_FAULT(item, "mode",
			   "\"idempotent\" needs a provider that honours the key, and profile "
			   "\"%s\" of target \"%s\" has no window",
			   profile->name, target->name);
}

static void check_natural(const struct conf_item *item, const struct conf_effect *effect)
{
	if (strcmp(effect->method, "PUT") != 0 && strcmp(effect->method, "DELETE") != 0)
		ITEM_FAULT(item, "mode", "\"natural\" needs request.method \"PUT\" or \"DELETE\"");
	if (*effect->serialize_by)
		ITEM_FAULT(item, "serialize_by",
			   "has no use in mode \"natural\", where the requests to one URL are sent "
			   "one after the other already");
}

static void check_mode(const struct conf_item *item, const struct conf_effect *effect,
		       const struct conf_target *target, const struct conf_profile *profile)
{
	switch (effect->mode) {
	case EFFECT_IDEMPOTENT:
		check_idempotent(item, target, profile);
		break;
	case EFFECT_NATURAL:
		check_natural(item, effect);
		break;
	case EFFECT_AT_MOST_ONCE:
	case EFFECT_MODE_COUNT:
		break;
	}
	if (effect->on_uncertain == CONF_UNCERTAIN_RESEND && effect->mode != EFFECT_AT_MOST_ONCE)
		ITEM_FAULT(item, "on_uncertain",
			   "\"resend\" is for mode \"at_most_once\"; in mode \"%s\" a request is "
			   "sent again for as long as that is safe, and no longer",
			   effect_mode_name(effect->mode));
}

/* --- the request -------------------------------------------------------------------------------
 */

static void check_query(const struct conf_item *item, const struct conf_pairs *query)
{
	char list[CONF_PATH_MAX], path[CONF_PATH_MAX];
	conf_item_path(item, "request.query", list);
	for (size_t i = 0; i < query->count; i++)
		if (!*query->items[i].name)
			conf_fault(item->faults, conf_path_item(path, list, i),
				   "the name is empty");
}

static void check_mail(const struct conf_item *item, const struct conf_effect *effect)
{
	static const char *const keys[] = { "request.method", "request.path", "request.query",
					    "request.headers", "success" };
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (conf_item_says(item, keys[i]))
			ITEM_FAULT(item, keys[i],
				   "has no use for mail, of which request.body is the text");
	if (effect->mode != EFFECT_AT_MOST_ONCE)
		ITEM_FAULT(item, "mode",
			   "target \"%s\" is a mail server, which cannot tell a second copy from "
			   "the first; write \"at_most_once\"",
			   effect->target);
}

static void check_request(const struct conf_item *item, const struct conf_effect *effect,
			  const struct conf_profile *profile)
{
	struct err err;
	check_query(item, &effect->query);
	conf_item_check_headers(item, "request.headers", &effect->headers, profile);
	if (!conf_header_value_check(effect->content_type, &err))
		ITEM_FAULT(item, "request.content_type", "%s", err.text);
}

/* --- times -------------------------------------------------------------------------------------
 */

static void check_times(const struct conf_item *item, const struct conf_effect *effect)
{
	if (effect->retry.strategy == CONF_RETRY_EXPONENTIAL &&
	    effect->retry.first > effect->retry.max)
		ITEM_FAULT(item, "retry.first", "is longer than retry.max");
	if (effect->delay >= effect->not_after)
		ITEM_FAULT(item, "delay",
			   "is not shorter than not_after: nothing would ever be sent");
}

/* While the key is remembered, so is what was tried for it. Its default binds nobody as long as
 * nothing is deleted by it. */
static void check_retention(const struct conf_item *item, const struct conf_effect *effect)
{
	static const char keep[] = "ledger.attempt_keep";
	usec_t attempts = item->conf->ledger.attempt_keep;
	char shown[32];
	if (effect->retention == USEC_NEVER || effect->retention <= attempts)
		return;
	if (conf_places_find(item->faults->places, keep) || !conf_later_key(keep))
		ITEM_FAULT(item, "retention",
			   "is longer than %s, \"%s\": the attempts of a key would be forgotten "
			   "before the key itself; write a longer one there, or \"forever\" here",
			   keep, usec_format(attempts, shown, sizeof(shown)));
}

void conf_check_effect(struct conf_item *item, const struct conf_effect *effect)
{
	const struct conf_target *target = find_target(item->conf, effect->target);
	const struct conf_profile *profile =
		target ? conf_profile_find(item->conf, target->profile) : NULL;
	conf_item_check_name(item, "name", effect->name);
	check_target_name(item, effect->target);
	check_topics(item, effect);
	check_emit(item, &effect->emit);
	if (profile && profile->protocol == CONF_PROTOCOL_MAIL)
		check_mail(item, effect);
	else
		check_mode(item, effect, target, profile);
	check_request(item, effect, profile);
	check_times(item, effect);
	check_retention(item, effect);
}
