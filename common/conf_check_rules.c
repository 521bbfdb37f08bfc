/* Checks of targets, effects and profiles, each against the others. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "conf_check.h"
#include "conf_net.h"
#include "conf_profiles.h"
#include "conf_read.h"
#include "conf_value.h"
#include "mem.h"

#define ITEM_NAME_MAX 40
#define DEAD_SUFFIX   ".dlq"

struct check {
	const struct conf *conf;
	struct conf_faults *faults;
	const char *list;   /* "targets" */
	size_t index;       /* in the file */
	const char **names; /* of the items before this one */
	size_t name_count;
};

static const char *path_of(const struct check *check, const char *key, char *buffer)
{
	char item[64];
	(void)snprintf(item, sizeof(item), "%s[%zu]", check->list, check->index);
	return conf_path(buffer, item, key);
}

#define FAULT(check, key, ...)                                                                     \
	do {                                                                                       \
		char path_[CONF_PATH_MAX];                                                         \
		conf_fault((check)->faults, path_of((check), (key), path_), __VA_ARGS__);          \
	} while (0)

/* --- names -------------------------------------------------------------------------------------
 */

static void keep_name(struct check *check, const char *name)
{
	check->names = mem_grow(check->names, check->name_count + 1, sizeof(*check->names));
	check->names[check->name_count++] = name;
}

static bool name_taken(const struct check *check, const char *name)
{
	for (size_t i = 0; i < check->name_count; i++)
		if (strcmp(check->names[i], name) == 0)
			return true;
	return false;
}

static void check_name(struct check *check, const char *name)
{
	BUF_AUTO struct buf shown = { 0 };
	size_t length = strlen(name);
	char path[CONF_PATH_MAX];
	if (!conf_places_find(check->faults->places, path_of(check, "name", path)))
		return; /* it is required: said elsewhere */
	if (length < 1 || length > ITEM_NAME_MAX ||
	    strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != length)
		FAULT(check, "name", "%s is not a name: a-z, 0-9 and \"-\", at most %d of them",
		      conf_value_quoted(&shown, name), ITEM_NAME_MAX);
	else if (name_taken(check, name))
		FAULT(check, "name", "\"%s\" is the name of another one too", name);
	else
		keep_name(check, name);
}

static void begin(struct check *check, const char *list)
{
	check->list = list;
	check->index = 0;
	check->name_count = 0;
}

/* --- profiles ----------------------------------------------------------------------------------
 */

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

static void check_characters(const struct check *check, const char *set)
{
	for (const char *at = set; *at; at++) {
		if (*at <= ' ' || *at >= 0x7f) {
			FAULT(check, "characters", "holds something else than visible ASCII");
			return;
		}
	}
	/* a key that does not suit is replaced by a hash, which then has to */
	for (const char *at = "cf-0123456789abcdef"; *set && *at; at++) {
		if (!set_holds(set, *at)) {
			FAULT(check, "characters",
			      "must hold \"cf-0-9a-f\": a key with others is replaced by a hash "
			      "written with these");
			return;
		}
	}
}

static void check_profile(struct check *check, const struct conf_profile *profile)
{
	struct err err;
	check_name(check, profile->name);
	if (*profile->header && !conf_header_name_check(profile->header, &err))
		FAULT(check, "header", "%s", err.text);
	check_characters(check, profile->characters);
	if (profile->window > 0 && !*profile->header)
		FAULT(check, "window", "the provider cannot know a key that no header carries");
}

static void check_profiles(struct check *check)
{
	const struct conf *conf = check->conf;
	size_t shipped = conf_profiles_shipped();
	begin(check, "profiles");
	for (size_t i = 0; i < shipped; i++)
		keep_name(check, conf->profiles[i].name);
	for (size_t i = shipped; i < conf->profile_count; i++) {
		check->index = i - shipped;
		check_profile(check, &conf->profiles[i]);
	}
}

/* --- targets -----------------------------------------------------------------------------------
 */

static void check_headers(const struct check *check, const char *key,
			  const struct conf_pairs *headers, const struct conf_profile *profile)
{
	char list[CONF_PATH_MAX], item[CONF_PATH_MAX];
	struct err err;
	path_of(check, key, list);
	for (size_t i = 0; i < headers->count; i++) {
		const struct conf_pair *header = &headers->items[i];
		conf_path_item(item, list, i);
		if (!conf_header_check(header->name, header->value, &err))
			conf_fault(check->faults, item, "%s", err.text);
		else if (profile && strcasecmp(header->name, profile->header) == 0)
			conf_fault(check->faults, item,
				   "the header %s carries the idempotency key; the profile \"%s\" "
				   "sets it",
				   profile->header, profile->name);
		for (size_t k = 0; k < i; k++)
			if (strcasecmp(header->name, headers->items[k].name) == 0)
				conf_fault(check->faults, item, "the header %s is set twice",
					   header->name);
	}
}

static void check_file(const struct check *check, const char *key, const char *path)
{
	if (*path && access(path, R_OK) != 0)
		FAULT(check, key, "\"%s\" cannot be read: %s", path, strerror(errno));
}

static void check_tls(const struct check *check, const struct conf_target *target, bool open)
{
	if (*target->key_file && !*target->cert_file)
		FAULT(check, "key_file", "has no use without cert_file");
	if (!open)
		return;
	check_file(check, "ca_file", target->ca_file);
	check_file(check, "cert_file", target->cert_file);
	check_file(check, "key_file", target->key_file);
}

/* The configuration is shown to people, so what proves who we are does not stand in it. */
static void check_auth(const struct check *check, const char *auth)
{
	struct err err;
	if (!conf_header_value_check(auth, &err))
		FAULT(check, "auth", "%s", err.text);
	else if (*auth && !strstr(auth, "${"))
		FAULT(check, "auth",
		      "must not hold the secret itself; write it into a file, name that in "
		      "secret_file, and write ${secret} in its place, as in \"Bearer ${secret}\"");
}

