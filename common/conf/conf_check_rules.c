/* The lists, item by item. */
#include <stdlib.h>
#include <string.h>

#include "conf/conf_check.h"
#include "conf/conf_item.h"
#include "conf/conf_profiles.h"
#include "utf8.h"

static void check_profiles(struct conf_item *item)
{
	const struct conf *conf = item->conf;
	size_t shipped = conf_profiles_shipped();
	conf_item_begin(item, "profiles");
	for (size_t i = 0; i < shipped; i++)
		conf_item_keep_name(item, conf->profiles[i].name);
	for (size_t i = shipped; i < conf->profile_count; i++) {
		item->index = i - shipped;
		conf_check_profile(item, &conf->profiles[i]);
	}
}

/* Tenants come from events, so their names are texts, and not of our making. */
static void check_tenants(struct conf_item *item)
{
	const struct conf_tenant *tenants = item->conf->tenants;
	conf_item_begin(item, "tenants");
	for (; item->index < item->conf->tenant_count; item->index++) {
		const char *name = tenants[item->index].name;
		if (!utf8_printable(name, strlen(name)))
			ITEM_FAULT(item, "name", "holds a control character");
		for (size_t i = 0; i < item->index && *name; i++)
			if (strcmp(tenants[i].name, name) == 0)
				ITEM_FAULT(item, "name", "\"%s\" is the name of another one too",
					   name);
	}
}

void conf_check_rules(const struct conf *conf, const struct conf_source *source,
		      struct conf_faults *faults)
{
	struct conf_item item = { .conf = conf, .faults = faults };
	bool open = source->program == CONF_LEDGER && !source->closed;
	check_profiles(&item);
	conf_item_begin(&item, "targets");
	for (; item.index < conf->target_count; item.index++)
		conf_check_target(&item, &conf->targets[item.index], open);
	check_tenants(&item);
	conf_item_begin(&item, "effects");
	for (; item.index < conf->effect_count; item.index++)
		conf_check_effect(&item, &conf->effects[item.index]);
	free(item.names);
}
