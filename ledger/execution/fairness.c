/* Fairness among the tenants of a target. */
#include "fairness.h"

#include <stdlib.h>
#include <string.h>

#include "mem.h"

#define FULL_EVERY USEC_SEC

/* --- whose turn it is --- */

static void begin_with(struct turn *turn, const char *tenant, int64_t credit)
{
	buf_clear(&turn->first);
	buf_add_text(&turn->first, tenant);
	turn->credit = credit;
}

/* Nothing stands between a text and the same with the least character behind it. */
static void begin_behind(struct turn *turn, const char *tenant)
{
	begin_with(turn, tenant, 0);
	buf_add_char(&turn->first, '\1');
}

static bool is_last(const struct claim_walk *walk)
{
	return walk->ended && strcmp(walk->served, walk->walked) == 0;
}

bool turn_next(struct turn *turn, const struct claim_walk *walk)
{
	const bool from_beginning = turn->first.length == 0;
	if (from_beginning)
		turn->floor = walk->floor;
	if (walk->cut && walk->served) {
		if (walk->weight > walk->got)
			begin_with(turn, walk->served, walk->weight - walk->got);
		else if (is_last(walk))
			begin_with(turn, "", 0);
		else
			begin_behind(turn, walk->served);
		return false;
	}
	if (walk->ended || !walk->walked)
		begin_with(turn, "", 0);
	else
		begin_behind(turn, walk->walked);
	return walk->more || (walk->ended ? !from_beginning : walk->served != NULL);
}

usec_t turn_floor(struct turn *turn, usec_t now)
{
	if (turn->first.length > 0)
		return 0;
	if (turn->floor > 0 && !turn->all && now - turn->full_at < FULL_EVERY)
		return turn->floor;
	turn->all = false;
	turn->full_at = now;
	return 0;
}

void turn_look_at_all(struct turn *turn)
{
	turn->all = true;
}

void turn_done(struct turn *turn)
{
	buf_done(&turn->first);
}

/* --- the tenants that the configuration names --- */

struct tenant {
	const struct conf_tenant *conf;
	int64_t busy;
};

struct tenants {
	struct tenant *items; /* by name */
	size_t count;
	bool capped;
};

static int compare(const void *a, const void *b)
{
	const struct tenant *left = a, *right = b;
	return strcmp(left->conf->name, right->conf->name);
}

struct tenants *tenants_new(const struct conf *conf)
{
	struct tenants *tenants = mem_zero(sizeof(*tenants));
	tenants->count = conf->tenant_count;
	tenants->items = mem_zero((conf->tenant_count + 1) * sizeof(*tenants->items));
	for (size_t i = 0; i < conf->tenant_count; i++) {
		tenants->items[i].conf = &conf->tenants[i];
		tenants->capped |= conf->tenants[i].cap > 0;
	}
	qsort(tenants->items, tenants->count, sizeof(*tenants->items), compare);
	return tenants;
}

void tenants_free(struct tenants *tenants)
{
	if (!tenants)
		return;
	free(tenants->items);
	free(tenants);
}

size_t tenants_count(const struct tenants *tenants)
{
	return tenants->count;
}

static int compare_name(const void *name, const void *item)
{
	return strcmp(name, ((const struct tenant *)item)->conf->name);
}

size_t tenants_find(const struct tenants *tenants, const char *name)
{
	const struct tenant *found = bsearch(name, tenants->items, tenants->count,
					     sizeof(*tenants->items), compare_name);
	return found ? (size_t)(found - tenants->items) : TENANT_OTHER;
}

bool tenants_capped(const struct tenants *tenants)
{
	return tenants->capped;
}

void tenants_take(struct tenants *tenants, size_t tenant)
{
	if (tenant != TENANT_OTHER)
		tenants->items[tenant].busy++;
}

void tenants_put(struct tenants *tenants, size_t tenant)
{
	if (tenant != TENANT_OTHER)
		tenants->items[tenant].busy--;
}

struct tenant_share tenants_share(const struct tenants *tenants, size_t tenant)
{
	const struct tenant *item = &tenants->items[tenant];
	const int64_t room = item->conf->cap - item->busy;
	return (struct tenant_share){
		.name = item->conf->name,
		.weight = item->conf->weight,
		.room = item->conf->cap == 0 ? USEC_NEVER : (room > 0 ? room : 0),
	};
}