static bool pointer_valid(const char *pointer)
{
	if (*pointer && *pointer != '/')
		return false;
	for (const char *c = pointer; *c; c++)
		if (*c == '~' && c[1] != '0' && c[1] != '1')
			return false;
	return true;
}

static void check_target(struct check *check, const struct conf_target *target, bool open)
{
	const struct conf_profile *profile = conf_profile_find(check->conf, target->profile);
	BUF_AUTO struct buf shown = { 0 };
	struct err err;
	check_name(check, target->name);
	if (*target->url && !conf_url_check(target->url, &err))
		FAULT(check, "url", "%s", err.text);
	if (*target->profile && !profile)
		FAULT(check, "profile", "%s is neither a shipped profile nor one of profiles",
		      conf_value_quoted(&shown, target->profile));
	check_auth(check, target->auth);
	check_headers(check, "headers", &target->headers, profile);
	if (target->timeout < target->connect_timeout)
		FAULT(check, "timeout", "is shorter than connect_timeout, which is a part of it");
	check_tls(check, target, open);
	if (!pointer_valid(target->provider_id))
		FAULT(check, "provider_id",
		      "is not a JSON pointer; write for example \"/id\", with ~1 for a \"/\" and "
		      "~0 for a \"~\" in a name");
}

static const struct conf_target *find_target(const struct conf *conf, const char *name)
{
	for (size_t i = 0; i < conf->target_count; i++)
		if (strcmp(conf->targets[i].name, name) == 0)
			return &conf->targets[i];
	return NULL;
}

/* --- effects -----------------------------------------------------------------------------------
 */

static void check_topics(const struct check *check, const struct conf_effect *effect)
{
	struct err err;
	if (*effect->topic && !conf_topic_check(effect->topic, &err))
		FAULT(check, "on.topic", "%s", err.text);
	if (!*effect->dead_letter_topic) {
		BUF_AUTO struct buf dead = { 0 };
		buf_addf(&dead, "%s" DEAD_SUFFIX, effect->topic);
		if (*effect->topic && conf_topic_check(effect->topic, NULL) &&
		    !conf_topic_check(dead.data, NULL))
			FAULT(check, "dead_letter_topic",
			      "is required: with \"" DEAD_SUFFIX
			      "\" behind it the topic's name is too long");
	} else if (!conf_topic_check(effect->dead_letter_topic, &err)) {
		FAULT(check, "dead_letter_topic", "%s", err.text);
	} else if (strcmp(effect->dead_letter_topic, effect->topic) == 0) {
		FAULT(check, "dead_letter_topic",
		      "is the topic of the events themselves; other readers would get them twice");
	}
}

static void check_mode(const struct check *check, const struct conf_effect *effect,
		       const struct conf_target *target)
{
	const struct conf_profile *profile =
		target ? conf_profile_find(check->conf, target->profile) : NULL;
	if (effect->mode == EFFECT_NATURAL && strcmp(effect->method, "PUT") != 0 &&
	    strcmp(effect->method, "DELETE") != 0)
		FAULT(check, "mode", "\"natural\" needs request.method \"PUT\" or \"DELETE\"");
	if (effect->mode == EFFECT_IDEMPOTENT && profile && profile->window == 0)
		FAULT(check, "mode",
		      "\"idempotent\" needs a provider that honours the key, and profile \"%s\" of "
		      "target \"%s\" has no window",
		      profile->name, target->name);
}

static void check_times(const struct check *check, const struct conf_effect *effect)
{
	if (effect->retry.strategy == CONF_RETRY_EXPONENTIAL &&
	    effect->retry.first > effect->retry.max)
		FAULT(check, "retry.first", "is longer than retry.max");
	if (effect->delay >= effect->not_after)
		FAULT(check, "delay", "is not shorter than not_after: nothing would ever be sent");
}

static void check_query(const struct check *check, const struct conf_pairs *query)
{
	char list[CONF_PATH_MAX], item[CONF_PATH_MAX];
	path_of(check, "request.query", list);
	for (size_t i = 0; i < query->count; i++)
		if (!*query->items[i].name)
			conf_fault(check->faults, conf_path_item(item, list, i),
				   "the name is empty");
}

static void check_effect(struct check *check, const struct conf_effect *effect)
{
	const struct conf_target *target = find_target(check->conf, effect->target);
	BUF_AUTO struct buf shown = { 0 };
	struct err err;
	check_name(check, effect->name);
	if (*effect->target && !target)
		FAULT(check, "target", "%s is not the name of one of targets",
		      conf_value_quoted(&shown, effect->target));
	check_topics(check, effect);
	check_mode(check, effect, target);
	check_query(check, &effect->query);
	check_headers(check, "request.headers", &effect->headers,
		      target ? conf_profile_find(check->conf, target->profile) : NULL);
	if (!conf_header_value_check(effect->content_type, &err))
		FAULT(check, "request.content_type", "%s", err.text);
	check_times(check, effect);
}

void conf_check_rules(const struct conf *conf, const struct conf_source *source,
		      struct conf_faults *faults)
{
	struct check check = { .conf = conf, .faults = faults };
	bool open = source->program == CONF_LEDGER && !source->closed;
	check_profiles(&check);
	begin(&check, "targets");
	for (; check.index < conf->target_count; check.index++)
		check_target(&check, &conf->targets[check.index], open);
	begin(&check, "effects");
	for (; check.index < conf->effect_count; check.index++)
		check_effect(&check, &conf->effects[check.index]);
	free(check.names);
}
