/* Names and headers of items. */
#include "conf/conf_item.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "conf/conf_net.h"
#include "conf/conf_quoted.h"
#include "mem.h"

#define NAME_MAX_LENGTH 40

void conf_item_begin(struct conf_item *item, const char *list)
{
	item->list = list;
	item->index = 0;
	item->name_count = 0;
}

const char *conf_item_path(const struct conf_item *item, const char *key, char *buffer)
{
	char base[64];
	(void)snprintf(base, sizeof(base), "%s[%zu]", item->list, item->index);
	return conf_path(buffer, base, key);
}

bool conf_item_says(const struct conf_item *item, const char *key)
{
	char path[CONF_PATH_MAX];
	return conf_places_find(item->faults->places, conf_item_path(item, key, path)) != NULL;
}

/* --- names -------------------------------------------------------------------------------------
 */

void conf_item_keep_name(struct conf_item *item, const char *name)
{
	item->names = mem_grow(item->names, item->name_count + 1, sizeof(*item->names));
	item->names[item->name_count++] = name;
}

static bool name_taken(const struct conf_item *item, const char *name)
{
	for (size_t i = 0; i < item->name_count; i++)
		if (strcmp(item->names[i], name) == 0)
			return true;
	return false;
}

void conf_item_check_name(struct conf_item *item, const char *key, const char *name)
{
	BUF_AUTO struct buf shown = { 0 };
	size_t length = strlen(name);
	if (!*name && !conf_item_says(item, key))
		return; /* it is required: said elsewhere */
	if (length < 1 || length > NAME_MAX_LENGTH ||
	    strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != length)
		ITEM_FAULT(item, key, "%s is not a name: a-z, 0-9 and \"-\", at most %d of them",
			   conf_quoted(&shown, name), NAME_MAX_LENGTH);
	else if (name_taken(item, name))
		ITEM_FAULT(item, key, "\"%s\" is the name of another one too", name);
	else
		conf_item_keep_name(item, name);
}

/* --- headers -----------------------------------------------------------------------------------
 */

/* The profile's own header of this name, or NULL. */
static const char *own_header(const struct conf_profile *profile, const char *name)
{
	static const char *const signed_headers[] = { "webhook-timestamp", "webhook-signature" };
	if (!profile || profile->protocol != CONF_PROTOCOL_WEBHOOK)
		return NULL;
	for (size_t i = 0; i < sizeof(signed_headers) / sizeof(signed_headers[0]); i++)
		if (strcasecmp(name, signed_headers[i]) == 0)
			return signed_headers[i];
	return NULL;
}

static void check_header(const struct conf_item *item, const char *path,
			 const struct conf_pair *header, const struct conf_profile *profile)
{
	struct err err;
	const char *own = own_header(profile, header->name);
	if (!conf_header_check(header->name, header->value, &err))
		conf_fault(item->faults, path, "%s", err.text);
	else if (profile && strcasecmp(header->name, profile->header) == 0)
		conf_fault(item->faults, path,
			   "the header %s carries the idempotency key; the profile \"%s\" sets it",
			   profile->header, profile->name);
	else if (own)
		conf_fault(item->faults, path, "the header %s is set by the profile \"%s\"", own,
			   profile->name);
}

void conf_item_check_headers(const struct conf_item *item, const char *key,
			     const struct conf_pairs *headers, const struct conf_profile *profile)
{
	char list[CONF_PATH_MAX], path[CONF_PATH_MAX];
	conf_item_path(item, key, list);
	for (size_t i = 0; i < headers->count; i++) {
		const struct conf_pair *header = &headers->items[i];
		check_header(item, conf_path_item(path, list, i), header, profile);
		for (size_t k = 0; k < i; k++)
			if (strcasecmp(header->name, headers->items[k].name) == 0)
				conf_fault(item->faults, path, "the header %s is set twice",
					   header->name);
	}
}
